import type { Maybe } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { MASTER_TABLE, UUID_BYTES } from '../../model/tables.js';
import { IdSet } from '../plan/id-set.js';
import type { IndexPlan } from '../plan/index-plan.js';
import { idBatches, sourceIds } from '../plan/sources.js';
import { INDEX_BATCH, READ_BATCH, ROWS_AFTER_WAIT } from './area.js';
import { checkHead, checkMissingEntry, checkRow } from './entry-check.js';
import type { PlanKind } from './page.js';
import type { SearchRun } from './search-run.js';

export function searchIndex(search: SearchRun, plan: IndexPlan): Maybe<void> {
  if (plan.ids) return examineIds(search, plan.ids);
  const singleSource = plan.sources.length === 1 ? plan.sources[0]! : undefined;
  if (singleSource && 'prefix' in singleSource) {
    const ids = sourceIds(singleSource, search.reader, INDEX_BATCH);
    if (!isPromise(ids) && ids.length < INDEX_BATCH * UUID_BYTES) return examineIds(search, ids);
    return searchPostings(search, ids, (lastId) => sourceIds(singleSource, search.reader, INDEX_BATCH, lastId));
  }
  const hasFewIds = singleSource && 'ids' in singleSource && singleSource.ids.length <= INDEX_BATCH * UUID_BYTES;
  return hasFewIds ? examineIds(search, singleSource.ids, new IdSet()) : searchSources(search, plan);
}

/** Reads the sources one after another. Examines an entry that occurs under several values once. */
async function searchSources(search: SearchRun, plan: IndexPlan): Promise<void> {
  const seenIds = new IdSet();
  for (const source of plan.sources) {
    for await (const ids of idBatches(source, search.reader, INDEX_BATCH)) {
      const completion = examineIds(search, ids, seenIds);
      if (isPromise(completion)) await completion;
      const pause = search.checkAndYield();
      if (isPromise(pause)) await pause;
    }
  }
}

/** Reads the ids of one index key batch by batch. `readNext` returns the batch that follows an id. */
async function searchPostings(
  search: SearchRun,
  firstBatch: Maybe<Buffer>,
  readNext: (lastId: Buffer) => Maybe<Buffer>,
): Promise<void> {
  let ids = isPromise(firstBatch) ? await firstBatch : firstBatch;
  while (ids.length > 0) {
    const completion = examineIds(search, ids);
    if (isPromise(completion)) await completion;
    if (search.isPageFull || ids.length < INDEX_BATCH * UUID_BYTES) return;
    await search.checkAndYield();
    const batch = readNext(ids.subarray(ids.length - UUID_BYTES));
    ids = isPromise(batch) ? await batch : batch;
  }
}

/** Size of the first batch. It is small, because the client may want only a few entries. */
const FIRST_BATCH = 16;

/** Examines the entries with these ids. Skips ids in `seenIds`, and adds the others to it. */
export function examineIds(search: SearchRun, ids: Buffer, seenIds?: IdSet): Maybe<void> {
  const isSpread = search.context.store.supports.spread && ids.length > UUID_BYTES;
  return isSpread ? examineInBatches(search, ids, seenIds) : examineInTurn(search, ids, 0, seenIds);
}

function examineInTurn(search: SearchRun, ids: Buffer, start: number, seenIds?: IdSet): Maybe<void> {
  const { buffer, byteOffset } = ids;
  for (let offset = start; offset < ids.length && !search.isPageFull; offset += UUID_BYTES) {
    if (seenIds && !seenIds.add(ids, offset)) continue;
    const id = ids.length === UUID_BYTES ? ids : Buffer.from(buffer, byteOffset + offset, UUID_BYTES);
    const completion = examineEntry(search, id, 'i', id);
    const pause = search.afterCandidate(completion, offset / UUID_BYTES + 1);
    if (isPromise(pause)) return pause.then(() => examineInTurn(search, ids, offset + UUID_BYTES, seenIds));
  }
}

async function examineInBatches(search: SearchRun, ids: Buffer, seenIds?: IdSet): Promise<void> {
  let size = FIRST_BATCH;
  for (let offset = 0; offset < ids.length && !search.isPageFull; size = Math.min(2 * size, READ_BATCH)) {
    const keys: Buffer[] = [];
    for (; offset < ids.length && keys.length < size; offset += UUID_BYTES)
      if (!seenIds || seenIds.add(ids, offset)) keys.push(ids.subarray(offset, offset + UUID_BYTES));
    search.checkLimits();
    await examineEntries(search, keys, 'i');
  }
}

/** Reads and checks an entry. The row may be in memory of the reader, valid until `detachScratch` or the next read. */
export function examineEntry(search: SearchRun, id: Buffer, kind: PlanKind = 'b', key: Buffer = id): Maybe<void> {
  search.rowsExamined++;
  const { reader } = search;
  const isBorrowed = reader.getScratchHead && !search.params.order;
  const head = isBorrowed ? reader.getScratchHead!(MASTER_TABLE.name, id) : reader.getHead(MASTER_TABLE.name, id);
  if (isPromise(head))
    return head.then((row) => (row ? checkHead(search, id, row, kind, key) : checkMissingEntry(search, id, kind)));
  if (!head) return checkMissingEntry(search, id, kind);
  const completion = checkHead(search, id, head, kind, key);
  if (isBorrowed && isPromise(completion)) reader.detachScratch!();
  return completion;
}

export async function examineEntries(
  search: SearchRun,
  ids: readonly Buffer[],
  kind: PlanKind,
  keys = ids,
): Promise<void> {
  let batchSize = ids.length;
  for (let i = 0; i < ids.length && !search.isPageFull; ) {
    const checkedCount = await examineBatch(search, ids.slice(i, i + batchSize), kind, keys.slice(i, i + batchSize));
    i += checkedCount ?? batchSize;
    batchSize = checkedCount === undefined ? 2 * batchSize : ROWS_AFTER_WAIT;
  }
}

/**
 * Checks a batch. If the search has to wait for its client, returns the number of checked entries, and the rest is
 * dropped: a waiting search holds no rows. Otherwise returns undefined.
 */
async function examineBatch(
  search: SearchRun,
  ids: readonly Buffer[],
  kind: PlanKind,
  keys: readonly Buffer[],
): Promise<number | undefined> {
  const rows = await search.reader.getMany(MASTER_TABLE.name, ids);
  for (let i = 0; i < ids.length && !search.isPageFull; i++) {
    search.rowsExamined++;
    const row = rows[i];
    const completion = row ? checkRow(search, ids[i]!, row, kind, keys[i]!) : checkMissingEntry(search, ids[i]!, kind);
    if (isPromise(completion) && search.isClientBehind) return completion.then(() => i + 1);
    const pause = search.afterCandidate(completion, i);
    if (isPromise(pause)) await pause;
  }
  return undefined;
}
