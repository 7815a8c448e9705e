import { sameBytes } from '../../../bytes/compare.js';
import type { KeyRange } from '../../contract.js';
import { EMPTY } from '../../row.js';
import { keyAfter } from '../../tables.js';
import { CellCursor, type TableCodec } from './cells.js';
import { Failure } from './failure.js';
import { encodeFilter } from './filters.js';
import { encodeColumnList } from './mutations.js';
import { MessageWriter } from './protobuf.js';
import type { Region } from './regions.js';
import { Attempts, type Deadlines, type Expirable, failureOrThrow } from './retry.js';
import type { ReadOptions } from './rpc-types.js';
import { readScanResponse } from './scan-response.js';
import { closeScanner, type ScanContext } from './scanner.js';

/** Maximum number of concurrent scans per server. At the maximum, look-ups accumulate. */
const MAX_CONCURRENT_SCANS = 2;
const MAX_RANGES_PER_SCAN = 64;
/** Maximum number of keys requested by a scan. Ranges not reached by then are requested again singly. */
const MAX_KEYS_PER_SCAN = 4_000;
/** Size at which a server ends an answer, bytes. */
const MAX_ANSWER_BYTES = 2 * 1024 * 1024;

/** A caller's look-up of the first keys of a range, several of which are combined into a scan. */
class Lookup implements Expirable {
  readonly table: TableCodec;
  readonly encodedColumns: Buffer;
  readonly to: Buffer | undefined;
  readonly limit: number;
  readonly attempts: Attempts;
  readonly keys: Buffer[] = [];
  readonly resolve: (keys: Buffer[]) => void;
  readonly reject: (error: unknown) => void;
  /** Key at which the look-up continues. */
  from: Buffer;
  /** Whether a combined scan ended before this range, which is then scanned alone and does not wait again. */
  mustScanAlone = false;

  constructor(
    table: TableCodec,
    columns: Buffer,
    range: KeyRange,
    limit: number,
    attempts: Attempts,
    settle: { resolve: (keys: Buffer[]) => void; reject: (error: unknown) => void },
  ) {
    this.table = table;
    this.encodedColumns = columns;
    this.from = range.from ?? EMPTY;
    this.to = range.to;
    this.limit = limit;
    this.attempts = attempts;
    this.resolve = settle.resolve;
    this.reject = settle.reject;
  }

  get expiresAt(): number {
    return this.attempts.expiresAt;
  }

  expire(): void {
    this.reject(this.attempts.expire('no'));
  }

  get isFull(): boolean {
    return this.keys.length >= this.limit;
  }

  /** Whether the range has no keys at or after `key`. */
  endsBefore(key: Buffer): boolean {
    return this.to !== undefined && Buffer.compare(this.to, key) <= 0;
  }
}

/**
 * Finds the first keys of many ranges. Ranges in a region are combined into a scan with a MultiRowRangeFilter and read
 * by a single request, if callers request them in the same iteration of the event loop, or while the maximum number of
 * scans is under way.
 */
export class Lookups {
  readonly #context: ScanContext;
  readonly #waitingLookups = new Map<Region, Lookup[]>();
  readonly #scanCounts = new Map<string, number>();
  readonly #deadlines: Deadlines;
  #isScheduled = false;

  constructor(context: ScanContext, deadlines: Deadlines) {
    this.#context = context;
    this.#deadlines = deadlines;
  }

  find(table: TableCodec, columns: Buffer, range: KeyRange, limit: number): Promise<Buffer[]> {
    return new Promise((resolve, reject) => {
      const attempts = new Attempts(this.#context.settings, this.#context.pauses);
      const finishWith = (settle: () => void): void => {
        this.#deadlines.delete(lookup);
        settle();
      };
      const lookup: Lookup = new Lookup(table, columns, range, limit, attempts, {
        resolve: (keys) => finishWith(() => resolve(keys)),
        reject: (error) => finishWith(() => reject(error)),
      });
      if (limit <= 0 || lookup.endsBefore(lookup.from)) return resolve([]);
      this.#deadlines.add(lookup);
      this.#dispatch(lookup);
    });
  }

  #dispatch(lookup: Lookup): void {
    if (lookup.attempts.isAbandoned) return;
    const region = this.#context.regions.cachedRegion(lookup.table.name, lookup.from);
    if (region) this.#enqueue(lookup, region);
    else void this.#locate(lookup);
  }

