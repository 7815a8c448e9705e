import { markHandled } from '../../maybe.js';
import type { Cluster } from '../cluster.js';
import type { Failpoint } from './apply.js';
import type { Clock, Pace, Stop } from './clock.js';
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
import { rowId } from './plan-rows.js';
import { PlanContext, RowQueue } from './row-queue.js';
import { RowRequests, rowOfRequest, type WantedRow } from './row-requests.js';
import { type SharedRow, SharedRows } from './shared-rows.js';
import type { Tickets } from './tickets.js';
import { Fenced, Writer } from './writer.js';

export interface SessionOptions {
  readonly clock: Clock;
  readonly pace: Pace;
  /** Returns a writer id: 8 bytes that are never used twice. */
  readonly newId: () => Buffer;
  readonly failpoint?: Failpoint | undefined;
}

/** Approximate maximum number of shared rows. Each takes memory here and a lock in HBase. */
const MAX_SHARED_ROWS = 10_000;

/** The record of a decided plan whose counters are not all folded yet. */
interface UnfoldedRecord {
  readonly sequence: bigint;
  readonly plan: bigint;
  readonly bytes: number;
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
  readonly shared: SharedRows;
  readonly emptyCells: EmptyLockCells;
  readonly localLocks = new LocalLocks();
  readonly queue: RowQueue;
  readonly requests: RowRequests;
  /** Numbers of the plans that may have locked rows. */
  readonly activePlans = new Set<bigint>();
  /** Set when the session has ended. Resolves when everything that the session had decided is applied. */
  sweeping: Promise<void> | undefined;
  #plans = 0n;
  #unfolded: UnfoldedRecord[] = [];
  readonly #releasing = new Set<string>();
  readonly #onEnd: (session: Session) => void;
  #timers: Stop[] = [];
  #lastPoll = Number.NEGATIVE_INFINITY;
  #hasEnded = false;

  constructor(cluster: Cluster, tickets: Tickets, options: SessionOptions, onEnd: (session: Session) => void) {
    this.cluster = cluster;
    this.tickets = tickets;
    this.options = options;
    this.#onEnd = onEnd;
    const { clock, pace } = options;
    this.clock = clock;
    this.pace = pace;
    this.writer = new Writer(cluster, tickets, clock, pace.lease, options.newId());
    this.emptyCells = new EmptyLockCells(cluster, clock, pace.emptyCellIdle);
    this.shared = new SharedRows(this);
    this.queue = new RowQueue(clock, pace.requestExpiry);
    this.requests = new RowRequests(cluster, clock, pace.requestResend, this.writer.id);
  }

  /** Creates the context of a new plan. `holdsGates`: this front end holds gates of tables for the plan. */
  createContext(holdsGates = false): PlanContext {
    return new PlanContext(this.clock, this.pace.planTimeout, holdsGates);
  }

  async open(): Promise<void> {
    await this.writer.open();
    const { requestPoll, cleanupInterval, idleCheck } = this.pace;
    this.#repeat(requestPoll, () => this.#pollRequests());
    this.#repeat(cleanupInterval, () => this.writer.removeFinished());
    this.#repeat(idleCheck, () => this.#releaseIdle());
    this.#repeat(idleCheck, () => this.emptyCells.removeIdle());
  }

  #repeat(ms: number, work: () => Promise<void>): void {
    let isRunning = false;
    const stop = this.clock.every(ms, () => {
      // The renewal of the beat may have found that the writer was given up.
      if (this.isEnded) return this.abandon();
      if (isRunning) return;
      isRunning = true;
      // A failed run is repeated at the next interval. The lease ends the session when failures go on too long.
      work()
        .catch((error: unknown) => this.#abandonIfFenced(error))
        .finally(() => {
          isRunning = false;
        });
    });
    this.#timers.push(stop);
  }

