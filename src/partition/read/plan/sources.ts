import { batchesOf } from '../../../store/batches.js';
import type { KeyRange, Maybe, Reader } from '../../../store/contract.js';
import { chain, fold, isPromise } from '../../../store/maybe.js';
import type { RecentCounts } from '../../model/recent-counts.js';
import { GRAM, UUID_BYTES } from '../../model/tables.js';

/**
 * Where candidates come from: rows of one index, all of one key prefix, of any of several, or all in a range of keys;
 * or ids that are known.
 */
export type Source =
  | { readonly ids: Buffer }
  | { readonly table: string; readonly prefix: Buffer }
  | { readonly table: string; readonly prefixes: readonly Buffer[] }
  | { readonly table: string; readonly range: KeyRange };

/** Ids of one source, at most `limit`; of a prefix those after `after`, in rising order, in `into` perhaps. */
export function sourceIds(source: Source, reader: Reader, limit: number, after?: Buffer, into?: Buffer): Maybe<Buffer> {
  if ('ids' in source) return source.ids;
  if ('prefix' in source) return reader.postings(source.table, source.prefix, limit, after, into);
  if ('prefixes' in source) return idsOfLists(source, reader, limit, after);
  return reader.rangePostings(source.table, source.range, limit);
}

/** A source and how many index rows it has. */
export interface Counted {
  readonly source: Source;
  readonly count: number;
  /** Counted a moment ago. */
  readonly remembered?: boolean;
}

/** The rows of one key, which an embedded engine counts at once. */
const POSTING_CAP = 1_000_000_000;

/** What `countSource` may use. */
interface Counting {
  /** What it knows of substring rows is good enough. */
  readonly recent?: RecentCounts | undefined;
  /** A range stays one. */
  readonly keepRanges?: boolean;
  /** Called again and again where there are many lists: lets others through. */
  readonly pause?: (() => Maybe<void>) | undefined;
}

/**
 * Counts a source; a range is read for it, up to `cap` rows, and one that ends before gives its ids instead, as short
 * lists do.
 */
export function countSource(source: Source, reader: Reader, cap: number, counting: Counting = {}): Maybe<Counted> {
  if ('ids' in source) return { source, count: source.ids.length / UUID_BYTES };
  if ('prefixes' in source) return new ListCount(source, reader).count(counting.pause);
  if ('prefix' in source) {
    const { table, prefix } = source;
    const memory = prefix[0] === GRAM ? counting.recent : undefined;
    const known = memory?.get(table, prefix);
    if (known !== undefined) return { source, count: known, remembered: true };
    return chain(reader.postingCount(table, prefix, POSTING_CAP), (count) => {
      memory?.set(table, prefix, count);
      return { source, count };
    });
  }
  return chain(sourceIds(source, reader, cap + 1), (ids) => {
    const count = ids.length / UUID_BYTES;
    return { source: count > cap || counting.keepRanges ? source : { ids }, count };
  });
}

type Lists = Extract<Source, { prefixes: readonly Buffer[] }>;

/** Lists that are asked for together: where rows are spread over servers, each answer costs a journey. */
const LISTS_TOGETHER = 64;
/** A list up to here is read rather than counted. */
const SHORT_LIST = 64;
/** The ids of all of them are kept up to here. */
const MOST_IDS = 16_384;

/** Counts many lists, and keeps their ids where these are few: most lists have one or none. */
class ListCount {
  readonly #source: Lists;
  readonly #reader: Reader;
  #ids: Buffer[] | undefined = [];
  #count = 0;

  constructor(source: Lists, reader: Reader) {
    this.#source = source;
    this.#reader = reader;
  }

