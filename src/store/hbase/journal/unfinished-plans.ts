import { batchesOf } from '../../batches.js';
import { cellValue } from '../../row.js';
import type { Cluster } from '../cluster.js';
import { DRAINED, JOURNAL, STATE } from './journal-tables.js';

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
