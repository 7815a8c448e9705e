import { batchesOf } from '../../batches.js';
import { cellValue } from '../../row.js';
import type { Cluster } from '../cluster.js';
import { DRAINED, JOURNAL, STATE } from './journal-tables.js';

/**
 * Plans of a writer that have a ticket, or are about to draw one, and are not finished: rows that they append are
 * perhaps not there yet.
 */
export class Unfinished {
  readonly #above = new Map<symbol, bigint>();

  /** Before the ticket is drawn; `given`: a ticket that was given before, whoever got it. */
  begin(given: bigint): symbol {
    const plan = Symbol();
    this.#above.set(plan, given);
    return plan;
  }

  drawn(plan: symbol, ticket: bigint): void {
    this.#above.set(plan, ticket - 1n);
  }

  /** Every row is as it shall be, or none will come. */
  end(plan: symbol): void {
    this.#above.delete(plan);
  }

  /** Plans that are unfinished, and those that begin later, have tickets above this one; `given`: as `begin` has it. */
  floor(given: bigint): bigint {
    let floor = given;
    for (const above of this.#above.values()) if (above < floor) floor = above;
    return floor;
  }
}

/**
 * The least floor of all writers but those of this process (`isOwn`), at most `given`, a ticket that was given before.
 * A ticket up to `given` was drawn by a writer whose row says less, or its plan is finished: a writer says its floor
 * before it draws. One of an older version, which says none, holds everything up for as long as it is there.
 */
export async function leastFloor(cluster: Cluster, given: bigint, isOwn: (id: Buffer) => boolean): Promise<bigint> {
  let least = given;
  const scan = cluster.client.scan(cluster.journal, {}, { families: [JOURNAL.state] });
  for await (const batch of batchesOf(scan)) {
    for (const [i, id] of batch.keys.entries()) {
      const row = batch.rows[i]!;
      if (isOwn(id) || !cellValue(row, JOURNAL.state, STATE.beat)) continue;
      if (cellValue(row, JOURNAL.state, STATE.state)?.equals(DRAINED)) continue;
      const floor = cellValue(row, JOURNAL.state, STATE.floor)?.readBigInt64BE() ?? 0n;
      if (floor < least) least = floor;
    }
  }
  return least;
}