  count(pause: (() => Maybe<void>) | undefined): Maybe<Counted> {
    const { prefixes } = this.#source;
    const runs = Array.from({ length: Math.ceil(prefixes.length / LISTS_TOGETHER) }, (_, n) =>
      prefixes.slice(n * LISTS_TOGETHER, (n + 1) * LISTS_TOGETHER),
    );
    const counted = fold(runs, undefined as unknown, (_, run) => chain(this.#countRun(run), () => pause?.()));
    return chain(counted, () => ({
      source: this.#ids ? { ids: Buffer.concat(this.#ids) } : this.#source,
      count: this.#count,
    }));
  }

  #countRun(prefixes: readonly Buffer[]): Maybe<unknown> {
    return chain(this.#reader.postingsMany(this.#source.table, prefixes, SHORT_LIST), (lists) => {
      const counts = lists.map((ids, i) => this.#countOne(prefixes[i]!, ids));
      return counts.some(isPromise) ? Promise.all(counts) : undefined;
    });
  }

  /** `ids` are the list's first ones. */
  #countOne(prefix: Buffer, ids: Buffer): Maybe<void> {
    const found = ids.length / UUID_BYTES;
    if (found < SHORT_LIST) {
      this.#count += found;
      if (this.#count > MOST_IDS) this.#ids = undefined;
      this.#ids?.push(ids);
      return;
    }
    this.#ids = undefined;
    return chain(this.#reader.postingCount(this.#source.table, prefix, POSTING_CAP), (count) => {
      this.#count += count;
    });
  }
}

/** The ids of several lists behind `after`, each list's in rising order, at most `limit` a list. */
function idsOfLists({ table, prefixes }: Lists, reader: Reader, limit: number, after?: Buffer): Maybe<Buffer> {
  return chain(reader.postingsMany(table, prefixes, limit, after), (lists) => Buffer.concat(lists));
}

/** The entryUUIDs at the end of index keys. */
function idsOf(keys: readonly Buffer[]): Buffer {
  const ids = Buffer.allocUnsafe(keys.length * UUID_BYTES);
  let at = 0;
  for (const key of keys) at += key.copy(ids, at, key.length - UUID_BYTES);
  return ids;
}

/** Ids of one source as they come, some at a time; from a range the same one may come again under another value. */
export function idBatches(source: Source, reader: Reader, limit: number): AsyncGenerator<Buffer> {
  return 'range' in source ? rangeBatches(source, reader) : prefixBatches(source, reader, limit);
}

async function* prefixBatches(
  source: Exclude<Source, { range: KeyRange }>,
  reader: Reader,
  limit: number,
): AsyncGenerator<Buffer> {
  if ('prefixes' in source) {
    for (const prefix of source.prefixes) yield* prefixBatches({ table: source.table, prefix }, reader, limit);
    return;
  }
  if ('ids' in source) {
    const step = limit * UUID_BYTES;
    for (let at = 0; at < source.ids.length; at += step) yield source.ids.subarray(at, at + step);
    return;
  }
  let after: Buffer | undefined;
  for (;;) {
    const read = sourceIds(source, reader, limit, after);
    const ids = isPromise(read) ? await read : read;
    if (ids.length > 0) yield ids;
    if (ids.length < limit * UUID_BYTES) return;
    after = ids.subarray(ids.length - UUID_BYTES);
  }
}

async function* rangeBatches(source: Extract<Source, { range: KeyRange }>, reader: Reader): AsyncGenerator<Buffer> {
  const scan = reader.scan(source.table, source.range, { keysOnly: true });
  for await (const { keys } of batchesOf(scan)) yield idsOf(keys);
}

/** Sorts 16-byte ids and drops repeated ones. */
export function sortIds(ids: Buffer): Buffer {
  const n = ids.length / UUID_BYTES;
  const order = Array.from({ length: n }, (_, i) => ids.subarray(i * UUID_BYTES, (i + 1) * UUID_BYTES)).sort(
    Buffer.compare,
  );
  const sorted = Buffer.allocUnsafe(ids.length);
  let to = 0;
  for (let i = 0; i < n; i++) {
    if (i > 0 && order[i]!.equals(order[i - 1]!)) continue;
    sorted.set(order[i]!, to);
    to += UUID_BYTES;
  }
  return sorted.subarray(0, to);
}
