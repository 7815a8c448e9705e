import type { Transaction } from 'lmdb';
import { damaged } from '../../errors.js';
import type { LmdbTable } from './lmdb-table.js';

/**
 * After nothing was found under the key: LMDB compared it with others, and stopped between two. Where one of those is
 * damaged, it may have gone astray: throws `damaged` unless the row behind is sound and greater, and the one before
 * sound and smaller.
 */
export function requireAbsent(table: LmdbTable, key: Buffer, transaction: Transaction | undefined): void {
  const behind = table.scanner.orderOfFirst({ start: key, end: undefined }, key, transaction);
  // None behind: so the last of all is smaller.
  const greater = behind === undefined ? outermost(table, key, true, transaction) <= 0 : behind > 0;
  if (!greater) throw astray(table, key);
  requireBefore(table, key, transaction);
}

/** Before a range that begins at the key is read: what stands before it is sound and smaller. */
export function requireBefore(table: LmdbTable, key: Buffer, transaction: Transaction | undefined): void {
  const range = { start: key, exclusiveStart: true, end: undefined, reverse: true };
  const before = table.scanner.orderOfFirst(range, key, transaction);
  // None before: so the first of all is not smaller.
  const smaller = before === undefined ? outermost(table, key, false, transaction) >= 0 : before < 0;
  if (!smaller) throw astray(table, key);
}

/** Before a range is read that begins at the key and goes to smaller ones. */
export function requireBehind(table: LmdbTable, key: Buffer, transaction: Transaction | undefined): void {
  const behind = table.scanner.orderOfFirst({ start: key, exclusiveStart: true, end: undefined }, key, transaction);
  const greater = behind === undefined ? outermost(table, key, true, transaction) <= 0 : behind > 0;
  if (!greater) throw astray(table, key);
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
