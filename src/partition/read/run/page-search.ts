import { LdapError } from '../../../ldap/ldap-error.js';
import { keysOf } from '../../../store/batches.js';
import type { Maybe, Reader } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { hashBytes } from '../../model/hash.js';
import { ImpliedRows, implyType } from '../../model/implied.js';
import { draftWithLarge } from '../../model/large-draft.js';
import { UUID_BYTES } from '../../model/tables.js';
import { planIndexes } from '../plan/index-plan.js';
import { containsKey, type IndexRanges, keyRanges, type Range } from '../plan/key-ranges.js';
import { isByIds, type PagePlan, partsOf } from '../plan/page-plan.js';
import { type Source, sortIds } from '../plan/sources.js';
import { CLOCK_INTERVAL, INDEX_BATCH } from './batch-sizes.js';
import { examineEntries, examineEntry } from './entry-fetch.js';
import type { ExaminedEntry } from './examined-entry.js';
import { examineIds } from './index-search.js';
import type { Resume } from './page.js';
import type { SearchRun } from './search-run.js';

/**
 * Searches one page by index. The cost of a page does not grow with the number of candidates before or after the page.
 *
 * - Kind `i`: lists of ids are merged, from the last id of the previous page on.
 * - Kind `r`, for plans with ranges: ranges of index keys are read in order. An entry that is in the ranges under
 *   several keys is returned under the least key. An entry whose values change between two pages may be returned twice,
 *   or not at all.
 *
 * Resume key of `i`: number of the part of the filter u16, id. Resume key of `r`: number of the part u16, hash of the
 * ranges u32, number of the index u16, index key.
 */
export async function searchPage(
  run: SearchRun,
  plan: PagePlan | undefined,
  resume: Resume | undefined,
): Promise<void> {
  const part = resume ? resume.key.readUInt16BE(0) : plan!.part;
  const key = resume?.key.subarray(2);
  const byIds = resume ? resume.kind === 'i' : isByIds(plan!.sources);
  run.output.keyPrefix = Buffer.allocUnsafe(2);
  run.output.keyPrefix.writeUInt16BE(part);
  if (!byIds) return searchKeys(run, part, key);
  return mergeLists(run, key ? await replanSources(run, part) : plan!.sources, key);
}

function indexesChanged(): LdapError {
  return new LdapError(
    'unwillingToPerform',
    'the indexes that this paged search was using have changed; start the search again',
  );
}

/** Returns sources with all candidates of the plan of the first page; the sources themselves may differ. */
async function replanSources(run: SearchRun, part: number): Promise<readonly Source[]> {
  const filter = partsOf(run.filter)[part];
  const plan = filter && (await planIndexes(filter, run.planContext('none')));
  if (!plan) throw indexesChanged();
  return plan.sources;
}

/** A sorted list of ids that is read in pieces. */
interface IdList {
  /** Reads the first `limit` ids that are greater than `after`. */
  read(reader: Reader, limit: number, after: Buffer | undefined): Maybe<Buffer>;
  /** Whether the whole list has been read. */
  isExhausted: boolean;
}

function listsOf(sources: readonly Source[]): IdList[] {
  return sources.flatMap((source): IdList[] => {
    if ('ids' in source) {
      const sorted = sortIds(source.ids);
      return [{ read: (_, limit, after) => idsAfter(sorted, limit, after), isExhausted: false }];
    }
    if ('range' in source) throw new TypeError('a range has no order of ids');
    const { table } = source;
    const prefixes = 'prefix' in source ? [source.prefix] : source.prefixes;
    return prefixes.map((prefix) => ({
      read: (reader, limit, after) => reader.postings(table, prefix, limit, after),
      isExhausted: false,
    }));
  });
}

/** Returns the first `limit` of the sorted ids that are greater than `after`. */
function idsAfter(ids: Buffer, limit: number, after: Buffer | undefined): Buffer {
  let low = 0;
  let high = after ? ids.length / UUID_BYTES : 0;
  while (low < high) {
    const middle = (low + high) >> 1;
    const at = middle * UUID_BYTES;
    if (ids.compare(after!, 0, UUID_BYTES, at, at + UUID_BYTES) <= 0) low = middle + 1;
    else high = middle;
  }
  return ids.subarray(low * UUID_BYTES, (low + limit) * UUID_BYTES);
}

/** Whether some of the sorted ids are greater than `id`. */
function hasIdAfter(ids: Buffer, id: Buffer): boolean {
  return ids.length > 0 && Buffer.compare(ids.subarray(-UUID_BYTES), id) > 0;
}

/** Number of lists that are read at the same time. */
const LISTS_AT_ONCE = 64;
/** Minimum number of ids that are read from a list. */
const MIN_READ = 8;

/**
 * Merges lists from the id `from` (exclusive) on. One round reads a piece of each list; ids up to the frontier, the
 * least last id of the lists that are not exhausted, are then complete.
 */
