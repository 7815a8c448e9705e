import type { Cluster, OpenTable } from './cluster.js';
import { logicalClock } from './journal/logical-clock.js';
import { rowId } from './journal/plan-rows.js';
import type { Session } from './journal/session.js';
import type { ReadOptions } from './rpc/rpc-types.js';

/**
 * Adds the increments of counters that are not written to their rows yet to rows that are read. A row is read again if
 * increments were written to it during the read.
 */
export class Overlay {
  /** The last session is the current one. The others have ended and are being swept. */
  #sessions: readonly Session[] = [];
  #removedAt = 0;

  addSession(session: Session): void {
    this.#sessions = [...this.#sessions, session];
  }

  /** Removes an ended session whose decided plans are applied, or left to other front ends. */
  removeSession(session: Session): void {
    this.#sessions = this.#sessions.filter((openSession) => openSession !== session);
    this.#removedAt = logicalClock.tick();
  }

  /** Applies the pending increments to a row that was read with `options` after `since` (`logicalClock`). */
  async withPending(
    { client }: Cluster,
    { spec, handle }: OpenTable,
    key: Buffer,
    options: ReadOptions,
    row: Buffer | undefined,
    since: number,
  ): Promise<Buffer | undefined> {
    if (!this.#mayLackIncrements(spec.name, since)) return row;
    const id = rowId(spec.name, key);
    let currentRow = row;
    for (let moment = since; this.#wasFolding(id, moment); currentRow = await client.get(handle, key, options)) {
      await Promise.all(this.#sessions.map((session) => session.waitForFold(id)));
      moment = logicalClock.now();
    }
    const sharedRow = this.#sessions.at(-1)?.sharedRows.get(id);
    return sharedRow ? sharedRow.withPendingIncrements(currentRow) : currentRow;
  }

  /** As `withPending`, for whole rows that were read together. */
  async withPendingRows(
    cluster: Cluster,
    table: OpenTable,
    keys: readonly Buffer[],
    rows: (Buffer | undefined)[],
    since: number,
  ): Promise<(Buffer | undefined)[]> {
    if (!this.#mayLackIncrements(table.spec.name, since)) return rows;
    return Promise.all(rows.map((row, i) => this.withPending(cluster, table, keys[i]!, table.rowReads, row, since)));
  }

  /** Whether rows of the table that were read at `since` or later may lack increments. */
  #mayLackIncrements(table: string, since: number): boolean {
    return (
      this.#removedAt > since || this.#sessions.some(({ sharedRows }) => sharedRows.mayLackIncrements(table, since))
    );
  }

  #wasFolding(id: string, since: number): boolean {
    return this.#removedAt > since || this.#sessions.some(({ sharedRows }) => sharedRows.wasFolding(id, since));
  }
}
