import type { Maybe } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { MASTER_TABLE } from '../../model/tables.js';
import { ROWS_AFTER_WAIT } from './batch-sizes.js';
import { checkHead, checkMissingEntry, checkRow } from './entry-check.js';
import type { PlanKind } from './page.js';
import type { SearchRun } from './search-run.js';

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
