/**
 * The store contract: HBase's data model, without any promise that HBase cannot keep.
 *
 *   table → row (byte-ordered key) → family → qualifier → value, all bytes
 *
 * One row changes atomically. A write plan of several rows is ordered, all or nothing, and durable once `commit`
 * resolves. `supports.atomicPlan` tells whether readers may see a plan half done in between.
 *
 * A row travels as one packed buffer of sorted cells (`row.ts`, docs/formats/packed-row.md).
 */

/**
 * A value that an embedded engine may return synchronously. Await the value only if `isPromise` is true (`maybe.ts`).
 */
export type Maybe<T> = T | Promise<T>;

/** A column family. The number of a family in packed rows is the index in `TableSpec.families`. */
export interface FamilySpec {
  readonly name: string;
  /**
   * Cells of a `separate` family are stored apart from the row and are read only by `getCells`: `get`, `getMany` and
   * `scan` never return them, and filters do not see them. For values too large to be read with every row.
   */
  readonly separate?: boolean;
}

/**
 * Offsets of the cells of one packed row, a by-product of decoding. To avoid an allocation per row, an engine
 * overwrites the same `RowLayout` with each decoded row. A caller that has just read a row compares the row with `row`:
 * on a match, the caller may use these offsets and names instead of walking the cells.
 */
export interface RowLayout {
  /** The described row, to be compared by identity; undefined when the last decoded row has no layout. */
  readonly row: Buffer | undefined;
  /** Number of cells in `row`. */
  readonly cellCount: number;
  /** Cell `n` is `row[cellStarts[n], cellStarts[n + 1])`; the last cell ends with the row. Has unused elements. */
  readonly cellStarts: Int32Array;
  /**
   * A number for the family and qualifier of cell `n`, or 0. Cells of any two rows with the same number above 0 have
   * the same family and qualifier, as long as `numbering` is the same object.
   */
  readonly nameNumbers: Int32Array;
  readonly numbering: object;
}

export interface TableSpec {
  /** Lower-case letters, digits, `_`, `.`; unique in the store. */
  readonly name: string;
  readonly families: readonly FamilySpec[];
  /**
   * For index tables: every key consists of a prefix and a suffix of exactly this many bytes, and every row is the
   * single cell `MARK` (family 0, empty qualifier, empty value). `postings` and `postingCount` are cheap on such
   * tables, and an engine may store the suffixes of a prefix together.
   */
  readonly suffixBytes?: number;
  /** New keys of this table are in rising order: a hint for the engine's placing and splitting of rows. */
  readonly rising?: boolean;
}

/** The keys `from` ≤ key < `to`, in byte order. An absent bound is open. */
export interface KeyRange {
  readonly from?: Buffer | undefined;
  readonly to?: Buffer | undefined;
}

/**
 * A filter that the engine evaluates where the rows are. An engine that cannot evaluate all of it may widen the filter,
 * never narrow it. Families are given by number.
 */
export type StoreFilter =
  | { readonly op: 'hasColumn'; readonly family: number; readonly qualifier: Buffer }
  | { readonly op: 'anyColumn'; readonly family: number; readonly match: QualifierMatch }
  | { readonly op: 'columnEquals'; readonly family: number; readonly qualifier: Buffer; readonly value: Buffer }
  | { readonly op: 'and' | 'or'; readonly of: readonly StoreFilter[] }
  /** The exact complement. The partition negates only filters that no engine widens. */
  | { readonly op: 'not'; readonly of: StoreFilter };

export type QualifierMatch =
  | { readonly prefix: Buffer }
  /** `from` ≤ qualifier < `to`. */
  | { readonly from: Buffer; readonly to: Buffer }
  /** Qualifiers that consist of `prefix + initial`, each of `any` in order, and `final`, with any bytes between. */
  | {
      readonly prefix: Buffer;
      readonly initial?: Buffer | undefined;
      readonly any: readonly Buffer[];
      readonly final?: Buffer | undefined;
    };

