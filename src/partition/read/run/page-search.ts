import { LdapError } from '../../../ldap/ldap-error.js';
import type { Maybe, Reader } from '../../../store/contract.js';
import { chain, isPromise, keysOf, reduceMaybe } from '../../../store/maybe.js';
import { hashBytes } from '../../model/descriptions.js';
import { draftWithLarge, ImpliedRows, implyType } from '../../model/implied.js';
import { UUID_BYTES } from '../../model/tables.js';
import type { CompiledFilter } from '../filter/compiled-filter.js';
import { type IndexPlan, type PlanContext, planIndexes } from '../plan/index-plan.js';
import { containsKey, type IndexRanges, keyRanges, type Range } from '../plan/key-ranges.js';
import { type Source, sortIds } from '../plan/sources.js';
import { INDEX_BATCH } from './area.js';
import { examineEntries, examineEntry, examineIds } from './index-search.js';
import type { Resume } from './page.js';
import type { ExaminedEntry, SearchRun } from './search-run.js';

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
  search: SearchRun,
  plan: PagePlan | undefined,
  resume: Resume | undefined,
): Promise<void> {
  const partNumber = resume ? resume.key.readUInt16BE(0) : plan!.partNumber;
  const key = resume?.key.subarray(2);
  const byIds = resume ? resume.kind === 'i' : isInIdOrder(plan!.sources);
  search.output.keyPrefix = Buffer.allocUnsafe(2);
  search.output.keyPrefix.writeUInt16BE(partNumber);
  if (!byIds) return searchKeys(search, partNumber, key);
  return mergeLists(search, key ? await replanSources(search, partNumber) : plan!.sources, key);
}

function indexesChangedError(): LdapError {
  return new LdapError(
    'unwillingToPerform',
    'the indexes that this paged search was using have changed; start the search again',
  );
}

/**
 * Returns sources for the operand that the first page was planned by. They have the same candidates, but may differ
 * from the sources of the first page.
 */
async function replanSources(search: SearchRun, operandNumber: number): Promise<readonly Source[]> {
  const filter = usableOperands(search.filter)[operandNumber];
  const plan = filter && (await planIndexes(filter, search.planContext('none')));
  if (!plan) throw indexesChangedError();
  return plan.sources;
}

/** A sorted list of ids that is read in portions. */
interface IdList {
  /** Reads the first `limit` ids that are greater than `after`. */
  read(reader: Reader, limit: number, afterId: Buffer | undefined): Maybe<Buffer>;
  isExhausted: boolean;
}

function idListsOf(sources: readonly Source[]): IdList[] {
  return sources.flatMap((source): IdList[] => {
    if ('ids' in source) {
      const sortedIds = sortIds(source.ids);
      return [{ read: (_, limit, afterId) => idsAfter(sortedIds, limit, afterId), isExhausted: false }];
    }
    if ('range' in source) throw new TypeError('a range has no order of ids');
    const { table } = source;
    const prefixes = 'prefix' in source ? [source.prefix] : source.prefixes;
    return prefixes.map((prefix) => ({
      read: (reader, limit, afterId) => reader.postings(table, prefix, limit, afterId),
      isExhausted: false,
    }));
  });
}

/** Returns the first `limit` of the sorted ids that are greater than `afterId`. */
function idsAfter(ids: Buffer, limit: number, afterId: Buffer | undefined): Buffer {
  let low = 0;
  let high = afterId ? ids.length / UUID_BYTES : 0;
  while (low < high) {
    const middle = (low + high) >> 1;
    const offset = middle * UUID_BYTES;
    if (ids.compare(afterId!, 0, UUID_BYTES, offset, offset + UUID_BYTES) <= 0) low = middle + 1;
    else high = middle;
  }
  return ids.subarray(low * UUID_BYTES, (low + limit) * UUID_BYTES);
}

/** Whether some of the sorted ids are greater than `id`. */
function hasIdAfter(ids: Buffer, id: Buffer): boolean {
  return ids.length > 0 && Buffer.compare(ids.subarray(-UUID_BYTES), id) > 0;
}

const LISTS_AT_ONCE = 64;
/** The fewest ids that are read from a list at once. */
const MIN_READ_IDS = 8;

