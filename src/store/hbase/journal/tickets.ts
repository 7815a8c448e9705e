import { setTimeout as sleep } from 'node:timers/promises';
import { batchesOf } from '../../maybe.js';
import { cellCounter, cellValue, counterBytes, EMPTY } from '../../row.js';
import { mayBeApplied, StoreError } from '../../store-error.js';
import type { Cluster } from '../cluster.js';
import { DRAINED, JOURNAL, STATE } from './journal-tables.js';

const TICKET_KEY = Buffer.from('ticket');
const TICKET_COLUMN = { family: 0, qualifier: EMPTY } as const;
/** Reads name the column, because a region server that reads a whole row examines all its earlier cells. */
const TICKET_READS = { columns: [TICKET_COLUMN] };

/** Distance between two tickets. The number between them is the timestamp up to which `deleteRow` deletes. */
export const TICKET_STEP = 2n;

interface Draw {
  readonly count: number;
  resolve(firstTicket: bigint): void;
  reject(error: unknown): void;
}

/**
 * Rising numbers that all front ends draw from a counter in HBase: a draw that begins after the end of another draw
 * gets a greater ticket. Draws of the same iteration of the event loop share a request, as do draws made while an
 * answer is outstanding.
 */
export class Tickets {
  readonly #cluster: Cluster;
  readonly #clock: Clock;
  #pendingDraws: Draw[] = [];
  #isDrawing = false;
  #greatestTicket = 0n;

  constructor(cluster: Cluster, clock: Clock) {
    this.#cluster = cluster;
    this.#clock = clock;
  }

  /** The greatest ticket known here. Tickets drawn from now on are greater. */
  get greatestTicket(): bigint {
    return this.#greatestTicket;
  }

  /** Reads the ticket that was drawn last by any front end. */
  async readLastTicket(): Promise<bigint> {
    const { client, numbers } = this.#cluster;
    const row = await client.get(numbers, TICKET_KEY, TICKET_READS);
    return this.#remember(cellCounter(row, TICKET_COLUMN.family, TICKET_COLUMN.qualifier));
  }

  #remember(ticket: bigint): bigint {
    if (ticket > this.#greatestTicket) this.#greatestTicket = ticket;
    return ticket;
  }

  async exists(): Promise<boolean> {
    try {
      const { client, numbers } = this.#cluster;
      return (await client.get(numbers, TICKET_KEY, TICKET_READS)) !== undefined;
    } catch (error) {
      if (error instanceof StoreError && error.code === 'noTable') return false;
      throw error;
    }
  }

  /** Creates the counter. It starts at microseconds since 1970, above the tickets of a counter that was lost. */
  async ensureExists(): Promise<void> {
    const { client, numbers } = this.#cluster;
    if (await client.get(numbers, TICKET_KEY, TICKET_READS)) return;
    const value = counterBytes(BigInt(Date.now()) * 1000n);
    await client.mutate(numbers, {
      key: TICKET_KEY,
      guards: [{ op: 'absent', ...TICKET_COLUMN }],
      put: [{ ...TICKET_COLUMN, value }],
      isRepeatable: true,
    });
  }

  /** Returns the first of `count` tickets. The others follow in steps of `TICKET_STEP`. */
  draw(count: number): Promise<bigint> {
    return new Promise((resolve, reject) => {
      this.#pendingDraws.push({ count, resolve, reject });
      if (this.#isDrawing) return;
      this.#isDrawing = true;
      this.#clock.defer(() => void this.#drawAll());
    });
  }

  async #drawAll(): Promise<void> {
    while (this.#pendingDraws.length > 0) {
      const draws = this.#pendingDraws;
      this.#pendingDraws = [];
      let ticketCount = 0n;
      for (const { count } of draws) ticketCount += BigInt(count);
      try {
        let ticket =
          this.#remember(await this.#increment(ticketCount * TICKET_STEP)) - (ticketCount - 1n) * TICKET_STEP;
        for (const { count, resolve } of draws) {
          resolve(ticket);
          ticket += BigInt(count) * TICKET_STEP;
        }
      } catch (error) {
        for (const { reject } of draws) reject(error);
      }
    }
    this.#isDrawing = false;
  }

