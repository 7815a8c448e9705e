import type { KeyRange } from '../../contract.js';
import { EMPTY } from '../../row.js';
import { keyAfter } from '../../tables.js';
import { CellCursor, type TableCodec } from './cells.js';
import { Failure } from './failure.js';
import { FIRST_KEY_ONLY, filterList, KEY_ONLY } from './filters.js';
import { encodeColumnList } from './mutations.js';
import { PartialRow } from './partial-row.js';
import { MessageWriter } from './protobuf.js';
import type { Region, Regions } from './regions.js';
import { Attempts, type Pauses } from './retry.js';
import type { HBaseScan, HBaseScanOptions, RowBatch, RpcSettings, RpcStatistics } from './rpc-types.js';
import { readScanResponse, type ScanResponse } from './scan-response.js';
import type { Server, Servers } from './server.js';
import type { Answer } from './wire.js';

/** Default number of rows per request. */
const BATCH_ROWS = 1_000;
/** Size at which a server ends a batch, bytes. */
const BATCH_BYTES = 2 * 1024 * 1024;
/** A scanner unused for this share of its lease is not used again. */
const LEASE_SHARE = 0.8;

/** The members of the client that a scan uses. */
export interface ScanContext {
  readonly settings: RpcSettings;
  readonly servers: Servers;
  readonly regions: Regions;
  readonly statistics: RpcStatistics;
  readonly pauses: Pauses;
  noteFailure(failure: Failure, region: Region): void;
}

interface OpenScanner {
  readonly id: bigint;
  readonly server: Server;
  readonly region: Region;
  /** Number of the next request to the scanner. */
  sequence: number;
  /** Time of the last answer, monotonic ms. */
  lastUsedAt: number;
}

/** A start or end of a scan. `key`: undefined for an open end. `isInclusive`: whether row `key` is to be read. */
interface Position {
  readonly key: Buffer | undefined;
  readonly isInclusive: boolean;
}

/**
 * A scan over all regions of a range. A lost scanner (its lease ended, its region moved, or an answer did not arrive)
 * is reopened after the last complete row, so that no row is repeated or missing. The rows are no snapshot.
 */
export class RegionScan implements HBaseScan {
  readonly #context: ScanContext;
  readonly #table: TableCodec;
  readonly #options: HBaseScanOptions;
  /** The fields of the message Scan that do not depend on the position. */
  readonly #constantFields: Buffer;
  readonly #endPosition: Position;
  #position: Position;
  #scanner: OpenScanner | undefined;
  /** Number of rows that may still be returned before the limit is reached. */
  #rowsLeft: number;
  #partialRow: PartialRow;
  #isDone = false;
  #pendingBatch: Promise<RowBatch | undefined> | undefined;

  constructor(context: ScanContext, table: TableCodec, range: KeyRange, options: HBaseScanOptions) {
    this.#context = context;
    this.#table = table;
    this.#options = options;
    const lowPosition: Position = { key: range.from, isInclusive: true };
    const highPosition: Position = { key: range.to, isInclusive: options.includesEnd === true };
    this.#position = options.isReverse ? highPosition : lowPosition;
    this.#endPosition = options.isReverse ? lowPosition : highPosition;
    this.#rowsLeft = options.limit ?? Number.POSITIVE_INFINITY;
    this.#constantFields = scanFields(table, options);
    this.#partialRow = new PartialRow(table);
    this.#isDone = this.#rowsLeft <= 0 || isEmpty(range, options.includesEnd === true);
  }

