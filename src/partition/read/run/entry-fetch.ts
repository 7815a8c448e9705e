import type { Maybe } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { MASTER_TABLE } from '../../model/tables.js';
import { CLOCK_INTERVAL, ROWS_AFTER_WAIT } from './batch-sizes.js';
import { checkHead, checkMissingEntry, checkRow } from './entry-check.js';
import type { PlanKind } from './page.js';
import type { SearchRun } from './search-run.js';

/** Reads an entry and checks it. The row may be in memory of the reader until `detachScratch` or the next read. */
export function examineEntry(run: SearchRun, id: Buffer, kind: PlanKind = 'b', key: Buffer = id): Maybe<void> {
  run.rowsExamined++;
  const { reader } = run;
  const isBorrowed = reader.getScratchHead && !run.params.order;
  const head = isBorrowed ? reader.getScratchHead!(MASTER_TABLE.name, id) : reader.getHead(MASTER_TABLE.name, id);
  if (isPromise(head))
    return head.then((row) => (row ? checkHead(run, id, row, kind, key) : checkMissingEntry(run, id, kind)));
  if (!head) return checkMissingEntry(run, id, kind);
  const completion = checkHead(run, id, head, kind, key);
  if (isBorrowed && isPromise(completion)) reader.detachScratch!();
  return completion;
}

export async function examineEntries(
  run: SearchRun,
  ids: readonly Buffer[],
  kind: PlanKind,
  keys = ids,
): Promise<void> {
  let batchSize = ids.length;
  for (let at = 0; at < ids.length && !run.isPageFull; ) {
    const checkedCount = await examineBatch(run, ids.slice(at, at + batchSize), kind, keys.slice(at, at + batchSize));
    at += checkedCount ?? batchSize;
    batchSize = checkedCount === undefined ? 2 * batchSize : ROWS_AFTER_WAIT;
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
    const completion = row ? checkRow(run, ids[i]!, row, kind, keys[i]!) : checkMissingEntry(run, ids[i]!, kind);
    if (isPromise(completion) && run.isClientBehind) return completion.then(() => i + 1);
    const pause = isPromise(completion) ? completion : i % CLOCK_INTERVAL === 0 ? run.yieldIfDue() : undefined;
    if (isPromise(pause)) await pause;
  }
  return undefined;
}
