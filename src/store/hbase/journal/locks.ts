import { batchesOf } from '../../batches.js';
import { cellValue, EMPTY } from '../../row.js';
import { type Cluster, type OpenTable, unlessDropped } from '../cluster.js';
import type { RowMutation } from '../rpc/rpc-types.js';
import { parseLock, type RowLock, sharedLock } from './codec.js';
import { DRAINED, JOURNAL, STATE } from './journal-tables.js';

/** Rows whose locks are given back or taken away at a time. */
export const TOGETHER = 200;

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

/** Value of the lock cell of a row that is free, where it stays (`VacantLocks`). */
const VACANT = EMPTY;

/** Value of the row's lock cell; undefined where the row is free. */
export async function readLock(cluster: Cluster, { table, key }: LockedRow): Promise<Buffer | undefined> {
  const row = await cluster.client.get(table.handle, key, table.locks);
  return row && lockIn(table, row);
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
  const change: Omit<RowMutation, 'key'> = rest ? { put: [{ ...table.lock, value: rest }] } : { delete: [table.lock] };
  return cluster.swap(table.handle, { key, guards: [{ op: 'equals', ...table.lock, value: found }], ...change });
}

/** Which of the writers are dead: without a journal row, or drained. Nothing that they decided is left to do. */
async function deadAmong(cluster: Cluster, writers: readonly Buffer[], drainedToo = true): Promise<Set<string>> {
  const rows = await cluster.client.getMany(cluster.journal, writers, STATES);
  const dead = writers.filter((_, i) => {
    const state = rows[i] && cellValue(rows[i], JOURNAL.state, STATE.state);
    return !state || (drainedToo && state.equals(DRAINED));
  });
  return new Set(dead.map((writer) => writer.toString('latin1')));
}

/** Takes writers that are dead out of the row's lock, which is `found`. */
export async function removeDead(cluster: Cluster, row: LockedRow, found: Buffer): Promise<void> {
  const dead = await deadAmong(cluster, holdersOf(parseLock(found)));
  if (dead.size > 0) await removeHolders(cluster, row, found, (writer) => dead.has(writer.toString('latin1')));
}

/**
 * All locks of a table that is there, some at a time: their family has a file of its own, and no cells but these.
 * `vacant`: free rows whose cells stayed.
 */
async function eachLock(
  cluster: Cluster,
  name: string,
  work: (locks: readonly Conflict[], vacant: readonly LockedRow[]) => Promise<void>,
): Promise<void> {
  await unlessDropped(cluster, name, async (table) => {
    const scan = cluster.client.scan(table.handle, {}, table.locks);
    for await (const batch of batchesOf(scan)) {
      const locks: Conflict[] = [];
      const vacant: LockedRow[] = [];
      for (const [i, key] of batch.keys.entries()) {
        const found = lockIn(table, batch.rows[i]!);
        if (found) locks.push({ row: { table, key }, found });
        else vacant.push({ table, key });
      }
      await work(locks, vacant);
    }
  });
}

/** The lock in a row that was read with it; undefined where the row is free. */
export function lockIn({ lock }: OpenTable, row: Buffer): Buffer | undefined {
  const found = cellValue(row, lock.family, lock.qualifier);
  return found && !found.equals(VACANT) ? found : undefined;
}

/** What takes the lock off a row, as a part of its mutation: its cell goes, or stays and is empty. */
export function freeing({ table }: LockedRow, stays: boolean): Required<Pick<RowMutation, 'put' | 'delete'>> {
  return stays ? { put: [{ ...table.lock, value: VACANT }], delete: [] } : { put: [], delete: [table.lock] };
}

/** Takes the empty cell of a row's lock away, where it is still empty. */
export async function removeVacant(cluster: Cluster, { table, key }: LockedRow): Promise<void> {
  const guards = [{ op: 'equals', ...table.lock, value: VACANT }] as const;
  await unlessDropped(cluster, table.spec.name, async () => {
    await cluster.swap(table.handle, { key, guards, delete: [table.lock] });
  });
}

/** Takes the writers, which are dead, out of all locks, and away what cells they have left. */
export async function removeEverywhere(cluster: Cluster, writers: readonly Buffer[]): Promise<void> {
  const dead = new Set(writers.map((writer) => writer.toString('latin1')));
  const isDead = (writer: Buffer): boolean => dead.has(writer.toString('latin1'));
  for (const name of await cluster.names())
    await eachLock(cluster, name, async (locks, vacant) => {
      await Promise.all(locks.map(({ row, found }) => removeFrom(cluster, row, found, isDead)));
      // Others' too: those come again where they are of use.
      await Promise.all(vacant.map((row) => removeVacant(cluster, row)));
    });
}

async function removeFrom(
  cluster: Cluster,
  row: LockedRow,
  seen: Buffer,
  isDead: (writer: Buffer) => boolean,
): Promise<void> {
  for (let found: Buffer | undefined = seen; found; found = await readLock(cluster, row)) {
    if (!holdersOf(parseLock(found)).some(isDead)) return;
    if (await removeHolders(cluster, row, found, isDead)) return;
  }
  await removeVacant(cluster, row);
}

/**
 * How many rows writers hold that are dead; with `remove` they do not any more, and empty cells go. Without it those of
 * drained ones do not count: somebody is about to take them away.
 */
export async function countDead(cluster: Cluster, remove: boolean): Promise<number> {
  let count = 0;
  for (const name of await cluster.names())
    await eachLock(cluster, name, async (locks, vacant) => {
      if (remove) await Promise.all(vacant.map((row) => removeVacant(cluster, row)));
      // The journal is read after the locks: a writer that was there then, and is not now, is dead.
      const writers = new Map<string, Buffer>();
      const holders = locks.map(({ found }) => holdersOf(parseLock(found)));
      for (const writer of holders.flat()) writers.set(writer.toString('latin1'), writer);
      const dead = await deadAmong(cluster, [...writers.values()], remove);
      const isDead = (writer: Buffer): boolean => dead.has(writer.toString('latin1'));
      const left = locks.filter((_, i) => holders[i]!.some(isDead));
      count += left.length;
      if (remove) await Promise.all(left.map(({ row, found }) => removeFrom(cluster, row, found, isDead)));
    });
  return count;
}
