import type { Maybe } from '../../contract.js';
import { batchesOf } from '../../maybe.js';
import { MARK, unpackRow } from '../../row.js';
import { type Cluster, unlessDropped } from '../cluster.js';
import { KEY_ONLY } from '../rpc/filters.js';
import type { RowMutation } from '../rpc/rpc-types.js';
import { exclusiveLock, type IndexMark, type PlanRecord, type RowChange } from './codec.js';
import type { EmptyLockCells } from './empty-lock-cells.js';
import { readLock, unlockCells } from './locks.js';

/** A callback between the phases of a plan, at which tests stop a front end. */
export type Failpoint = (pointName: string) => Maybe<void>;

/**
 * Applies a record that was found in the journal. Once one of its locked rows is changed, the steps that precede locked
 * rows are skipped: later plans may have reverted them, and HBase forgets the deletion in time.
 */
export async function applyFoundRecord(
  cluster: Cluster,
  writer: Buffer,
  record: PlanRecord,
  failpoint?: Failpoint,
): Promise<void> {
  const isBegun = await isPartlyApplied(cluster, record, exclusiveLock(writer, record.plan));
  await applyRecord(cluster, writer, isBegun ? withoutEarlyPuts(record) : record, failpoint);
}

function withoutEarlyPuts(record: PlanRecord): PlanRecord {
  return { ...record, indexMarks: record.indexMarks.filter(({ isPut }) => !isPut), followerChanges: [] };
}

/** Whether at least one row of the record is no longer locked by the plan. */
async function isPartlyApplied(cluster: Cluster, { rowChanges }: PlanRecord, lock: Buffer): Promise<boolean> {
  const lockedFlags = await Promise.all(
    rowChanges.map(async ({ table: tableName, key }) => {
      let lockValue: Buffer | undefined = lock;
      await unlessDropped(cluster, tableName, async (table) => {
        lockValue = await readLock(cluster, { table, key });
      });
      return lockValue?.equals(lock) ?? false;
    }),
  );
  return lockedFlags.includes(false);
}

/**
 * Applies a decided plan: first puts of index rows and changes of followers, then the locked rows (each changed and
 * unlocked by one mutation) and appended rows, then deletes of index rows. Repeating this, or doing it late, changes
 * nothing: locked rows are changed only under the plan's own lock, and the other cells carry its ticket. Dropped tables
 * are skipped. `emptyCells` is present for a live writer, which may change the rows again.
 */
export async function applyRecord(
  cluster: Cluster,
  writer: Buffer,
  record: PlanRecord,
  failpoint?: Failpoint,
  emptyCells?: EmptyLockCells,
): Promise<void> {
  const earlyPuts = new MutationBatches(cluster);
  for (const mark of record.indexMarks) if (mark.isPut) earlyPuts.add(mark.table, markMutation(mark, record.ticket));
  for (const { table, key, packedDeletes, puts } of record.followerChanges)
    earlyPuts.add(table, { key, delete: unpackRow(packedDeletes), put: puts, timestamp: record.ticket });
  await earlyPuts.run(failpoint, 'come');
  const lock = exclusiveLock(writer, record.plan);
  const appendedRows = new MutationBatches(cluster);
  for (const { table, key, row } of record.appendedRows)
    appendedRows.add(table, { key, put: unpackRow(row), timestamp: record.ticket });
  const changeRows = record.rowChanges.map((row) => () => changeRow(cluster, row, lock, record.ticket, emptyCells));
  await runEach([...changeRows, () => appendedRows.run(failpoint, 'append')], failpoint, 'row');
  const indexDeletes = new MutationBatches(cluster);
  for (const mark of record.indexMarks)
    if (!mark.isPut) indexDeletes.add(mark.table, markMutation(mark, record.ticket));
  await indexDeletes.run(failpoint, 'go');
}

function markMutation({ key, isPut }: IndexMark, ticket: bigint): RowMutation {
  return isPut ? { key, put: [MARK], timestamp: ticket } : { key, delete: [MARK], timestamp: ticket };
}

/** Runs all functions at once. With a failpoint, runs them in sequence and calls it before and after each. */
async function runEach(
  work: readonly (() => Promise<unknown>)[],
  failpoint: Failpoint | undefined,
  phase: string,
): Promise<void> {
  if (!failpoint) {
    await Promise.all(work.map((run) => run()));
    return;
  }
  for (const [i, run] of work.entries()) {
    await failpoint(`${phase} ${i} before`);
    await run();
    await failpoint(`${phase} ${i} after`);
  }
}

/** Unconditional mutations, grouped by table. */
class MutationBatches {
  readonly #cluster: Cluster;
  readonly #mutations = new Map<string, RowMutation[]>();

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  add(table: string, mutation: RowMutation): void {
    const mutations = this.#mutations.get(table);
    if (mutations) mutations.push(mutation);
    else this.#mutations.set(table, [mutation]);
  }

  async run(failpoint: Failpoint | undefined, phase: string): Promise<void> {
    if (this.#mutations.size === 0) return;
    const putBatch = (tableName: string, mutations: readonly RowMutation[]) =>
      unlessDropped(this.#cluster, tableName, (table) => this.#cluster.client.putMany(table.handle, mutations));
    const work = [...this.#mutations].map((batch) => () => putBatch(...batch));
    await runEach(work, failpoint, phase);
  }
}

/** Changes and unlocks a row. Returns false if the plan no longer locks it: another try or a sweeper has changed it. */
export async function changeRow(
  cluster: Cluster,
  change: RowChange,
  lock: Buffer,
  ticket: bigint,
  emptyCells?: EmptyLockCells,
): Promise<boolean> {
  const { key, deleteRow } = change;
  let isChanged = false;
  await unlessDropped(cluster, change.table, async (table) => {
    const row = { table, key };
    const lockChange = unlockCells(row, !deleteRow && emptyCells !== undefined && emptyCells.recordUnlock(row));
    const mutation: RowMutation = {
      key,
      guards: [{ op: 'equals', ...table.lock, value: lock }],
      ...(deleteRow && { deleteRow: true }),
      delete: [...unpackRow(change.packedDeletes), ...lockChange.delete],
      put: [...change.puts, ...lockChange.put],
      timestamp: ticket,
    };
    do isChanged = await cluster.mutateGuarded(table.handle, mutation);
    while (!isChanged && (await readLock(cluster, { table, key }))?.equals(lock));
  });
  return isChanged;
}

/**
 * Deletes the rows that a batch has written into the tables. The cells of the batch carry its ticket as timestamp,
 * which no other plan has. HBase skips files that are older than the ticket, so the scan reads little of large tables.
 * The batch's writer holds the gates of the tables, so no other plan has changed the rows.
 */
export async function rollBackBatch(cluster: Cluster, ticket: bigint, tables: readonly string[]): Promise<void> {
  for (const tableName of tables) {
    await unlessDropped(cluster, tableName, async ({ handle, lock }) => {
      const families = handle.families.map((_, number) => number).filter((number) => number !== lock.family);
      const scan = cluster.client.scan(handle, {}, { families, filter: KEY_ONLY, timestamp: ticket });
      for await (const batch of batchesOf(scan)) {
        const deletions = batch.keys.map((key, i): RowMutation => {
          const columns = unpackRow(batch.rows[i]!).map(({ family, qualifier }) => ({ family, qualifier }));
          return { key, delete: columns, timestamp: ticket };
        });
        await cluster.client.putMany(handle, deletions);
      }
    });
  }
}
