import type { Batch, KeyRange, ScanOptions, StoreFilter } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import { cellCounter, cellValue } from '../../../store/row.js';
import { compileFilter } from '../../../store/row-filter.js';
import { keyAfter } from '../../../store/tables.js';
import { MASTER_TABLE, Q, TREE, TREE_TABLE } from '../../model/tables.js';
import { CLOCK_INTERVAL, ROWS_AFTER_WAIT } from './batch-sizes.js';
import { checkHead } from './entry-check.js';
import { checkMissingRow, requireAllRows } from './lost-rows.js';
import type { PlanKind } from './page.js';
import type { SearchRun } from './search-run.js';

/** Returns the id of the entry of a tree row. */
export function idOf(treeRow: Buffer): Buffer {
  return cellValue(treeRow, TREE.treeInfo, Q.id)!;
}

/** Whether the entry of a tree row has children. */
export function hasChildren(treeRow: Buffer | undefined): boolean {
  return cellCounter(treeRow, TREE.treeInfo, Q.oneLevelCount) > 0n;
}

/** A range of tree rows to scan. */
export interface ScanTarget {
  readonly range: KeyRange;
  readonly filter: StoreFilter | undefined;
  readonly kind: PlanKind;
}

type Rows = Pick<Batch, 'keys' | 'rows'>;

/** The result of the scan of a range. */
interface Scanned {
  /** Ids of the entries with children. */
  readonly containers: Buffer[];
  /** Number of rows in the range; undefined where the search had to wait and may have met rows twice. */
  readonly rowCount: number | undefined;
}

/** The part of a range that remains to be scanned. */
export interface Rest {
  readonly from: Buffer;
  /** Number of rows of the last batch that were dropped and are to be read again. */
  readonly dropped: number;
  /** Resolves when the client takes more entries; undefined where the search need not wait. */
  readonly room: Promise<void> | undefined;
}

/**
 * Scans the tree rows of a range and checks their entries. While the client takes no more entries, the rows that
 * remain are dropped, and read again later: a waiting search holds no more than a key. `limit` bounds the first read.
 */
export async function scanRange(
  run: SearchRun,
  { range: { from, to }, filter, kind }: ScanTarget,
  limit?: number,
): Promise<Scanned> {
  const containers: Buffer[] = [];
  let rowCount: number | undefined = 0;
  let options: ScanOptions = { filter, ...(limit !== undefined && { limit }) };
  for (let start = from; ; ) {
    const part = await scanPart(run, { from: start, to }, options, kind, containers);
    rowCount = sum(rowCount, part.rowCount);
    const { rest } = part;
    if (!rest) return { containers, rowCount };
    await rest.room;
    options = { filter, limit: rest.room ? ROWS_AFTER_WAIT : 2 * options.limit! };
    start = rest.from;
  }
}

/** Undefined where one of the numbers is unknown. */
function sum(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : a + b;
}

/** Scans until the range, the limit or the page ends, or the client takes no more. */
async function scanPart(
  run: SearchRun,
  range: KeyRange,
  options: ScanOptions,
  kind: PlanKind,
  containers: Buffer[],
): Promise<{ rowCount: number | undefined; rest: Rest | undefined }> {
  let rowCount = 0;
  let returned = 0;
  let last: Buffer | undefined;
  const scan = run.reader.scan(TREE_TABLE.name, range, options);
  try {
    while (!run.isPageFull) {
      const next = scan.next();
      const batch = isPromise(next) ? await next : next;
      if (!batch) break;
      run.rowsExamined += batch.scannedCount;
      rowCount += batch.scannedCount;
      const rest = await checkRows(run, batch, kind, containers);
      if (rest) {
        // A scan that ends at its limit reports the end of the scan, not of the range.
        const isLast = returned + batch.keys.length === options.limit;
        const until = batch.until && isLast ? keyAfter(batch.keys.at(-1)!) : batch.until;
        const dropped = await uncountDropped(run, rest, until, range.to, options.filter !== undefined);
        return { rowCount: sum(rowCount, dropped), rest };
      }
      returned += batch.keys.length;
      last = batch.keys.at(-1) ?? last;
      const pause = run.checkAndYield();
      if (isPromise(pause)) await pause;
    }
  } finally {
    scan.close();
  }
  const isCut = last && !run.isPageFull && returned === options.limit;
  return { rowCount, rest: isCut ? { from: keyAfter(last!), dropped: 0, room: undefined } : undefined };
}

