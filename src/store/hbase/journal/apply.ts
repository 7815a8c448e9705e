import type { Maybe } from '../../contract.js';
import { MARK, unpackRow } from '../../row.js';
import { type Cluster, unlessDropped } from '../cluster.js';
import type { RowMutation } from '../rpc/rpc-types.js';
import { exclusiveLock, type Mark, type PlanRecord, type RowChange } from './codec.js';
import { freeing, readLock } from './locks.js';
import type { VacantLocks } from './vacant-locks.js';

/** Called between the parts of a plan; tests stop a front end there. */
export type Failpoint = (name: string) => Maybe<void>;

/**
 * `applyRecord` for a record that was found in the journal. Whatever comes before the locked rows is not done again
 * once one of those was changed: later plans may have taken it back, and HBase forgets in time that they did.
 */
export async function applyFound(
  cluster: Cluster,
  writer: Buffer,
  record: PlanRecord,
  failpoint?: Failpoint,
): Promise<void> {
  const begun = await isBegun(cluster, record, exclusiveLock(writer, record.plan));
  await applyRecord(cluster, writer, begun ? withoutComing(record) : record, failpoint);
}

function withoutComing(record: PlanRecord): PlanRecord {
  return { ...record, blind: record.blind.filter(({ put }) => !put), followers: [] };
}

/** Whether one of the record's rows is not under its lock any more. */
async function isBegun(cluster: Cluster, { rows }: PlanRecord, lock: Buffer): Promise<boolean> {
  const held = await Promise.all(
    rows.map(async ({ table: name, key }) => {
      let found: Buffer | undefined = lock;
      await unlessDropped(cluster, name, async (table) => {
        found = await readLock(cluster, { table, key });
      });
      return found?.equals(lock) ?? false;
    }),
  );
  return held.includes(false);
}

/**
 * Does what a decided plan says: new index rows and followers, then the locked rows, which are unlocked by the same
 * mutation, and appended ones, then index rows that go. Doing it again, or late, changes nothing: locked rows are
 * changed only under the plan's own lock, and the others carry its ticket. Tables that were dropped are passed over.
 * `vacant`: of who lives on and may change the rows again.
 */
export async function applyRecord(
  cluster: Cluster,
  writer: Buffer,
  record: PlanRecord,
  failpoint?: Failpoint,
  vacant?: VacantLocks,
): Promise<void> {
  const coming = new Batches(cluster);
  for (const mark of record.blind) if (mark.put) coming.add(mark.table, markMutation(mark, record.ticket));
  for (const { table, key, gone, come } of record.followers)
    coming.add(table, { key, delete: unpackRow(gone), put: come, timestamp: record.ticket });
  await coming.run(failpoint, 'come');
  const lock = exclusiveLock(writer, record.plan);
  const appended = new Batches(cluster);
  for (const { table, key, row } of record.appends)
    appended.add(table, { key, put: unpackRow(row), timestamp: record.ticket });
  const rows = record.rows.map((row) => () => changeRow(cluster, row, lock, record.ticket, vacant));
  await each([...rows, () => appended.run(failpoint, 'append')], failpoint, 'row');
  const going = new Batches(cluster);
  for (const mark of record.blind) if (!mark.put) going.add(mark.table, markMutation(mark, record.ticket));
  await going.run(failpoint, 'go');
}

function markMutation({ key, put }: Mark, ticket: bigint): RowMutation {
  return put ? { key, put: [MARK], timestamp: ticket } : { key, delete: [MARK], timestamp: ticket };
}

/** One after another where a failpoint wants to look in between. */
async function each(
  work: readonly (() => Promise<unknown>)[],
  failpoint: Failpoint | undefined,
  name: string,
): Promise<void> {
  if (!failpoint) {
    await Promise.all(work.map((one) => one()));
    return;
  }
  for (const [i, one] of work.entries()) {
    await failpoint(`${name} ${i} before`);
    await one();
    await failpoint(`${name} ${i} after`);
  }
}

/** Mutations without conditions, by table. */
class Batches {
  readonly #cluster: Cluster;
  readonly #tables = new Map<string, RowMutation[]>();

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  add(table: string, mutation: RowMutation): void {
    const list = this.#tables.get(table);
    if (list) list.push(mutation);
    else this.#tables.set(table, [mutation]);
  }

  async run(failpoint: Failpoint | undefined, name: string): Promise<void> {
    if (this.#tables.size === 0) return;
    const work = [...this.#tables].map(
      ([table, list]) =>
        () =>
          this.#put(table, list),
    );
    await each(work, failpoint, name);
  }

  #put(name: string, mutations: readonly RowMutation[]): Promise<void> {
    return unlessDropped(this.#cluster, name, (table) => this.#cluster.client.putMany(table.handle, mutations));
  }
}

/** False when the row was not locked by the plan: it was changed by another try, or by a sweeper. */
export async function changeRow(
  cluster: Cluster,
  change: RowChange,
  lock: Buffer,
  ticket: bigint,
  vacant?: VacantLocks,
): Promise<boolean> {
  const { key, wipe } = change;
  let changed = false;
  await unlessDropped(cluster, change.table, async (table) => {
    const row = { table, key };
    const free = freeing(row, !wipe && vacant !== undefined && vacant.stays(row));
    const mutation: RowMutation = {
      key,
      guards: [{ op: 'equals', ...table.lock, value: lock }],
      ...(wipe && { deleteRow: true }),
      delete: [...unpackRow(change.gone), ...free.delete],
      put: [...change.come, ...free.put],
      timestamp: ticket,
    };
    do changed = await cluster.swap(table.handle, mutation);
    while (!changed && (await readLock(cluster, { table, key }))?.equals(lock));
  });
  return changed;
}
