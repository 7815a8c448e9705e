import type { Transaction } from 'lmdb';
import { damaged } from '../../store-error.js';
import type { LmdbTable, RowRange } from './lmdb-table.js';

/**
 * Proves that the key is absent, after LMDB did not find it. LMDB searches by comparing keys, so a damaged key may have
 * misled the search. Throws `damaged` unless the rows before and behind the key are undamaged and in order.
 */
export function proveAbsent(table: LmdbTable, key: Buffer, transaction: Transaction | undefined): void {
  proveNeighbour(table, { start: key, end: undefined }, key, transaction);
  proveBoundary(table, key, true, transaction);
}

/** Two successive keys of a table. `keyBefore` is undefined at the start of the table, `keyBehind` at its end. */
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
 * Proves that a scan that starts or ends at the key misses no row: the row before the key (with `reverse`), or the row
 * behind it, must be undamaged and in order. Returns whether that row exists.
 */
export function proveBoundary(
  table: LmdbTable,
  key: Buffer,
  reverse: boolean,
  transaction: Transaction | undefined,
): boolean {
  return proveNeighbour(table, { start: key, exclusiveStart: true, end: undefined, reverse }, key, transaction);
}

/** Proves that the first row of the range is in order with `key`. Returns whether the range has a row. */
function proveNeighbour(table: LmdbTable, range: RowRange, key: Buffer, transaction: Transaction | undefined): boolean {
  const { reverse = false } = range;
  const sign = reverse ? -1 : 1;
  const order = table.scanner.compareFirstKey(range, key, transaction);
  // When the range has no row, no row of the table lies beyond the key.
  const isInOrder =
    order === undefined ? compareOutermost(table, key, !reverse, transaction) * sign <= 0 : order * sign > 0;
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
