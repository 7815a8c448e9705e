import type { Guard } from '../../contract.js';
import { batchesOf, keysOf } from '../../maybe.js';
import { cellValue, unpackRow } from '../../row.js';
import { parseStoredJson, StoreError } from '../../store-error.js';
import { keyAfter } from '../../tables.js';
import { type Cluster, type OpenTable, unlessDropped } from '../cluster.js';
import { applyFoundRecord, type Failpoint, rollBackBatch } from './apply.js';
import { type CounterAddition, decodeRecord, ID_BYTES, type PlanRecord, parseLock, sharedLock } from './codec.js';
import { DRAINED, IS_ALIVE, JOURNAL, MAX_TIME, STATE, SWEPT } from './journal-tables.js';
import { lockValueOf, removeFromAllLocks } from './locks.js';
import type { Pace } from './pace.js';
import { rowId } from './plan-rows.js';
import { incrementedCells } from './shared-rows.js';
import type { CancelTimer, Clock, Tickets } from './tickets.js';
import { batchTicket, readRecord } from './writer.js';

/** The increments of a row in record `sequence`. */
interface LoggedAddition extends Pick<CounterAddition, 'packedIncrements' | 'joinSequence'> {
  readonly sequence: bigint;
}

/**
 * Result of draining a writer. `drained`: this sweeper has drained it and removes its locks. `byOther`: another sweeper
 * was faster. `later`: rows of a batch may still arrive, so the batch is rolled back once more later.
 */
type DrainResult = 'drained' | 'byOther' | 'later';

interface WatchedWriter {
  readonly beatAndState: Buffer;
  /** Time at which these values were first read, monotonic ms. */
  readonly unchangedSince: number;
  /** Time at which the writer's batches were rolled back for the first time. */
  rolledBackAt: number | undefined;
}

/**
 * Watches the writers of other front ends. The state of a writer is in its journal row:
 *
 *     alive ──► swept ──► drained ──► no row
 *
 * `swept`: the beat counter stood still for a lease, and the writer can decide nothing more. `drained`: the decided
 * plans are applied and the batches rolled back, so the locks are dead. Then the locks and the row are removed. A
 * sweeper that finds a swept writer continues the work. Batches are rolled back twice, `Pace.lateArrivalMs` apart,
 * because a region server that stood still writes earlier rows within that time or never. Removing the locks scans all
 * tables. The sweeper that drained the writer does so, and other sweepers only when the row is still there after a
 * lease.
 */
export class Sweeper {
  readonly #cluster: Cluster;
  readonly #tickets: Tickets;
  readonly #clock: Clock;
  readonly #pace: Pick<Pace, 'leaseMs' | 'lateArrivalMs'>;
  readonly #failpoint: Failpoint | undefined;
  readonly #isOwnWriter: (id: Buffer) => boolean;
  #watchedWriters = new Map<string, WatchedWriter>();
  #cancelCheckTimer: CancelTimer | undefined;
  #currentCheck: Promise<void> | undefined;

  /** `isOwnWriter`: whether the id is that of this process's living writer, which is not watched. */
  constructor(
    cluster: Cluster,
    tickets: Tickets,
    clock: Clock,
    pace: Pick<Pace, 'leaseMs' | 'lateArrivalMs'>,
    isOwnWriter: (id: Buffer) => boolean,
    failpoint?: Failpoint,
  ) {
    this.#cluster = cluster;
    this.#tickets = tickets;
    this.#clock = clock;
    this.#pace = pace;
    this.#isOwnWriter = isOwnWriter;
    this.#failpoint = failpoint;
  }

