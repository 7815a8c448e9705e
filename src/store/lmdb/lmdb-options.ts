import type { Failpoint } from './failpoint.js';

/** How `openLmdbStore` opens a folder. */
export interface LmdbOptions {
  /** False: an absent store is an error. Default: true, with `readOnly` false. */
  readonly create?: boolean;
  /** Opens an existing store without ever writing to it. */
  readonly readOnly?: boolean;
  /** All tables are read from end to end: the system may read ahead. */
  readonly inOrder?: boolean;
  /** Writes although writes are held, for `rowan repair`. */
  readonly evenIfDamaged?: boolean;
  /** For tests. */
  readonly failpoint?: Failpoint;
}
