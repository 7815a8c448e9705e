import { batchesOf } from '../../maybe.js';
import { cellValue, EMPTY } from '../../row.js';
import { type Cluster, type OpenTable, unlessDropped } from '../cluster.js';
import type { RowMutation } from '../rpc/rpc-types.js';
import { parseLock, type RowLock, sharedLock } from './codec.js';
import { DRAINED, JOURNAL, STATE } from './journal-tables.js';

/** Maximum number of concurrent removals of locks. */
export const LOCK_BATCH = 200;

const STATE_READS = { columns: [{ family: JOURNAL.state, qualifier: STATE.state }] };

export interface LockedRow {
  readonly table: OpenTable;
  readonly key: Buffer;
}

/** A row that other writers hold, and the value of its lock cell. */
export interface Conflict {
  readonly row: LockedRow;
  readonly lockValue: Buffer;
}

/** Value of the lock cell of a free row that keeps its lock cell (`EmptyLockCells`). */
const EMPTY_LOCK = EMPTY;

/** Returns the value of the row's lock cell, or undefined when the row is free. */
export async function readLock(cluster: Cluster, { table, key }: LockedRow): Promise<Buffer | undefined> {
  const row = await cluster.client.get(table.handle, key, table.lockReads);
  return row && lockValueOf(table, row);
}

export function holdersOf(lock: RowLock): readonly Buffer[] {
  return lock.kind === 'exclusive' ? [lock.writerId] : lock.holders.map((holder) => holder.writer);
}

/** Removes writers from a row's lock, whose value was read as `lockValue`. Returns false when the value has changed. */
export async function removeHolders(
  cluster: Cluster,
  row: LockedRow,
  lockValue: Buffer,
  isGoneWriter: WriterTest,
): Promise<boolean> {
  const { table, key } = row;
  const lock = parseLock(lockValue);
  const holders = lock.kind === 'shared' ? lock.holders.filter(({ writer }) => !isGoneWriter(writer)) : [];
  const newLock = lock.kind === 'shared' ? sharedLock(holders, lock.mark) : undefined;
  const change: Omit<RowMutation, 'key'> = newLock
    ? { put: [{ ...table.lock, value: newLock }] }
    : { delete: [table.lock] };
  return cluster.mutateGuarded(table.handle, {
    key,
    guards: [{ op: 'equals', ...table.lock, value: lockValue }],
    ...change,
  });
}

type WriterTest = (writer: Buffer) => boolean;

function isAmong(writers: readonly Buffer[]): WriterTest {
  const ids = new Set(writers.map((writer) => writer.toString('latin1')));
  return (writer) => ids.has(writer.toString('latin1'));
}

/** Finds the writers that are dead: without a journal row, or drained. All plans that they decided are applied. */
async function findDeadIds(cluster: Cluster, writers: readonly Buffer[], includeDrained = true): Promise<WriterTest> {
  const rows = await cluster.client.getMany(cluster.journal, writers, STATE_READS);
  const deadWriters = writers.filter((_, i) => {
    const writerState = rows[i] && cellValue(rows[i], JOURNAL.state, STATE.state);
    return !writerState || (includeDrained && writerState.equals(DRAINED));
  });
  return isAmong(deadWriters);
}

/** Removes dead writers from a row's lock, whose value was read as `lockValue`. */
export async function removeDeadHolders(cluster: Cluster, row: LockedRow, lockValue: Buffer): Promise<void> {
  const holders = holdersOf(parseLock(lockValue));
  const isDead = await findDeadIds(cluster, holders);
  if (holders.some(isDead)) await removeHolders(cluster, row, lockValue, isDead);
}

