import type { Transaction } from 'lmdb';
import { damaged } from '../../store-error.js';
import type { LmdbTable } from './lmdb-table.js';
import type { RowRange } from './scanner.js';

/**
 * Proves that the key is absent, after LMDB did not find it. LMDB searches by comparing keys, so a damaged key may have
 * misled the search. Throws `damaged` unless the two neighbours of the key's place are sound, the next row is greater
 * and the previous row is smaller.
 */
export function proveAbsent(table: LmdbTable, key: Buffer, transaction: Transaction | undefined): void {
  proveNeighbour(table, { start: key, end: undefined }, key, transaction);
  proveBoundary(table, key, true, transaction);
}

/** Two neighbouring keys, without any key between them. A side is undefined at the end of the table. */
export interface Gap {
  readonly keyBefore: Buffer | undefined;
  readonly keyBehind: Buffer | undefined;
}

/** As `proveAbsent`, but returns the gap in which the key would lie. */
export function gapAt(table: LmdbTable, key: Buffer, transaction: Transaction | undefined): Gap {
  const lastKeyIf = (isThere: boolean) => (isThere ? table.scanner.lastKey : undefined);
  const keyBehind = lastKeyIf(proveNeighbour(table, { start: key, end: undefined }, key, transaction));
  const keyBefore = lastKeyIf(proveBoundary(table, key, true, transaction));
  return { keyBefore, keyBehind };
}

export function isInGap({ keyBefore, keyBehind }: Gap, key: Buffer): boolean {
  return (!keyBefore || Buffer.compare(keyBefore, key) < 0) && (!keyBehind || Buffer.compare(key, keyBehind) < 0);
}

/**
 * Proves that a scan from the key starts in the right place: the neighbour on the other side of the key must be sound
 * and lie on that side. With `reverse`, the neighbour is the row before the key, else the row behind. Returns whether
 * the neighbour exists.
 */
export function proveBoundary(
  table: LmdbTable,
  key: Buffer,
  reverse: boolean,
  transaction: Transaction | undefined,
): boolean {
  return proveNeighbour(table, { start: key, exclusiveStart: true, end: undefined, reverse }, key, transaction);
}

/** Proves that the first row of the range lies on the right side of `key`. Returns whether the range has a row. */
function proveNeighbour(table: LmdbTable, range: RowRange, key: Buffer, transaction: Transaction | undefined): boolean {
  const { reverse = false } = range;
  const side = reverse ? -1 : 1;
  const order = table.scanner.compareFirstKey(range, key, transaction);
  // Without a row on this side, the outermost row of the table must not lie beyond the key.
  const isInOrder =
    order === undefined ? compareOutermost(table, key, !reverse, transaction) * side <= 0 : order * side > 0;
  if (!isInOrder) throw outOfOrderError(table, key);
  return order !== undefined;
}

/** Compares the table's first key, or with `reverse` the last key, with `key`; 0 if the table is empty. */
function compareOutermost(
  table: LmdbTable,
  key: Buffer,
  reverse: boolean,
  transaction: Transaction | undefined,
): number {
  const order = table.scanner.compareFirstKey({ start: undefined, end: undefined, reverse }, key, transaction);
  if (order === undefined && !table.scanner.isEmpty(transaction)) throw outOfOrderError(table, key);
  return order ?? 0;
}

function outOfOrderError({ spec }: LmdbTable, key: Buffer): Error {
  return damaged(spec.name, Buffer.from(key), 'the rows beside it are out of order');
}