  async #locate(lookup: Lookup): Promise<void> {
    try {
      const { regions } = this.#context;
      this.#enqueue(lookup, await regions.locate(lookup.table.name, lookup.from, lookup.attempts));
    } catch (error) {
      void this.#retry(lookup, error);
    }
  }

  async #retry(lookup: Lookup, cause: unknown): Promise<void> {
    try {
      await lookup.attempts.pause(failureOrThrow(cause), 'no');
      this.#dispatch(lookup);
    } catch (error) {
      lookup.reject(error);
    }
  }

  #enqueue(lookup: Lookup, region: Region): void {
    const waitingLookups = this.#waitingLookups.get(region);
    if (waitingLookups) waitingLookups.push(lookup);
    else this.#waitingLookups.set(region, [lookup]);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    for (const [region, lookups] of this.#waitingLookups) {
      const activeLookups = lookups.some(({ attempts }) => attempts.isAbandoned)
        ? lookups.filter(({ attempts }) => !attempts.isAbandoned)
        : lookups;
      if (activeLookups !== lookups) this.#waitingLookups.set(region, activeLookups);
      while (activeLookups.length > 0 && (this.#scanCounts.get(region.server) ?? 0) < MAX_CONCURRENT_SCANS) {
        void this.#send(region, takeLookups(activeLookups));
      }
      if (activeLookups.length === 0) this.#waitingLookups.delete(region);
    }
  }

  async #send(region: Region, lookups: readonly Lookup[]): Promise<void> {
    const { servers, settings, statistics } = this.#context;
    const { server } = region;
    this.#scanCounts.set(server, (this.#scanCounts.get(server) ?? 0) + 1);
    try {
      const sortedLookups = [...lookups].sort((a, b) => Buffer.compare(a.from, b.from));
      const expiresAt = Math.max(...sortedLookups.map((lookup) => lookup.attempts.expiresAt));
      const limit = sortedLookups.reduce((n, lookup) => n + lookup.limit - lookup.keys.length, 0);
      const request = scanRequest(region, sortedLookups, Math.min(limit, MAX_KEYS_PER_SCAN));
      const answer = await servers.get(server).call('Scan', request, [], expiresAt);
      const response = readScanResponse(answer.message);
      const cellCount = response.cellCounts.reduce((n, cells) => n + cells, 0);
      statistics.cellsReceived += cellCount;
      const cells = new CellCursor(answer.cells);
      const lastKey = distributeKeys(sortedLookups, cells);
      // A server that skipped many deleted cells may return no row. The cursor is then the next row that it would read.
      const nextKey = lastKey ? keyAfter(lastKey) : response.cursor;
      const isRegionDone = !response.hasMoreInRegion;
      if (response.hasMore && !isRegionDone && response.scannerId !== undefined)
        closeScanner(servers.get(server), response.scannerId, settings);
      for (const lookup of sortedLookups) this.#finishOrContinue(region, lookup, isRegionDone, nextKey);
    } catch (error) {
      if (error instanceof Failure) this.#context.noteFailure(error, region);
      for (const lookup of lookups) void this.#retry(lookup, error);
    } finally {
      const scanCount = this.#scanCounts.get(server)! - 1;
      if (scanCount > 0) this.#scanCounts.set(server, scanCount);
      else this.#scanCounts.delete(server);
      this.#flush();
    }
  }

  /** Resolves the look-up, or continues it at `nextKey`, or after the region if that was read completely. */
  #finishOrContinue(region: Region, lookup: Lookup, isRegionDone: boolean, nextKey: Buffer | undefined): void {
    const reachedKey = isRegionDone ? region.end : nextKey;
    const isTableEnd = isRegionDone && region.end.length === 0;
    if (lookup.isFull || isTableEnd || (reachedKey && lookup.endsBefore(reachedKey))) {
      lookup.resolve(lookup.keys);
      return;
    }
    if (reachedKey && Buffer.compare(reachedKey, lookup.from) > 0) lookup.from = reachedKey;
    if (!isRegionDone) lookup.mustScanAlone = true;
    this.#dispatch(lookup);
  }
}