/**
 * Merges lists from the id `startId` (exclusive) on. Each round reads a portion of each list. Up to the smallest last
 * id of all lists that continue, the ids are then complete.
 */
async function mergeLists(search: SearchRun, sources: readonly Source[], startId: Buffer | undefined): Promise<void> {
  let lists = idListsOf(sources);
  let mergedUpTo = startId;
  while (lists.length > 0 && !search.isPageFull) {
    const limit = Math.max(MIN_READ_IDS, Math.min(INDEX_BATCH, Math.ceil(INDEX_BATCH / lists.length)));
    const readIds: Buffer[] = [];
    let frontier: Buffer | undefined;
    for (let n = 0; n < lists.length; n += LISTS_AT_ONCE) {
      const listGroup = lists.slice(n, n + LISTS_AT_ONCE);
      const maybeIds = listGroup.map((list) => list.read(search.reader, limit, mergedUpTo));
      const idsByList = maybeIds.some(isPromise) ? await Promise.all(maybeIds) : (maybeIds as Buffer[]);
      for (const [i, list] of listGroup.entries()) {
        readIds.push(idsByList[i]!);
        list.isExhausted = idsByList[i]!.length < limit * UUID_BYTES;
        const lastId = idsByList[i]!.subarray(-UUID_BYTES);
        if (!list.isExhausted && (!frontier || Buffer.compare(lastId, frontier) < 0)) frontier = lastId;
      }
      const pause = search.yieldIfDue();
      if (isPromise(pause)) await pause;
    }
    const sortedIds = sortIds(Buffer.concat(readIds));
    const completeIds = frontier
      ? sortedIds.subarray(0, sortedIds.length - idsAfter(sortedIds, sortedIds.length, frontier).length)
      : sortedIds;
    for (let offset = 0; offset < completeIds.length && !search.isPageFull; offset += INDEX_BATCH * UUID_BYTES) {
      const completion = examineIds(search, completeIds.subarray(offset, offset + INDEX_BATCH * UUID_BYTES));
      if (isPromise(completion)) await completion;
      const pause = search.yieldIfDue();
      if (isPromise(pause)) await pause;
    }
    mergedUpTo = frontier;
    lists = frontier ? lists.filter((list, i) => !list.isExhausted || hasIdAfter(readIds[i]!, frontier)) : [];
  }
}

/** Searches the key ranges of all indexes, from the end of the previous page on. */
async function searchKeys(search: SearchRun, operandNumber: number, lastId: Buffer | undefined): Promise<void> {
  const filter = usableOperands(search.filter)[operandNumber];
  const indexRanges = filter && keyRanges(filter, search.context.shared.indexes);
  if (!indexRanges) throw indexesChangedError();
  const hash = hashRanges(indexRanges);
  if (lastId && lastId.readUInt32BE(0) !== hash) throw indexesChangedError();
  const firstIndex = lastId ? lastId.readUInt16BE(4) : 0;
  addInputTypes(search, indexRanges);
  for (let n = firstIndex; n < indexRanges.length && !search.isPageFull; n++) {
    search.output.keyPrefix = keyPrefix(operandNumber, hash, n);
    search.acceptsKey = hasUniqueKeys(indexRanges, n)
      ? undefined
      : (entry) => isLeastKey(search, entry, indexRanges, n);
    const resumeKey = n === firstIndex && lastId ? lastId.subarray(6) : undefined;
    for (const range of indexRanges[n]!.ranges) {
      if (resumeKey && range.to && Buffer.compare(range.to, resumeKey) <= 0) continue;
      const startKey = resumeKey && Buffer.compare(resumeKey, range.from) >= 0 ? resumeKey : undefined;
      await searchRange(search, indexRanges[n]!.index.table, range, startKey);
      if (search.isPageFull) break;
    }
  }
}

/** Whether every entry has only one key in the ranges of index `n`, and none in the ranges of earlier indexes. */
function hasUniqueKeys(tables: readonly IndexRanges[], n: number): boolean {
  return n === 0 && tables[0]!.index.type.singleValue && tables[0]!.ranges.length === 1;
}

