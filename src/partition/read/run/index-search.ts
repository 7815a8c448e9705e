import type { Maybe } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { UUID_BYTES } from '../../model/tables.js';
import { IdSet } from '../plan/id-set.js';
import type { IndexPlan } from '../plan/index-plan.js';
import { idBatches, sourceIds } from '../plan/sources.js';
import { CLOCK_INTERVAL, INDEX_BATCH, READ_BATCH } from './batch-sizes.js';
import { examineEntries, examineEntry } from './entry-fetch.js';
import type { SearchRun } from './search-run.js';

export function searchIndex(run: SearchRun, plan: IndexPlan): Maybe<void> {
  if (plan.ids) return examineIds(run, plan.ids);
  const singleSource = plan.sources.length === 1 ? plan.sources[0]! : undefined;
  if (singleSource && 'prefix' in singleSource) {
    const ids = sourceIds(singleSource, run.reader, INDEX_BATCH);
    if (!isPromise(ids) && ids.length < INDEX_BATCH * UUID_BYTES) return examineIds(run, ids);
    return searchPostings(run, ids, (last) => sourceIds(singleSource, run.reader, INDEX_BATCH, last));
  }
  const hasFewIds = singleSource && 'ids' in singleSource && singleSource.ids.length <= INDEX_BATCH * UUID_BYTES;
  return hasFewIds ? examineIds(run, singleSource.ids, new IdSet()) : searchSources(run, plan);
}

/** Reads the sources one after another. An entry that is indexed under several values is examined once. */
async function searchSources(run: SearchRun, plan: IndexPlan): Promise<void> {
  const seenIds = new IdSet();
  for (const source of plan.sources) {
    for await (const ids of idBatches(source, run.reader, INDEX_BATCH)) {
      const completion = examineIds(run, ids, seenIds);
      if (isPromise(completion)) await completion;
      const pause = run.checkAndYield();
      if (isPromise(pause)) await pause;
    }
  }
}

/** Reads the ids of one index key batch by batch. `next` returns the batch behind an id. */
async function searchPostings(
  run: SearchRun,
  first: Maybe<Buffer>,
  next: (last: Buffer) => Maybe<Buffer>,
): Promise<void> {
  let ids = isPromise(first) ? await first : first;
  while (ids.length > 0) {
    const completion = examineIds(run, ids);
    if (isPromise(completion)) await completion;
    if (run.isPageFull || ids.length < INDEX_BATCH * UUID_BYTES) return;
    await run.checkAndYield();
    const batch = next(ids.subarray(ids.length - UUID_BYTES));
    ids = isPromise(batch) ? await batch : batch;
  }
}

/** Bytes of the ids that are examined between two looks at the clock. */
const CLOCK_BYTES = CLOCK_INTERVAL * UUID_BYTES;

/** Size of the first batch: the client may want no more entries. */
const FIRST_BATCH = 16;

/** Examines the entries with the given ids, except ids that are in `seenIds`, to which the ids are added. */
export function examineIds(run: SearchRun, ids: Buffer, seenIds?: IdSet): Maybe<void> {
  const isSpread = run.context.store.supports.spread && ids.length > UUID_BYTES;
  return isSpread ? examineInBatches(run, ids, seenIds) : examineInTurn(run, ids, 0, seenIds);
}

function examineInTurn(run: SearchRun, ids: Buffer, from: number, seenIds?: IdSet): Maybe<void> {
  const { buffer, byteOffset } = ids;
  for (let at = from; at < ids.length && !run.isPageFull; at += UUID_BYTES) {
    if (seenIds && !seenIds.add(ids, at)) continue;
    const id = ids.length === UUID_BYTES ? ids : Buffer.from(buffer, byteOffset + at, UUID_BYTES);
    const completion = examineEntry(run, id, 'i', id);
    const isDue = at % CLOCK_BYTES === CLOCK_BYTES - UUID_BYTES;
    const pause = isPromise(completion) ? completion : isDue ? run.yieldIfDue() : undefined;
    if (isPromise(pause)) return pause.then(() => examineInTurn(run, ids, at + UUID_BYTES, seenIds));
  }
}

async function examineInBatches(run: SearchRun, ids: Buffer, seenIds?: IdSet): Promise<void> {
  let size = FIRST_BATCH;
  for (let at = 0; at < ids.length && !run.isPageFull; size = Math.min(2 * size, READ_BATCH)) {
    const keys: Buffer[] = [];
    for (; at < ids.length && keys.length < size; at += UUID_BYTES)
      if (!seenIds || seenIds.add(ids, at)) keys.push(ids.subarray(at, at + UUID_BYTES));
    run.checkLimits();
    await examineEntries(run, keys, 'i');
  }
}
