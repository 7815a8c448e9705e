import type { Maybe } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { UUID_BYTES } from '../../model/tables.js';
import { IdSet } from '../plan/id-set.js';
import type { IndexPlan } from '../plan/index-plan.js';
import { idBatches, sourceIds } from '../plan/sources.js';
import { INDEX_BATCH, READ_BATCH } from './batch-sizes.js';
import { examineEntries, examineEntry } from './entry-fetch.js';
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
