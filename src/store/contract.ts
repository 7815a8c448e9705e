/**
 * The store contract: HBase's data model and nothing that HBase cannot keep.
 *
 *   table → row (byte-ordered key) → family → qualifier → value, all bytes
 *
 * One row changes atomically. A write plan of several rows is ordered, all or nothing and durable once
 * `commit` resolves; whether other readers may see it half done in between is what `supports.atomicPlan` says.
 *
 * A row travels as one packed buffer of sorted cells (`row.ts`, docs/formats/packed-row.md).
 */

/** A value that an embedded engine may hand over at once. Await it only when `isPromise` says so: see `maybe.ts`. */
export type Maybe<T> = T | Promise<T>;

/** A family of a table. Its number in packed rows is its index in `TableSpec.families`. */
export interface FamilySpec {
  readonly name: string;
  /**
   * Cells of a `separate` family are stored apart from the row and are read only by `getCells`; `get`, `getMany`
   * and `scan` never return them and filters do not see them. For values too large to be dragged along.
   */
  readonly separate?: boolean;
}

export interface TableSpec {
  /** Lower-case letters, digits, `_`, `.`; unique in the store. */
  readonly name: string;
  readonly families: readonly FamilySpec[];
  /**
   * For index tables: every key is a prefix and a suffix of exactly this many bytes, and every row is the one
   * cell `MARK` (family 0, empty qualifier, empty value). `postings` and `postingCount` are cheap on such tables, and
   * an engine may store the suffixes of a prefix together.
   */
  readonly suffixBytes?: number;
  /** Keys of this table arrive in rising order (an engine may use it to place and split). */
  readonly rising?: boolean;
}

/** Keys `from` ≤ key < `to`, by byte order; an absent bound is open. */
export interface KeyRange {
  readonly from?: Buffer | undefined;
  readonly to?: Buffer | undefined;
}

/** Evaluated where the rows are. An engine may widen what it cannot express, never narrow; families by number. */
export type StoreFilter =
  | { readonly op: 'hasColumn'; readonly family: number; readonly qualifier: Buffer }
  | { readonly op: 'anyColumn'; readonly family: number; readonly match: QualifierMatch }
  | { readonly op: 'columnEquals'; readonly family: number; readonly qualifier: Buffer; readonly value: Buffer }
  | { readonly op: 'and' | 'or'; readonly of: readonly StoreFilter[] }
  /** Exact complement; the partition uses it only over parts that are themselves exact. */
  | { readonly op: 'not'; readonly of: StoreFilter };

export type QualifierMatch =
  | { readonly prefix: Buffer }
  /** `from` ≤ qualifier < `to`; both given. */
  | { readonly from: Buffer; readonly to: Buffer }
  /**
   * Qualifiers that start with `prefix + initial`, contain each of `any` in order after it, and end with `final`,
   * without overlap.
   */
  | {
      readonly prefix: Buffer;
      readonly initial?: Buffer | undefined;
      readonly any: readonly Buffer[];
      readonly final?: Buffer | undefined;
    };

export interface ScanOptions {
  readonly filter?: StoreFilter | undefined;
  /** From the end of the range to its start; for tables without `suffixBytes`. */
  readonly reverse?: boolean;
  /** At most this many rows in all. */
  readonly limit?: number;
  /** A key that a scan of this range and direction gave: only what comes behind it there. Its row may have gone. */
  readonly after?: Buffer | undefined;
  /** Keys only: the rows come back as `undefined`. */
  readonly keysOnly?: boolean;
  /**
   * The row before the range may be damaged, and the caller knows: the engine does not prove that it hides no row of
   * the range.
   */
  readonly besideDamage?: boolean;
}

/**
 * Rows of one batch, in key order; `rows[i]` belongs to `keys[i]`. Of a table with `suffixBytes` each row comes once,
 * in an order of the engine's own, the same in every scan.
 */
export interface Batch {
  readonly keys: readonly Buffer[];
  /** Packed rows, owned by the caller; `undefined` only under `keysOnly`. */
  readonly rows: readonly (Buffer | undefined)[];
  /** How many rows the engine looked at for this batch, matching or not. */
  readonly scanned: number;
  /** The key before which a scan in key order has looked at each row, or that it is at its end; if the engine tells. */
  readonly until?: Buffer | 'end';
}

/**
 * A running scan. `next` gives a batch (it may be empty: an engine ends a batch when it has looked at enough rows,
 * so that the caller can yield to others) or `undefined` at the end. `close` releases what the scan holds; it is
 * safe to call twice and at any time.
 */
export interface Scan {
  next(): Maybe<Batch | undefined>;
  close(): void;
}

/** Cells of one family: `from` ≤ qualifier < `to`; an absent bound is open. */
export interface ColumnRange {
  readonly family: number;
  readonly from?: Buffer | undefined;
  readonly to?: Buffer | undefined;
}