export interface ScanOptions {
  readonly filter?: StoreFilter | undefined;
  /** Scans from the end of the range to its start. Only for tables without `suffixBytes`. */
  readonly reverse?: boolean;
  /** Maximum number of rows in all batches together. */
  readonly limit?: number;
  /** Resumes behind this key of an earlier scan of the same range and direction. The row itself may be gone. */
  readonly after?: Buffer | undefined;
  /** Returns keys only: every row is `undefined`. */
  readonly keysOnly?: boolean;
  /**
   * By default, a scan checks the row before the range, to prove that no damaged key hides rows. True skips this check,
   * for callers that expect damage.
   */
  readonly skipBoundaryCheck?: boolean;
}

/**
 * The rows of one batch, in key order; `rows[i]` belongs to `keys[i]`. A table with `suffixBytes` returns each row
 * once, in an order that the engine chooses, the same in every scan.
 */
export interface Batch {
  readonly keys: readonly Buffer[];
  /** Packed rows, owned by the caller; `undefined` only with `keysOnly`. */
  readonly rows: readonly (Buffer | undefined)[];
  /** Number of rows that the engine examined for this batch, matching or not. */
  readonly scannedCount: number;
  /**
   * The key before which a scan in key order has examined all rows, or `end` when the scan has examined its whole
   * range. Absent when the engine does not report its progress.
   */
  readonly until?: Buffer | 'end';
}

/**
 * A running scan. `next` returns a batch, or `undefined` at the end. A batch may be empty: an engine ends a batch after
 * a limited number of examined rows, to let the caller yield to other work. `close` releases the resources of the scan;
 * it may be called twice and at any time.
 */
export interface Scan {
  next(): Maybe<Batch | undefined>;
  close(): void;
}

/** The cells of one family with `from` ≤ qualifier < `to`. An absent bound is open. */
export interface ColumnRange extends KeyRange {
  readonly family: number;
}

/** The read methods of a store. Returned buffers belong to the caller, except those of `getScratchHead`. */
export interface Reader {
  get(table: string, key: Buffer): Maybe<Buffer | undefined>;
  /**
   * As `get`, but may return only the first family of a *split* row, which the engine keeps in segments. The caller
   * recognizes such a result, because every whole row has cells of other families, too. With `headOnly` the engine may
   * return only the first family of any row.
   */
  getHead(table: string, key: Buffer, headOnly?: boolean): Maybe<Buffer | undefined>;
  /**
   * As `getHead`, but synchronous, and the row lies in scratch memory: the next call of `getScratchHead` in this
   * thread, on any store, overwrites the row. Absent when the engine has no scratch memory.
   */
  getScratchHead?(table: string, key: Buffer): Buffer | undefined;
  /** Prevents later calls of `getScratchHead` from overwriting the row that it returned last. */
  detachScratch?(): void;
  /**
   * Returns the cells of one row in `ranges`, in order, as a packed row; undefined when there are none. `ranges` are in
   * rising order, do not overlap, and name no separate family. The cost of reading a split row grows with the returned
   * cells, not with the size of the row.
   */
  getColumns(table: string, key: Buffer, ranges: readonly ColumnRange[]): Maybe<Buffer | undefined>;
  /** Returns the rows in the order of `keys`. */
  getMany(table: string, keys: readonly Buffer[]): Maybe<(Buffer | undefined)[]>;
  /** Returns the cells of a `separate` family whose qualifier starts with `prefix`, as a packed row, or undefined. */
  getCells(table: string, key: Buffer, family: number, prefix: Buffer): Maybe<Buffer | undefined>;
  /**
   * Returns the keys of the rows that have cells of a `separate` family, whether or not the row itself exists, in an
   * order that the engine chooses: at most `limit` keys, all behind `after`. Only consistency checks use it.
   */
  keysOfCells(table: string, family: number, limit: number, after?: Buffer): Maybe<Buffer[]>;
  /** As `getCells` with an empty prefix, but returns the qualifiers only, in order. */
  namesOfCells(table: string, key: Buffer, family: number): Maybe<Buffer[]>;
  scan(table: string, range: KeyRange, options?: ScanOptions): Scan;
  /**
   * For tables with `suffixBytes`: returns the suffixes of the rows whose key is `prefix` + suffix, concatenated in
   * byte order; at most `limit` suffixes, all greater than `after`. A synchronous engine may write the suffixes into
   * `into`, a buffer of the caller, and return a view of that.
   */
  postings(table: string, prefix: Buffer, limit: number, after?: Buffer, into?: Buffer): Maybe<Buffer>;
  /**
   * Calls `postings` for each prefix and returns the results in the order of `prefixes`. Rising prefixes cost least.
   */
  postingsMany(table: string, prefixes: readonly Buffer[], limit: number, after?: Buffer): Maybe<Buffer[]>;
  /** For tables with `suffixBytes`: returns at most `limit` suffixes of rows in the range, in any order. */
  rangePostings(table: string, range: KeyRange, limit: number): Maybe<Buffer>;
  /**
   * Returns the number of rows that `postings` would return without a limit, counted up to `cap`. Takes constant time
   * when the engine stores the suffixes of a prefix together.
   */
  postingCount(table: string, prefix: Buffer, cap: number): Maybe<number>;
  /** Returns the number of rows in the range, counted up to `cap`. */
  count(table: string, range: KeyRange, cap: number): Maybe<number>;
}

