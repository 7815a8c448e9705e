import type { Cell, Increment } from '../../contract.js';
import { cellCounter, cellValue, compareCells, counterBytes } from '../../row.js';
import { editRow } from '../../row-edit.js';
import { mayBeApplied, StoreError } from '../../store-error.js';
import type { Cluster, OpenTable } from '../cluster.js';
import { type Holder, parseLock, type SharedLock, sharedLock } from './codec.js';
import type { EmptyLockCells } from './empty-lock-cells.js';
import { type Conflict, type LockedRow, lockValueOf, unlockCells } from './locks.js';
import type { Pace } from './pace.js';
import { type CancelTimer, type Clock, logicalClock, type Tickets } from './tickets.js';
import { FencedError, type Writer } from './writer.js';

/** Maximum size of `SharedRows.#foldTimes`. */
const MAX_FOLD_TIMES = 1000;

/**
 * A row that this front end holds shared. While the row is held, other front ends change only its counters.
 *
 *     acquiring ──► held ──► releasing ──► released      (an exclusive lock in the way: acquiring ──► released)
 *
 * While the row is held, plans add to `pendingIncrements`. A *fold* moves these increments to `foldingIncrements` and
 * writes them to the row; then `foldedSequence` is the sequence of the last record among them. Acquiring and releasing
 * need the local lock of the row. Folds need no lock, and run in sequence.
 */
export class SharedRow implements LockedRow {
  readonly table: OpenTable;
  readonly key: Buffer;
  readonly id: string;
  /** Value of the lock cell when it was last read. */
  lockValue: Buffer = Buffer.alloc(0);
  /** The row's cells when the row was last read. */
  content: Buffer | undefined;
  state: 'acquiring' | 'held' | 'releasing' | 'released' = 'acquiring';
  /** Resolves when the row is acquired, with the conflicting lock if there is one. */
  acquisition: Promise<Buffer | undefined> | undefined;
  /** Increments that are not being written to the row yet. */
  pendingIncrements: Increment[] = [];
  /** Increments that are being written to the row. */
  foldingIncrements: Increment[] = [];
  /** Sequence of the last record with increments of this row. */
  lastSequence = 0n;
  /** Increments of records up to this sequence are in the stored row. */
  foldedSequence = 0n;
  /** Value of `foldedSequence` when the row was acquired. */
  joinSequence = 0n;
  lastFoldAt = Number.NEGATIVE_INFINITY;
  lastUsedAt = 0;
  foldWork: Promise<void> = Promise.resolve();
  /** Cancels the timer of the next write of increments. */
  cancelFoldTimer: CancelTimer | undefined;

  constructor(table: OpenTable, key: Buffer, id: string) {
    this.table = table;
    this.key = key;
    this.id = id;
  }

  get isFolded(): boolean {
    return this.pendingIncrements.length === 0 && this.foldingIncrements.length === 0;
  }

  /** Returns the stored `row` with the pending increments applied. */
  withPendingIncrements(row: Buffer | undefined): Buffer | undefined {
    if (this.isFolded) return row;
    return editRow(row, incrementedCells(row, [...this.foldingIncrements, ...this.pendingIncrements]));
  }
}

/** Adds up the increments of each cell. Returns them in cell order. */
export function sumByCell(increments: readonly Increment[]): Increment[] {
  const sums: { family: number; qualifier: Buffer; by: bigint }[] = [];
  for (const add of increments) {
    const sum = sums.find((cell) => compareCells(cell, add) === 0);
    if (sum) sum.by += add.by;
    else sums.push({ ...add });
  }
  return sums.sort(compareCells);
}

/** Returns the counter cells of the row with the increments applied. */
export function incrementedCells(row: Buffer | undefined, increments: readonly Increment[]): Cell[] {
  return sumByCell(increments).map(({ family, qualifier, by }) => {
    const value = counterBytes(BigInt.asIntN(64, cellCounter(row, family, qualifier) + by));
    return { family, qualifier, value };
  });
}

/** The members of `Session` that shared rows use. */
interface SharedRowsOwner {
  readonly cluster: Cluster;
  readonly writer: Writer;
  readonly emptyLockCells: EmptyLockCells;
  readonly tickets: Tickets;
  readonly clock: Clock;
  readonly pace: Pace;
  /** Ends the session, because increments could not be written to their row. */
  abandon(): void;
  /** Removes the records whose increments are all written to their rows. Called after each such write. */
  finishFoldedRecords(): void;
}

