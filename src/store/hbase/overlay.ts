import type { Cluster, OpenTable } from './cluster.js';
import { rowId } from './journal/groups.js';
import { moments } from './journal/moments.js';
import type { Session } from './journal/session.js';
import type { ReadOptions } from './rpc/rpc-types.js';

/**
 * What a front end has added to counters and not folded into their rows yet, for those who read them: a read gives the
 * row as HBase has it, and what is missing in it is added. Where a fold went on during the read nobody can tell whether
 * it is in the row, and the row is read again.
 */
export class Overlay {
  /** The last is the one of now; those before have ended and are being swept. */
  #sessions: readonly Session[] = [];
  #swept = 0;

  opened(session: Session): void {
    this.#sessions = [...this.#sessions, session];
  }

  /** What the session, which has ended, had decided is done, or left to other front ends. */
  swept(session: Session): void {
    this.#sessions = this.#sessions.filter((one) => one !== session);
    this.#swept = moments.next();
  }

  /** Taken before a read, for what follows it. */
  moment(): number {
    return moments.now();
  }

  /** A row that was read since then as `options` say, with what is pending. */
  async settled(
    { client }: Cluster,
    { spec, handle }: OpenTable,
    key: Buffer,
    options: ReadOptions,
    row: Buffer | undefined,
    since: number,
  ): Promise<Buffer | undefined> {
    if (!this.#touches(spec.name, since)) return row;
    const id = rowId(spec.name, key);
    let found = row;
    for (let moment = since; this.#isFolding(id, moment); found = await client.get(handle, key, options)) {
      await Promise.all(this.#sessions.map((session) => session.folded(id)));
      moment = moments.now();
    }
    return this.#view(id, found);
  }

  /** As `settled`, for whole rows that were read together. */
  async settledRows(
    cluster: Cluster,
    table: OpenTable,
    keys: readonly Buffer[],
    rows: (Buffer | undefined)[],
    since: number,
  ): Promise<(Buffer | undefined)[]> {
    if (!this.#touches(table.spec.name, since)) return rows;
    return Promise.all(rows.map((row, i) => this.settled(cluster, table, keys[i]!, table.rows, row, since)));
  }

  /** Whether rows of the table that were read since then have to be looked at. */
  #touches(table: string, since: number): boolean {
    return this.#swept > since || this.#sessions.some(({ shared }) => shared.touches(table, since));
  }

  #isFolding(id: string, since: number): boolean {
    return this.#swept > since || this.#sessions.some(({ shared }) => shared.isFolding(id, since));
  }

  #view(id: string, row: Buffer | undefined): Buffer | undefined {
    const held = this.#sessions.at(-1)?.shared.held(id);
    return held ? held.view(row) : row;
  }
}
