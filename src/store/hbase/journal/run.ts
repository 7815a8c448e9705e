import type { CellName, Plan } from '../../contract.js';
import { markHandled } from '../../maybe.js';
import { cellValue } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { cellKey } from '../../tables.js';
import { familyReads, GATES } from '../cluster.js';
import { applyRecord, changeRow } from './apply.js';
import { encodeRecord, exclusiveLock, type PlanRecord } from './codec.js';
import { cellId, evaluate, type PlanReads, rowIncrements } from './evaluate.js';
import { type Conflict, type LockedRow, readLock } from './locks.js';
import { countAppends, gateRow, type PlanRow, planRows } from './plan-rows.js';
import { type PlanContext, unknownOutcome } from './row-queue.js';
import type { WantedRow } from './row-requests.js';
import type { Session } from './session.js';
import { SharedRow } from './shared-rows.js';
import { FencedError } from './writer.js';

/**
 * Runs a plan. Rejects with `FencedError` when the session ends before the plan is decided. `heldGates`: tables whose
 * gates (locks of whole tables) the caller holds.
 */
export async function runPlan(
  session: Session,
  plan: Plan,
  context: PlanContext,
  heldGates: readonly string[] = [],
  batchQualifier?: Buffer,
): Promise<void> {
  const rows = await planRows(session.cluster, plan, heldGates);
  try {
    await retryUntilDone(session, plan, rows, context, (run) => run.finish(batchQualifier));
  } catch (error) {
    await session.cluster.rethrow(error, ...new Set(rows.map(({ table }) => table.spec.name)));
  }
}

/** Runs `work` while the gates of the tables are held exclusively, so that no plan changes their rows. */
export async function withGates(session: Session, tables: readonly string[], work: () => Promise<void>): Promise<void> {
  const rows = tables.map((name) => gateRow(session.cluster, name, 'exclusive'));
  await retryUntilDone(session, { steps: [], decisive: 0 }, rows, session.createContext(), (run) => run.holdFor(work));
}

/**
 * Retries until no other plan blocks this one. A waiting plan holds nothing, in this process or in HBase. The row queue
 * decides which plan goes first: docs/adr/0015-hbase-journal.md, "Why waiting ends".
 */
async function retryUntilDone(
  session: Session,
  plan: Plan,
  rows: readonly PlanRow[],
  context: PlanContext,
  work: (run: PlanRun) => Promise<void>,
): Promise<void> {
  const { rowQueue, rowRequests, pace } = session;
  const rowsToLock = wantedRows(rows);
  let isQueued = false;
  try {
    for (;;) {
      const obstacle = await new PlanRun(session, plan, rows, context).attempt(rowsToLock, work);
      if (!obstacle) return;
      context.checkDeadline();
      await context.drawPriority(session.tickets);
      if (!isQueued) rowQueue.enqueue(context, rowsToLock);
      isQueued = true;
      if (obstacle === 'reserved') await rowRequests.resend(context);
      else await Promise.all(obstacle.map((conflict) => session.resolveConflict(conflict, rowsToLock, context)));
      await context.backOff(pace.firstBackoffMs, pace.maxBackoffMs);
    }
  } finally {
    if (isQueued) {
      rowQueue.dequeue(context, rowsToLock);
      rowRequests.withdraw(context);
    }
  }
}

/** The rows that the plan locks, exclusively or shared. */
function wantedRows(rows: readonly PlanRow[]): WantedRow[] {
  const wantedRows: WantedRow[] = [];
  for (const { table, key, id, access } of rows)
    if (access === 'exclusive' || access === 'shared')
      wantedRows.push({ table, key, id, isExclusive: access === 'exclusive' });
  return wantedRows;
}

/** The reason why a try failed: rows that other writers hold, or `reserved` if another waiting plan goes first. */
type Obstacle = readonly Conflict[] | 'reserved';

/**
 * A try of a plan. The states, in order, are the methods of `attempt` and of `finish`:
 *
 *     holding   local locks, then shared rows, then row locks; a conflict releases all of them
 *     reading   the cells that guards and counters depend on, and the ticket; a failed guard releases all locks
 *     deciding  a single mutation: the plan has happened when it arrives, even if the front end dies
 *     applying  the decided changes, which unlock the rows
 *     done      the record is removed when its increments are folded, that is, written to the shared rows
 */
class PlanRun {
  readonly #session: Session;
  readonly #plan: Plan;
  readonly #rows: readonly PlanRow[];
  readonly #exclusiveRows: readonly PlanRow[];
  readonly #sharedRows = new Map<string, SharedRow>();
  readonly #context: PlanContext;
  readonly #planNumber: bigint;
  readonly #lock: Buffer;

  constructor(session: Session, plan: Plan, rows: readonly PlanRow[], context: PlanContext) {
    this.#session = session;
    this.#plan = plan;
    this.#rows = rows;
    this.#context = context;
    this.#exclusiveRows = rows.filter((row) => row.access === 'exclusive');
    this.#planNumber = session.nextPlanNumber();
    this.#lock = exclusiveLock(session.writer.id, this.#planNumber);
  }