/** The rows that a writer holds shared, and the increments of their counters that are not written to the rows yet. */
export class SharedRows {
  readonly #owner: SharedRowsOwner;
  readonly #rows = new Map<string, SharedRow>();
  /**
   * By table: the number of rows with pending increments, and the time (`logicalClock`) of the last write of
   * increments.
   */
  readonly #tableStates = new Map<string, { pendingRowCount: number; lastFoldTime: number }>();
  /**
   * By row: the `logicalClock` time of the last write of increments, oldest first. Times up to `#foldTimesStart` are
   * dropped.
   */
  readonly #foldTimes = new Map<string, number>();
  #foldTimesStart = logicalClock.now();
  #joinCount = 0;

  constructor(owner: SharedRowsOwner) {
    this.#owner = owner;
  }

  get size(): number {
    return this.#rows.size;
  }

  get(id: string): SharedRow | undefined {
    return this.#rows.get(id);
  }

  /** Whether rows of the table that were read at `since` or later may lack increments of this front end. */
  mayLackIncrements(table: string, since: number): boolean {
    const tableState = this.#tableStates.get(table);
    return tableState !== undefined && (tableState.pendingRowCount > 0 || tableState.lastFoldTime > since);
  }

  /** Whether increments of the row were being written at `since` or later. */
  wasFolding(id: string, since: number): boolean {
    const row = this.#rows.get(id);
    // The sweeper writes the increments that an ended session had pending.
    if (this.#owner.writer.isFenced) return row !== undefined && !row.isFolded;
    const isFolding = row !== undefined && row.foldingIncrements.length > 0;
    return isFolding || (this.#foldTimes.get(id) ?? this.#foldTimesStart) > since;
  }

  /** Returns the rows, the least recently used first. */
  rows(): Iterable<SharedRow> {
    return this.#rows.values();
  }

  /** Returns the row when this front end holds it, otherwise the conflict. The caller has the local lock of the row. */
  async hold(table: OpenTable, key: Buffer, id: string): Promise<SharedRow | Conflict> {
    const row = this.#rows.get(id) ?? new SharedRow(table, key, id);
    this.#rows.delete(id);
    this.#rows.set(id, row);
    row.lastUsedAt = this.#owner.clock.now();
    row.acquisition ??= this.#acquire(row);
    const lockValue = await row.acquisition;
    return lockValue ? { row: { table, key }, lockValue } : row;
  }

  async #acquire(row: SharedRow): Promise<Buffer | undefined> {
    try {
      const lock = await this.#join(row);
      if (lock) this.#removeRow(row);
      else row.state = 'held';
      return lock;
    } catch (error) {
      this.#removeRow(row);
      throw error;
    }
  }

  #removeRow(row: SharedRow): void {
    row.state = 'released';
    if (this.#rows.get(row.id) === row) this.#rows.delete(row.id);
  }

  /**
   * Adds this writer to the row's holders. Each try is sent once. After a lost answer the next try has a new sequence.
   * A try that arrives after the row was released therefore creates a hold under which no record was decided.
   */
  async #join(row: SharedRow): Promise<Buffer | undefined> {
    const endMs = this.#owner.clock.now() + this.#owner.pace.planTimeoutMs;
    let ownHold: Holder = { writer: this.#owner.writer.id, foldedSequence: this.#owner.writer.lastSequence };
    let lock: Buffer | undefined;
    for (;;) {
      const value = withHolder(lock, ownHold, joinMark(ownHold.writer, ++this.#joinCount));
      const isJoined = await this.#tryJoin(row, lock, value, endMs);
      if (isJoined) break;
      if (isJoined === undefined) ownHold = { ...ownHold, foldedSequence: this.#owner.writer.skipSequence() };
      lock = (await this.#readRow(row)).lockValue;
      if (lock && parseLock(lock).kind === 'exclusive') return lock;
      if (lock?.equals(value)) break;
    }
    // Only this read, made after joining, returns cells that other front ends do not change any more.
    const storedRow = await this.#readRow(row);
    const storedHold = storedRow.lockValue && findHolder(storedRow.lockValue, ownHold.writer);
    if (!storedRow.lockValue || !storedHold) throw new FencedError();
    row.lockValue = storedRow.lockValue;
    row.content = storedRow.content;
    row.lastSequence = storedHold.foldedSequence;
    row.foldedSequence = storedHold.foldedSequence;
    row.joinSequence = storedHold.foldedSequence;
    return undefined;
  }

  /** Sends a try without repeating it. Returns undefined when the answer was lost and there is time for another try. */
  async #tryJoin(row: SharedRow, lock: Buffer | undefined, value: Buffer, endMs: number): Promise<boolean | undefined> {
    const { table, key } = row;
    const { client } = this.#owner.cluster;
    const guard = lock
      ? ({ op: 'equals', ...table.lock, value: lock } as const)
      : ({ op: 'absent', ...table.lock } as const);
    try {
      return await client.mutate(table.handle, { key, guards: [guard], put: [{ ...table.lock, value }] });
    } catch (error) {
      if (!mayBeApplied(error) || this.#owner.clock.now() >= endMs) throw error;
      await this.#owner.clock.sleep(this.#owner.pace.requestPollMs);
      return undefined;
    }
  }

  async #readRow({ table, key }: SharedRow): Promise<{ lockValue: Buffer | undefined; content: Buffer | undefined }> {
    const cells = await this.#owner.cluster.client.get(table.handle, key, table.rowAndLockReads);
    if (!cells) return { lockValue: undefined, content: undefined };
    const lock = lockValueOf(table, cells);
    const storedLock = cellValue(cells, table.lock.family, table.lock.qualifier);
    const lockBytes = storedLock ? 7 + table.lock.qualifier.length + storedLock.length : 0;
    // The lock's family is the last one.
    const row = cells.length > lockBytes ? cells.subarray(0, cells.length - lockBytes) : undefined;
    return { lockValue: lock && Buffer.from(lock), content: row && Buffer.from(row) };
  }

  /**
   * Adds increments of the decided plan with record `sequence`. Writes the increments at once, and returns the promise
   * of that, when the last write is longer ago than the fold interval or when a counter cell is new. Otherwise returns
   * undefined: the caller may be answered at once.
   */
  add(row: SharedRow, increments: readonly Increment[], sequence: bigint): Promise<void> | undefined {
    if (row.isFolded) this.#tableState(row).pendingRowCount++;
    row.pendingIncrements.push(...increments);
    row.lastSequence = sequence;
    const sinceFoldMs = this.#owner.clock.now() - row.lastFoldAt;
    const hasAllCells = increments.every((add) => row.content && cellValue(row.content, add.family, add.qualifier));
    if (sinceFoldMs >= this.#owner.pace.foldIntervalMs || !hasAllCells) return this.fold(row);
    row.cancelFoldTimer ??= this.#owner.clock.runAfter(
      this.#owner.pace.foldIntervalMs - sinceFoldMs,
      // Increments that cannot be written end the session, whose sweeper applies them.
      () => void this.fold(row).catch(() => this.#owner.abandon()),
    );
    return undefined;
  }

  /** Writes the pending increments after the folds that are already under way. */
  fold(row: SharedRow): Promise<void> {
    row.cancelFoldTimer?.();
    row.cancelFoldTimer = undefined;
    row.lastFoldAt = this.#owner.clock.now();
    row.foldWork = row.foldWork.then(() => this.#foldPending(row, false));
    return row.foldWork;
  }

  /** Folds the pending increments and removes this writer from the lock. The caller has the row's local lock. */
  async release(row: SharedRow): Promise<void> {
    row.cancelFoldTimer?.();
    row.state = 'releasing';
    try {
      await row.foldWork;
      await this.#foldPending(row, true);
    } catch (error) {
      // The pending increments are now in the journal only.
      this.#owner.abandon();
      throw error;
    }
    this.#removeRow(row);
  }

  async #foldPending(row: SharedRow, isRelease: boolean): Promise<void> {
    if (row.pendingIncrements.length === 0 && !isRelease) return;
    if (this.#owner.writer.isFenced) throw new FencedError();
    const { lastSequence } = row;
    row.foldingIncrements = sumByCell(row.pendingIncrements);
    row.pendingIncrements = [];
    const ownHold = { writer: this.#owner.writer.id, foldedSequence: lastSequence };
    while (!(await this.#tryFold(row, ownHold, isRelease)) && !(await this.#reread(row, ownHold, isRelease)));
    row.foldedSequence = lastSequence;
    this.#owner.finishFoldedRecords();
  }

  /** Returns false when the lock cell has changed since it was read. */
  async #tryFold(row: SharedRow, ownHold: Holder, isRelease: boolean): Promise<boolean> {
    const { table, key } = row;
    const counters = incrementedCells(row.content, row.foldingIncrements);
    // The ticket is drawn after the row was last read, so it is greater than the timestamps in the row.
    const ticket = counters.length > 0 ? await this.#owner.tickets.draw(1) : undefined;
    const value = isRelease
      ? withoutHolder(row.lockValue, ownHold.writer, ticket)
      : withHolder(row.lockValue, ownHold, ticket);
    const change = value
      ? { put: [{ ...table.lock, value }], delete: [] }
      : unlockCells(row, this.#owner.emptyLockCells.recordUnlock(row));
    const isWritten = await this.#owner.cluster.mutateGuarded(table.handle, {
      key,
      guards: [{ op: 'equals', ...table.lock, value: row.lockValue }],
      put: [...counters, ...change.put],
      delete: change.delete,
      ...(ticket !== undefined && { timestamp: ticket }),
    });
    if (!isWritten) return false;
    row.content = editRow(row.content, counters);
    this.#markFolded(row);
    if (value) row.lockValue = value;
    return true;
  }

  #markFolded(row: SharedRow): void {
    if (row.foldingIncrements.length === 0) return;
    row.foldingIncrements = [];
    const now = logicalClock.tick();
    const tableState = this.#tableState(row);
    tableState.lastFoldTime = now;
    if (row.isFolded) tableState.pendingRowCount--;
    this.#foldTimes.delete(row.id);
    this.#foldTimes.set(row.id, now);
    if (this.#foldTimes.size <= MAX_FOLD_TIMES) return;
    const [oldest] = this.#foldTimes;
    this.#foldTimes.delete(oldest![0]);
    this.#foldTimesStart = oldest![1];
  }

  #tableState({ table: { spec } }: SharedRow): { pendingRowCount: number; lastFoldTime: number } {
    let tableState = this.#tableStates.get(spec.name);
    if (!tableState) {
      tableState = { pendingRowCount: 0, lastFoldTime: 0 };
      this.#tableStates.set(spec.name, tableState);
    }
    return tableState;
  }

  /** Reads the row after a failed condition. Returns true when the increments had been written after all. */
  async #reread(row: SharedRow, ownHold: Holder, isRelease: boolean): Promise<boolean> {
    const storedRow = await this.#readRow(row);
    const storedHold = storedRow.lockValue && findHolder(storedRow.lockValue, ownHold.writer);
    if (!storedHold) {
      // The hold is removed as intended, or the writer was swept and the sweeper has written the increments.
      if (!isRelease) throw new FencedError();
      this.#markFolded(row);
      return true;
    }
    row.lockValue = storedRow.lockValue!;
    row.content = storedRow.content;
    if (isRelease || row.foldingIncrements.length === 0 || storedHold.foldedSequence !== ownHold.foldedSequence)
      return false;
    this.#markFolded(row);
    return true;
  }
}

function findHolder(lock: Buffer, writer: Buffer): Holder | undefined {
  const parsedLock = parseLock(lock);
  return parsedLock.kind === 'shared' ? parsedLock.holders.find((holder) => holder.writer.equals(writer)) : undefined;
}

const UNHELD_LOCK: SharedLock = { kind: 'shared', holders: [], mark: 0n };

function parseSharedLock(lock: Buffer | undefined): SharedLock {
  if (!lock) return UNHELD_LOCK;
  const parsedLock = parseLock(lock);
  if (parsedLock.kind === 'exclusive') throw new StoreError('corrupt', 'a shared row has an exclusive lock');
  return parsedLock;
}

/**
 * Returns a `mark` for the lock that is no ticket and was never in a lock before. A late release of an earlier hold
 * therefore fails its condition, even when no counter has changed since.
 */
function joinMark(writer: Buffer, joinCount: number): bigint {
  const writerHash = (writer.readUInt32BE(0) ^ writer.readUInt32BE(4)) >>> 0;
  return (1n << 63n) | (BigInt(writerHash & 0x7fffffff) << 32n) | BigInt(joinCount >>> 0);
}

/** `mark`: the ticket of the counter change, or a join mark. Default: the mark of `lock`. */
function withHolder(lock: Buffer | undefined, ownHold: Holder, mark?: bigint): Buffer {
  const oldLock = parseSharedLock(lock);
  const otherHolders = oldLock.holders.filter((holder) => !holder.writer.equals(ownHold.writer));
  return sharedLock([...otherHolders, ownHold], mark ?? oldLock.mark)!;
}

function withoutHolder(lock: Buffer, writer: Buffer, mark: bigint | undefined): Buffer | undefined {
  const oldLock = parseSharedLock(lock);
  return sharedLock(
    oldLock.holders.filter((holder) => !holder.writer.equals(writer)),
    mark ?? oldLock.mark,
  );
}
