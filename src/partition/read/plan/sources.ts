import type { KeyRange, Maybe, Reader } from '../../../store/contract.js';
import { batchesOf, chain, isPromise, reduceMaybe } from '../../../store/maybe.js';
import type { RecentCounts } from '../../model/index-set.js';
import { GRAM, UUID_BYTES } from '../../model/tables.js';

/** A source of candidates: known ids, or index rows with one or several key prefixes, or in a key range. */
export type Source =
  | { readonly ids: Buffer }
  | { readonly table: string; readonly prefix: Buffer }
  | { readonly table: string; readonly prefixes: readonly Buffer[] }
  | { readonly table: string; readonly range: KeyRange };

/**
 * Returns ids of a source; at most `limit` if they have to be read. Ids of prefixes are sorted and follow `after`.
 * `into`: memory that the result may use.
 */
export function sourceIds(source: Source, reader: Reader, limit: number, after?: Buffer, into?: Buffer): Maybe<Buffer> {
  if ('ids' in source) return source.ids;
  if ('prefix' in source) return reader.postings(source.table, source.prefix, limit, after, into);
  if ('prefixes' in source) return idsOfLists(source, reader, limit, after);
  return reader.rangePostings(source.table, source.range, limit);
}

export interface CountedSource {
  readonly source: Source;
  readonly count: number;
  /** Whether the count is cached, up to a second old. */
  readonly isRemembered?: boolean;
}

/** The most rows with a key prefix that are counted. An embedded engine counts in constant time. */
const POSTING_CAP = 1_000_000_000;

interface CountOptions {
  /** Cached counts of substring rows, which may be used instead of current counts. */
  readonly recentCounts?: RecentCounts | undefined;
  /** Whether a range that was read to count it stays a range. Otherwise it is replaced by its ids. */
  readonly keepRanges?: boolean;
  /** Called between lists, so that other work can run. */
  readonly pause?: (() => Maybe<void>) | undefined;
}

/**
 * Counts a source. Ranges of up to `cap` rows and short lists are read for the count. A range or a set of lists that
 * was read completely is replaced by its ids.
 */
export function countSource(
  source: Source,
  reader: Reader,
  cap: number,
  options: CountOptions = {},
): Maybe<CountedSource> {
  if ('ids' in source) return { source, count: source.ids.length / UUID_BYTES };
  if ('prefixes' in source) return new ListCounter(source, reader).count(options.pause);
  if ('prefix' in source) {
    const { table, prefix } = source;
    const recentCounts = prefix[0] === GRAM ? options.recentCounts : undefined;
    const recentCount = recentCounts?.get(table, prefix);
    if (recentCount !== undefined) return { source, count: recentCount, isRemembered: true };
    return chain(reader.postingCount(table, prefix, POSTING_CAP), (count) => {
      recentCounts?.set(table, prefix, count);
      return { source, count };
    });
  }
  return chain(sourceIds(source, reader, cap + 1), (ids) => {
    const count = ids.length / UUID_BYTES;
    return { source: count > cap || options.keepRanges ? source : { ids }, count };
  });
}

type ListsSource = Extract<Source, { prefixes: readonly Buffer[] }>;

const GROUP_SIZE = 64;
/** The most ids of a list that are read to count them. */
const SHORT_LIST = 64;
/** The most ids that are kept when lists are counted. */
const MAX_KEPT_IDS = 16_384;

/** Counts many lists. Keeps the ids up to `MAX_KEPT_IDS`, because most lists have one id or none. */
class ListCounter {
  readonly #source: ListsSource;
  readonly #reader: Reader;
  #ids: Buffer[] | undefined = [];
  #count = 0;

  constructor(source: ListsSource, reader: Reader) {
    this.#source = source;
    this.#reader = reader;
  }

