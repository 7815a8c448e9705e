import { batchesOf } from '../../batches.js';
import { cellValue } from '../../row.js';
import type { Cluster } from '../cluster.js';
import { DRAINED, JOURNAL, STATE } from './journal-tables.js';

/** The plans of a writer that have or are about to draw a ticket. Rows that they append may still be missing. */
export class UnfinishedPlans {
  readonly #lowerBounds = new Map<symbol, bigint>();

  /** Registers a plan before it draws its ticket. `greatest`: the greatest ticket known then. */
  begin(greatest: bigint): symbol {
    const plan = Symbol();
    this.#lowerBounds.set(plan, greatest);
    return plan;
  }

  setTicket(plan: symbol, ticket: bigint): void {
    this.#lowerBounds.set(plan, ticket - 1n);
  }

  /** Removes a plan: all of its rows are written, or none will be. */
  end(plan: symbol): void {
    this.#lowerBounds.delete(plan);
  }

  /** Returns a ticket below those of all unfinished plans and of plans that begin later. `greatest`: as in `begin`. */
  floor(greatest: bigint): bigint {
    let floor = greatest;
    for (const bound of this.#lowerBounds.values()) if (bound < floor) floor = bound;
    return floor;
  }
}

/**
 * Returns the lowest floor of the writers of other processes, but at most `greatest`, a ticket that was drawn before
 * the call. A writer publishes its floor before drawing. A ticket up to `greatest` therefore belongs to a finished plan
 * or to a writer with a lower floor. A writer of an older version publishes no floor, which makes the result 0 as long
 * as the writer exists.
 */
export async function lowestFloor(cluster: Cluster, greatest: bigint, isOwn: (id: Buffer) => boolean): Promise<bigint> {
  let lowest = greatest;
  const scan = cluster.client.scan(cluster.journal, {}, { families: [JOURNAL.state] });
  for await (const batch of batchesOf(scan)) {
    for (const [i, id] of batch.keys.entries()) {
      const row = batch.rows[i]!;
      if (isOwn(id) || !cellValue(row, JOURNAL.state, STATE.beat)) continue;
      if (cellValue(row, JOURNAL.state, STATE.state)?.equals(DRAINED)) continue;
      const floor = cellValue(row, JOURNAL.state, STATE.floor)?.readBigInt64BE() ?? 0n;
      if (floor < lowest) lowest = floor;
    }
  }
  return lowest;
}