/** What can be read. Buffers handed out are the caller's own, but for those that are lent. */
export interface Reader {
  get(table: string, key: Buffer): Maybe<Buffer | undefined>;
  /**
   * As `get`, but a *split* row, which the engine keeps in segments, may come with its first family alone. The
   * caller can tell: every row has cells of other families, too. With `only` any row may come so.
   */
  getHead(table: string, key: Buffer, only?: boolean): Maybe<Buffer | undefined>;
  /**
   * As `getHead`, of an engine that answers at once and has memory to lend. The next call of `lendHead` in this thread,
   * of whatever store, overwrites the row. Absent where an engine lends nothing.
   */
  lendHead?(table: string, key: Buffer): Buffer | undefined;
  /** The row that `lendHead` gave last is the caller's own from now on. */
  keepLent?(): void;
  /**
   * Some cells of one row, in order, as a packed row; undefined when there are none. `ranges` rise and do not overlap;
   * separate families are not among them. Costs what it gives, not what the row holds, where rows are kept in parts.
   */
  getColumns(table: string, key: Buffer, ranges: readonly ColumnRange[]): Maybe<Buffer | undefined>;
  /** In the order of `keys`. */
  getMany(table: string, keys: readonly Buffer[]): Maybe<(Buffer | undefined)[]>;
  /**
   * Cells of a `separate` family of one row whose qualifier starts with `prefix`, in order, as a packed row; undefined
   * when there are none.
   */
  getCells(table: string, key: Buffer, family: number, prefix: Buffer): Maybe<Buffer | undefined>;
  /**
   * Keys of the rows that have cells of a `separate` family, other cells or not, in an order of the engine's own: at
   * most `limit`, those behind `after` only. For checks; no read of entries needs it.
   */
  keysOfCells(table: string, family: number, limit: number, after?: Buffer): Maybe<Buffer[]>;
  /** Qualifiers of the cells of a `separate` family of one row, in order: what `getCells` gives, without the values. */
  namesOfCells(table: string, key: Buffer, family: number): Maybe<Buffer[]>;
  scan(table: string, range: KeyRange, options?: ScanOptions): Scan;
  /**
   * For tables with `suffixBytes`: the suffixes of the rows whose key is `prefix` + suffix, in byte order, one after
   * another in one buffer; at most `limit` of them, those > `after` only. An engine that answers at once may put them
   * into `into`, which is the caller's.
   */
  postings(table: string, prefix: Buffer, limit: number, after?: Buffer, into?: Buffer): Maybe<Buffer>;
  /** `postings` of each of several prefixes, in their order. It costs least where they rise. */
  postingsMany(table: string, prefixes: readonly Buffer[], limit: number, after?: Buffer): Maybe<Buffer[]>;
  /**
   * For tables with `suffixBytes`: the suffixes of the rows in the range, at most `limit`, in an order of the engine's
   * own.
   */
  rangePostings(table: string, range: KeyRange, limit: number): Maybe<Buffer>;
  /**
   * How many rows `postings` would give without a limit, counted up to `cap`; constant time where suffixes are stored
   * together.
   */
  postingCount(table: string, prefix: Buffer, cap: number): Maybe<number>;
  /** Number of rows in the range, counted up to `cap`. */
  count(table: string, range: KeyRange, cap: number): Maybe<number>;
}

/** A reader of one state, where the engine `supports.snapshot`; otherwise like the store itself. */
export interface Snapshot extends Reader {
  close(): void;
}

export type Guard =
  | { readonly op: 'absent'; readonly family: number; readonly qualifier: Buffer }
  | { readonly op: 'equals'; readonly family: number; readonly qualifier: Buffer; readonly value: Buffer }
  /** An absent counter counts as 0. */
  | { readonly op: 'counterEquals'; readonly family: number; readonly qualifier: Buffer; readonly value: bigint };

export interface Cell {
  readonly family: number;
  readonly qualifier: Buffer;
  readonly value: Buffer;
}

export interface CellName {
  readonly family: number;
  readonly qualifier: Buffer;
}

export interface Increment extends CellName {
  /** Added to the 8-byte big-endian signed counter in the cell; an absent cell counts as 0. */
  readonly by: bigint;
}

/** One row of a plan. Guards are checked first; without any change it is a guard alone. */
export interface RowStep {
  readonly table: string;
  readonly key: Buffer;
  readonly guards?: readonly Guard[];
  /** The whole row goes (separate families too), before `put`. */
  readonly deleteRow?: boolean;
  readonly delete?: readonly CellName[];
  readonly put?: readonly Cell[];
  readonly add?: readonly Increment[];
  /**
   * For a step of `put` and `delete`: another row of the plan stands for this one. Every plan that changes these cells,
   * or takes the row away, also changes or guards that other row, none guards the cells, and the step's own guards hold
   * whenever that row's do. An engine that locks rows may then leave this one unlocked and its guards unread.
   */
  readonly follows?: boolean;
}

