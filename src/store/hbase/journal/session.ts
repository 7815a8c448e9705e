import { markHandled } from '../../maybe.js';
import type { Cluster } from '../cluster.js';
import type { Failpoint } from './apply.js';
import { exclusiveLock, parseLock } from './codec.js';
import { EmptyLockCells } from './empty-lock-cells.js';
import { LocalLocks } from './local-locks.js';
import {
  type Conflict,
  holdersOf,
  LOCK_BATCH,
  type LockedRow,
  readLock,
  removeDeadHolders,
  removeHolders,
  unlockCells,
} from './locks.js';
import type { Pace } from './pace.js';
import { rowId } from './plan-rows.js';
import { PlanContext, RowQueue } from './row-queue.js';
import { RowRequests, rowOfRequest, type WantedRow } from './row-requests.js';
import { type SharedRow, SharedRows } from './shared-rows.js';
import type { CancelTimer, Clock, Tickets } from './tickets.js';
import { FencedError, Writer } from './writer.js';

export interface SessionOptions {
  readonly clock: Clock;
  readonly pace: Pace;
  /** Returns a writer id: 8 bytes that are never used twice. */
  readonly createId: () => Buffer;
  readonly failpoint?: Failpoint | undefined;
}

/** Approximate maximum number of shared rows. Each takes memory here and a lock in HBase. */
const MAX_SHARED_ROWS = 10_000;

/** The record of a decided plan whose increments of counters are not all folded (written to their rows) yet. */
interface UnfoldedRecord {
  readonly sequence: bigint;
  readonly planNumber: bigint;
  readonly byteCount: number;
  readonly rows: readonly SharedRow[];
}

/** A writer with everything that depends on its lease: the rows that it holds and its running plans. */
export class Session {
  readonly cluster: Cluster;
  readonly tickets: Tickets;
  readonly options: SessionOptions;
  readonly clock: Clock;
  readonly pace: Pace;
  readonly writer: Writer;
  readonly sharedRows: SharedRows;
  readonly emptyLockCells: EmptyLockCells;
  readonly localLocks = new LocalLocks();
  readonly rowQueue: RowQueue;
  readonly rowRequests: RowRequests;
  /** Numbers of the plans that may have locked rows. */
  readonly activePlans = new Set<bigint>();
  /** Present once the session has ended. Resolves when all plans that the session had decided are applied. */
  sweepWork: Promise<void> | undefined;
  #lastPlanNumber = 0n;
  #unfoldedRecords: UnfoldedRecord[] = [];
  readonly #releasingIds = new Set<string>();
  readonly #onEnd: (session: Session) => void;
  #timers: CancelTimer[] = [];
  #lastPollAt = Number.NEGATIVE_INFINITY;
  #hasEnded = false;

  constructor(cluster: Cluster, tickets: Tickets, options: SessionOptions, onEnd: (session: Session) => void) {
    this.cluster = cluster;
    this.tickets = tickets;
    this.options = options;
    this.#onEnd = onEnd;
    const { clock, pace } = options;
    this.clock = clock;
    this.pace = pace;
    this.writer = new Writer(cluster, tickets, clock, pace.leaseMs, options.createId());
    this.emptyLockCells = new EmptyLockCells(cluster, clock, pace.emptyCellIdleMs);
    this.sharedRows = new SharedRows(this);
    this.rowQueue = new RowQueue(clock, pace.requestExpiryMs);
    this.rowRequests = new RowRequests(cluster, clock, pace.requestResendMs, this.writer.id);
  }

  /** Creates the context of a plan. `holdsGates`: this front end holds gates (locks of whole tables) for the plan. */
  createContext(holdsGates = false): PlanContext {
    return new PlanContext(this.clock, this.pace.planTimeoutMs, holdsGates);
  }

  async open(): Promise<void> {
    await this.writer.open();
    const { requestPollMs, cleanupIntervalMs, idleCheckMs } = this.pace;
    this.#runRepeatedly(requestPollMs, () => this.#pollRequests());
    this.#runRepeatedly(cleanupIntervalMs, () => this.writer.removeFinishedRecords());
    this.#runRepeatedly(idleCheckMs, () => this.#releaseIdle());
    this.#runRepeatedly(idleCheckMs, () => this.emptyLockCells.removeIdle());
  }