  /** Returns the next batch. Must not be called again before the last call has ended. */
  next(): Promise<RowBatch | undefined> {
    if (this.#pendingBatch) throw new TypeError('next() of a scan before the last one ended');
    this.#pendingBatch = this.#next().finally(() => {
      this.#pendingBatch = undefined;
    });
    return this.#pendingBatch;
  }

  close(): void {
    this.#isDone = true;
    // A request under way may open the scanner. In this case `#next` closes it.
    if (!this.#pendingBatch) this.#dropScanner(true);
  }

  async #next(): Promise<RowBatch | undefined> {
    const attempts = new Attempts(this.#context.settings, this.#context.pauses);
    if (this.#scanner && this.#isExpired(this.#scanner)) this.#dropScanner(true);
    while (!this.#isDone) {
      let region: Region | undefined;
      try {
        region = this.#scanner?.region ?? (await this.#locate(attempts));
        const answer = await this.#request(region, attempts);
        const batch = this.#readBatch(region, answer);
        if (batch) return batch;
      } catch (error) {
        if (!(error instanceof Failure)) {
          this.#isDone = true;
          throw error;
        }
        if (!this.#isDone) await this.#pauseAfterFailure(error, region, attempts);
      } finally {
        if (this.#isDone) this.#dropScanner(true);
      }
    }
    return undefined;
  }

  #isExpired(scanner: OpenScanner): boolean {
    return performance.now() - scanner.lastUsedAt > this.#context.settings.scannerTimeoutMs * LEASE_SHARE;
  }

  #locate(attempts: Attempts): Promise<Region> {
    const { regions } = this.#context;
    const { key, isInclusive } = this.#position;
    if (this.#options.isReverse) {
      if (key && isInclusive) return regions.locate(this.#table.name, key, attempts);
      return regions.locateBefore(this.#table.name, key, attempts);
    }
    return regions.locate(this.#table.name, key ?? EMPTY, attempts);
  }

  #request(region: Region, attempts: Attempts): Promise<Answer> {
    const rowLimit = Math.min(this.#options.batchRows ?? BATCH_ROWS, this.#rowsLeft);
    const request = new MessageWriter();
    const scanner = this.#scanner;
    if (scanner) request.uint(3, scanner.id);
    else request.bytes(1, region.specifier).bytes(2, this.#encodeScan());
    request.uint(4, rowLimit);
    if (scanner) request.uint(6, scanner.sequence++);
    request
      .bool(7, true)
      .bool(8, true)
      .bool(9, this.#options.filter !== undefined);
    if (this.#rowsLeft !== Number.POSITIVE_INFINITY) request.uint(11, this.#rowsLeft);
    const server = scanner?.server ?? this.#context.servers.get(region.server);
    return server.call('Scan', request.finish(), [], attempts.expiresAt);
  }

  /** Encodes the Scan: start_row 3, stop_row 4, include_start_row 21, include_stop_row 22, and the constant fields. */
  #encodeScan(): Buffer {
    return new MessageWriter()
      .raw(this.#constantFields)
      .bytes(3, this.#position.key ?? EMPTY)
      .bytes(4, this.#endPosition.key ?? EMPTY)
      .bool(21, this.#position.isInclusive)
      .bool(22, this.#endPosition.isInclusive)
      .finish();
  }

  /** Returns the rows of an answer, or undefined when the server has neither returned nor examined rows. */
  #readBatch(region: Region, answer: Answer): RowBatch | undefined {
    const response = readScanResponse(answer.message);
    const batch = { keys: [], rows: [], scanned: 0, until: undefined } as MutableBatch<RowBatch>;
    const cells = new CellCursor(answer.cells);
    for (let i = 0; i < response.cellCounts.length; i++)
      this.#addResult(batch, cells, response.cellCounts[i]!, response.partialFlags[i] === true);
    if (!response.hasMoreInRegion || !response.hasMore) this.#partialRow.finish(batch, this.#options.keysOnly === true);
    const lastKey = batch.keys[batch.keys.length - 1];
    if (lastKey) this.#position = { key: lastKey, isInclusive: false };
    if (response.cursor && !this.#partialRow.isOpen && this.#isAfter(response.cursor, lastKey))
      this.#position = { key: response.cursor, isInclusive: true };
    this.#rowsLeft -= batch.keys.length;
    this.#advance(region, response);
    batch.scanned = batch.keys.length + response.filteredRows;
    batch.until = this.#scannedUntil();
    return batch.keys.length > 0 || response.isHeartbeat || batch.scanned > 0 ? batch : undefined;
  }

  /** Whether `key` comes after the row `lastKey` in scan order. */
  #isAfter(key: Buffer, lastKey: Buffer | undefined): boolean {
    if (!lastKey) return true;
    const order = Buffer.compare(key, lastKey);
    return this.#options.isReverse ? order < 0 : order > 0;
  }

  /** Returns the key before which the servers have examined all rows. */
  #scannedUntil(): RowBatch['until'] {
    if (this.#options.isReverse) return undefined;
    if (this.#isDone && this.#rowsLeft > 0) return 'end';
    const { key, isInclusive } = this.#position;
    return key && !isInclusive ? keyAfter(key) : key;
  }

  #addResult(batch: RowBatch, cells: CellCursor, cellCount: number, isPartial: boolean): void {
    if (cellCount === 0) return;
    this.#context.statistics.cellsReceived += cellCount;
    cells.parse();
    const key = cells.row();
    this.#partialRow.finishBefore(key, batch, this.#options.keysOnly === true);
    if (isPartial || this.#partialRow.isOpen) this.#partialRow.add(key, cells, cellCount);
    else {
      batch.keys.push(key);
      if (this.#options.keysOnly) for (let i = 0; i < cellCount; i++) cells.skip();
      else batch.rows.push(this.#table.pack(cells, cellCount)!);
    }
    if (!isPartial) this.#partialRow.finish(batch, this.#options.keysOnly === true);
  }

  /** Stores the scanner that the server has opened, or moves on to the next region. */
  #advance(region: Region, response: ScanResponse): void {
    if (response.hasMoreInRegion && response.hasMore && this.#rowsLeft > 0) {
      const now = performance.now();
      if (this.#scanner) this.#scanner.lastUsedAt = now;
      else if (response.scannerId !== undefined) {
        const server = this.#context.servers.get(region.server);
        this.#scanner = { id: response.scannerId, server, region, sequence: 0, lastUsedAt: now };
      }
      return;
    }
    // The server has closed the scanner.
    this.#scanner = undefined;
    const edgeKey = this.#options.isReverse ? region.start : region.end;
    if (!response.hasMore || this.#rowsLeft <= 0 || edgeKey.length === 0 || this.#endsRange(edgeKey))
      this.#isDone = true;
    else this.#position = { key: edgeKey, isInclusive: !this.#options.isReverse };
  }

  /** Whether the range has no rows beyond this edge of a region. */
  #endsRange(edge: Buffer): boolean {
    if (!this.#endPosition.key) return false;
    const order = Buffer.compare(edge, this.#endPosition.key);
    if (this.#options.isReverse) return order <= 0;
    return this.#endPosition.isInclusive ? order > 0 : order >= 0;
  }

  async #pauseAfterFailure(failure: Failure, region: Region | undefined, attempts: Attempts): Promise<void> {
    this.#dropScanner(!failure.traits.isScannerLost);
    if (region) this.#context.noteFailure(failure, region);
    await attempts.pause(failure, 'no');
  }

  /**
   * Forgets the scanner and the incomplete row, which the next scanner returns from its start. With `closesAtServer`
   * a request closes the scanner at the server, which otherwise closes it when the lease ends.
   */
  #dropScanner(closesAtServer: boolean): void {
    const scanner = this.#scanner;
    this.#scanner = undefined;
    this.#partialRow = new PartialRow(this.#table);
    if (scanner && closesAtServer) closeScanner(scanner.server, scanner.id, this.#context.settings);
  }
}

export function closeScanner(server: Server, id: bigint, { rpcTimeoutMs }: RpcSettings): void {
  const request = new MessageWriter().uint(3, id).uint(4, 0).bool(5, true).finish();
  // A scanner that cannot be closed ends with its lease.
  server.call('Scan', request, [], performance.now() + rpcTimeoutMs).catch(() => undefined);
}

type MutableBatch<T> = { -readonly [K in keyof T]: T[K] };

function isEmpty(range: KeyRange, includesEnd: boolean): boolean {
  if (!range.from || !range.to) return false;
  const order = Buffer.compare(range.from, range.to);
  return includesEnd ? order > 0 : order >= 0;
}

/**
 * Scan: column 1, filter 5, time_range 6, max_versions 7, max_result_size 10, load_column_families_on_demand 13,
 * reversed 15, caching 17, need_cursor_result 24.
 */
function scanFields(table: TableCodec, options: HBaseScanOptions): Buffer {
  const out = new MessageWriter();
  for (const column of encodeColumnList(table, options)) out.bytes(1, column);
  return (
    out
      .bytes(5, scanFilter(options))
      .message(6, timeRange(options))
      .uint(7, 1)
      .uint(10, BATCH_BYTES)
      // HBase refuses `load_column_families_on_demand` in a reversed scan. Without the field, HBase loads on demand.
      .bool(13, options.isReverse ? false : undefined)
      .bool(15, options.isReverse === true)
      .uint(17, options.batchRows ?? BATCH_ROWS)
      .bool(24, true)
      .finish()
  );
}

/** Encodes a TimeRange (fields: from 1, to 2, exclusive) that holds only `timestamp`. */
function timeRange({ timestamp }: HBaseScanOptions): MessageWriter | undefined {
  return timestamp === undefined ? undefined : new MessageWriter().uint(1, timestamp).uint(2, timestamp + 1n);
}

function scanFilter(options: HBaseScanOptions): Buffer | undefined {
  if (!options.keysOnly) return options.filter;
  // The filter determines the first cell of a row, so only the values can be omitted.
  return options.filter ? filterList('all', [options.filter, KEY_ONLY]) : FIRST_KEY_ONLY;
}