async function mergeLists(run: SearchRun, sources: readonly Source[], from: Buffer | undefined): Promise<void> {
  let lists = listsOf(sources);
  let after = from;
  while (lists.length > 0 && !run.isPageFull) {
    const limit = Math.max(MIN_READ, Math.min(INDEX_BATCH, Math.ceil(INDEX_BATCH / lists.length)));
    const read: Buffer[] = [];
    let frontier: Buffer | undefined;
    for (let n = 0; n < lists.length; n += LISTS_AT_ONCE) {
      const group = lists.slice(n, n + LISTS_AT_ONCE);
      const parts = group.map((list) => list.read(run.reader, limit, after));
      const ids = parts.some(isPromise) ? await Promise.all(parts) : (parts as Buffer[]);
      for (const [i, list] of group.entries()) {
        read.push(ids[i]!);
        list.isExhausted = ids[i]!.length < limit * UUID_BYTES;
        const last = ids[i]!.subarray(-UUID_BYTES);
        if (!list.isExhausted && (!frontier || Buffer.compare(last, frontier) < 0)) frontier = last;
      }
      const pause = run.yieldIfDue();
      if (isPromise(pause)) await pause;
    }
    const sorted = sortIds(Buffer.concat(read));
    const complete = frontier
      ? sorted.subarray(0, sorted.length - idsAfter(sorted, sorted.length, frontier).length)
      : sorted;
    for (let at = 0; at < complete.length && !run.isPageFull; at += INDEX_BATCH * UUID_BYTES) {
      const done = examineIds(run, complete.subarray(at, at + INDEX_BATCH * UUID_BYTES));
      if (isPromise(done)) await done;
      const pause = run.yieldIfDue();
      if (isPromise(pause)) await pause;
    }
    after = frontier;
    lists = frontier ? lists.filter((list, i) => !list.isExhausted || hasIdAfter(read[i]!, frontier)) : [];
  }
}

/** Searches ranges of index keys, index by index, from the end of the previous page on. */
async function searchKeys(run: SearchRun, part: number, from: Buffer | undefined): Promise<void> {
  const filter = partsOf(run.filter)[part];
  const tables = filter && keyRanges(filter, run.context.shared.indexes);
  if (!tables) throw indexesChanged();
  const hash = hashRanges(tables);
  if (from && from.readUInt32BE(0) !== hash) throw indexesChanged();
  const first = from ? from.readUInt16BE(4) : 0;
  addInputTypes(run, tables);
  for (let n = first; n < tables.length && !run.isPageFull; n++) {
    run.output.keyPrefix = keyPrefix(part, hash, n);
    run.acceptsKey = hasUniqueKeys(tables, n) ? undefined : (entry) => isLeastKey(run, entry, tables, n);
    const after = n === first && from ? from.subarray(6) : undefined;
    for (const range of tables[n]!.ranges) {
      if (after && range.to && Buffer.compare(range.to, after) <= 0) continue;
      const start = after && Buffer.compare(after, range.from) >= 0 ? after : undefined;
      await searchRange(run, tables[n]!.index.table, range, start);
      if (run.isPageFull) break;
    }
  }
}

/** Whether no entry is in the ranges of index `n` under two keys, or in an earlier index. */
function hasUniqueKeys(tables: readonly IndexRanges[], n: number): boolean {
  return n === 0 && tables[0]!.index.type.singleValue && tables[0]!.ranges.length === 1;
}

function keyPrefix(part: number, hash: number, n: number): Buffer {
  const head = Buffer.allocUnsafe(8);
  head.writeUInt16BE(part);
  head.writeUInt32BE(hash, 2);
  head.writeUInt16BE(n, 6);
  return head;
}

function hashRanges(tables: readonly IndexRanges[]): number {
  let hash: number | undefined;
  for (const { index, ranges } of tables) {
    hash = hashBytes(Buffer.from(index.table), undefined, undefined, hash);
    for (const { from, to } of ranges)
      hash = hashBytes(Buffer.concat([from, to ?? Buffer.alloc(0)]), undefined, undefined, hash);
  }
  return (hash ?? 0) >>> 0;
}

/** Requires the values of the indexed types, from which the keys of an entry are computed. */
function addInputTypes({ inputs }: SearchRun, tables: readonly IndexRanges[]): void {
  if (inputs.values === 'all') return;
  inputs.values = new Set([...(inputs.values ?? []), ...tables.map(({ index }) => index.type)]);
}

/**
 * Examines the entries of the keys in a range. The first read takes one key more than the page has room for; further
 * reads grow, as entries may not match.
 */
async function searchRange(run: SearchRun, table: string, range: Range, start: Buffer | undefined): Promise<void> {
  let limit = Math.min(run.params.pageSize! - run.output.entries + 1, INDEX_BATCH);
  for (let after = start; !run.isPageFull; limit = Math.min(2 * limit, INDEX_BATCH)) {
    const keys = await keysOf(run.reader.scan(table, range, { after, limit, keysOnly: true }));
    await examineKeys(run, keys);
    if (keys.length < limit) return;
    after = keys.at(-1);
  }
}

async function examineKeys(run: SearchRun, keys: readonly Buffer[]): Promise<void> {
  const ids = keys.map((key) => key.subarray(key.length - UUID_BYTES));
  if (run.context.store.supports.spread) return examineEntries(run, ids, 'r', keys);
  for (let i = 0; i < ids.length && !run.isPageFull; i++) {
    const done = examineEntry(run, ids[i]!, 'r', keys[i]!);
    const pause = isPromise(done) ? done : i % CLOCK_INTERVAL === 0 ? run.yieldIfDue() : undefined;
    if (isPromise(pause)) await pause;
  }
}

/** Whether the entry was found under its least key in the ranges, in the order of the indexes. */
function isLeastKey(
  { context }: SearchRun,
  { row, large, key }: ExaminedEntry,
  tables: readonly IndexRanges[],
  n: number,
): boolean {
  const id = key.subarray(key.length - UUID_BYTES);
  const draft = draftWithLarge(context, row, large);
  for (let i = 0; i <= n; i++) {
    const { index, ranges } = tables[i]!;
    const implied = new ImpliedRows();
    implyType(index.type, draft.ofType(index.type), index, implied);
    for (const { keyPrefix: prefix } of implied.rows) {
      const other = Buffer.concat([prefix, id]);
      if (containsKey(ranges, other) && (i < n || Buffer.compare(other, key) < 0)) return false;
    }
  }
  return true;
}