  /** Increments the counter. A try whose answer was lost leaves a gap. */
  async #increment(by: bigint): Promise<bigint> {
    const { client, numbers } = this.#cluster;
    const sendIncrement = async () => (await client.increment(numbers, TICKET_KEY, [{ ...TICKET_COLUMN, by }]))[0]!;
    try {
      return await sendIncrement();
    } catch (error) {
      if (!mayBeApplied(error)) throw error;
    }
    return sendIncrement().catch((cause: unknown) => {
      // No plan has the lost tickets, so the outcome of the request does not matter.
      throw new StoreError('unavailable', 'no ticket could be drawn', { cause });
    });
  }
}

/** The plans of a writer that have or are about to draw a ticket. Rows that they append may still be missing. */
export class UnfinishedPlans {
  readonly #lowerBounds = new Map<symbol, bigint>();

  /** Adds a plan that is about to draw its ticket. `greatestTicket`: the greatest ticket known here so far. */
  register(greatestTicket: bigint): symbol {
    const plan = Symbol();
    this.#lowerBounds.set(plan, greatestTicket);
    return plan;
  }

  setTicket(plan: symbol, ticket: bigint): void {
    this.#lowerBounds.set(plan, ticket - 1n);
  }

  /** Removes a plan of which all rows are written, or none will be. */
  remove(plan: symbol): void {
    this.#lowerBounds.delete(plan);
  }

  /** Returns a ticket below those of all unfinished and all later plans. `greatestTicket`: as in `register`. */
  floor(greatestTicket: bigint): bigint {
    let floor = greatestTicket;
    for (const bound of this.#lowerBounds.values()) if (bound < floor) floor = bound;
    return floor;
  }
}

/**
 * Returns the lowest floor of the writers of other processes, but at most `ticket`, which was drawn before the call. A
 * floor is a ticket below those of all unfinished plans. A writer publishes its floor before drawing, so a ticket up to
 * `ticket` belongs to a finished plan or to a writer with a lower floor. A writer of an older version publishes no
 * floor, which makes the result 0 as long as the writer exists.
 */
export async function lowestFloor(cluster: Cluster, ticket: bigint, isOwnId: (id: Buffer) => boolean): Promise<bigint> {
  let lowest = ticket;
  const scan = cluster.client.scan(cluster.journal, {}, { families: [JOURNAL.state] });
  for await (const batch of batchesOf(scan)) {
    for (const [i, id] of batch.keys.entries()) {
      const row = batch.rows[i]!;
      if (isOwnId(id) || !cellValue(row, JOURNAL.state, STATE.beat)) continue;
      if (cellValue(row, JOURNAL.state, STATE.state)?.equals(DRAINED)) continue;
      const floor = cellValue(row, JOURNAL.state, STATE.floor)?.readBigInt64BE() ?? 0n;
      if (floor < lowest) lowest = floor;
    }
  }
  return lowest;
}

/** Cancels a timer that has not fired yet. */
export type CancelTimer = () => void;

/** The journal's source of time, in ms of a monotonic clock. Tests replace it by one that they advance. */
export interface Clock {
  now(): number;
  sleep(ms: number): Promise<void>;
  /** Timers of `runAfter` and `runEvery` do not keep the process alive. */
  runAfter(ms: number, work: () => void): CancelTimer;
  runEvery(ms: number, work: () => void): CancelTimer;
  /** Runs `work` after this iteration of the event loop, so that the requests of an iteration are sent together. */
  defer(work: () => void): void;
}

export const CLOCK: Clock = {
  now: () => performance.now(),
  sleep: (ms) => sleep(ms),
  runAfter(ms, work) {
    const timer = setTimeout(work, ms).unref();
    return () => clearTimeout(timer);
  },
  runEvery(ms, work) {
    const timer = setInterval(work, ms).unref();
    return () => clearInterval(timer);
  },
  defer: (work) => void setImmediate(work),
};

let eventCount = 0;

/** Orders the events of this process: reads from HBase, and the writes of counters that begin and end during them. */
export const logicalClock = { now: (): number => eventCount, tick: (): number => ++eventCount };
