import type { Cluster } from '../cluster.js';
import type { Clock } from './clock.js';
import { rowId } from './groups.js';
import { type LockedRow, removeVacant, TOGETHER } from './locks.js';

/** Rows that are remembered at the most. */
const MOST_ROWS = 1024;

interface Freed {
  readonly row: LockedRow;
  readonly at: number;
  /** Whether its lock cell was left. */
  readonly isVacant: boolean;
}

/**
 * Locks that were taken off, but for their cells, which stay and are empty. A region server that reads a lock passes
 * every deletion of it since the family was compacted last: a row that was changed 6,000 times was changed sixteen
 * times more slowly at the end. Puts it does not pass (`OpenTable.lock`). So a row that is freed for the second time
 * within `Pace.vacant` keeps its cell, until it was left alone for as long.
 */
export class VacantLocks {
  readonly #cluster: Cluster;
  readonly #clock: Clock;
  readonly #ms: number;
  /** By row, the one freed first in front. */
  readonly #freed = new Map<string, Freed>();
  /** Whose cells are to go. */
  #left: LockedRow[] = [];
  #isOver = false;

  constructor(cluster: Cluster, clock: Clock, ms: number) {
    this.#cluster = cluster;
    this.#clock = clock;
    this.#ms = ms;
  }

  /** The row is about to be freed; whether its lock cell stays. */
  stays({ table, key }: LockedRow): boolean {
    if (this.#isOver) return false;
    const id = rowId(table.spec.name, key);
    const before = this.#freed.get(id);
    const at = this.#clock.now();
    const isVacant = before !== undefined && at - before.at < this.#ms;
    this.#freed.delete(id);
    this.#freed.set(id, { row: { table, key: Buffer.from(key) }, at, isVacant });
    if (this.#freed.size > MOST_ROWS) this.#dropFirst();
    return isVacant;
  }

  #dropFirst(): void {
    const [first] = this.#freed;
    const [id, { row, isVacant }] = first!;
    this.#freed.delete(id);
    if (isVacant) this.#left.push(row);
  }

  /** Takes away the cells of rows that were left alone. */
  async tidy(): Promise<void> {
    const now = this.#clock.now();
    for (const { at } of this.#freed.values()) {
      if (now - at < this.#ms) break;
      this.#dropFirst();
    }
    await this.#remove();
  }

  /** Its front end was given up: others take away what it has left. */
  end(): void {
    this.#isOver = true;
    this.#freed.clear();
    this.#left = [];
  }

  /** Takes away all of them. */
  async close(): Promise<void> {
    this.#isOver = true;
    while (this.#freed.size > 0) this.#dropFirst();
    await this.#remove();
  }

  async #remove(): Promise<void> {
    while (this.#left.length > 0) {
      const rows = this.#left.splice(-TOGETHER);
      try {
        await Promise.all(rows.map((row) => removeVacant(this.#cluster, row)));
      } catch (error) {
        this.#left.push(...rows);
        throw error;
      }
    }
  }
}