/** Calls `work` with batches of the locks of all tables. `emptyCells`: free rows that have kept their lock cells. */
async function forEachLock(
  cluster: Cluster,
  work: (locks: readonly Conflict[], emptyCells: readonly LockedRow[]) => Promise<void>,
): Promise<void> {
  const scanLocks = async (table: OpenTable): Promise<void> => {
    const scan = cluster.client.scan(table.handle, {}, table.lockReads);
    for await (const batch of batchesOf(scan)) {
      const locks: Conflict[] = [];
      const emptyCells: LockedRow[] = [];
      for (const [i, key] of batch.keys.entries()) {
        const lockValue = lockValueOf(table, batch.rows[i]!);
        if (lockValue) locks.push({ row: { table, key }, lockValue });
        else emptyCells.push({ table, key });
      }
      await work(locks, emptyCells);
    }
  };
  for (const name of await cluster.lockedTables()) await unlessDropped(cluster, name, scanLocks);
}

/** Returns the lock in a row that was read with its lock cell, or undefined when the row is free. */
export function lockValueOf({ lock }: OpenTable, row: Buffer): Buffer | undefined {
  const lockValue = cellValue(row, lock.family, lock.qualifier);
  return lockValue && !lockValue.equals(EMPTY_LOCK) ? lockValue : undefined;
}

/** Returns the cells that unlock a row: a delete of its lock cell, or, with `keepsCell`, an empty value. */
export function unlockCells({ table }: LockedRow, keepsCell: boolean): Required<Pick<RowMutation, 'put' | 'delete'>> {
  return keepsCell ? { put: [{ ...table.lock, value: EMPTY_LOCK }], delete: [] } : { put: [], delete: [table.lock] };
}

/** Deletes the row's lock cell if it is still empty. */
export async function removeEmptyCell(cluster: Cluster, { table, key }: LockedRow): Promise<void> {
  const guards = [{ op: 'equals', ...table.lock, value: EMPTY_LOCK }] as const;
  await unlessDropped(cluster, table.spec.name, async () => {
    await cluster.mutateGuarded(table.handle, { key, guards, delete: [table.lock] });
  });
}

/** Removes the writers, which are dead, from the locks of all tables, and deletes empty lock cells. */
export async function removeFromAllLocks(cluster: Cluster, writers: readonly Buffer[]): Promise<void> {
  const isDead = isAmong(writers);
  await forEachLock(cluster, async (locks, emptyCells) => {
    await Promise.all(locks.map(({ row, lockValue }) => removeDeadFromRow(cluster, row, lockValue, isDead)));
    // This also deletes the empty cells of living front ends, which write them again for rows that change often.
    await Promise.all(emptyCells.map((row) => removeEmptyCell(cluster, row)));
  });
}

async function removeDeadFromRow(cluster: Cluster, row: LockedRow, value: Buffer, isDead: WriterTest): Promise<void> {
  for (let lockValue: Buffer | undefined = value; lockValue; lockValue = await readLock(cluster, row)) {
    if (!holdersOf(parseLock(lockValue)).some(isDead)) return;
    if (await removeHolders(cluster, row, lockValue, isDead)) return;
  }
  await removeEmptyCell(cluster, row);
}

/**
 * Returns the number of rows that are locked by dead writers. With `remove`, the locks and all empty lock cells are
 * removed. Without `remove`, locks of writers whose plans a front end has applied (state `drained`) are not
 * counted: that front end removes them next.
 */
export async function countDeadLocks(cluster: Cluster, remove: boolean): Promise<number> {
  let count = 0;
  await forEachLock(cluster, async (locks, emptyCells) => {
    if (remove) await Promise.all(emptyCells.map((row) => removeEmptyCell(cluster, row)));
    // The journal is read after the locks: a writer that held a lock then and has no journal row now is dead.
    const writers = new Map<string, Buffer>();
    const holders = locks.map(({ lockValue }) => holdersOf(parseLock(lockValue)));
    for (const writer of holders.flat()) writers.set(writer.toString('latin1'), writer);
    const isDead = await findDeadIds(cluster, [...writers.values()], remove);
    const deadLocks = locks.filter((_, i) => holders[i]!.some(isDead));
    count += deadLocks.length;
    if (remove)
      await Promise.all(deadLocks.map(({ row, lockValue }) => removeDeadFromRow(cluster, row, lockValue, isDead)));
  });
  return count;
}
