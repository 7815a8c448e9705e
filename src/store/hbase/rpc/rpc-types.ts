import type { Cell, CellName, Guard, Increment } from '../../contract.js';

export interface RpcSettings {
  /** `host:port` of each master, tried in order. */
  readonly masters: readonly string[];
  /** Time limit of an operation, including retries, ms. */
  readonly operationTimeoutMs: number;
  /** Time limit of an answer, ms. A server drops a call that waited longer in its queue. */
  readonly rpcTimeoutMs: number;
  /** The servers' `hbase.client.scanner.timeout.period`, ms, after which an idle scan is reopened. */
  readonly scannerTimeoutMs: number;
  /** Shortest pause before a retry, ms. The pause grows with each attempt. */
  readonly retryPauseMs: number;
  /** User name sent to the servers, which SIMPLE authentication does not verify. */
  readonly user: string;
  /** Maximum number of concurrent calls per server. Further calls are queued here. */
  readonly maxInFlightPerServer: number;
  /** Maximum size of pending requests per server, bytes. Beyond it operations are rejected with `unavailable`. */
  readonly maxQueuedBytes: number;
  /** Returns the address to connect to for a server's `host:port`, for servers reached by a tunnel or proxy. */
  readonly route?: (server: string) => string;
}

export interface TableHandle {
  /** Full HBase name: `table` or `namespace:table`. */
  readonly name: string;
  /** HBase family names by family number. */
  readonly families: readonly string[];
}

/** A serialized `hbase.pb.Filter`. */
export type EncodedFilter = Buffer;

export interface ReadOptions {
  /** Default: all families. */
  readonly families?: readonly number[];
  /** Only these columns, in addition to `families` if given. */
  readonly columns?: readonly CellName[];
  readonly filter?: EncodedFilter | undefined;
}

export interface HBaseScanOptions extends ReadOptions {
  /** Whether to scan from the end of the range to its start. */
  readonly isReverse?: boolean;
  /** Maximum number of rows of the whole scan. */
  readonly limit?: number;
  /** Whether to read keys only. `rows` of the batches is then empty. */
  readonly keysOnly?: boolean;
  /** Number of rows per request. Servers end an answer earlier by size and time. */
  readonly batchRows?: number;
  /** Whether `KeyRange.to` belongs to the range. */
  readonly includesEnd?: boolean;
  /** Only cells with this timestamp. */
  readonly timestamp?: bigint;
}

export interface RowBatch {
  readonly keys: Buffer[];
  /** Packed rows: `rows[i]` belongs to `keys[i]`. Empty with `keysOnly`. */
  readonly rows: Buffer[];
  /** Number of rows that the servers examined for this batch, including rows dropped by the filter. */
  readonly scanned: number;
  /** The key before which all rows have been examined; `end`: the whole range. Undefined for a reversed scan. */
  readonly until: Buffer | 'end' | undefined;
}

/** A running scan. `next` returns `undefined` at the end, and may return an empty batch after a time limit. */
export interface HBaseScan {
  next(): Promise<RowBatch | undefined>;
  /** Releases the scanner at the server. May be called at any time and repeatedly. */
  close(): void;
}

/** A cell or column with a timestamp of its own. */
export interface OptionalTimestamp {
  readonly timestamp?: bigint;
}

/**
 * An atomic change of a row: it is applied completely if all guards hold, otherwise not at all. A column in both
 * `delete` and `put` is put.
 *
 * HBase orders the changes of a cell by timestamp, and among equal timestamps a delete wins. The default timestamp is
 * the region server's clock in milliseconds, so a put in the same millisecond as a delete is lost, unless its family
 * has NEW_VERSION_BEHAVIOR. Callers should give rising timestamps, or use such families.
 */
export interface RowMutation {
  readonly key: Buffer;
  /**
   * A single guard reads only its cell. `absent` (and `counterEquals` 0) then also holds for an empty value, which is a
   * limit of HBase. Several guards hold only on a row that has a cell. In a mutation without changes, guards are read
   * without a lock.
   */
  readonly guards?: readonly Guard[];
  /** Deletes all families up to `timestamp` - 1. Requires `timestamp` beside `put`, and excludes `add`. */
  readonly deleteRow?: boolean;
  readonly delete?: readonly (CellName & OptionalTimestamp)[];
  readonly put?: readonly (Cell & OptionalTimestamp)[];
  /** Needs HBase 2.4. May not name a cell of `put` or `delete`. */
  readonly add?: readonly Increment[];
  /** Timestamp of all cells and deletes without one of their own, ms. */
  readonly timestamp?: bigint;
  /**
   * Whether the mutation may be repeated when its outcome is unknown. Repeating must do no harm, even after a change of
   * the row by another client. Without it, such a mutation rejects with `unavailable` and `applied: 'unknown'`.
   */
  readonly isRepeatable?: boolean;
  /**
   * Whether a guard that fails after an attempt without an answer resolves with false instead of an error. That attempt
   * may itself have changed the guarded cells, so the caller has to read the row.
   */
  readonly isFalseWhenUnknown?: boolean;
}

export interface RegionInfo {
  readonly start: Buffer;
  /** First key after the region; empty for the last region. */
  readonly end: Buffer;
  /** `host:port`. */
  readonly server: string;
}

/** Counters since the client was created. */
export interface RpcStatistics {
  /** Number of requests by method. */
  readonly calls: Record<string, number>;
  /** Number of gets and mutations in Multi requests. */
  actions: number;
  retries: number;
  connects: number;
  cellsReceived: number;
  bytesReceived: number;
  bytesSent: number;
}
