import type { Cluster } from '../cluster.js';
import { LOCK_BATCH, type LockedRow, removeEmptyCell } from './locks.js';
import { rowId } from './plan-rows.js';
import type { Clock } from './tickets.js';

const MAX_UNLOCKED_ROWS = 1024;

interface UnlockedRow {
  readonly row: LockedRow;
  readonly unlockedAt: number;
  /** Whether the lock cell was left in the row, empty. */
  readonly keepsCell: boolean;
}

/**
 * The rows whose lock cells stay, empty, when the rows are unlocked. A region server that reads a lock skips every
 * deletion of it since the last compaction: a row that was changed 6,000 times was changed sixteen times more slowly at
 * the end. Earlier puts cost nothing (`OpenTable.lock`). A row that is unlocked for the second time
 * within `Pace.emptyCellIdleMs` therefore keeps its lock cell until it has not been locked for as long.
 */
export class EmptyLockCells {
  readonly #cluster: Cluster;
  readonly #clock: Clock;
  readonly #idleMs: number;
  /** By row id, the least recently unlocked row first. */
  readonly #unlockedRows = new Map<string, UnlockedRow>();
  /** Rows whose empty cells are to be deleted. */
  #removals: LockedRow[] = [];
  #isClosed = false;

  constructor(cluster: Cluster, clock: Clock, idleMs: number) {
    this.#cluster = cluster;
    this.#clock = clock;
    this.#idleMs = idleMs;
  }

  /** Records that the row is about to be unlocked. Returns whether its lock cell stays. */
  recordUnlock({ table, key }: LockedRow): boolean {
    if (this.#isClosed) return false;
    const id = rowId(table.spec.name, key);
    const lastUnlock = this.#unlockedRows.get(id);
    const unlockedAt = this.#clock.now();
    const keepsCell = lastUnlock !== undefined && unlockedAt - lastUnlock.unlockedAt < this.#idleMs;
    this.#unlockedRows.delete(id);
    this.#unlockedRows.set(id, { row: { table, key: Buffer.from(key) }, unlockedAt, keepsCell });
    if (this.#unlockedRows.size > MAX_UNLOCKED_ROWS) this.#dropOldest();
    return keepsCell;
  }

  #dropOldest(): void {
    const [oldest] = this.#unlockedRows;
    const [id, { row, keepsCell }] = oldest!;
    this.#unlockedRows.delete(id);
    if (keepsCell) this.#removals.push(row);
  }

  /** Deletes the cells of rows that were not locked for `Pace.emptyCellIdleMs`. */
  async removeIdle(): Promise<void> {
    const now = this.#clock.now();
    for (const { unlockedAt } of this.#unlockedRows.values()) {
      if (now - unlockedAt < this.#idleMs) break;
      this.#dropOldest();
    }
    await this.#remove();
  }

  /** Forgets all rows. To be called when the lease has ended, after which other front ends delete the empty cells. */
  abandon(): void {
    this.#isClosed = true;
    this.#unlockedRows.clear();
    this.#removals = [];
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    while (this.#unlockedRows.size > 0) this.#dropOldest();
    await this.#remove();
  }

  async #remove(): Promise<void> {
    while (this.#removals.length > 0) {
      const rows = this.#removals.splice(-LOCK_BATCH);
      try {
        await Promise.all(rows.map((row) => removeEmptyCell(this.#cluster, row)));
      } catch (error) {
        this.#removals.push(...rows);
        throw error;
      }
    }
  }
}
