import { LdapError } from '../../../ldap/ldap-error.js';
import { keysOf } from '../../../store/batches.js';
import type { Reader } from '../../../store/contract.js';
import { chain, isPromise } from '../../../store/maybe.js';
import { hashBytes } from '../../model/hash.js';
import { Implied, implyType } from '../../model/implied.js';
import { draftWithLarge } from '../../model/large-draft.js';
import { UUID_BYTES } from '../../model/tables.js';
import type { Candidate } from '../filter/compiled-filter.js';
import { planIndexes } from '../plan/index-plan.js';
import { holdsKey, type IndexRanges, keyRanges, type Range } from '../plan/key-ranges.js';
import { isByIds, type PagePlan, partsOf } from '../plan/page-plan.js';
import { type Source, sortIds } from '../plan/sources.js';
import { BATCH } from './area.js';
import { fetchAll } from './index-search.js';
import type { Resume } from './page.js';
import { LOOK_ENTRIES, type SearchRun } from './search-run.js';

/**
 * One page by index. What it costs does not grow with the number of candidates before it or behind it:
 *
 * - Lists, each in the order of ids, are merged behind the last id of the page before (kind `i`).
 * - Where there are ranges, pages go through ranges of index keys (kind `r`). An entry that lies in them under several
 *   keys counts at the least one. One whose values change between two pages may come twice, or not at all.
 *
 * Resume key of `i`: number of the part of the filter u16, id; of `r`: the same, hash of the ranges u32, number of the
 * index u16, key.
 */
export async function searchPage(
  run: SearchRun,
  plan: PagePlan | undefined,
  resume: Resume | undefined,
): Promise<void> {
  const part = resume ? resume.key.readUInt16BE(0) : plan!.part;
  const key = resume?.key.subarray(2);
  const byIds = resume ? resume.kind === 'i' : isByIds(plan!.sources);
  run.resumeHead = Buffer.allocUnsafe(2);
  run.resumeHead.writeUInt16BE(part);
  if (!byIds) return byKeys(run, part, key);
  return byLists(run, key ? await sourcesAgain(run, part) : plan!.sources, key);
}

function indexGone(): LdapError {
  return new LdapError(
    'unwillingToPerform',
    'the indexes that this paged search was using have changed; start the search again',
  );
}

/** Lists that hold all that the plan of an earlier page did; they need not be the same. */
async function sourcesAgain(run: SearchRun, part: number): Promise<readonly Source[]> {
  const filter = partsOf(run.filter)[part];
  const plan = filter && (await planIndexes(filter, run.asking('none')));
  if (!plan) throw indexGone();
  return plan.sources;
}

/** One of the lists that are merged. */
class List {
  readonly #read: (reader: Reader, limit: number, after: Buffer | undefined) => ReturnType<Reader['postings']>;
  /** All of it has been read. */
  ended = false;

  constructor(read: List['read']) {
    this.#read = read;
  }

  read(reader: Reader, limit: number, after: Buffer | undefined): ReturnType<Reader['postings']> {
    return chain(this.#read(reader, limit, after), (ids) => {
      this.ended = ids.length < limit * UUID_BYTES;
      return ids;
    });
  }
}

function listsOf(sources: readonly Source[]): List[] {
  return sources.flatMap((source) => {
    if ('ids' in source) {
      const sorted = sortIds(source.ids);
      return [new List((_, limit, after) => behind(sorted, limit, after))];
    }
    if ('range' in source) throw new TypeError('a range has no order of ids');
    const prefixes = 'prefix' in source ? [source.prefix] : source.prefixes;
    return prefixes.map(
      (prefix) => new List((reader, limit, after) => reader.postings(source.table, prefix, limit, after)),
    );
  });
}

