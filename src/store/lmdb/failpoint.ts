/**
 * The moments of a write at which a process may die, named in their order (docs/formats/lmdb.md). A test hands in what
 * is called at each of them; what that throws is thrown there.
 */
export const FAILPOINTS = [
  /** A batch of plans is about to be written. */
  'commit begin',
  /** The plans are staged, nothing is written. */
  'commit staged',
  /** All is written to pages in memory, nothing to the file. */
  'commit written',
  /** The transaction is flushed, nobody was told. */
  'commit durable',
  /** Another process has changed the tables, which are about to be opened anew. */
  'tables changed',
  /** A table is listed and its databases are made, in a transaction that is open. */
  'table created',
  /** A table is emptied and no longer listed, in a transaction that is open. */
  'table dropped',
  /** In the thread of bulk batches: one has come, … */
  'ingest begin',
  /** … its rows are written, its plan is not, … */
  'ingest rows',
  /** … its plan is written, … */
  'ingest written',
  /** … the transaction is flushed, nobody was told. */
  'ingest durable',
] as const;

export type FailpointName = (typeof FAILPOINTS)[number];
export type Failpoint = (name: FailpointName) => void;
