import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../errors.js';
import { cellValue } from '../../row.js';
import type { Cluster, OpenTable } from '../cluster.js';
import { parseLock, sharedLock } from './codec.js';
import { ALIVE, FOREVER, JOURNAL, STATE } from './journal-tables.js';
import type { Writer } from './writer.js';

/** Pauses between looks at a row that another holds, ms. */
const FIRST_PAUSE = 2;
const LONGEST_PAUSE = 60;
/** A holder is asked again after so many looks. */
const ASK_EVERY = 8;

const STATES = { columns: [{ family: JOURNAL.state, qualifier: STATE.state }] };

export interface LockedRow {
  readonly table: OpenTable;
  readonly key: Buffer;
}

/** Value of the row's lock cell. */
export async function readLock(cluster: Cluster, { table, key }: LockedRow): Promise<Buffer | undefined> {
  const row = await cluster.client.get(table.handle, key, table.locks);
  return row && cellValue(row, table.lock.family, table.lock.qualifier);
}

/** Name of the cell by which a row is asked for. */
export function askName({ table, key }: LockedRow): Buffer {
  return Buffer.concat([Buffer.from(`${table.spec.name}\0`, 'latin1'), key]);
}

export function parseAsk(name: Buffer): { table: string; key: Buffer } {
  const at = name.indexOf(0);
  return { table: name.toString('latin1', 0, at), key: name.subarray(at + 1) };
}

/** One caller's waiting for rows that others hold. */
export class Patience {
  readonly #cluster: Cluster;
  readonly #writer: Writer;
  readonly #until: number;
  #looks = 0;

  constructor(cluster: Cluster, writer: Writer, timeoutMs: number) {
    this.#cluster = cluster;
    this.#writer = writer;
    this.#until = performance.now() + timeoutMs;
  }

  /**
   * `found` is the lock cell that stands in the way. Removes it when its writer is dead, asks for the row otherwise,
   * and returns after a while: look again. Rejects with `unavailable` when it has taken too long.
   */
  async wait(row: LockedRow, found: Buffer): Promise<void> {
    if (await this.#removeDead(row, found)) return;
    if (performance.now() > this.#until)
      throw new StoreError('unavailable', `a row of table ${row.table.spec.name} is held by another front end`);
    if (this.#looks % ASK_EVERY === 0) await this.#ask(row, found);
    const pause = Math.min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** Math.min(this.#looks++, 10));
    await sleep(pause * (0.5 + Math.random()));
  }

  #holders(found: Buffer): Buffer[] {
    const lock = parseLock(found);
    return lock.kind === 'exclusive' ? [lock.writer] : lock.holders.map((holder) => holder.writer);
  }

  /** Whether the row may be free now. */
  async #removeDead({ table, key }: LockedRow, found: Buffer): Promise<boolean> {
    const states = await this.#states(this.#holders(found));
    const lock = parseLock(found);
    if (states.every((state) => state)) return false;
    const guards = [{ op: 'equals', ...table.lock, value: found } as const];
    const rest =
      lock.kind === 'shared'
        ? sharedLock(
            lock.holders.filter((_, i) => states[i]),
            lock.counted,
          )
        : undefined;
    await this.#cluster.swap(table, {
      key,
      guards,
      ...(rest ? { put: [{ ...table.lock, value: rest }] } : { delete: [table.lock], timestamp: FOREVER }),
    });
    return true;
  }

  /** Their journal rows' states; a writer without one is dead, and nothing that it decided is left to do. */
  async #states(writers: readonly Buffer[]): Promise<(Buffer | undefined)[]> {
    const { client, journal } = this.#cluster;
    return client.getMany(journal, writers, STATES);
  }

  async #ask(row: LockedRow, found: Buffer): Promise<void> {
    const { client, journal } = this.#cluster;
    const put = [{ family: JOURNAL.ask, qualifier: askName(row), value: ALIVE }];
    for (const writer of this.#holders(found)) {
      const guards = [{ op: 'equals', family: JOURNAL.state, qualifier: STATE.state, value: ALIVE } as const];
      if (!writer.equals(this.#writer.id))
        await client.mutate(journal, { key: writer, guards, put, timestamp: FOREVER, repeatable: true });
    }
  }
}
