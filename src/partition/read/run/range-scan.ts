import type { Batch, KeyRange, ScanOptions, StoreFilter } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { cellCounter, cellValue } from '../../../store/row.js';
import { compileFilter } from '../../../store/row-filter.js';
import { keyAfter } from '../../../store/tables.js';
import { MASTER_TABLE, Q, TREE, TREE_TABLE } from '../../model/tables.js';
import { ROWS_AFTER_WAIT } from './area.js';
import { checkHead } from './entry-check.js';
import { checkMissingRow, requireAllRows } from './lost-rows.js';
import type { PlanKind } from './page.js';
import type { SearchRun } from './search-run.js';

export function entryIdOf(treeRow: Buffer): Buffer {
  return cellValue(treeRow, TREE.treeInfo, Q.id)!;
}

export function hasChildren(treeRow: Buffer | undefined): boolean {
  return cellCounter(treeRow, TREE.treeInfo, Q.oneLevelCount) > 0n;
}

export interface ScanTarget {
  readonly range: KeyRange;
  readonly filter: StoreFilter | undefined;
  readonly kind: PlanKind;
}

type BatchRows = Pick<Batch, 'keys' | 'rows'>;

interface ScanResult {
  readonly containers: Buffer[];
  /** Number of rows in the range; undefined if the search had to wait and may have read rows twice. */
  readonly rowCount: number | undefined;
}

export interface RemainingRange {
  readonly from: Buffer;
  /** Number of rows at the end of the last batch that were dropped and have to be read again. */
  readonly droppedCount: number;
  /** Resolves when the client takes more entries; undefined if the search need not wait. */
  readonly clientReady: Promise<void> | undefined;
}

/**
 * Scans the tree rows in a range and checks their entries. When the client takes no more entries, the remaining rows
 * are dropped, and read again later: a waiting search holds only a key. `limit` limits the first read.
 */
export async function scanRange(
  search: SearchRun,
  { range: { from, to }, filter, kind }: ScanTarget,
  limit?: number,
): Promise<ScanResult> {
  const containers: Buffer[] = [];
  let rowCount: number | undefined = 0;
  let options: ScanOptions = { filter, ...(limit !== undefined && { limit }) };
  for (let startKey = from; ; ) {
    const partResult = await scanPart(search, { from: startKey, to }, options, kind, containers);
    rowCount = addCounts(rowCount, partResult.rowCount);
    const { remainingRange } = partResult;
    if (!remainingRange) return { containers, rowCount };
    await remainingRange.clientReady;
    options = { filter, limit: remainingRange.clientReady ? ROWS_AFTER_WAIT : 2 * options.limit! };
    startKey = remainingRange.from;
  }
}

/** Returns undefined if one of the numbers is unknown. */
function addCounts(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : a + b;
}

/** Scans up to the end of the range, the limit or the end of the page, or until the client takes no more entries. */
async function scanPart(
  search: SearchRun,
  range: KeyRange,
  options: ScanOptions,
  kind: PlanKind,
  containers: Buffer[],
): Promise<{ rowCount: number | undefined; remainingRange: RemainingRange | undefined }> {
  let rowCount = 0;
  let returnedCount = 0;
  let lastKey: Buffer | undefined;
  const scan = search.reader.scan(TREE_TABLE.name, range, options);
  try {
    while (!search.isPageFull) {
      const maybeBatch = scan.next();
      const batch = isPromise(maybeBatch) ? await maybeBatch : maybeBatch;
      if (!batch) break;
      search.rowsExamined += batch.scannedCount;
      rowCount += batch.scannedCount;
      const remainingRange = await checkRows(search, batch, kind, containers);
      if (remainingRange) {
        // A scan that reaches its limit reports `end`, although the range continues after the last key.
        const isAtLimit = returnedCount + batch.keys.length === options.limit;
        const batchEnd = batch.until && isAtLimit ? keyAfter(batch.keys.at(-1)!) : batch.until;
        const countChange = await uncountRows(search, remainingRange, batchEnd, range.to, options.filter !== undefined);
        return { rowCount: addCounts(rowCount, countChange), remainingRange };
      }
      returnedCount += batch.keys.length;
      lastKey = batch.keys.at(-1) ?? lastKey;
      const pause = search.checkAndYield();
      if (isPromise(pause)) await pause;
    }
  } finally {
    scan.close();
  }
  const isAtLimit = lastKey && !search.isPageFull && returnedCount === options.limit;
  if (!isAtLimit) return { rowCount, remainingRange: undefined };
  return { rowCount, remainingRange: { from: keyAfter(lastKey!), droppedCount: 0, clientReady: undefined } };
}

