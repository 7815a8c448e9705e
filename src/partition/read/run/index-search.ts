import type { Maybe } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { UUID_BYTES } from '../../model/tables.js';
import { IdSet } from '../plan/id-set.js';
import type { IndexPlan } from '../plan/index-plan.js';
import { idBatches, sourceIds } from '../plan/sources.js';
import { BATCH, TOGETHER } from './area.js';
import { LOOK_ENTRIES, type SearchRun } from './search-run.js';

/** Looks at the candidates of an index plan. */
export function searchIndex(run: SearchRun, plan: IndexPlan): Maybe<void> {
  if (plan.ids) return fetchAll(run, plan.ids);
  const only = plan.sources.length === 1 ? plan.sources[0]! : undefined;
  if (only && 'prefix' in only) {
    const ids = sourceIds(only, run.reader, BATCH);
    if (!isPromise(ids) && ids.length < BATCH * UUID_BYTES) return fetchAll(run, ids);
    return inBatches(run, ids, (last) => sourceIds(only, run.reader, BATCH, last));
  }
  const few = only && 'ids' in only && only.ids.length <= BATCH * UUID_BYTES;
  return few ? fetchAll(run, only.ids, new IdSet()) : streamed(run, plan);
}

/** Several sources, or a range, as they come; entries that are indexed under several values are looked at once. */
async function streamed(run: SearchRun, plan: IndexPlan): Promise<void> {
  const seen = new IdSet();
  for (const source of plan.sources) {
    for await (const ids of idBatches(source, run.reader, BATCH)) {
      const done = fetchAll(run, ids, seen);
      if (isPromise(done)) await done;
      const pause = run.breathe();
      if (isPromise(pause)) await pause;
    }
  }
}

async function inBatches(run: SearchRun, first: Maybe<Buffer>, more: (last: Buffer) => Maybe<Buffer>): Promise<void> {
  let ids = isPromise(first) ? await first : first;
  while (ids.length > 0) {
    const done = fetchAll(run, ids);
    if (isPromise(done)) await done;
    if (run.ended || ids.length < BATCH * UUID_BYTES) return;
    await run.breathe();
    const next = more(ids.subarray(ids.length - UUID_BYTES));
    ids = isPromise(next) ? await next : next;
  }
}

const LOOK_BYTES = LOOK_ENTRIES * UUID_BYTES;

/** A search may want no more than these. */
const FIRST_TOGETHER = 16;

/** Reads entries and considers them. */
export function fetchAll(run: SearchRun, ids: Buffer, seen?: IdSet): Maybe<void> {
  const journeys = run.context.store.supports.spread && ids.length > UUID_BYTES;
  return journeys ? fetchTogether(run, ids, seen) : fetchEach(run, ids, 0, seen);
}

function fetchEach(run: SearchRun, ids: Buffer, from: number, seen?: IdSet): Maybe<void> {
  const { buffer, byteOffset } = ids;
  for (let at = from; at < ids.length && !run.ended; at += UUID_BYTES) {
    if (seen && !seen.add(ids, at)) continue;
    const id = ids.length === UUID_BYTES ? ids : Buffer.from(buffer, byteOffset + at, UUID_BYTES);
    const done = run.fetch(id, 'i', id);
    const pause = isPromise(done) ? done : at % LOOK_BYTES === LOOK_BYTES - UUID_BYTES ? run.lookUp() : undefined;
    if (isPromise(pause)) return pause.then(() => fetchEach(run, ids, at + UUID_BYTES, seen));
  }
}

async function fetchTogether(run: SearchRun, ids: Buffer, seen?: IdSet): Promise<void> {
  let most = FIRST_TOGETHER;
  for (let at = 0; at < ids.length && !run.ended; most = Math.min(2 * most, TOGETHER)) {
    const keys: Buffer[] = [];
    for (; at < ids.length && keys.length < most; at += UUID_BYTES)
      if (!seen || seen.add(ids, at)) keys.push(ids.subarray(at, at + UUID_BYTES));
    run.checkLimits();
    await run.fetchMany(keys, 'i');
  }
}
