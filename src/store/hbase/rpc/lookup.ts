import { sameBytes } from '../../../bytes/compare.js';
import type { KeyRange } from '../../contract.js';
import { CellCursor, type TableCodec } from './cells.js';
import type { Bounded, Deadlines } from './deadlines.js';
import { Failure } from './failure.js';
import { Writer } from './protobuf.js';
import type { Region } from './regions.js';
import { columnsOf, filterMessage } from './requests.js';
import { Attempts, asFailure } from './retry.js';
import type { ReadOptions } from './rpc-types.js';
import { readScanResponse } from './scan-response.js';
import type { ScanContext } from './scanner.js';

/** Gathered scans under way at one server; while so many are, look-ups gather. */
const IN_FLIGHT = 2;
/** Ranges in one scan. */
const RANGES = 64;
/** Keys asked for with one scan. Ranges that it does not get to are asked for again, each alone. */
const KEYS = 4_000;
/** Bytes after which a server ends an answer. */
const ANSWER_BYTES = 2 * 1024 * 1024;

/** A caller's range and what was found of it. */
class Lookup implements Bounded {
  readonly table: TableCodec;
  readonly columns: Buffer;
  readonly to: Buffer | undefined;
  readonly limit: number;
  readonly attempts: Attempts;
  readonly keys: Buffer[] = [];
  readonly resolve: (keys: Buffer[]) => void;
  readonly reject: (error: unknown) => void;
  /** Where it goes on. */
  from: Buffer;
  /** A gathered scan ran out of keys before it: it is not to wait for others again. */
  alone = false;

  constructor(
    table: TableCodec,
    columns: Buffer,
    range: KeyRange,
    limit: number,
    attempts: Attempts,
    settle: { resolve: (keys: Buffer[]) => void; reject: (error: unknown) => void },
  ) {
    this.table = table;
    this.columns = columns;
    this.from = range.from ?? NO_KEY;
    this.to = range.to;
    this.limit = limit;
    this.attempts = attempts;
    this.resolve = settle.resolve;
    this.reject = settle.reject;
  }

  get expires(): number {
    return this.attempts.expires;
  }

  expire(): void {
    this.reject(this.attempts.expire('no'));
  }

  get full(): boolean {
    return this.keys.length >= this.limit;
  }

  /** Whether nothing of it lies at or after `key`. */
  endsBefore(key: Buffer): boolean {
    return this.to !== undefined && Buffer.compare(this.to, key) <= 0;
  }
}

const NO_KEY = Buffer.alloc(0);

/**
 * Finds the first keys of many ranges: those that callers ask for in one turn of the event loop, or while as many scans
 * as allowed are under way, and that lie in one region, are read with one scan through a MultiRowRangeFilter, in a
 * single request.
 */
export class Lookups {
  readonly #context: ScanContext;
  readonly #waiting = new Map<Region, Lookup[]>();
  readonly #inFlight = new Map<string, number>();
  readonly #deadlines: Deadlines;
  #scheduled = false;

  constructor(context: ScanContext, deadlines: Deadlines) {
    this.#context = context;
    this.#deadlines = deadlines;
  }

  find(table: TableCodec, columns: Buffer, range: KeyRange, limit: number): Promise<Buffer[]> {
    return new Promise((resolve, reject) => {
      const attempts = new Attempts(this.#context.settings, this.#context.pauses);
      const ended = (settle: () => void): void => {
        this.#deadlines.delete(lookup);
        settle();
      };
      const lookup: Lookup = new Lookup(table, columns, range, limit, attempts, {
        resolve: (keys) => ended(() => resolve(keys)),
        reject: (error) => ended(() => reject(error)),
      });
      if (limit <= 0 || lookup.endsBefore(lookup.from)) return resolve([]);
      this.#deadlines.add(lookup);
      this.#dispatch(lookup);
    });
  }

  #dispatch(lookup: Lookup): void {
    if (lookup.attempts.over) return;
    const region = this.#context.regions.cached(lookup.table.name, lookup.from);
    if (region) this.#enqueue(lookup, region);
    else void this.#locate(lookup);
  }