/**
 * Subtracts the dropped rows from `rowsExamined`, because they will be read again. Returns the change of the row count
 * (zero or negative); undefined if it is unknown how many of the dropped rows the store filter skipped.
 */
async function uncountRows(
  search: SearchRun,
  { from, droppedCount }: RemainingRange,
  until: Batch['until'],
  to: Buffer | undefined,
  isFiltered: boolean,
): Promise<number | undefined> {
  let count: number | undefined = droppedCount;
  if (isFiltered && until && !search.context.store.supports.spread) {
    const endKey = until === 'end' ? to : until;
    count = await search.reader.count(TREE_TABLE.name, { from, to: endKey }, Number.MAX_SAFE_INTEGER);
  } else if (isFiltered) count = undefined;
  search.rowsExamined -= count ?? droppedCount;
  return count === undefined ? undefined : -count;
}

/**
 * Checks the entries of tree rows. Adds the ids of entries with children to `containers`. If the client takes no more
 * entries, stops and returns the rest.
 */
async function checkRows(
  search: SearchRun,
  { keys, rows }: BatchRows,
  kind: PlanKind,
  containers: Buffer[],
): Promise<RemainingRange | undefined> {
  const ids = rows.map((row) => entryIdOf(row!));
  const heads = search.context.store.supports.spread ? await search.reader.getMany(MASTER_TABLE.name, ids) : undefined;
  for (let i = 0; i < ids.length && !search.isPageFull; i++) {
    const id = ids[i]!;
    if (kind === 's' && hasChildren(rows[i])) containers.push(Buffer.from(id));
    const maybeHead = heads ? heads[i] : search.reader.getHead(MASTER_TABLE.name, id);
    const head = isPromise(maybeHead) ? await maybeHead : maybeHead;
    if (!head) {
      checkMissingRow(search.context, id);
      continue;
    }
    const completion = checkHead(search, id, head, kind, keys[i]!);
    if (isPromise(completion) && search.isClientBehind)
      return { from: keyAfter(keys[i]!), droppedCount: ids.length - 1 - i, clientReady: completion };
    const pause = search.afterCandidate(completion, i);
    if (isPromise(pause)) await pause;
  }
  return undefined;
}

/** Returns the rows of a batch from `rowNumber` on that pass the filter. */
export function remainingRows({ keys, rows }: Batch, rowNumber: number, filter: StoreFilter | undefined): BatchRows {
  const test = filter ? compileFilter(filter) : () => true;
  const rowNumbers = [...keys.keys()].filter((i) => i >= rowNumber && test(rows[i]!));
  return { keys: rowNumbers.map((i) => keys[i]!), rows: rowNumbers.map((i) => rows[i]) };
}

/**
 * Scans the rest of a range after a search has left a shared scan. Adds the ids of entries with children to
 * `containers`. The rest begins with rows that have been read, or at a key. `until`: end of the batch in which the
 * search left. `rowCount`: number of rows before that.
 */
export async function scanRemainingRange(
  search: SearchRun,
  start: BatchRows | RemainingRange,
  until: Batch['until'],
  { range: { to }, filter, kind }: ScanTarget,
  rowCount: number,
  containers: Buffer[],
): Promise<void> {
  let total: number | undefined = rowCount;
  const remainingRange = 'keys' in start ? await checkRows(search, start, kind, containers) : start;
  if (remainingRange) {
    total = addCounts(total, await uncountRows(search, remainingRange, until, to, true));
    await remainingRange.clientReady;
  }
  const from = remainingRange?.from ?? (until === 'end' ? undefined : until);
  if (from) {
    const limit = remainingRange?.clientReady && ROWS_AFTER_WAIT;
    const scanResult = await scanRange(search, { range: { from, to }, filter, kind }, limit);
    containers.push(...scanResult.containers);
    total = addCounts(total, scanResult.rowCount);
  }
  if (total !== undefined && kind === 't' && !search.isPageFull)
    await requireAllRows(search.context, search.reader, total);
}
