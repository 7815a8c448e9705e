import { LdapError } from '../../ldap/ldap-error.js';
import type { Store } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import { guardsHold, StoreError } from '../../store/store-error.js';
import { assignStep, readNumbers } from '../model/number-rows.js';
import type { NumberRange } from '../model/value-rules.js';
import type { SharedState } from '../tree/shared-state.js';

/** Numbers that a process takes at once if a commit costs round trips. Unused ones are never assigned. */
const BLOCK = 100n;

export interface NumberContext {
  readonly store: Store;
  readonly shared: SharedState;
}

/** The numbers of a range that this process has taken and not assigned: `nextNumber` to `endNumber` - 1. */
class NumberPool {
  nextNumber = 0n;
  endNumber = 0n;
  waitingCount = 0;
  currentFill: Promise<void> | undefined;
}

/** Numbers for assignment by this process. A plan takes each number from its range, and it is assigned once. */
export class NumberPools {
  readonly #pools = new Map<number, NumberPool>();

  /** Returns the next number. Throws `StoreError` `guard` if the range was removed. */
  async takeNumber(context: NumberContext, range: NumberRange): Promise<bigint> {
    const pool = this.#getPool(context, range);
    pool.waitingCount++;
    try {
      while (pool.nextNumber >= pool.endNumber) {
        pool.currentFill ??= fillPool(context, range, pool).finally(() => {
          pool.currentFill = undefined;
        });
        await pool.currentFill;
      }
      return pool.nextNumber++;
    } finally {
      pool.waitingCount--;
    }
  }

  #getPool({ shared }: NumberContext, { record }: NumberRange): NumberPool {
    const existingPool = this.#pools.get(record.number);
    if (existingPool) return existingPool;
    const rangeNumbers = new Set(shared.values.numberRanges.map((range) => range.record.number));
    for (const number of this.#pools.keys()) if (!rangeNumbers.has(number)) this.#pools.delete(number);
    const pool = new NumberPool();
    this.#pools.set(record.number, pool);
    return pool;
  }
}

/** Takes numbers from the range: one for each waiting caller, or a block. */
async function fillPool(context: NumberContext, range: NumberRange, pool: NumberPool): Promise<void> {
  const { shared, store } = context;
  for (;;) {
    const { nextNumber } = await readNumbers(store, range);
    if (nextNumber > range.lastNumber) throw exhaustedError(range);
    const wantedCount = store.supports.spread ? BLOCK : BigInt(Math.max(pool.waitingCount, 1));
    const endNumber = nextNumber + wantedCount > range.lastNumber ? range.lastNumber + 1n : nextNumber + wantedCount;
    const steps = [shared.guardStep(false), assignStep(range, nextNumber, endNumber)];
    if (await guardsHold(store.commit({ steps, decisive: 0 }))) {
      [pool.nextNumber, pool.endNumber] = [nextNumber, endNumber];
      return;
    }
    store.renewReads?.();
    const maybeRefresh = shared.refresh();
    if (isPromise(maybeRefresh)) await maybeRefresh;
    if (!shared.values.numberRanges.some(({ record }) => record.number === range.record.number))
      throw new StoreError('guard', 'other numbers are given out now');
  }
}

function exhaustedError({ type, firstNumber, lastNumber }: NumberRange): LdapError {
  return new LdapError(
    'unwillingToPerform',
    `all numbers for '${type.name}' from ${firstNumber} to ${lastNumber} are given out; the administrator gives it others by "rowan number set"`,
  );
}