/**
 * Appends a row whose key is an 8-byte big-endian number, greater than that of every row appended to the table before.
 */
export interface AppendStep {
  readonly table: string;
  readonly append: readonly Cell[];
}

export type PlanStep = RowStep | AppendStep;

/** Steps in order. A later step sees what an earlier one of the same plan did. */
export interface Plan {
  readonly steps: readonly PlanStep[];
  /**
   * Index of the step that decides: before it everything can be undone, from it on everything must be finished (HBase
   * journal).
   */
  readonly decisive: number;
}

export interface Supports {
  /** No reader sees a plan half done. */
  readonly atomicPlan: boolean;
  /** `snapshot()` reads one state. */
  readonly snapshot: boolean;
  /** Several processes may open the store at once. */
  readonly processes: boolean;
  /** Survives the process. */
  readonly durable: boolean;
  /** Rows are spread over servers by their keys: new ones are better drawn at random than rising. */
  readonly spread?: boolean;
}

export interface Store extends Reader {
  readonly supports: Supports;
  /**
   * Creates the table, or opens it when it is there with the same spec; `StoreError` `conflict` when the spec differs.
   */
  createTable(spec: TableSpec): Promise<void>;
  /** Removes the table and its rows; no error when absent. Scans that run on it end with `noTable`. */
  dropTable(name: string): Promise<void>;
  /** Specs of all tables that exist, by name. */
  tables(): Promise<TableSpec[]>;
  snapshot(): Snapshot;
  /**
   * What is read from now on is as new as this moment, other processes' commits included. Absent where every read is;
   * an engine that has it may otherwise read a state that is a few milliseconds old.
   */
  renewReads?(): void;
  /**
   * Applies the plan and resolves when it is durable. Rejects with `StoreError` `guard` (nothing was done; read again),
   * or another code; `StoreError.applied` tells whether the plan may have been applied all the same.
   */
  commit(plan: Plan): Promise<void>;
  /**
   * One batch of a bulk load: whole rows, and a plan that goes with them (counters, guards, appended rows). All of it
   * or nothing where `supports.atomicPlan`; durable when it resolves. Rejects with `guard` when a guard of the plan
   * fails or a row of an `absent` table is there already.
   */
  ingest(tables: readonly LoadTable[], plan: Plan): Promise<void>;
  /**
   * What is stored is damaged: no process writes from now on, restarts included, but is refused with `held`, until
   * `releaseWrites`. `why` is for people. Absent where an engine does not know damage.
   */
  holdWrites?(why: string): void;
  /** Resolves with whether writes were held. */
  releaseWrites?(): Promise<boolean>;
  /**
   * Counts the rows that processes which died have left locked; with `remove` they are no more, nor is what else is
   * left of those processes. Others meet them without harm: what had begun was finished or dropped before. Absent where
   * a lock ends with its process.
   */
  deadLocks?(remove: boolean): Promise<number>;
  /**
   * Nobody asks for anything any more: where what is still going on cannot get at the data, it is given up at once.
   * Before `close`, which does the same. Absent where the data is on this machine.
   */
  ending?(): void;
  /**
   * Resolves when every plan that anybody had decided before is wholly done, its counters and the plans of those who
   * have died included: it waits for as long as those live whose plans they are. Rejects with `unavailable` where
   * nobody does and nobody takes them up.
   * Absent where a plan is never seen half done.
   */
  quiet?(): Promise<void>;
  /**
   * A number up to which appended rows are final: every row of `table` with such a number that will ever be there can
   * be read now, and belongs to a plan that was decided. It never falls. Rows above it may be there, with gaps that are
   * filled later.
   */
  settled(table: string): Maybe<bigint>;
  close(): Promise<void>;
}

export interface LoadTable {
  readonly table: string;
  /**
   * In rising key order, each key once. For a table with `suffixBytes` the key is a prefix and the row its suffixes,
   * rising, one after another. A `PackedRows` (load.ts) may be taken over as it is: it is not to be used afterwards.
   */
  readonly rows: Iterable<LoadRow>;
  /** None of the keys may exist. */
  readonly absent?: boolean;
  /** The keys are not used: the rows get numbers as those of an `AppendStep` do. */
  readonly append?: boolean;
}

export interface LoadRow {
  readonly key: Buffer;
  /** Packed row, without separate cells. Empty for tables with `suffixBytes`. */
  readonly row: Buffer;
  /** Cells of separate families, packed. */
  readonly separate?: Buffer | undefined;
}
