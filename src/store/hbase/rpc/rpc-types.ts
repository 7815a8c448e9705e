import type { Cell, CellName, Guard, Increment } from '../../contract.js';

export interface RpcSettings {
  /** `host:port` of each master, tried in turn. */
  readonly masters: readonly string[];
  /** Deadline of a whole operation, its retries included, ms. */
  readonly operationTimeoutMs: number;
  /** Longest wait for one answer, ms. A server drops a call that waited longer in its queue. */
  readonly rpcTimeoutMs: number;
  /**
   * The servers' `hbase.client.scanner.timeout.period`, ms: a scan left alone for longer is opened anew after its last
   * row.
   */
  readonly scannerTimeoutMs: number;
  /** Shortest pause before a retry, ms; it grows with every attempt. */
  readonly retryPauseMs: number;
  /** Name given to the servers (SIMPLE authentication: they believe it). */
  readonly user: string;
  /** Calls that may wait for one server's answer; more wait here. */
  readonly maxInFlightPerServer: number;
  /** Bytes of requests that may wait for one server; beyond it operations are refused with `unavailable`. */
  readonly maxQueuedBytes: number;
  /** The address to connect to for a server's `host:port`, where its own cannot be reached (a tunnel, a proxy). */
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
  /** All families where absent. */
  readonly families?: readonly number[];
  /** These columns only; may stand beside `families`. */
  readonly columns?: readonly CellName[];
  readonly filter?: EncodedFilter | undefined;
}

export interface HBaseScanOptions extends ReadOptions {
  /** From the end of the range to its start. */
  readonly reverse?: boolean;
  /** At most this many rows in all. */
  readonly limit?: number;
  /** One cell a row and no values: `rows` comes back empty. */
  readonly keysOnly?: boolean;
  /** Rows asked for with one request; the servers cut earlier by bytes and time. */
  readonly batchRows?: number;
  /** Whether `KeyRange.to` belongs to the range. */
  readonly inclusiveEnd?: boolean;
  /** Cells of this timestamp only. */
  readonly timestamp?: bigint;
}

export interface RowBatch {
  readonly keys: Buffer[];
  /** Packed rows, `rows[i]` of `keys[i]`; empty under `keysOnly`. */
  readonly rows: Buffer[];
  /** Rows that the servers looked at for this batch: those that came, and those that the filter dropped. */
  readonly scanned: number;
  /** The key before which they have looked at every row, or that the scan is at its end; not of a reversed one. */
  readonly until: Buffer | 'end' | undefined;
}

/** A running scan. `next` may give an empty batch (the servers end a request in time) and `undefined` at the end. */
export interface HBaseScan {
  next(): Promise<RowBatch | undefined>;
  /** Releases the scanner at the server; safe at any time and twice. */
  close(): void;
}

/** A timestamp of a cell's own. */
export interface Timed {
  readonly timestamp?: bigint;
}

/**
 * One atomic change of one row: the guards hold and all of it is done, or nothing. A name in `delete` that is also in
 * `put` is put.
 *
 * HBase orders the changes of a cell by timestamp, and of one timestamp a deletion wins: without `timestamp` the region
 * server's milliseconds are taken, and a cell put in the very millisecond in which it was deleted is lost, unless its
 * family has NEW_VERSION_BEHAVIOR. Give rising timestamps, or use that.
 */
export interface RowMutation {
  readonly key: Buffer;
  /**
   * One guard reads its cell only; `absent` (and `counterEquals` 0) then holds for a cell with an empty value too, a
   * limit of HBase. Several guards hold only on a row that has a cell; without any change they are read, not locked.
   */
  readonly guards?: readonly Guard[];
  /**
   * Every family of the handle, up to `timestamp` - 1. Beside `put` it needs a `timestamp`; beside `add` it is refused.
   */
  readonly deleteRow?: boolean;
  readonly delete?: readonly (CellName & Timed)[];
  readonly put?: readonly (Cell & Timed)[];
  /** Needs HBase 2.4. Not beside `put` or `delete` of the same name. */
  readonly add?: readonly Increment[];
  /** Of all cells put and deleted that name none of their own, milliseconds. */
  readonly timestamp?: bigint;
  /**
   * The caller says that doing it twice, even after another's change of the row, does no harm: it is then repeated when
   * its outcome is unknown. Without it such a mutation is rejected with `unavailable` and `applied: 'unknown'`.
   */
  readonly repeatable?: boolean;
  /**
   * Guards that fail in an attempt after one without an answer, which may itself have changed what they guard, resolve
   * with false like any: the caller looks.
   */
  readonly doubtIsFalse?: boolean;
}

export interface RegionInfo {
  readonly start: Buffer;
  /** Empty: open. */
  readonly end: Buffer;
  /** `host:port`. */
  readonly server: string;
}

/** Counters since the client was made. */
export interface RpcStatistics {
  /** Requests sent, by method. */
  readonly calls: Record<string, number>;
  /** Gets and mutations carried by Multi requests. */
  actions: number;
  retries: number;
  connects: number;
  cellsReceived: number;
  bytesReceived: number;
  bytesSent: number;
}