  start(): void {
    this.#cancelCheckTimer = this.#clock.runEvery(this.#pace.leaseMs / 4, () => {
      // A failed check says nothing about the writers, so their leases start anew.
      this.checkWriters().catch(() => this.#watchedWriters.clear());
    });
  }

  async stop(): Promise<void> {
    this.#cancelCheckTimer?.();
    // What a failed check has left to do is done by the checks of other front ends.
    await this.#currentCheck?.catch(() => undefined);
  }

  /** Reads the beats of all writers, and sweeps the writers whose beats stopped. */
  checkWriters(): Promise<void> {
    this.#currentCheck ??= this.#checkWriters().finally(() => {
      this.#currentCheck = undefined;
    });
    return this.#currentCheck;
  }

  async #checkWriters(): Promise<void> {
    const { client, journal } = this.#cluster;
    const newWatchedWriters = new Map<string, WatchedWriter>();
    const drainedIds: Buffer[] = [];
    const scan = client.scan(journal, {}, { families: [JOURNAL.state] });
    for await (const batch of batchesOf(scan))
      for (const [i, id] of batch.keys.entries())
        if (await this.#checkWriter(id, batch.rows[i]!, newWatchedWriters)) drainedIds.push(Buffer.from(id));
    this.#watchedWriters = newWatchedWriters;
    await falseOnStoreError(() => this.removeDrained(drainedIds));
  }

  /** Sweeps the writer if its lease is over. Returns whether its locks are to be removed now. */
  async #checkWriter(id: Buffer, row: Buffer, newWatchedWriters: Map<string, WatchedWriter>): Promise<boolean> {
    if (this.#isOwnWriter(id)) return false;
    const idText = id.toString('latin1');
    const beat = cellValue(row, JOURNAL.state, STATE.beat);
    const writerState = cellValue(row, JOURNAL.state, STATE.state);
    if (!beat || !writerState) return false;
    const now = this.#clock.now();
    const knownWriter = this.#watchedWriters.get(idText);
    const beatAndState = Buffer.concat([beat, writerState]);
    const watchedWriter = knownWriter?.beatAndState.equals(beatAndState)
      ? knownWriter
      : { beatAndState, unchangedSince: now, rolledBackAt: knownWriter?.rolledBackAt };
    newWatchedWriters.set(idText, watchedWriter);
    if (watchedWriter.rolledBackAt !== undefined && now - watchedWriter.rolledBackAt < this.#pace.lateArrivalMs)
      return false;
    const isLeaseOver = now - watchedWriter.unchangedSince >= this.#pace.leaseMs;
    if (writerState.equals(DRAINED)) return isLeaseOver;
    if (!writerState.equals(SWEPT) && !isLeaseOver) return false;
    return falseOnStoreError(async () => {
      // The state `swept` keeps the writer from deciding anything more. The guard fails if the beat was renewed.
      const guard: Guard = { op: 'equals', family: JOURNAL.state, qualifier: STATE.beat, value: beat };
      if (!writerState.equals(SWEPT) && !(await this.#setState(id, guard, SWEPT))) return false;
      return (await this.#drain(Buffer.from(id), watchedWriter)) === 'drained';
    });
  }

  /** Sets the state of a writer. Returns false when the guard did not hold at the last try. */
  #setState(id: Buffer, guard: Guard, state: Buffer): Promise<boolean> {
    const put = [{ family: JOURNAL.state, qualifier: STATE.state, value: state }];
    return this.#cluster.mutateGuarded(this.#cluster.journal, { key: id, guards: [guard], put, timestamp: MAX_TIME });
  }

  /**
   * Applies everything that an ended writer of this process has decided. Returns true when the locks are to be removed
   * now. This holds even if another sweeper has drained the writer, because a late request may have taken a lock since.
   * Returns false when a later check continues the work.
   */
  async sweep(id: Buffer): Promise<boolean> {
    // False means that the writer was swept already, by another front end or by a try whose answer was lost.
    await this.#setState(id, IS_ALIVE, SWEPT);
    return (await this.#drain(id)) !== 'later';
  }

  /** Applies the plans of a fenced writer and rolls back its batches. Several sweepers may do this at once. */
  async #drain(id: Buffer, watched?: WatchedWriter): Promise<DrainResult> {
    const { client, journal } = this.#cluster;
    const beganAt = this.#clock.now();
    let hasBatch = false;
    const row = await client.get(journal, id, { families: [JOURNAL.plan] });
    const records: [bigint, PlanRecord][] = [];
    for (const { qualifier, value } of row ? unpackRow(row) : []) {
      const ticket = batchTicket(qualifier);
      if (ticket !== undefined) {
        hasBatch = true;
        const tables = parseStoredJson<string[]>(value, `a batch of journal row ${id.toString('hex')}`);
        await rollBackBatch(this.#cluster, ticket, tables);
        await this.#failpoint?.('sweep taken back');
        continue;
      }
      const encodedRecord = await readRecord(this.#cluster, id, value);
      if (encodedRecord) records.push([qualifier.readBigUInt64BE(0), decodeRecord(encodedRecord)]);
    }
    for (const [, record] of records) {
      await applyFoundRecord(this.#cluster, id, record, this.#failpoint);
      await this.#failpoint?.('sweep applied');
    }
    await this.#foldRecords(id, records);
    await this.#failpoint?.('sweep folded');
    if (hasBatch && !this.#isLateTimeOver(beganAt, watched)) return 'later';
    const isSwept = { op: 'equals', family: JOURNAL.state, qualifier: STATE.state, value: SWEPT } as const;
    // If the answer is lost, a later check finds the drained writer and removes it after a lease.
    return (await this.#setState(id, isSwept, DRAINED)) ? 'drained' : 'byOther';
  }

  /** Whether the rows of all batches had arrived before the scan that started at `beganAt`. */
  #isLateTimeOver(beganAt: number, watched: WatchedWriter | undefined): boolean {
    if (!watched) return false;
    watched.rolledBackAt ??= this.#clock.now();
    return beganAt - watched.rolledBackAt >= this.#pace.lateArrivalMs;
  }

  /** Removes the locks of drained writers, then their journal rows. Returns whether there were any. */
  async removeDrained(ids: readonly Buffer[]): Promise<boolean> {
    if (ids.length === 0) return false;
    await removeFromAllLocks(this.#cluster, ids);
    await this.#failpoint?.('sweep cleared');
    for (const id of ids) await this.#removeWriter(id);
    return true;
  }

  /** Writes the records' increments that the shared rows lack, and removes the writer's hold from these rows. */
  async #foldRecords(id: Buffer, records: readonly [bigint, PlanRecord][]): Promise<void> {
    const additionsByRow = new Map<string, { table: string; key: Buffer; additions: LoggedAddition[] }>();
    for (const [sequence, record] of records) {
      for (const { table, key, packedIncrements, joinSequence } of record.counterAdditions) {
        const additionsKey = rowId(table, key);
        const row = additionsByRow.get(additionsKey) ?? { table, key, additions: [] };
        row.additions.push({ sequence, packedIncrements, joinSequence });
        additionsByRow.set(additionsKey, row);
      }
    }
    for (const { table: tableName, key, additions } of additionsByRow.values()) {
      await unlessDropped(this.#cluster, tableName, async (table) => {
        while (!(await this.#foldRow(table, key, id, additions)));
      });
    }
  }

  /** Returns false when another front end has changed the row meanwhile. */
  async #foldRow(table: OpenTable, key: Buffer, id: Buffer, additions: readonly LoggedAddition[]): Promise<boolean> {
    const row = await this.#cluster.client.get(table.handle, key, table.rowAndLockReads);
    const lockValue = row && lockValueOf(table, row);
    const lock = lockValue && parseLock(lockValue);
    const hold = lock?.kind === 'shared' ? lock.holders.find((holder) => holder.writer.equals(id)) : undefined;
    // Another sweeper has written the increments and removed the hold.
    if (!row || !lockValue || !hold || lock?.kind !== 'shared') return true;
    const missingAdditions = additions.filter(
      ({ sequence, joinSequence }) => sequence > hold.foldedSequence && joinSequence <= hold.foldedSequence,
    );
    const increments = missingAdditions
      .flatMap(({ packedIncrements }) => unpackRow(packedIncrements))
      .map((cell) => ({ ...cell, by: cell.value.readBigInt64BE() }));
    const counters = incrementedCells(row, increments);
    const ticket = counters.length > 0 ? await this.#tickets.draw(1) : undefined;
    const otherHolds = lock.holders.filter((holder) => holder !== hold);
    const remainingLock = sharedLock(otherHolds, ticket ?? lock.mark);
    return this.#cluster.mutateGuarded(table.handle, {
      key,
      guards: [{ op: 'equals', ...table.lock, value: lockValue }],
      put: remainingLock ? [...counters, { ...table.lock, value: remainingLock }] : counters,
      ...(!remainingLock && { delete: [table.lock] }),
      ...(ticket !== undefined && { timestamp: ticket }),
    });
  }

  async #removeWriter(id: Buffer): Promise<void> {
    const { client, journal } = this.#cluster;
    const to = Buffer.concat([id, Buffer.alloc(ID_BYTES + 5, 0xff)]);
    const pieceKeys = await keysOf(client.scan(journal, { from: keyAfter(id), to }, { keysOnly: true }));
    await this.#cluster.deleteJournalRows([...pieceKeys, id]);
  }
}

/** Deletes pieces of records that arrived after the row of their writer was deleted. */
export async function removeOrphanPieces(cluster: Cluster): Promise<void> {
  const { client, journal } = cluster;
  const scan = client.scan(journal, {}, { keysOnly: true });
  for await (const batch of batchesOf(scan)) {
    const pieceKeys = batch.keys.filter((key) => key.length > ID_BYTES);
    // The writers are read after their pieces: a writer that does not exist by then will never exist.
    const ids = pieceKeys.map((key) => key.subarray(0, ID_BYTES));
    const writers = await client.getMany(journal, ids, { families: [JOURNAL.state] });
    await cluster.deleteJournalRows(pieceKeys.filter((_, i) => !writers[i]));
  }
}

/** Returns false when the work failed with a `StoreError`: the next check tries again. */
async function falseOnStoreError(work: () => Promise<boolean>): Promise<boolean> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    return false;
  }
}
