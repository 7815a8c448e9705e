import type { Cluster, OpenTable } from './cluster.js';
import { rowId } from './journal/groups.js';
import { moments } from './journal/moments.js';
import type { Session } from './journal/session.js';

type Read = (key: Buffer) => Promise<Buffer | undefined>;

/**
 * What a front end has added to counters and not folded into their rows yet, for those who read them: a read gives the row as HBase
 * has it, and what is missing in it is added. Where a fold went on during the read nobody can tell whether it is in the row, and the
 * row is read again.
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

  /** Whether rows of the table that were read since then have to be looked at. */
  touches(table: string, since: number): boolean {
    return this.#swept > since || this.#sessions.some(({ shared }) => shared.touches(table, since));
  }

  /** A row that was read since then, with what is pending. `read` reads it again. */
  async settled(
    table: string,
    key: Buffer,
    row: Buffer | undefined,
    since: number,
    read: Read,
  ): Promise<Buffer | undefined> {
    const id = rowId(table, key);
    let found = row;
    for (let moment = since; this.#isFolding(id, moment); found = await read(key)) {
      await Promise.all(this.#sessions.map((session) => session.folded(id)));
      moment = moments.now();
    }
    return this.#view(id, found);
  }

  /** As `settled`, for whole rows that were read together. */
  async settledRows(
    { client }: Cluster,
    table: OpenTable,
    keys: readonly Buffer[],
    rows: (Buffer | undefined)[],
    since: number,
  ): Promise<(Buffer | undefined)[]> {
    const { name } = table.spec;
    if (!this.touches(name, since)) return rows;
    const again: number[] = [];
    const settled = rows.map((row, i) => {
      const id = rowId(name, keys[i]!);
      if (!this.#isFolding(id, since)) return this.#view(id, row);
      again.push(i);
      return undefined;
    });
    const read: Read = (key) => client.get(table.handle, key, table.rows);
    await Promise.all(
      again.map(async (i) => {
        settled[i] = await this.settled(name, keys[i]!, rows[i], since, read);
      }),
    );
    return settled;
  }

  #isFolding(id: string, since: number): boolean {
    return this.#swept > since || this.#sessions.some(({ shared }) => shared.isFolding(id, since));
  }

  #view(id: string, row: Buffer | undefined): Buffer | undefined {
    const held = this.#sessions.at(-1)?.shared.held(id);
    return held ? held.view(row) : row;
  }
}