  async attempt(rows: readonly WantedRow[], work: (run: PlanRun) => Promise<void>): Promise<Obstacle | undefined> {
    const { localLocks, activePlans, rowQueue } = this.#session;
    const release = await localLocks.acquire(rows);
    try {
      if (this.#session.isEnded) throw new FencedError();
      this.#context.checkDeadline();
      if (rows.some((request) => !rowQueue.mayTake(request, this.#context.priority))) return 'reserved';
      let conflicts = await this.#holdSharedRows();
      if (conflicts.length === 0) conflicts = await this.#lockRows();
      if (conflicts.length > 0) return conflicts;
      await work(this);
      return undefined;
    } finally {
      activePlans.delete(this.#planNumber);
      release();
    }
  }

  #failpoint(pointName: string): unknown {
    return this.#session.options.failpoint?.(pointName);
  }

  /** Acquires the shared rows. Returns the conflicts. Gates come first, so that no rows of a running batch are read. */
  async #holdSharedRows(): Promise<readonly Conflict[]> {
    const isGate = ({ table }: PlanRow) => table.spec.name === GATES;
    const conflicts = await this.#acquireRows(this.#rows.filter(isGate));
    return conflicts.length > 0 ? conflicts : this.#acquireRows(this.#rows.filter((row) => !isGate(row)));
  }

  async #acquireRows(rows: readonly PlanRow[]): Promise<readonly Conflict[]> {
    const { sharedRows } = this.#session;
    const conflicts: Conflict[] = [];
    const work: Promise<unknown>[] = [];
    for (const { id, table, key, access } of rows) {
      const sharedRow = sharedRows.get(id);
      if (access === 'shared') {
        const hold = sharedRows.hold(table, key, id);
        work.push(hold.then((row) => (row instanceof SharedRow ? this.#sharedRows.set(id, row) : conflicts.push(row))));
      } else if (access === 'exclusive' && sharedRow) work.push(sharedRows.release(sharedRow));
    }
    await waitForAll(work);
    return conflicts;
  }

  /** Locks all exclusive rows. After a conflict, unlocks the rows again and returns the conflicts. */
  async #lockRows(): Promise<readonly Conflict[]> {
    if (this.#exclusiveRows.length === 0) return [];
    await this.#failpoint('lock before');
    const lockResults = await Promise.allSettled(this.#exclusiveRows.map((row) => this.#lockRow(row)));
    const failedResult = lockResults.find((result) => result.status === 'rejected');
    const conflicts = lockResults.flatMap((result) => (result.status === 'fulfilled' && result.value) || []);
    if (!failedResult && conflicts.length === 0) {
      await this.#failpoint('lock after');
      return conflicts;
    }
    const lockedRows = this.#exclusiveRows.filter((_, i) => {
      const result = lockResults[i]!;
      return result.status === 'fulfilled' && !result.value;
    });
    await this.#unlock(lockedRows).catch(throwUnlessStoreError);
    if (failedResult) throw failedResult.reason;
    return conflicts;
  }

  async #lockRow(row: LockedRow): Promise<Conflict | undefined> {
    const { cluster } = this.#session;
    const { table, key } = row;
    for (;;) {
      const put = [{ ...table.lock, value: this.#lock }];
      if (await cluster.mutateGuarded(table.handle, { key, guards: [{ op: 'absent', ...table.lock }], put })) return;
      const lockValue = await readLock(cluster, row);
      if (lockValue) return lockValue.equals(this.#lock) ? undefined : { row, lockValue };
    }
  }

  async #unlock(rows: readonly PlanRow[]): Promise<void> {
    await Promise.all(rows.map((row) => this.#session.unlock(row, this.#planNumber)));
  }

  /**
   * Runs `work` while the rows are locked, then unlocks them. The locks of a session that has ended are left to its
   * sweeper. A failed unlock does not fail the work: `Session` removes the lock when another plan requests the row.
   */
  async holdFor(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } finally {
      if (!this.#session.isEnded) await this.#unlock(this.#exclusiveRows).catch(throwUnlessStoreError);
    }
  }

  /** Reads, decides and applies the plan. All locks are held. */
  finish(batch: Buffer | undefined): Promise<void> {
    const count = 1 + countAppends(this.#plan.steps);
    return this.#session.withTickets(count, (firstTicket) => this.#finish(batch, firstTicket));
  }

  async #finish(batchQualifier: Buffer | undefined, firstTicket: Promise<bigint>): Promise<void> {
    let record: PlanRecord;
    try {
      const [reads, ticket] = await Promise.all([this.#readRows(), firstTicket]);
      await this.#failpoint('read after');
      record = evaluate(this.#session.cluster, this.#plan, this.#rows, reads, this.#planNumber, ticket);
      this.#context.beginDecision();
    } catch (error) {
      await this.#unlock(this.#exclusiveRows).catch(throwUnlessStoreError);
      throw error;
    }
    const { rowChanges, counterAdditions, indexMarks, appendedRows, followerChanges } = record;
    const changeCount = rowChanges.length + indexMarks.length + appendedRows.length + followerChanges.length;
    if (!batchQualifier && counterAdditions.length === 0 && changeCount <= 1) await this.#applySingleRow(record);
    else await this.#decide(record, batchQualifier);
  }

  async #readRows(): Promise<PlanReads> {
    const rows = new Map<string, Buffer | undefined>();
    const separateCells = new Map<string, Buffer | undefined>();
    const joinSequences = new Map<string, bigint>();
    for (const [id, row] of this.#sharedRows) {
      rows.set(id, row.withPendingIncrements(row.content));
      joinSequences.set(id, row.joinSequence);
    }
    const work: Promise<void>[] = [];
    for (const row of this.#exclusiveRows) {
      const families = familiesToRead(row);
      if (families.size > 0) {
        const rowRead = this.#session.cluster.client.get(row.table.handle, row.key, familyReads(row.table, families));
        work.push(rowRead.then((content) => void rows.set(row.id, content)));
      }
      const columns = guardedSeparateCells(row);
      if (columns.length > 0) work.push(this.#readCells(row, columns, separateCells));
    }
    await waitForAll(work);
    return { rows, separateCells, joinSequences };
  }

  async #readCells({ table, key }: PlanRow, columns: readonly CellName[], cells: CellValues): Promise<void> {
    const row = await this.#session.cluster.client.get(table.handle, key, { columns });
    for (const { family, qualifier } of columns) {
      const value = row && cellValue(row, family, qualifier);
      cells.set(cellId(table.spec.name, family, cellKey(key, qualifier)), value);
    }
  }

  /** Applies a plan with a single mutation. The mutation decides the plan, so no journal record is needed. */
  async #applySingleRow(record: PlanRecord): Promise<void> {
    const { cluster, writer, options, emptyLockCells } = this.#session;
    const change = record.rowChanges[0];
    if (!change) return applyRecord(cluster, writer.id, record, options.failpoint, emptyLockCells);
    await this.#failpoint('row 0 before');
    try {
      // If the plan no longer locks the row, an earlier try has changed it, unless a sweeper has ended this writer.
      if (!(await changeRow(cluster, change, this.#lock, record.ticket, emptyLockCells))) await writer.ensureLease();
    } catch (error) {
      this.#session.abandon();
      throw unknownOutcome(error);
    }
    await this.#failpoint('row 0 after');
  }

  async #decide(record: PlanRecord, batchQualifier: Buffer | undefined): Promise<void> {
    const session = this.#session;
    const encodedRecord = encodeRecord(record);
    const rows: SharedRow[] = [];
    const folds: Promise<void>[] = [];
    let sequence = 0n;
    await this.#failpoint('decide before');
    const decision = session.writer.decide(encodedRecord, this.#planNumber, batchQualifier, (recordSequence) => {
      sequence = recordSequence;
      for (const planRow of this.#rows) {
        const row = this.#sharedRows.get(planRow.id);
        const increments = row && rowIncrements(planRow);
        if (!row || !increments || increments.length === 0) continue;
        rows.push(row);
        const fold = session.sharedRows.add(row, increments, sequence);
        if (fold) folds.push(markHandled(fold));
      }
    });
    try {
      await decision;
    } catch (error) {
      session.abandon();
      throw error;
    }
    await this.#failpoint('decide after');
    try {
      await session.writer.ensureLease();
      const { cluster, writer, options, emptyLockCells } = session;
      await waitForAll([applyRecord(cluster, writer.id, record, options.failpoint, emptyLockCells), ...folds]);
      session.finishRecordWhenFolded(sequence, this.#planNumber, encodedRecord.length, rows);
    } catch (error) {
      // The plan is decided, and the sweeper applies it.
      session.abandon();
      if (!(await isSweptAfterwards(session))) throw unknownOutcome(error);
    }
    await this.#failpoint('done');
  }
}

type CellValues = Map<string, Buffer | undefined>;

/** Returns the families on which guards or counters depend. Other families are written without being read. */
function familiesToRead({ table, steps }: PlanRow): Set<number> {
  const families = new Set<number>();
  for (const { guards = [], add = [] } of steps) {
    for (const { family } of guards) if (!table.spec.families[family]?.separate) families.add(family);
    for (const { family } of add) families.add(family);
  }
  return families;
}

/** Returns the guarded cells of separate families, which are not read with the row. */
function guardedSeparateCells({ table, steps }: PlanRow): CellName[] {
  const guards = steps.flatMap((step) => step.guards ?? []);
  return guards.filter(({ family }) => table.spec.families[family]?.separate);
}

async function isSweptAfterwards(session: Session): Promise<boolean> {
  const [result] = await Promise.allSettled([session.sweepWork]);
  return session.sweepWork !== undefined && result.status === 'fulfilled';
}

export function throwUnlessStoreError(error: unknown): void {
  if (!(error instanceof StoreError)) throw error;
}

/** Throws the first failure after all promises have settled, so that no work continues after the call. */
export async function waitForAll(work: readonly Promise<unknown>[]): Promise<void> {
  const results = await Promise.allSettled(work);
  for (const result of results) if (result.status === 'rejected') throw result.reason;
}
