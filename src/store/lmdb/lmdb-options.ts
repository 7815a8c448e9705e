/**
 * The points of a write at which a test may kill the process, in order (docs/formats/lmdb.md). The store calls the
 * test's `Failpoint` at each point, and an error that it throws is thrown there.
 */
export const FAILPOINTS = [
  /** A batch of plans is about to be written. */
  'commit begin',
  /** The plans of the batch are staged, but not written. */
  'commit staged',
  /** All changes are written to pages in memory, but not to the file. */
  'commit written',
  /** The transaction is flushed, but the callers have no result yet. */
  'commit durable',
  /** Another process has changed the list of tables, which is about to be reloaded. */
  'tables changed',
  /** A table is in the catalog and its databases exist; the transaction is still open. */
  'table created',
  /** A table is emptied and removed from the catalog; the transaction is still open. */
  'table dropped',
  /** A batch of a bulk load has arrived in the thread that writes it. */
  'ingest begin',
  /** The rows of the batch are written, but not its plan. */
  'ingest rows',
  /** The rows and the plan of the batch are written, but not flushed. */
  'ingest written',
  /** The transaction of the batch is flushed, but the caller has no result yet. */
  'ingest durable',
] as const;

export type FailpointName = (typeof FAILPOINTS)[number];
export type Failpoint = (name: FailpointName) => void;

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
