import type { Failpoint } from './failpoint.js';

export interface LmdbOptions {
  /** Whether to create an absent store. Default: true, but false with `readOnly`. */
  readonly create?: boolean;
  /** Opens an existing store without ever writing to it. */
  readonly readOnly?: boolean;
  /** The primary, if the store is a replica: writes are refused. */
  readonly replicaOf?: string | undefined;
  /** Allows writes to a replica that its primary has sent: unlogged plans, and tables. */
  readonly follows?: boolean;
  /** The caller reads whole tables in order, so read-ahead by the operating system stays on. */
  readonly inOrder?: boolean;
  /** Allows writes although they are blocked because of damage. For `rowan repair`. */
  readonly evenIfDamaged?: boolean;
  /** A callback at the points of `FAILPOINTS`, for tests. */
  readonly failpoint?: Failpoint;
}