  #abandonIfFenced(error: unknown): void {
    if (error instanceof Fenced) this.abandon();
  }

  /** Resolves when the fold under way for this row has ended. After the end of the session, the sweeper folds. */
  async waitForFold(id: string): Promise<void> {
    const work = this.isEnded ? this.sweeping : this.shared.get(id)?.foldWork;
    // A failed fold ends the session.
    await work?.catch(() => undefined);
  }

  get isEnded(): boolean {
    return this.writer.isFenced;
  }

  /** Ends the session. A sweeper applies the decided plans. The other plans have not happened. */
  abandon(): void {
    this.writer.abandon();
    this.emptyCells.abandon();
    this.#stop();
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#onEnd(this);
    this.sweeping?.catch(() => undefined);
  }

  #stop(): void {
    for (const stop of this.#timers.splice(0)) stop();
  }

  /** Draws tickets for the work. Appended rows count as unfinished until the work has ended. */
  async withTickets<T>(count: number, work: (first: Promise<bigint>) => Promise<T>): Promise<T> {
    const { unfinished } = this.writer;
    const plan = unfinished.begin(this.tickets.greatest);
    const first = markHandled(this.tickets.draw(count));
    void first.then(
      (ticket) => unfinished.setTicket(plan, ticket),
      () => undefined,
    );
    try {
      return await work(first);
    } finally {
      // For an ended session, the journal row limits `Store.settled` until the decided plans are applied.
      if (!this.isEnded) unfinished.end(plan);
    }
  }

  nextPlan(): bigint {
    this.#plans++;
    this.activePlans.add(this.#plans);
    return this.#plans;
  }

  /** Removes the record of an applied plan when its counters are folded. */
  finishRecordWhenFolded(sequence: bigint, plan: bigint, bytes: number, rows: readonly SharedRow[]): void {
    if (rows.every((row) => row.folded >= sequence)) this.writer.finishRecord(sequence, plan, bytes);
    else this.#unfolded.push({ sequence, plan, bytes, rows });
  }

  finishFoldedRecords(): void {
    const left: UnfoldedRecord[] = [];
    for (const record of this.#unfolded) {
      const { sequence, plan, bytes, rows } = record;
      if (rows.every((row) => row.folded >= sequence)) this.writer.finishRecord(sequence, plan, bytes);
      else left.push(record);
    }
    this.#unfolded = left;
  }

  /** Reads the requests of other front ends, and releases the requested rows. */
  async #pollRequests(): Promise<void> {
    const now = this.clock.now();
    const isIdle = this.shared.size === 0 && !this.queue.hasWaiters;
    if (isIdle && now - this.#lastPoll < this.pace.idleRequestPoll) return;
    this.#lastPoll = now;
    const { fresh, expired } = this.queue.updateRequests(await this.writer.readRequests());
    if (expired.length > 0) await this.writer.removeRequests(expired);
    for (const id of this.queue.rowsToRelease()) {
      const held = this.shared.get(id);
      if (held) this.#startRelease(id, () => this.#releaseShared(held));
    }
    for (const { id, name } of fresh)
      if (!this.shared.get(id)) this.#startRelease(id, () => this.#removeRequestedLock(name));
  }

  /** Starts a release, unless one is running for this row. */
  #startRelease(id: string, work: () => Promise<void>): void {
    if (this.#releasing.has(id)) return;
    this.#releasing.add(id);
    work()
      .catch((error: unknown) => this.#abandonIfFenced(error))
      .finally(() => this.#releasing.delete(id));
  }

  /** Removes the lock of a requested row that this front end does not hold. */
  async #removeRequestedLock(name: Buffer): Promise<void> {
    const { table: tableName, key } = rowOfRequest(name);
    const table = await this.cluster.findTable(tableName);
    if (table) await this.#removeUnknownLock({ table, key });
  }

  async #releaseShared(row: SharedRow): Promise<void> {
    if (this.shared.get(row.id) !== row) return;
    const release = await this.localLocks.acquire([{ id: row.id, exclusive: true }]);
    try {
      if (this.shared.get(row.id) === row) await this.shared.release(row);
    } finally {
      release();
    }
  }

  /** Removes a lock of this writer that no plan holds: the answer to the mutation that put it was lost. */
  async #removeUnknownLock(row: LockedRow): Promise<void> {
    const id = rowId(row.table.spec.name, row.key);
    const release = await this.localLocks.acquire([{ id, exclusive: true }]);
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
    return lock.kind === 'exclusive' ? !this.activePlans.has(lock.plan) : !this.shared.get(id);
  }

  /** Removes locks of dead writers, and requests all rows that the plan wants from the living holders. */
  async resolveConflict({ row, lock }: Conflict, wanted: readonly WantedRow[], context: PlanContext): Promise<void> {
    const others = holdersOf(parseLock(lock)).filter((writer) => !writer.equals(this.writer.id));
    if (others.length === 0) return this.#removeUnknownLock(row);
    const areAlive = await Promise.all(others.map((writer) => this.requests.send(writer, wanted, context)));
    if (areAlive.includes(false)) await removeDeadHolders(this.cluster, row, lock);
  }

  /** Removes a plan's lock from a row that the plan does not change. */
  async unlock(row: LockedRow, plan: bigint): Promise<void> {
    const { table, key } = row;
    await this.cluster.mutateGuarded(table.handle, {
      key,
      guards: [{ op: 'equals', ...table.lock, value: exclusiveLock(this.writer.id, plan) }],
      ...unlockCells(row, this.emptyCells.recordUnlock(row)),
    });
  }

  /** Releases shared rows unused for `Pace.sharedIdle`, and above the maximum the least recently used. */
  async #releaseIdle(): Promise<void> {
    const before = this.clock.now() - this.pace.sharedIdle;
    let excess = this.shared.size - MAX_SHARED_ROWS;
    const idle: SharedRow[] = [];
    for (const row of this.shared.rows()) {
      if (excess-- <= 0 && row.usedAt >= before) break;
      if (row.isFolded && row.state === 'held') idle.push(row);
    }
    await this.#releaseAll(idle);
  }

  async #releaseAll(rows: readonly SharedRow[]): Promise<void> {
    for (let at = 0; at < rows.length; at += LOCK_BATCH)
      await Promise.all(rows.slice(at, at + LOCK_BATCH).map((row) => this.#releaseShared(row)));
  }

  /** Releases everything. No plan is running. */
  async close(): Promise<void> {
    this.#stop();
    if (this.isEnded) return;
    await this.#releaseAll([...this.shared.rows()]);
    await this.emptyCells.close();
    await this.writer.close();
  }
}
