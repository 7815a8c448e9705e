import { cellCounter, counterBytes, EMPTY } from '../../row.js';
import { mayBeApplied, StoreError } from '../../store-error.js';
import type { Cluster } from '../cluster.js';
import type { Clock } from './clock.js';

const KEY = Buffer.from('ticket');
const CELL = { family: 0, qualifier: EMPTY } as const;
/** Reads name the column, because a region server passes all earlier cells of a row that is read as a whole. */
const TICKET_CELL = { columns: [CELL] };

/** Distance between two tickets. The number between them is the timestamp up to which `deleteRow` deletes. */
export const STEP = 2n;

interface Draw {
  readonly count: number;
  resolve(first: bigint): void;
  reject(error: unknown): void;
}

/**
 * Rising numbers that all front ends draw from a counter in HBase: a draw that begins after the end of another draw
 * gets a greater ticket. Draws of the same turn of the event loop share a request, as do draws made while an answer is
 * outstanding.
 */
export class Tickets {
  readonly #cluster: Cluster;
  readonly #clock: Clock;
  #draws: Draw[] = [];
  #drawing = false;
  #greatest = 0n;

  constructor(cluster: Cluster, clock: Clock) {
    this.#cluster = cluster;
    this.#clock = clock;
  }

  /** The greatest ticket known here. Tickets drawn from now on are greater. */
  get greatest(): bigint {
    return this.#greatest;
  }

  /** Reads the ticket that was drawn last by any front end. */
  async read(): Promise<bigint> {
    const { client, numbers } = this.#cluster;
    const row = await client.get(numbers, KEY, TICKET_CELL);
    return this.#remember(cellCounter(row, CELL.family, CELL.qualifier));
  }

  #remember(ticket: bigint): bigint {
    if (ticket > this.#greatest) this.#greatest = ticket;
    return ticket;
  }

  async exists(): Promise<boolean> {
    try {
      const { client, numbers } = this.#cluster;
      return (await client.get(numbers, KEY, TICKET_CELL)) !== undefined;
    } catch (error) {
      if (error instanceof StoreError && error.code === 'noTable') return false;
      throw error;
    }
  }

  /** Creates the counter. It starts at microseconds since 1970, above the tickets of a counter that was lost. */
  async ensure(): Promise<void> {
    const { client, numbers } = this.#cluster;
    if (await client.get(numbers, KEY, TICKET_CELL)) return;
    const value = counterBytes(BigInt(Date.now()) * 1000n);
    await client.mutate(numbers, {
      key: KEY,
      guards: [{ op: 'absent', ...CELL }],
      put: [{ ...CELL, value }],
      repeatable: true,
    });
  }

  /** Returns the first of `count` tickets. The others follow in steps of `STEP`. */
  draw(count: number): Promise<bigint> {
    return new Promise((resolve, reject) => {
      this.#draws.push({ count, resolve, reject });
      if (this.#drawing) return;
      this.#drawing = true;
      this.#clock.defer(() => void this.#drawAll());
    });
  }

  async #drawAll(): Promise<void> {
    while (this.#draws.length > 0) {
      const draws = this.#draws;
      this.#draws = [];
      let total = 0;
      for (const { count } of draws) total += count;
      try {
        let next = this.#remember(await this.#increment(BigInt(total) * STEP)) - BigInt(total - 1) * STEP;
        for (const { count, resolve } of draws) {
          resolve(next);
          next += BigInt(count) * STEP;
        }
      } catch (error) {
        for (const { reject } of draws) reject(error);
      }
    }
    this.#drawing = false;
  }

  /** Increments the counter. A try whose answer was lost leaves a gap. */
  async #increment(by: bigint): Promise<bigint> {
    const { client, numbers } = this.#cluster;
    const draw = async () => (await client.increment(numbers, KEY, [{ ...CELL, by }]))[0]!;
    try {
      return await draw();
    } catch (error) {
      if (!mayBeApplied(error)) throw error;
    }
    return draw().catch((cause: unknown) => {
      // No plan depends on a ticket that was not handed out.
      throw new StoreError('unavailable', 'no ticket could be drawn', { cause });
    });
  }
}
