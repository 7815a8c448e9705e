import { cellCounter, counterBytes, EMPTY } from '../../row.js';
import { mayBeDone, StoreError } from '../../store-error.js';
import type { Cluster } from '../cluster.js';
import type { Clock } from './clock.js';

const KEY = Buffer.from('ticket');
const CELL = { family: 0, qualifier: EMPTY } as const;
/** By its name: whoever asks for the row passes, at the region server, all that it was. */
const NUMBER = { columns: [CELL] };

/** Tickets are this far apart: the one between is the time up to which `deleteRow` deletes. */
export const STEP = 2n;

interface Waiting {
  readonly count: number;
  resolve(first: bigint): void;
  reject(error: unknown): void;
}

/**
 * Rising numbers, the same for all front ends: one that is asked for after another was given is greater. Those asked
 * for in one turn of the event loop, or while an answer is under way, are drawn together.
 */
export class Tickets {
  readonly #cluster: Cluster;
  readonly #clock: Clock;
  #waiting: Waiting[] = [];
  #drawing = false;
  #given = 0n;

  constructor(cluster: Cluster, clock: Clock) {
    this.#cluster = cluster;
    this.#clock = clock;
  }

  /** A ticket that was given, the greatest that is known here: those that are drawn from now on are greater. */
  get given(): bigint {
    return this.#given;
  }

  /** The last ticket that anybody was given. */
  async read(): Promise<bigint> {
    const { client, numbers } = this.#cluster;
    const row = await client.get(numbers, KEY, NUMBER);
    return this.#know(cellCounter(row, CELL.family, CELL.qualifier));
  }

  #know(ticket: bigint): bigint {
    if (ticket > this.#given) this.#given = ticket;
    return ticket;
  }

  /** Whether the counter is there, and its table. */
  async isThere(): Promise<boolean> {
    try {
      const { client, numbers } = this.#cluster;
      return (await client.get(numbers, KEY, NUMBER)) !== undefined;
    } catch (error) {
      if (error instanceof StoreError && error.code === 'noTable') return false;
      throw error;
    }
  }

  /** Makes the counter where there is none. Microseconds since 1970: above those of a counter that was lost. */
  async ensure(): Promise<void> {
    const { client, numbers } = this.#cluster;
    if (await client.get(numbers, KEY, NUMBER)) return;
    const value = counterBytes(BigInt(Date.now()) * 1000n);
    await client.mutate(numbers, {
      key: KEY,
      guards: [{ op: 'absent', ...CELL }],
      put: [{ ...CELL, value }],
      repeatable: true,
    });
  }

  /** The first of `count` tickets; the others follow in steps of `STEP`. */
  draw(count: number): Promise<bigint> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ count, resolve, reject });
      if (this.#drawing) return;
      this.#drawing = true;
      this.#clock.soon(() => void this.#drawAll());
    });
  }

  async #drawAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const waiting = this.#waiting;
      this.#waiting = [];
      let total = 0;
      for (const { count } of waiting) total += count;
      try {
        let next = this.#know(await this.#increment(BigInt(total) * STEP)) - BigInt(total - 1) * STEP;
        for (const { count, resolve } of waiting) {
          resolve(next);
          next += BigInt(count) * STEP;
        }
      } catch (error) {
        for (const { reject } of waiting) reject(error);
      }
    }
    this.#drawing = false;
  }

  /** A draw whose answer was lost leaves a gap. */
  async #increment(by: bigint): Promise<bigint> {
    const { client, numbers } = this.#cluster;
    try {
      return (await client.increment(numbers, KEY, [{ ...CELL, by }]))[0]!;
    } catch (error) {
      if (!mayBeDone(error)) throw error;
      try {
        return (await client.increment(numbers, KEY, [{ ...CELL, by }]))[0]!;
      } catch (again) {
        // Nothing depends on a ticket that nobody got.
        throw new StoreError('unavailable', 'no ticket could be drawn', { cause: again });
      }
    }
  }
}