  async #locate(lookup: Lookup): Promise<void> {
    try {
      const { regions } = this.#context;
      this.#enqueue(lookup, await regions.locate(lookup.table.name, lookup.from, lookup.attempts));
    } catch (e) {
      void this.#again(lookup, e);
    }
  }

  async #again(lookup: Lookup, e: unknown): Promise<void> {
    try {
      await lookup.attempts.pause(asFailure(e), 'no');
      this.#dispatch(lookup);
    } catch (error) {
      lookup.reject(error);
    }
  }

  #enqueue(lookup: Lookup, region: Region): void {
    const list = this.#waiting.get(region);
    if (list) list.push(lookup);
    else this.#waiting.set(region, [lookup]);
    if (this.#scheduled) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#flush();
    });
  }

  #flush(): void {
    for (const [region, lookups] of this.#waiting) {
      const list = lookups.some(({ attempts }) => attempts.over) ? lookups.filter(wanted) : lookups;
      if (list !== lookups) this.#waiting.set(region, list);
      while (list.length > 0 && (this.#inFlight.get(region.server) ?? 0) < IN_FLIGHT) {
        void this.#send(region, takeTogether(list));
      }
      if (list.length === 0) this.#waiting.delete(region);
    }
  }

  async #send(region: Region, lookups: readonly Lookup[]): Promise<void> {
    const { servers, statistics } = this.#context;
    const { server } = region;
    this.#inFlight.set(server, (this.#inFlight.get(server) ?? 0) + 1);
    try {
      const sorted = [...lookups].sort((a, b) => Buffer.compare(a.from, b.from));
      const expires = Math.max(...sorted.map((lookup) => lookup.attempts.expires));
      const limit = sorted.reduce((n, lookup) => n + lookup.limit - lookup.keys.length, 0);
      const request = scanRequest(region, sorted, Math.min(limit, KEYS));
      const answer = await servers.get(server).call('Scan', request, [], expires);
      const head = readScanResponse(answer.message);
      const count = head.counts.reduce((n, cells) => n + cells, 0);
      statistics.cellsReceived += count;
      const cells = new CellCursor(answer.cells);
      const last = distribute(sorted, cells);
      // A server that passed many deleted cells may stop with nothing: the cursor is the row that it would look at
      // next.
      const next = last ? after(last) : head.cursor;
      const whole = !head.moreInRegion;
      if (head.more && !whole && head.scanner !== undefined) this.#close(region, head.scanner);
      for (const lookup of sorted) this.#settle(region, lookup, whole, next);
    } catch (e) {
      if (e instanceof Failure) this.#context.learn(e, region);
      for (const lookup of lookups) void this.#again(lookup, e);
    } finally {
      const left = this.#inFlight.get(server)! - 1;
      if (left > 0) this.#inFlight.set(server, left);
      else this.#inFlight.delete(server);
      this.#flush();
    }
  }

  /** Answers, or goes on where the answer ended: at the region's end when it was read `whole`, else at `next`. */
  #settle(region: Region, lookup: Lookup, whole: boolean, next: Buffer | undefined): void {
    const reached = whole ? region.end : next;
    const open = whole && region.end.length === 0;
    if (lookup.full || open || (reached && lookup.endsBefore(reached))) {
      lookup.resolve(lookup.keys);
      return;
    }
    if (reached && Buffer.compare(reached, lookup.from) > 0) lookup.from = reached;
    if (!whole) lookup.alone = true;
    this.#dispatch(lookup);
  }

  #close(region: Region, scanner: bigint): void {
    const request = new Writer().uint(3, scanner).uint(4, 0).bool(5, true).finish();
    const expires = performance.now() + this.#context.settings.rpcTimeoutMs;
    this.#context.servers
      .get(region.server)
      .call('Scan', request, [], expires)
      .catch(() => undefined);
  }
}

function wanted({ attempts }: Lookup): boolean {
  return !attempts.over;
}

/** Takes from the list what may go in one scan: equal columns, and none that is to be alone. */
function takeTogether(list: Lookup[]): Lookup[] {
  const first = list[0]!;
  if (first.alone || list.length === 1) return list.splice(0, 1);
  const taken: Lookup[] = [];
  const rest: Lookup[] = [];
  for (const lookup of list) {
    const fits = !lookup.alone && lookup.columns === first.columns && taken.length < RANGES;
    (fits ? taken : rest).push(lookup);
  }
  list.length = 0;
  list.push(...rest);
  return taken;
}

/** The key right after. */
function after(key: Buffer): Buffer {
  return Buffer.concat([key, Buffer.from([0])]);
}

/**
 * Scan: start_row 3, stop_row 4, filter 5, max_result_size 10, store_limit 11 (one cell of each family of a row will
 * do), caching 17; `lookups` in the order of their starts.
 */
function scanRequest(region: Region, lookups: readonly Lookup[], limit: number): Buffer {
  const first = lookups[0]!;
  let stop: Buffer | undefined = first.to;
  for (const { to } of lookups) {
    if (to === undefined || (stop && Buffer.compare(stop, to) < 0)) stop = to;
    if (stop === undefined) break;
  }
  const scan = new Writer()
    .raw(first.columns)
    .bytes(3, first.from)
    .bytes(4, stop)
    .bytes(5, lookups.length > 1 ? rangesFilter(lookups) : undefined)
    .uint(7, 1)
    .uint(10, ANSWER_BYTES)
    .uint(11, 1)
    .uint(17, limit)
    .bool(24, true);
  return new Writer()
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
  const filter = new Writer();
  for (const { from, to } of lookups) {
    filter.message(
      1,
      new Writer()
        .bytes(1, from)
        .bool(2, true)
        .bytes(3, to ?? NO_KEY)
        .bool(4, false),
    );
  }
  return filterMessage('MultiRowRangeFilter', filter);
}

/**
 * Gives each key to the look-ups whose range it is in, and tells the last one. `lookups` in the order of their starts.
 */
function distribute(lookups: readonly Lookup[], cells: CellCursor): Buffer | undefined {
  let last: Buffer | undefined;
  let next = 0;
  let active: Lookup[] = [];
  for (; !cells.done; cells.leave()) {
    cells.enter();
    if (last && sameRow(cells, last)) continue;
    last = cells.row();
    const key = last;
    while (next < lookups.length && Buffer.compare(lookups[next]!.from, key) <= 0) active.push(lookups[next++]!);
    if (active.some((lookup) => lookup.full || lookup.endsBefore(key))) {
      active = active.filter((lookup) => !lookup.full && !lookup.endsBefore(key));
    }
    for (const lookup of active) lookup.keys.push(key);
  }
  return last;
}

function sameRow(cells: CellCursor, key: Buffer): boolean {
  return sameBytes(key, cells.block, cells.rowStart, cells.rowStart + cells.rowLength);
}

/** The fields of a Scan that say what is read of a row. */
export function lookupColumns(table: TableCodec, options: ReadOptions): Buffer {
  const out = new Writer();
  for (const column of columnsOf(table, options)) out.bytes(1, column);
  return out.finish();
}
