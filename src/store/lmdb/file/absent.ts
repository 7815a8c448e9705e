import type { Transaction } from 'lmdb';
import { damaged } from '../../store-error.js';
import type { LmdbTable } from './lmdb-table.js';
import type { RowRange } from './scanner.js';

/**
 * After nothing was found under the key: LMDB compared it with others, and stopped between two. Where one of those is
 * damaged, it may have gone astray: throws `damaged` unless the row behind is sound and greater, and the one before
 * sound and smaller.
 */
export function requireAbsent(table: LmdbTable, key: Buffer, transaction: Transaction | undefined): void {
  requireBeside(table, { start: key, end: undefined }, key, transaction);
  requireBeyond(table, key, true, transaction);
}

/** Two keys that stand beside each other, so that none lies between; undefined where there is no key on that side. */
export interface Gap {
  readonly before: Buffer | undefined;
  readonly behind: Buffer | undefined;
}

/** As `requireAbsent`, and gives the gap in which the key would lie. */
export function gapAt(table: LmdbTable, key: Buffer, transaction: Transaction | undefined): Gap {
  const lastKey = (isThere: boolean) => (isThere ? table.scanner.lastKey : undefined);
  const behind = lastKey(requireBeside(table, { start: key, end: undefined }, key, transaction));
  const before = lastKey(requireBeyond(table, key, true, transaction));
  return { before, behind };
}

export function liesIn({ before, behind }: Gap, key: Buffer): boolean {
  return (!before || Buffer.compare(before, key) < 0) && (!behind || Buffer.compare(key, behind) < 0);
}

/**
 * Before a range that begins at the key is read: what stands on its other side is sound, and lies there. That is the
 * row before the key (`reverse`), or the one behind it where the range goes to smaller keys. False where no row is.
 */
export function requireBeyond(
  table: LmdbTable,
  key: Buffer,
  reverse: boolean,
  transaction: Transaction | undefined,
): boolean {
  return requireBeside(table, { start: key, exclusiveStart: true, end: undefined, reverse }, key, transaction);
}

/** The first row of the range, which begins at the key, is on that side of it. False where the range has none. */
function requireBeside(table: LmdbTable, range: RowRange, key: Buffer, transaction: Transaction | undefined): boolean {
  const { reverse = false } = range;
  const side = reverse ? -1 : 1;
  const order = table.scanner.orderOfFirst(range, key, transaction);
  // None on this side: so the table's outermost row there is not beyond the key.
  const stands = order === undefined ? outermost(table, key, !reverse, transaction) * side <= 0 : order * side > 0;
  if (!stands) throw astray(table, key);
  return order !== undefined;
}

/** How the key of the table's last row, or of its first, compares with the key; 0 where the table is empty. */
function outermost(table: LmdbTable, key: Buffer, reverse: boolean, transaction: Transaction | undefined): number {
  const order = table.scanner.orderOfFirst({ start: undefined, end: undefined, reverse }, key, transaction);
  if (order === undefined && !table.scanner.isEmpty(transaction)) throw astray(table, key);
  return order ?? 0;
}

function astray({ spec }: LmdbTable, key: Buffer): Error {
  return damaged(spec.name, Buffer.from(key), 'the rows beside it are out of order');
}