/** Removes and returns the look-ups for the next scan: with the same columns, and not marked `mustScanAlone`. */
function takeLookups(lookups: Lookup[]): Lookup[] {
  const firstLookup = lookups[0]!;
  if (firstLookup.mustScanAlone || lookups.length === 1) return lookups.splice(0, 1);
  const scanLookups: Lookup[] = [];
  const remainingLookups: Lookup[] = [];
  for (const lookup of lookups) {
    const hasSameColumns = lookup.encodedColumns === firstLookup.encodedColumns;
    const fitsScan = !lookup.mustScanAlone && hasSameColumns && scanLookups.length < MAX_RANGES_PER_SCAN;
    (fitsScan ? scanLookups : remainingLookups).push(lookup);
  }
  lookups.length = 0;
  lookups.push(...remainingLookups);
  return scanLookups;
}

/**
 * Scan: start_row 3, stop_row 4, filter 5, max_result_size 10, store_limit 11 (a cell per family and row is enough),
 * caching 17. `lookups` are sorted by start.
 */
function scanRequest(region: Region, lookups: readonly Lookup[], limit: number): Buffer {
  const firstLookup = lookups[0]!;
  let stopKey: Buffer | undefined = firstLookup.to;
  for (const { to } of lookups) {
    if (to === undefined || (stopKey && Buffer.compare(stopKey, to) < 0)) stopKey = to;
    if (stopKey === undefined) break;
  }
  const scan = new MessageWriter()
    .raw(firstLookup.encodedColumns)
    .bytes(3, firstLookup.from)
    .bytes(4, stopKey)
    .bytes(5, lookups.length > 1 ? rangesFilter(lookups) : undefined)
    .uint(7, 1)
    .uint(10, MAX_ANSWER_BYTES)
    .uint(11, 1)
    .uint(17, limit)
    .bool(24, true);
  return new MessageWriter()
    .bytes(1, region.specifier)
    .message(2, scan)
    .uint(4, limit)
    .bool(7, true)
    .bool(8, true)
    .uint(11, limit)
    .finish();
}

/** MultiRowRangeFilter: row_range_list 1 { start_row 1, start_row_inclusive 2, stop_row 3, stop_row_inclusive 4 }. */
function rangesFilter(lookups: readonly Lookup[]): Buffer {
  const filter = new MessageWriter();
  for (const { from, to } of lookups) {
    filter.message(
      1,
      new MessageWriter()
        .bytes(1, from)
        .bool(2, true)
        .bytes(3, to ?? EMPTY)
        .bool(4, false),
    );
  }
  return encodeFilter('MultiRowRangeFilter', filter);
}

/** Adds each key to all look-ups whose ranges contain it. Returns the last key. `lookups` are sorted by start. */
function distributeKeys(lookups: readonly Lookup[], cells: CellCursor): Buffer | undefined {
  let lastKey: Buffer | undefined;
  let nextIndex = 0;
  let activeLookups: Lookup[] = [];
  for (; !cells.isAtEnd; cells.advance()) {
    cells.parse();
    if (lastKey && sameBytes(lastKey, cells.block, cells.rowStart, cells.rowStart + cells.rowLength)) continue;
    lastKey = cells.row();
    const key = lastKey;
    while (nextIndex < lookups.length && Buffer.compare(lookups[nextIndex]!.from, key) <= 0)
      activeLookups.push(lookups[nextIndex++]!);
    if (activeLookups.some((lookup) => lookup.isFull || lookup.endsBefore(key)))
      activeLookups = activeLookups.filter((lookup) => !lookup.isFull && !lookup.endsBefore(key));
    for (const lookup of activeLookups) lookup.keys.push(key);
  }
  return lastKey;
}

/** Encodes the fields of a Scan that select the columns. */
export function encodeColumns(table: TableCodec, options: ReadOptions): Buffer {
  const out = new MessageWriter();
  for (const column of encodeColumnList(table, options)) out.bytes(1, column);
  return out.finish();
}
