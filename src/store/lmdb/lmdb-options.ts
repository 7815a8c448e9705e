import type { Failpoint } from './failpoint.js';

export interface WriteRefusal {
  /** For clients. */
  readonly text: string;
  /** Writes wait until the refusal ends or becomes another. */
  readonly isMomentary: boolean;
}

export interface LmdbOptions {
  /** Whether to create an absent store. Default: true, but false with `readOnly`. */
  readonly create?: boolean;
  /** Opens an existing store without ever writing to it. */
  readonly readOnly?: boolean;
  /** Returns why writes that are not those of a primary (`unlogged`) are refused now; undefined: they are not. */
  readonly writeRefusal?: (() => WriteRefusal | undefined) | undefined;
  /** Allows to create and drop tables all the same: the primary of this replica has done so. */
  readonly follows?: boolean;
  /** The caller reads whole tables in order, so read-ahead by the operating system stays on. */
  readonly inOrder?: boolean;
  /** Allows writes although they are blocked because of damage. For `rowan repair`. */
  readonly evenIfDamaged?: boolean;
  /** A callback at the points of `FAILPOINTS`, for tests. */
  readonly failpoint?: Failpoint;
}