/**
 * A reader of one state if the engine has `supports.snapshot`; otherwise it reads the present state as the store does.
 */
export interface Snapshot extends Reader {
  close(): void;
}

export type Guard =
  | { readonly op: 'absent'; readonly family: number; readonly qualifier: Buffer }
  | { readonly op: 'equals'; readonly family: number; readonly qualifier: Buffer; readonly value: Buffer }
  /** An absent counter counts as 0. */
  | { readonly op: 'counterEquals'; readonly family: number; readonly qualifier: Buffer; readonly value: bigint };

export interface CellName {
  readonly family: number;
  readonly qualifier: Buffer;
}

export interface Cell extends CellName {
  readonly value: Buffer;
}

export interface Increment extends CellName {
  /** Added to the 8-byte big-endian signed counter in the cell; an absent cell counts as 0. */
  readonly by: bigint;
}

/** One row of a plan. Guards are checked first. A step may consist of guards alone. */
export interface RowStep {
  readonly table: string;
  readonly key: Buffer;
  readonly guards?: readonly Guard[];
  /** Deletes the whole row, separate families included, before `put`. */
  readonly deleteRow?: boolean;
  readonly delete?: readonly CellName[];
  readonly put?: readonly Cell[];
  readonly add?: readonly Increment[];
  /**
   * For a step of `put` and `delete` only: a leading row of the same plan protects this row. Every plan that changes
   * these cells or deletes this row also changes or guards the leading row; no plan guards these cells; and the guards
   * of this step hold whenever the guards of the leading row do. An engine that locks rows may leave this row unlocked
   * and its guards unchecked.
   */
  readonly follows?: boolean;
  /** For tables to which rows are appended: the key is a number, and rows appended later get greater ones. */
  readonly numbered?: boolean;
}

/** Appends a row. Its key is an 8-byte big-endian number, greater than all keys appended to the table before. */
export interface AppendStep {
  readonly table: string;
  readonly append: readonly Cell[];
}

export type PlanStep = RowStep | AppendStep;

/** Steps in order. A later step sees the effects of earlier steps of the same plan. */
export interface Plan {
  readonly steps: readonly PlanStep[];
  /** Index of the deciding step: before that step the plan can be undone, afterwards it must be finished. */
  readonly decisive: number;
  /** The plan brings its own entries of the log (`log.ts`): the engine appends none. */
  readonly unlogged?: boolean;
}

export interface Supports {
  /** Readers never see a plan half done. */
  readonly atomicPlan: boolean;
  /** `snapshot()` reads one state of the whole store. */
  readonly snapshot: boolean;
  /** Several processes may open the store at once. */
  readonly processes: boolean;
  /** Data survives the process. */
  readonly durable: boolean;
  /** Rows are spread over servers by key, so new rows should have random keys instead of rising keys. */
  readonly spread?: boolean;
}