function keyPrefix(operandNumber: number, hash: number, n: number): Buffer {
  const prefix = Buffer.allocUnsafe(8);
  prefix.writeUInt16BE(operandNumber);
  prefix.writeUInt32BE(hash, 2);
  prefix.writeUInt16BE(n, 6);
  return prefix;
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

/** Adds the indexed types to the inputs: the keys of an entry are computed from their values. */
function addInputTypes({ inputs }: SearchRun, tables: readonly IndexRanges[]): void {
  if (inputs.valueTypes === 'all') return;
  inputs.valueTypes = new Set([...(inputs.valueTypes ?? []), ...tables.map(({ index }) => index.type)]);
}

/**
 * Examines the entries in a key range. The first read takes one key more than the page has room for. Later reads are
 * larger, because entries may not match. Ends when the search has examined more than `maxRows`.
 */
export async function searchRange(
  search: SearchRun,
  table: string,
  range: Range,
  start: Buffer | undefined,
  maxRows = Number.POSITIVE_INFINITY,
): Promise<void> {
  const { pageSize = INDEX_BATCH } = search.params;
  let limit = Math.min(pageSize - search.output.entries + 1, INDEX_BATCH);
  for (
    let afterId = start;
    !search.isPageFull && search.rowsExamined <= maxRows;
    limit = Math.min(2 * limit, INDEX_BATCH)
  ) {
    const keys = await keysOf(search.reader.scan(table, range, { after: afterId, limit, keysOnly: true }));
    await examineKeys(search, keys);
    if (keys.length < limit) return;
    afterId = keys.at(-1);
  }
}

async function examineKeys(search: SearchRun, keys: readonly Buffer[]): Promise<void> {
  const ids = keys.map((key) => key.subarray(key.length - UUID_BYTES));
  if (search.context.store.supports.spread) return examineEntries(search, ids, 'r', keys);
  for (let i = 0; i < ids.length && !search.isPageFull; i++) {
    const completion = examineEntry(search, ids[i]!, 'r', keys[i]!);
    const pause = search.afterCandidate(completion, i);
    if (isPromise(pause)) await pause;
  }
}

/** Whether `search.entry` was found under the first of all its keys in the ranges. */
function isLeastKey(
  { context }: SearchRun,
  { row, largeValues, key }: ExaminedEntry,
  tables: readonly IndexRanges[],
  n: number,
): boolean {
  const id = key.subarray(key.length - UUID_BYTES);
  const draft = draftWithLarge(context, row, largeValues);
  for (let i = 0; i <= n; i++) {
    const { index, ranges } = tables[i]!;
    const implied = new ImpliedRows();
    implyType(index.type, draft.ofType(index.type), index, implied);
    for (const { keyPrefix: prefix } of implied.rows) {
      const otherKey = Buffer.concat([prefix, id]);
      if (containsKey(ranges, otherKey) && (i < n || Buffer.compare(otherKey, key) < 0)) return false;
    }
  }
  return true;
}

/** An index plan for one operand of the filter. Later pages plan the same operand again. */
export interface PagePlan extends IndexPlan {
  /** Number of the operand of an AND; 0 for other filters. */
  readonly partNumber: number;
}

/** Returns the operands of a filter that can each serve as a plan for the whole filter. */
function usableOperands(filter: CompiledFilter): readonly CompiledFilter[] {
  return filter.kind === 'and' ? filter.parts : [filter];
}

/** Returns the cheapest plan by which a search can be resumed from page to page. */
export function planPages(filter: CompiledFilter, context: PlanContext): Maybe<PagePlan | undefined> {
  const operands = usableOperands(filter);
  let best: PagePlan | undefined;
  const planning = reduceMaybe([...operands.keys()], undefined as unknown, (_, partNumber) => {
    if (best && best.count <= 1) return;
    return chain(planIndexes(operands[partNumber]!, { ...context, rangeUse: 'kept' }), (plan) => {
      // A plan with ranges is usable only if key ranges can answer the whole operand.
      const isUsable = plan && (isInIdOrder(plan.sources) || keyRanges(operands[partNumber]!, context.indexes));
      if (isUsable && (!best || plan.count < best.count)) best = { ...plan, partNumber };
      return context.pause?.();
    });
  });
  return chain(planning, () => best);
}

/** Whether all sources are lists in the order of ids, so that no key range has to be read. */
function isInIdOrder(sources: readonly Source[]): boolean {
  return !sources.some((source) => 'range' in source);
}
