import { cellValue } from '../../row.js';
import type { Cluster, OpenTable } from '../cluster.js';
import type { RowMutation } from '../rpc/rpc-types.js';
import { parseLock, type RowLock, sharedLock } from './codec.js';
import { FOREVER, JOURNAL, STATE } from './journal-tables.js';

const STATES = { columns: [{ family: JOURNAL.state, qualifier: STATE.state }] };

export interface LockedRow {
  readonly table: OpenTable;
  readonly key: Buffer;
}

/** A row that others hold, and its lock. */
export interface Conflict {
  readonly row: LockedRow;
  readonly found: Buffer;
}

/** Value of the row's lock cell. */
export async function readLock(cluster: Cluster, { table, key }: LockedRow): Promise<Buffer | undefined> {
  const row = await cluster.client.get(table.handle, key, table.locks);
  return row && cellValue(row, table.lock.family, table.lock.qualifier);
}

/** The writers that hold a row. */
export function holdersOf(lock: RowLock): readonly Buffer[] {
  return lock.kind === 'exclusive' ? [lock.writer] : lock.holders.map((holder) => holder.writer);
}

/**
 * Takes writers out of a row's lock, which is `found`; false when it is another by now. The rest of the row is as it
 * was.
 */
export async function removeHolders(
  cluster: Cluster,
  { table, key }: LockedRow,
  found: Buffer,
  isGone: (writer: Buffer) => boolean,
): Promise<boolean> {
  const lock = parseLock(found);
  const left = lock.kind === 'shared' ? lock.holders.filter(({ writer }) => !isGone(writer)) : [];
  const rest = lock.kind === 'shared' ? sharedLock(left, lock.counted) : undefined;
  const change: Omit<RowMutation, 'key'> = rest
    ? { put: [{ ...table.lock, value: rest }] }
    : { delete: [table.lock], timestamp: FOREVER };
  return cluster.swap(table, { key, guards: [{ op: 'equals', ...table.lock, value: found }], ...change });
}

/**
 * Takes writers that are dead out of the row's lock, which is `found`: a writer without a journal row is, and nothing
 * that it decided is left to do. Gives whether there were any.
 */
export async function removeDead(cluster: Cluster, row: LockedRow, found: Buffer): Promise<boolean> {
  const writers = holdersOf(parseLock(found));
  const states = await cluster.client.getMany(cluster.journal, writers, STATES);
  const dead = new Set(writers.filter((_, i) => !states[i]).map((writer) => writer.toString('latin1')));
  if (dead.size === 0) return false;
  await removeHolders(cluster, row, found, (writer) => dead.has(writer.toString('latin1')));
  return true;
}
