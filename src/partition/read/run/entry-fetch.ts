import type { Maybe } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { MASTER_TABLE } from '../../model/tables.js';
import { CLOCK_INTERVAL, ROWS_AFTER_WAIT } from './batch-sizes.js';
import { checkHead, checkMissing, checkRow } from './entry-check.js';
import type { PlanKind } from './page.js';
import type { SearchRun } from './search-run.js';

/** Reads an entry and checks it. A borrowed row stays valid until the check is done. */
export function examineEntry(run: SearchRun, id: Buffer, kind: PlanKind = 'b', key: Buffer = id): Maybe<void> {
  run.rowsExamined++;
  const { reader } = run;
  const lends = reader.getScratchHead && !run.params.order;
  const head = lends ? reader.getScratchHead!(MASTER_TABLE.name, id) : reader.getHead(MASTER_TABLE.name, id);
  if (isPromise(head))
    return head.then((row) => (row ? checkHead(run, id, row, kind, key) : checkMissing(run, id, kind)));
  if (!head) return checkMissing(run, id, kind);
  const done = checkHead(run, id, head, kind, key);
  if (lends && isPromise(done)) reader.detachScratch!();
  return done;
}

/** Reads entries in batches and checks the entries in sequence. */
export async function examineEntries(
  run: SearchRun,
  ids: readonly Buffer[],
  kind: PlanKind,
  keys = ids,
): Promise<void> {
  let size = ids.length;
  for (let at = 0; at < ids.length && !run.isPageFull; ) {
    const count = await examineBatch(run, ids.slice(at, at + size), kind, keys.slice(at, at + size));
    at += count ?? size;
    size = count === undefined ? 2 * size : ROWS_AFTER_WAIT;
  }
}

/**
 * Checks one batch. Returns the number of checked entries where the search has to wait for its client: the rest of the
 * batch is dropped, as waiting searches hold no rows. Returns undefined otherwise.
 */
async function examineBatch(
  run: SearchRun,
  ids: readonly Buffer[],
  kind: PlanKind,
  keys: readonly Buffer[],
): Promise<number | undefined> {
  const rows = await run.reader.getMany(MASTER_TABLE.name, ids);
  for (let i = 0; i < ids.length && !run.isPageFull; i++) {
    run.rowsExamined++;
    const row = rows[i];
    const done = row ? checkRow(run, ids[i]!, row, kind, keys[i]!) : checkMissing(run, ids[i]!, kind);
    if (isPromise(done) && run.isClientBehind) return done.then(() => i + 1);
    const pause = isPromise(done) ? done : i % CLOCK_INTERVAL === 0 ? run.yieldIfDue() : undefined;
    if (isPromise(pause)) await pause;
  }
  return undefined;
}