/**
 * Subtracts the dropped rows from `rowsExamined`, as they will be read again. Returns the change of the row count, zero
 * or less, or undefined where the number of dropped rows that the filter skipped is unknown.
 */
async function uncountDropped(
  run: SearchRun,
  { from, dropped }: Rest,
  until: Batch['until'],
  to: Buffer | undefined,
  isFiltered: boolean,
): Promise<number | undefined> {
  let count: number | undefined = dropped;
  if (isFiltered && until && !run.context.store.supports.spread) {
    const end = until === 'end' ? to : until;
    count = await run.reader.count(TREE_TABLE.name, { from, to: end }, Number.MAX_SAFE_INTEGER);
  } else if (isFiltered) count = undefined;
  run.rowsExamined -= count ?? dropped;
  return count === undefined ? undefined : -count;
}

/**
 * Checks the entries of tree rows, and adds the ids of entries with children to `containers`. Stops where the client
 * takes no more, and returns the rest.
 */
async function checkRows(
  run: SearchRun,
  { keys, rows }: Rows,
  kind: PlanKind,
  containers: Buffer[],
): Promise<Rest | undefined> {
  const ids = rows.map((row) => idOf(row!));
  const heads = run.context.store.supports.spread ? await run.reader.getMany(MASTER_TABLE.name, ids) : undefined;
  for (let i = 0; i < ids.length && !run.isPageFull; i++) {
    const id = ids[i]!;
    if (kind === 's' && hasChildren(rows[i])) containers.push(Buffer.from(id));
    const read = heads ? heads[i] : run.reader.getHead(MASTER_TABLE.name, id);
    const head = isPromise(read) ? await read : read;
    if (!head) {
      checkMissingRow(run.context, id);
      continue;
    }
    const done = checkHead(run, id, head, kind, keys[i]!);
    if (isPromise(done) && run.isClientBehind)
      return { from: keyAfter(keys[i]!), dropped: ids.length - 1 - i, room: done };
    const pause = isPromise(done) ? done : i % CLOCK_INTERVAL === 0 ? run.yieldIfDue() : undefined;
    if (isPromise(pause)) await pause;
  }
  return undefined;
}

/** Returns the rows of a batch from row number `next` on that pass the filter. */
export function remainingRows({ keys, rows }: Batch, next: number, filter: StoreFilter | undefined): Rows {
  const test = filter ? compileFilter(filter) : () => true;
  const kept = [...keys.keys()].filter((i) => i >= next && test(rows[i]!));
  return { keys: kept.map((i) => keys[i]!), rows: kept.map((i) => rows[i]) };
}

/**
 * Scans the rest of a range for a search that has left a shared scan, and adds the ids of entries with children to
 * `containers`. The rest begins with rows that have been read, or at a key. `until`: end of the batch in which the
 * search has left. `rowCount`: number of rows up to there.
 */
export async function scanRest(
  run: SearchRun,
  start: Rows | Rest,
  until: Batch['until'],
  { range: { to }, filter, kind }: ScanTarget,
  rowCount: number,
  containers: Buffer[],
): Promise<void> {
  let total: number | undefined = rowCount;
  const rest = 'keys' in start ? await checkRows(run, start, kind, containers) : start;
  if (rest) {
    total = sum(total, await uncountDropped(run, rest, until, to, true));
    await rest.room;
  }
  const from = rest?.from ?? (until === 'end' ? undefined : until);
  if (from) {
    const scanned = await scanRange(run, { range: { from, to }, filter, kind }, rest?.room && ROWS_AFTER_WAIT);
    containers.push(...scanned.containers);
    total = sum(total, scanned.rowCount);
  }
  if (total !== undefined && kind === 't' && !run.isPageFull) await requireAllRows(run.context, run.reader, total);
}
