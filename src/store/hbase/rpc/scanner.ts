import type { KeyRange } from '../../contract.js';
import { keyAfter } from '../../tables.js';
import { CellCursor, type TableCodec } from './cells.js';
import { Failure } from './failure.js';
import { PartialRow } from './partial-row.js';
import { Writer } from './protobuf.js';
import type { Region, Regions } from './regions.js';
import { columnsOf, FIRST_KEY_ONLY, filterList, KEY_ONLY } from './requests.js';
import { Attempts, type Pauses } from './retry.js';
import type { HBaseScan, HBaseScanOptions, RowBatch, RpcSettings, RpcStatistics } from './rpc-types.js';
import { readScanResponse, type ScanResponse } from './scan-response.js';
import type { Server, Servers } from './server.js';
import type { Answer } from './wire.js';

/** Rows asked for with one request where the caller does not say. */
const BATCH_ROWS = 1_000;
/** Bytes after which a server ends a batch. */
const BATCH_BYTES = 2 * 1024 * 1024;
/** A scanner left alone for this share of its lease is not trusted to be there. */
const LEASE_SHARE = 0.8;

/** What a scan needs of the client. */
export interface ScanContext {
  readonly settings: RpcSettings;
  readonly servers: Servers;
  readonly regions: Regions;
  readonly statistics: RpcStatistics;
  readonly pauses: Pauses;
  learn(failure: Failure, region: Region): void;
}

/** A scanner open at a server. */
interface Scanner {
  readonly id: bigint;
  readonly server: Server;
  readonly region: Region;
  /** Number of the next request on it. */
  sequence: number;
  /** Monotonic ms of the last answer. */
  used: number;
}

/** Where the scan goes on: at `key` (undefined: from the open end), which belongs to it or not. */
interface Position {
  readonly key: Buffer | undefined;
  readonly inclusive: boolean;
}

/**
 * A scan over all the regions of a range. A scanner that is lost (its lease ran out, its region moved, an answer did
 * not come) is opened anew after the last row that came whole, so no row comes twice and none is left out. Rows are not
 * of one instant.
 */
export class RegionScan implements HBaseScan {
  readonly #context: ScanContext;
  readonly #table: TableCodec;
  readonly #options: HBaseScanOptions;
  /** The fields of the message Scan that do not depend on the position. */
  readonly #fields: Buffer;
  readonly #stop: Position;
  #position: Position;
  #scanner: Scanner | undefined;
  /** Rows that may still come. */
  #left: number;
  #partial: PartialRow;
  #done = false;
  #running: Promise<RowBatch | undefined> | undefined;

  constructor(context: ScanContext, table: TableCodec, range: KeyRange, options: HBaseScanOptions) {
    this.#context = context;
    this.#table = table;
    this.#options = options;
    const low: Position = { key: range.from, inclusive: true };
    const high: Position = { key: range.to, inclusive: options.inclusiveEnd === true };
    this.#position = options.reverse ? high : low;
    this.#stop = options.reverse ? low : high;
    this.#left = options.limit ?? Number.POSITIVE_INFINITY;
    this.#fields = scanFields(table, options);
    this.#partial = new PartialRow(table);
    this.#done = this.#left <= 0 || isEmpty(range, options.inclusiveEnd === true);
  }