/** At most `limit` of the sorted ids, those behind `after`. */
function behind(ids: Buffer, limit: number, after: Buffer | undefined): Buffer {
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

/** Whether some of the ids, rising, are behind the one. */
function isBehind(ids: Buffer, id: Buffer): boolean {
  return ids.length > 0 && Buffer.compare(ids.subarray(-UUID_BYTES), id) > 0;
}

/** Lists that are asked together where answers take a journey. */
const TOGETHER = 64;
const LEAST_READ = 8;

/**
 * Merges lists behind the id `from`. What one round reads up to the least last id of a list that goes on is complete.
 */
async function byLists(run: SearchRun, sources: readonly Source[], from: Buffer | undefined): Promise<void> {
  let lists = listsOf(sources);
  let after = from;
  while (lists.length > 0 && !run.ended) {
    const limit = Math.max(LEAST_READ, Math.min(BATCH, Math.ceil(BATCH / lists.length)));
    const read: Buffer[] = [];
    let frontier: Buffer | undefined;
    for (let n = 0; n < lists.length; n += TOGETHER) {
      const some = lists.slice(n, n + TOGETHER);
      const parts = some.map((list) => list.read(run.reader, limit, after));
      const ids = parts.some(isPromise) ? await Promise.all(parts) : (parts as Buffer[]);
      for (const [i, list] of some.entries()) {
        read.push(ids[i]!);
        const last = ids[i]!.subarray(-UUID_BYTES);
        if (!list.ended && (!frontier || Buffer.compare(last, frontier) < 0)) frontier = last;
      }
      const pause = run.lookUp();
      if (isPromise(pause)) await pause;
    }
    const sorted = sortIds(Buffer.concat(read));
    const complete = frontier
      ? sorted.subarray(0, sorted.length - behind(sorted, sorted.length, frontier).length)
      : sorted;
    for (let at = 0; at < complete.length && !run.ended; at += BATCH * UUID_BYTES) {
      const done = fetchAll(run, complete.subarray(at, at + BATCH * UUID_BYTES));
      if (isPromise(done)) await done;
      const pause = run.lookUp();
      if (isPromise(pause)) await pause;
    }
    after = frontier;
    lists = frontier ? lists.filter((list, i) => !list.ended || isBehind(read[i]!, frontier)) : [];
  }
}

/** Goes through ranges of index keys, index by index, behind where the page before ended. */
async function byKeys(run: SearchRun, part: number, from: Buffer | undefined): Promise<void> {
  const filter = partsOf(run.filter)[part];
  const tables = filter && keyRanges(filter, run.context.shared.indexes);
  if (!tables) throw indexGone();
  const hash = hashOf(tables);
  if (from && from.readUInt32BE(0) !== hash) throw indexGone();
  const resumed = from ? from.readUInt16BE(4) : 0;
  needValues(run, tables);
  for (let n = resumed; n < tables.length && !run.ended; n++) {
    run.resumeHead = headOf(part, hash, n);
    run.counts = isPlainTable(tables, n) ? undefined : (candidate, key) => isLeastKey(run, candidate, tables, n, key);
    const after = n === resumed && from ? from.subarray(6) : undefined;
    for (const range of tables[n]!.ranges) {
      if (after && range.to && Buffer.compare(range.to, after) <= 0) continue;
      const behind = after && Buffer.compare(after, range.from) >= 0 ? after : undefined;
      await lookThrough(run, tables[n]!.index.table, range, behind);
      if (run.ended) break;
    }
  }
}

/** Nothing lies in it under two keys, or in an index before it. */
function isPlainTable(tables: readonly IndexRanges[], n: number): boolean {
  return n === 0 && tables[0]!.index.type.singleValue && tables[0]!.ranges.length === 1;
}

function headOf(part: number, hash: number, n: number): Buffer {
  const head = Buffer.allocUnsafe(8);
  head.writeUInt16BE(part);
  head.writeUInt32BE(hash, 2);
  head.writeUInt16BE(n, 6);
  return head;
}

function hashOf(tables: readonly IndexRanges[]): number {
  let hash: number | undefined;
  for (const { index, ranges } of tables) {
    hash = hashBytes(Buffer.from(index.table), undefined, undefined, hash);
    for (const { from, to } of ranges)
      hash = hashBytes(Buffer.concat([from, to ?? Buffer.alloc(0)]), undefined, undefined, hash);
  }
  return (hash ?? 0) >>> 0;
}

/** Which keys an entry has is worked out from its values. */
function needValues({ needs }: SearchRun, tables: readonly IndexRanges[]): void {
  if (needs.values === 'all') return;
  needs.values = new Set([...(needs.values ?? []), ...tables.map(({ index }) => index.type)]);
}

/** As many keys as the page wants and one more, then more and more of them, as not each may bring an entry. */
async function lookThrough(run: SearchRun, table: string, range: Range, behind: Buffer | undefined): Promise<void> {
  let most = Math.min(run.params.pageSize! - run.entries + 1, BATCH);
  for (let after = behind; !run.ended; most = Math.min(2 * most, BATCH)) {
    const keys = await keysOf(run.reader.scan(table, range, { after, limit: most, keysOnly: true }));
    await fetchKeys(run, keys);
    if (keys.length < most) return;
    after = keys.at(-1);
  }
}

async function fetchKeys(run: SearchRun, keys: readonly Buffer[]): Promise<void> {
  const ids = keys.map((key) => key.subarray(key.length - UUID_BYTES));
  if (run.context.store.supports.spread) return run.fetchMany(ids, 'r', keys);
  for (let i = 0; i < ids.length && !run.ended; i++) {
    const done = run.fetch(ids[i]!, 'r', keys[i]!);
    const pause = isPromise(done) ? done : i % LOOK_ENTRIES === 0 ? run.lookUp() : undefined;
    if (isPromise(pause)) await pause;
  }
}

/** Whether this is the least key under which the ranges hold the entry, in the order of the indexes. */
function isLeastKey(
  { context }: SearchRun,
  { row, large }: Candidate,
  tables: readonly IndexRanges[],
  n: number,
  key: Buffer,
): boolean {
  const id = key.subarray(key.length - UUID_BYTES);
  const draft = draftWithLarge(context, row, large);
  for (let i = 0; i <= n; i++) {
    const { index, ranges } = tables[i]!;
    const implied = new Implied();
    implyType(index.type, draft.ofType(index.type), index, implied);
    for (const { prefix } of implied.rows) {
      const other = Buffer.concat([prefix, id]);
      if (holdsKey(ranges, other) && (i < n || Buffer.compare(other, key) < 0)) return false;
    }
  }
  return true;
}