  #runRepeatedly(ms: number, work: () => Promise<void>): void {
    let isRunning = false;
    const cancelTimer = this.clock.runEvery(ms, () => {
      // The renewal of the beat may have found that another front end ended the lease.
      if (this.isEnded) return this.abandon();
      if (isRunning) return;
      isRunning = true;
      // Failed work is repeated at the next interval. The lease ends the session when failures go on too long.
      work()
        .catch((error: unknown) => this.#abandonIfFenced(error))
        .finally(() => {
          isRunning = false;
        });
    });
    this.#timers.push(cancelTimer);
  }

  #abandonIfFenced(error: unknown): void {
    if (error instanceof FencedError) this.abandon();
  }

  /** Resolves when the increments that are being written to the row are stored, after a crash by the sweeper. */
  async waitForFold(id: string): Promise<void> {
    const work = this.isEnded ? this.sweepWork : this.sharedRows.get(id)?.foldWork;
    // A failed write ends the session.
    await work?.catch(() => undefined);
  }

  get isEnded(): boolean {
    return this.writer.isFenced;
  }

  /** Ends the session. A sweeper applies the decided plans. The other plans have not happened. */
  abandon(): void {
    this.writer.abandon();
    this.emptyLockCells.abandon();
    this.#stopTimers();
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#onEnd(this);
    // Marked as handled for want of a caller of `waitForFold`. The next check of the journal repeats a failed sweep.
    this.sweepWork?.catch(() => undefined);
  }

  #stopTimers(): void {
    for (const cancelTimer of this.#timers.splice(0)) cancelTimer();
  }

  /** Draws tickets for the work. Until the work has ended, `Store.settled` stays below these tickets. */
  async withTickets<T>(count: number, work: (firstTicket: Promise<bigint>) => Promise<T>): Promise<T> {
    const { unfinishedPlans } = this.writer;
    const plan = unfinishedPlans.register(this.tickets.greatestTicket);
    const firstTicket = markHandled(this.tickets.draw(count));
    void firstTicket.then(
      (ticket) => unfinishedPlans.setTicket(plan, ticket),
      () => undefined,
    );
    try {
      return await work(firstTicket);
    } finally {
      // For an ended session, the journal row limits `Store.settled` until the decided plans are applied.
      if (!this.isEnded) unfinishedPlans.remove(plan);
    }
  }

  nextPlanNumber(): bigint {
    this.#lastPlanNumber++;
    this.activePlans.add(this.#lastPlanNumber);
    return this.#lastPlanNumber;
  }

  /** Removes the record of an applied plan once its increments are written to their rows. */
  finishRecordWhenFolded(sequence: bigint, planNumber: bigint, byteCount: number, rows: readonly SharedRow[]): void {
    if (rows.every((row) => row.foldedSequence >= sequence)) this.writer.finishRecord(sequence, planNumber, byteCount);
    else this.#unfoldedRecords.push({ sequence, planNumber, byteCount, rows });
  }

  finishFoldedRecords(): void {
    const unfoldedRecords: UnfoldedRecord[] = [];
    for (const record of this.#unfoldedRecords) {
      const { sequence, planNumber, byteCount, rows } = record;
      if (rows.every((row) => row.foldedSequence >= sequence))
        this.writer.finishRecord(sequence, planNumber, byteCount);
      else unfoldedRecords.push(record);
    }
    this.#unfoldedRecords = unfoldedRecords;
  }

  /** Reads the requests of other front ends, and releases the requested rows. */
  async #pollRequests(): Promise<void> {
    const now = this.clock.now();
    const isIdle = this.sharedRows.size === 0 && !this.rowQueue.hasWaiters;
    if (isIdle && now - this.#lastPollAt < this.pace.idleRequestPollMs) return;
    this.#lastPollAt = now;
    const { freshRequests, expiredRequests } = this.rowQueue.updateRequests(await this.writer.readRequests());
    if (expiredRequests.length > 0) await this.writer.removeRequests(expiredRequests);
    for (const id of this.rowQueue.rowsToRelease()) {
      const sharedRow = this.sharedRows.get(id);
      if (sharedRow) this.#startRelease(id, () => this.#releaseShared(sharedRow));
    }
    for (const { id, requestKey } of freshRequests)
      if (!this.sharedRows.get(id)) this.#startRelease(id, () => this.#removeRequestedLock(requestKey));
  }

  /** Starts a release, unless one is running for this row. */
  #startRelease(id: string, work: () => Promise<void>): void {
    if (this.#releasingIds.has(id)) return;
    this.#releasingIds.add(id);
    work()
      .catch((error: unknown) => this.#abandonIfFenced(error))
      .finally(() => this.#releasingIds.delete(id));
  }

  /** Removes the lock of a requested row that this front end does not hold. */
  async #removeRequestedLock(requestKey: Buffer): Promise<void> {
    const { table: tableName, key } = rowOfRequest(requestKey);
    const table = await this.cluster.findTable(tableName);
    if (table) await this.#removeUnknownLock({ table, key });
  }

  async #releaseShared(row: SharedRow): Promise<void> {
    if (this.sharedRows.get(row.id) !== row) return;
    const release = await this.localLocks.acquire([{ id: row.id, isExclusive: true }]);
    try {
      if (this.sharedRows.get(row.id) === row) await this.sharedRows.release(row);
    } finally {
      release();
    }
  }

  /** Removes a lock of this writer that no plan holds: the answer to the mutation that put it was lost. */
  async #removeUnknownLock(row: LockedRow): Promise<void> {
    const id = rowId(row.table.spec.name, row.key);
    const release = await this.localLocks.acquire([{ id, isExclusive: true }]);
    try {
      const lock = await readLock(this.cluster, row);
      if (lock && this.#isUnknownLock(id, lock))
        await removeHolders(this.cluster, row, lock, (writer) => writer.equals(this.writer.id));
    } finally {
      release();
    }
  }

  #isUnknownLock(id: string, value: Buffer): boolean {
    const lock = parseLock(value);
    if (!holdersOf(lock).some((writer) => writer.equals(this.writer.id))) return false;
    return lock.kind === 'exclusive' ? !this.activePlans.has(lock.planNumber) : !this.sharedRows.get(id);
  }

  /** Removes a conflicting lock of dead writers, or requests `rows` from the living holders. */
  async resolveConflict({ row, lockValue }: Conflict, rows: readonly WantedRow[], context: PlanContext): Promise<void> {
    const holders = holdersOf(parseLock(lockValue)).filter((writer) => !writer.equals(this.writer.id));
    if (holders.length === 0) return this.#removeUnknownLock(row);
    const aliveFlags = await Promise.all(holders.map((writer) => this.rowRequests.send(writer, rows, context)));
    if (aliveFlags.includes(false)) await removeDeadHolders(this.cluster, row, lockValue);
  }

  /** Removes a plan's lock from a row that the plan does not change. */
  async unlock(row: LockedRow, planNumber: bigint): Promise<void> {
    const { table, key } = row;
    await this.cluster.mutateGuarded(table.handle, {
      key,
      guards: [{ op: 'equals', ...table.lock, value: exclusiveLock(this.writer.id, planNumber) }],
      ...unlockCells(row, this.emptyLockCells.recordUnlock(row)),
    });
  }

  /** Releases shared rows unused for `Pace.sharedRowIdleMs`, and above the maximum the least recently used. */
  async #releaseIdle(): Promise<void> {
    const usedBefore = this.clock.now() - this.pace.sharedRowIdleMs;
    let excess = this.sharedRows.size - MAX_SHARED_ROWS;
    const idleRows: SharedRow[] = [];
    for (const row of this.sharedRows.rows()) {
      if (excess-- <= 0 && row.lastUsedAt >= usedBefore) break;
      if (row.isFolded && row.state === 'held') idleRows.push(row);
    }
    await this.#releaseAll(idleRows);
  }

  async #releaseAll(rows: readonly SharedRow[]): Promise<void> {
    for (let startIndex = 0; startIndex < rows.length; startIndex += LOCK_BATCH)
      await Promise.all(rows.slice(startIndex, startIndex + LOCK_BATCH).map((row) => this.#releaseShared(row)));
  }

  /** Releases all rows and ends the writer. No plan may be running. */
  async close(): Promise<void> {
    this.#stopTimers();
    if (this.isEnded) return;
    await this.#releaseAll([...this.sharedRows.rows()]);
    await this.emptyLockCells.close();
    await this.writer.close();
  }
}