  count(pause: (() => Maybe<void>) | undefined): Maybe<CountedSource> {
    const { prefixes } = this.#source;
    const groups = Array.from({ length: Math.ceil(prefixes.length / GROUP_SIZE) }, (_, n) =>
      prefixes.slice(n * GROUP_SIZE, (n + 1) * GROUP_SIZE),
    );
    const counting = reduceMaybe(groups, undefined as unknown, (_, group) =>
      chain(this.#countGroup(group), () => pause?.()),
    );
    return chain(counting, () => ({
      source: this.#ids ? { ids: Buffer.concat(this.#ids) } : this.#source,
      count: this.#count,
    }));
  }

  #countGroup(prefixes: readonly Buffer[]): Maybe<unknown> {
    return chain(this.#reader.postingsMany(this.#source.table, prefixes, SHORT_LIST), (lists) => {
      const counts = lists.map((ids, i) => this.#countList(prefixes[i]!, ids));
      return counts.some(isPromise) ? Promise.all(counts) : undefined;
    });
  }

  /** Counts one list; `ids` are its first ids. */
  #countList(prefix: Buffer, ids: Buffer): Maybe<void> {
    const idCount = ids.length / UUID_BYTES;
    if (idCount < SHORT_LIST) {
      this.#count += idCount;
      if (this.#count > MAX_KEPT_IDS) this.#ids = undefined;
      this.#ids?.push(ids);
      return;
    }
    this.#ids = undefined;
    return chain(this.#reader.postingCount(this.#source.table, prefix, POSTING_CAP), (count) => {
      this.#count += count;
    });
  }
}

/** Returns ids of several lists, one list after the other: of each at most `limit` ids that follow `after`, sorted. */
function idsOfLists({ table, prefixes }: ListsSource, reader: Reader, limit: number, after?: Buffer): Maybe<Buffer> {
  return chain(reader.postingsMany(table, prefixes, limit, after), (lists) => Buffer.concat(lists));
}

/** Returns the entryUUIDs with which index keys end. */
function idsOfKeys(keys: readonly Buffer[]): Buffer {
  const ids = Buffer.allocUnsafe(keys.length * UUID_BYTES);
  let i = 0;
  for (const key of keys) i += key.copy(ids, i, key.length - UUID_BYTES);
  return ids;
}

/** Yields the ids of a source in batches. A range may have an id several times, under different values. */
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
    const batchBytes = limit * UUID_BYTES;
    for (let i = 0; i < source.ids.length; i += batchBytes) yield source.ids.subarray(i, i + batchBytes);
    return;
  }
  let lastId: Buffer | undefined;
  for (;;) {
    const maybeIds = sourceIds(source, reader, limit, lastId);
    const ids = isPromise(maybeIds) ? await maybeIds : maybeIds;
    if (ids.length > 0) yield ids;
    if (ids.length < limit * UUID_BYTES) return;
    lastId = ids.subarray(ids.length - UUID_BYTES);
  }
}

async function* rangeBatches(source: Extract<Source, { range: KeyRange }>, reader: Reader): AsyncGenerator<Buffer> {
  const scan = reader.scan(source.table, source.range, { keysOnly: true });
  for await (const { keys } of batchesOf(scan)) yield idsOfKeys(keys);
}

/** Sorts 16-byte ids and drops duplicates. */
export function sortIds(ids: Buffer): Buffer {
  const idCount = ids.length / UUID_BYTES;
  const orderedIds = Array.from({ length: idCount }, (_, i) => ids.subarray(i * UUID_BYTES, (i + 1) * UUID_BYTES)).sort(
    Buffer.compare,
  );
  const sortedIds = Buffer.allocUnsafe(ids.length);
  let target = 0;
  for (let i = 0; i < idCount; i++) {
    if (i > 0 && orderedIds[i]!.equals(orderedIds[i - 1]!)) continue;
    sortedIds.set(orderedIds[i]!, target);
    target += UUID_BYTES;
  }
  return sortedIds.subarray(0, target);
}