export interface Store extends Reader {
  readonly supports: Supports;
  /** Folder of the data file, of an engine that has one. */
  readonly folder?: string;
  /**
   * The layout of the row that this store or a snapshot of this store decoded last: the same object for the life of the
   * store. Absent when the engine keeps rows packed and decodes nothing.
   */
  readonly rowLayout?: RowLayout;
  /** Creates the table unless it exists. Rejects with `StoreError` `conflict` if it exists with another spec. */
  createTable(spec: TableSpec): Promise<void>;
  /** Removes the table and its rows, if the table exists. Running scans of the table fail with `noTable`. */
  dropTable(name: string): Promise<void>;
  /** Returns the specs of all tables, sorted by name. */
  tables(): Promise<TableSpec[]>;
  snapshot(): Snapshot;
  /**
   * Makes all later reads include the commits made before this call, by other processes too. Without the call, reads
   * may return a state that is a few milliseconds old. Absent when the engine always reads the newest state.
   */
  renewReads?(): void;
  /**
   * Applies the plan and resolves when the plan is durable. Rejects with `StoreError` `guard` if a guard failed and
   * nothing was done: the caller reads and plans again. With any other code, `StoreError.applied` tells whether the
   * plan may have been applied nevertheless.
   */
  commit(plan: Plan): Promise<void>;
  /**
   * Writes one batch of a bulk load: whole rows, and a plan for counters, guards and appended rows. All or nothing with
   * `supports.atomicPlan`; durable when the promise resolves. Rejects with `guard` when a guard of the plan fails or a
   * row of an `absent` table exists already.
   */
  ingest(tables: readonly LoadTable[], plan: Plan): Promise<void>;
  /**
   * Blocks all writes because stored data is damaged: until `releaseWrites`, every write of every process fails with
   * `held`, also after a restart. `why` is shown to the operator. Absent when the engine cannot detect damage.
   */
  holdWrites?(why: string): void;
  /**
   * Writes the data of one moment to an empty folder, in which this engine opens it, while others write on. Absent when
   * the data is in no file.
   */
  copyTo?(folder: string): Promise<void>;
  /**
   * Called when the first write of this process fails for lack of room on the device of `folder`, and when a write
   * succeeds again (`isFull` false). Set by a server. Only engines that write to a device of this machine call it.
   */
  onRoomChange?: ((isFull: boolean, folder: string, freeBytes: number) => void) | undefined;
  /** Allows writes again. Resolves with true if they were held. */
  releaseWrites?(): Promise<boolean>;
  /**
   * Returns the number of row locks left by dead processes. With `remove`, deletes the locks and all other remains of
   * dead processes. Such locks do no harm to other processes, because the plans behind them were finished or rolled
   * back before. Absent when a lock ends with its process.
   */
  countDeadLocks?(remove: boolean): Promise<number>;
  /**
   * Announces that no more requests will come. From now on, a pending request that cannot reach the data fails at once
   * instead of retrying. `close` does the same. Absent when the data is on this machine.
   */
  beginClose?(): void;
  /**
   * Resolves when all plans that were decided before the call, by any process, are complete, including counters and the
   * plans of processes that died. Waits as long as the processes that run these plans are alive. Rejects with
   * `unavailable` when a plan's process is dead and no other process takes over. Absent when readers never see a plan
   * half done.
   */
  waitUntilQuiet?(): Promise<void>;
  /**
   * Returns the number up to which the appended rows of `table` are final: all rows up to that number can be read now
   * and belong to decided plans, and no row will be inserted among them. The number never falls. Rows above it may
   * exist, with gaps that are filled later.
   */
  settled(table: string): Maybe<bigint>;
  /** Absent when the engine does not commit several plans together. */
  readonly stats?: CommitStats;
  close(): Promise<void>;
}

/** Commits of this process so far. */
export interface CommitStats {
  /** Number of transactions, each with one flush. */
  readonly batches: number;
  /** Number of plans in the transactions. */
  readonly plans: number;
  /** Time of the transactions with their flushes, in milliseconds. */
  readonly ms: number;
  /** Number of plans that wait now. */
  readonly waiting: number;
}

export interface LoadTable {
  readonly table: string;
  /**
   * Rows in rising key order, each key once. For a table with `suffixBytes` the key is a prefix, and the row is the
   * concatenation of the suffixes in rising order. The engine may take over the memory of a `PackedRows` (`load.ts`),
   * so the caller must not use the `PackedRows` afterwards.
   */
  readonly rows: Iterable<LoadRow>;
  /** Rejects the batch with `guard` if a row with any of the keys exists. */
  readonly absent?: boolean;
  /** Ignores the keys and appends the rows as `AppendStep` does. */
  readonly append?: boolean;
}

export interface LoadRow {
  readonly key: Buffer;
  /** Packed row, without separate cells. Empty for tables with `suffixBytes`. */
  readonly row: Buffer;
  /** Packed cells of separate families. */
  readonly separate?: Buffer | undefined;
}