  /** One call at a time. */
  next(): Promise<RowBatch | undefined> {
    if (this.#running) throw new TypeError('next() of a scan before the last one ended');
    this.#running = this.#next().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  close(): void {
    this.#done = true;
    // A request under way may be the one that opens the scanner: the answer's reader drops it.
    if (!this.#running) this.#drop(true);
  }

  async #next(): Promise<RowBatch | undefined> {
    const attempts = new Attempts(this.#context.settings, this.#context.pauses);
    if (this.#scanner && this.#expired(this.#scanner)) this.#drop(true);
    while (!this.#done) {
      let region: Region | undefined;
      try {
        region = this.#scanner?.region ?? (await this.#locate(attempts));
        const answer = await this.#request(region, attempts);
        const batch = this.#take(region, answer);
        if (batch) return batch;
      } catch (e) {
        if (!(e instanceof Failure)) {
          this.#done = true;
          throw e;
        }
        if (!this.#done) await this.#recover(e, region, attempts);
      } finally {
        if (this.#done) this.#drop(true);
      }
    }
    return undefined;
  }

  #expired(scanner: Scanner): boolean {
    return performance.now() - scanner.used > this.#context.settings.scannerTimeoutMs * LEASE_SHARE;
  }

  #locate(attempts: Attempts): Promise<Region> {
    const { regions } = this.#context;
    const { key, inclusive } = this.#position;
    if (this.#options.reverse) {
      if (key && inclusive) return regions.locate(this.#table.name, key, attempts);
      return regions.locateBefore(this.#table.name, key, attempts);
    }
    return regions.locate(this.#table.name, key ?? NO_KEY, attempts);
  }

  #request(region: Region, attempts: Attempts): Promise<Answer> {
    const rows = Math.min(this.#options.batchRows ?? BATCH_ROWS, this.#left);
    const request = new Writer();
    const scanner = this.#scanner;
    if (scanner) request.uint(3, scanner.id);
    else request.bytes(1, region.specifier).bytes(2, this.#openFields());
    request.uint(4, rows);
    if (scanner) request.uint(6, scanner.sequence++);
    request
      .bool(7, true)
      .bool(8, true)
      .bool(9, this.#options.filter !== undefined);
    if (this.#left !== Number.POSITIVE_INFINITY) request.uint(11, this.#left);
    const server = scanner?.server ?? this.#context.servers.get(region.server);
    return server.call('Scan', request.finish(), [], attempts.expires);
  }

  /** Scan: start_row 3, stop_row 4, include_start_row 21, include_stop_row 22, and the constant ones. */
  #openFields(): Buffer {
    return new Writer()
      .raw(this.#fields)
      .bytes(3, this.#position.key ?? NO_KEY)
      .bytes(4, this.#stop.key ?? NO_KEY)
      .bool(21, this.#position.inclusive)
      .bool(22, this.#stop.inclusive)
      .finish();
  }

  /** The rows of an answer; undefined when there are none and the caller need not hear of it. */
  #take(region: Region, answer: Answer): RowBatch | undefined {
    const head = readScanResponse(answer.message);
    const batch = { keys: [], rows: [], scanned: 0, until: undefined } as Mutable<RowBatch>;
    const cells = new CellCursor(answer.cells);
    for (let i = 0; i < head.counts.length; i++)
      this.#addResult(batch, cells, head.counts[i]!, head.partial[i] === true);
    if (!head.moreInRegion || !head.more) this.#partial.end(batch, this.#options.keysOnly === true);
    const last = batch.keys[batch.keys.length - 1];
    if (last) this.#position = { key: last, inclusive: false };
    if (head.cursor && !this.#partial.open && this.#isBehind(head.cursor, last))
      this.#position = { key: head.cursor, inclusive: true };
    this.#left -= batch.keys.length;
    this.#advance(region, head);
    batch.scanned = batch.keys.length + head.filtered;
    batch.until = this.#until();
    return batch.keys.length > 0 || head.heartbeat || batch.scanned > 0 ? batch : undefined;
  }

  /** Whether the scan comes to `key` after the row `last`. */
  #isBehind(key: Buffer, last: Buffer | undefined): boolean {
    if (!last) return true;
    const d = Buffer.compare(key, last);
    return this.#options.reverse ? d < 0 : d > 0;
  }

  /** The key before which all rows were looked at. */
  #until(): RowBatch['until'] {
    if (this.#options.reverse) return undefined;
    if (this.#done && this.#left > 0) return 'end';
    const { key, inclusive } = this.#position;
    return key && !inclusive ? keyAfter(key) : key;
  }

  #addResult(batch: RowBatch, cells: CellCursor, count: number, partial: boolean): void {
    if (count === 0) return;
    this.#context.statistics.cellsReceived += count;
    cells.enter();
    const key = cells.row();
    this.#partial.endBefore(key, batch, this.#options.keysOnly === true);
    if (partial || this.#partial.open) this.#partial.add(key, cells, count);
    else {
      batch.keys.push(key);
      if (this.#options.keysOnly) for (let i = 0; i < count; i++) cells.skip();
      else batch.rows.push(this.#table.pack(cells, count)!);
    }
    if (!partial) this.#partial.end(batch, this.#options.keysOnly === true);
  }

  /** Notes the scanner, or goes on to the next region. */
  #advance(region: Region, head: ScanResponse): void {
    if (head.moreInRegion && head.more && this.#left > 0) {
      const now = performance.now();
      if (this.#scanner) this.#scanner.used = now;
      else if (head.scanner !== undefined) {
        const server = this.#context.servers.get(region.server);
        this.#scanner = { id: head.scanner, server, region, sequence: 0, used: now };
      }
      return;
    }
    // The server has closed it.
    this.#scanner = undefined;
    const edge = this.#options.reverse ? region.start : region.end;
    if (!head.more || this.#left <= 0 || edge.length === 0 || this.#beyond(edge)) this.#done = true;
    else this.#position = { key: edge, inclusive: !this.#options.reverse };
  }

  /** Whether nothing of the range lies on the other side of a region's edge. */
  #beyond(edge: Buffer): boolean {
    if (!this.#stop.key) return false;
    const d = Buffer.compare(edge, this.#stop.key);
    if (this.#options.reverse) return d <= 0;
    return this.#stop.inclusive ? d > 0 : d >= 0;
  }

  async #recover(failure: Failure, region: Region | undefined, attempts: Attempts): Promise<void> {
    this.#drop(!failure.traits.scannerLost);
    if (region) this.#context.learn(failure, region);
    await attempts.pause(failure, 'no');
  }

  /**
   * Forgets the scanner, with the row that came in part: the next one gives it from its start. Tells the server so, if
   * wanted; it forgets by itself when the lease ends.
   */
  #drop(tell: boolean): void {
    const scanner = this.#scanner;
    this.#scanner = undefined;
    this.#partial = new PartialRow(this.#table);
    if (!scanner || !tell) return;
    const request = new Writer().uint(3, scanner.id).uint(4, 0).bool(5, true).finish();
    const expires = performance.now() + this.#context.settings.rpcTimeoutMs;
    scanner.server.call('Scan', request, [], expires).catch(() => undefined);
  }
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

const NO_KEY = Buffer.alloc(0);

function isEmpty(range: KeyRange, inclusiveEnd: boolean): boolean {
  if (!range.from || !range.to) return false;
  const d = Buffer.compare(range.from, range.to);
  return inclusiveEnd ? d > 0 : d >= 0;
}

/**
 * Scan: column 1, filter 5, time_range 6, max_versions 7, max_result_size 10, load_column_families_on_demand 13,
 * reversed 15, caching 17, need_cursor_result 24.
 */
function scanFields(table: TableCodec, options: HBaseScanOptions): Buffer {
  const out = new Writer();
  for (const column of columnsOf(table, options)) out.bytes(1, column);
  return (
    out
      .bytes(5, scanFilter(options))
      .message(6, timeRange(options))
      .uint(7, 1)
      .uint(10, BATCH_BYTES)
      // Which HBase refuses for a reversed scan, and does by default.
      .bool(13, options.reverse ? false : undefined)
      .bool(15, options.reverse === true)
      .uint(17, options.batchRows ?? BATCH_ROWS)
      .bool(24, true)
      .finish()
  );
}

/** TimeRange: from 1, to 2 (excluded). */
function timeRange({ timestamp }: HBaseScanOptions): Writer | undefined {
  return timestamp === undefined ? undefined : new Writer().uint(1, timestamp).uint(2, timestamp + 1n);
}

function scanFilter(options: HBaseScanOptions): Buffer | undefined {
  if (!options.keysOnly) return options.filter;
  // Which cell comes first is the filter's to say: only the values can be left out beside it.
  return options.filter ? filterList(true, [options.filter, KEY_ONLY]) : FIRST_KEY_ONLY;
}
