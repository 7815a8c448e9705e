import { LdapError } from '../../ldap/ldap-error.js';
import type { Store } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import { guardsHold, StoreError } from '../../store/store-error.js';
import { assignStep, readNumbers } from '../model/number-rows.js';
import type { NumberRange } from '../model/value-rules.js';
import type { SharedState } from '../tree/shared-state.js';

/**
 * Quantity of numbers that a process takes at a time where a commit costs round trips. Numbers that are left when the
 * process ends become gaps.
 */
const BLOCK = 100n;

/** The context of number ranges. */
export interface NumberContext {
  readonly store: Store;
  readonly shared: SharedState;
}

/** The numbers of one range that this process has taken and not yet assigned: `next` to `until` - 1. */
class Pool {
  next = 0n;
  until = 0n;
  waiting = 0;
  filling: Promise<void> | undefined;
}

/** The numbers that this process assigns. Each number is taken from its range by a plan, and is assigned once. */
export class NumberPools {
  /** Pools by number of the range. */
  readonly #pools = new Map<number, Pool>();

  /** Returns the next number. Throws `StoreError` `guard` where the range has been removed. */
  async take(context: NumberContext, range: NumberRange): Promise<bigint> {
    const pool = this.#poolOf(context, range);
    pool.waiting++;
    try {
      while (pool.next >= pool.until) {
        pool.filling ??= fill(context, range, pool).finally(() => {
          pool.filling = undefined;
        });
        await pool.filling;
      }
      return pool.next++;
    } finally {
      pool.waiting--;
    }
  }

  #poolOf({ shared }: NumberContext, { record }: NumberRange): Pool {
    const known = this.#pools.get(record.number);
    if (known) return known;
    const numbers = new Set(shared.values.numberRanges.map((range) => range.record.number));
    for (const number of this.#pools.keys()) if (!numbers.has(number)) this.#pools.delete(number);
    const pool = new Pool();
    this.#pools.set(record.number, pool);
    return pool;
  }
}

/** Takes numbers from the range: one for each waiting caller, or a block. */
async function fill(context: NumberContext, range: NumberRange, pool: Pool): Promise<void> {
  const { shared, store } = context;
  for (;;) {
    const { nextNumber: next } = await readNumbers(store, range);
    if (next > range.lastNumber) throw exhausted(range);
    const wanted = store.supports.spread ? BLOCK : BigInt(Math.max(pool.waiting, 1));
    const until = next + wanted > range.lastNumber ? range.lastNumber + 1n : next + wanted;
    const steps = [shared.guardStep(false), assignStep(range, next, until)];
    if (await guardsHold(store.commit({ steps, decisive: 0 }))) {
      [pool.next, pool.until] = [next, until];
      return;
    }
    store.renewReads?.();
    const fresh = shared.refresh();
    if (isPromise(fresh)) await fresh;
    if (!shared.values.numberRanges.some(({ record }) => record.number === range.record.number))
      throw new StoreError('guard', 'other numbers are given out now');
  }
}

function exhausted({ type, firstNumber: first, lastNumber: last }: NumberRange): LdapError {
  return new LdapError(
    'unwillingToPerform',
    `all numbers for '${type.name}' from ${first} to ${last} are given out; the administrator gives it others by "rowan number set"`,
  );
}
