import { LdapError } from '../../ldap/ldap-error.js';
import type { Store } from '../../store/contract.js';
import { isPromise } from '../../store/maybe.js';
import { guardsHold, StoreError } from '../../store/store-error.js';
import { textBytes } from '../model/change-record.js';
import { assignStep, readNumbers } from '../model/number-rows.js';
import { cutNorm, equalityPrefix } from '../model/tables.js';
import type { NumberRange } from '../model/value-rules.js';
import type { SharedState } from '../tree/shared-state.js';

/** Numbers that are looked up in the index at once. */
const PROBED = 64n;
/** Numbers that a process takes at once if a commit costs round trips, and lasts. Unused ones are never assigned. */
const BLOCK = 100n;

export interface NumberContext {
  readonly store: Store;
  readonly shared: SharedState;
}

/** The numbers of a range that this process has taken and not assigned: `unused`, then `nextNumber` to `endNumber`. */
class NumberPool {
  readonly unused: bigint[] = [];
  nextNumber = 0n;
  endNumber = 0n;
  waitingCount = 0;
  currentFill: Promise<void> | undefined;
}

/** Numbers for assignment by this process. A plan takes each number from its range, and it is assigned once. */
export class NumberPools {
  readonly #pools = new Map<number, NumberPool>();
  readonly #taken = new WeakMap<object, [NumberPool, bigint][]>();

  /** Returns the next number, for `change`. Throws `StoreError` `guard` if the range was removed. */
  async takeNumber(context: NumberContext, range: NumberRange, change: object): Promise<bigint> {
    const pool = this.#getPool(context, range);
    const number = pool.unused.shift() ?? (await this.#takeNew(context, range, pool));
    this.#taken.set(change, [...(this.#taken.get(change) ?? []), [pool, number]]);
    return number;
  }

  /** Takes back the numbers of a change that was not made. */
  putBack(change: object): void {
    for (const [pool, number] of this.#taken.get(change) ?? []) pool.unused.push(number);
  }

  async #takeNew(context: NumberContext, range: NumberRange, pool: NumberPool): Promise<bigint> {
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
    const firstNumber = await firstFreeNumber(context, range, nextNumber);
    if (firstNumber > range.lastNumber) throw exhaustedError(range);
    const wantedCount =
      store.supports.spread && store.supports.durable ? BLOCK : BigInt(Math.max(pool.waitingCount, 1));
    const endNumber = firstNumber + wantedCount > range.lastNumber ? range.lastNumber + 1n : firstNumber + wantedCount;
    const steps = [shared.guardStep(false), assignStep(range, nextNumber, endNumber)];
    if (await guardsHold(store.commit({ steps, decisive: 0 }))) {
      [pool.nextNumber, pool.endNumber] = [firstNumber, endNumber];
      return;
    }
    store.renewReads?.();
    const maybeRefresh = shared.refresh();
    if (isPromise(maybeRefresh)) await maybeRefresh;
    if (!shared.values.numberRanges.some(({ record }) => record.number === range.record.number))
      throw new StoreError('guard', 'other numbers are given out now');
  }
}

/**
 * Returns the first number from `from` to `last` that no entry has and that the range does not leave out; `last` + 1 if
 * there is none. Throws `LdapError` if the attribute has no index.
 */
export async function firstFreeNumber(
  { store, shared }: NumberContext,
  { type, lastNumber, exceptedNumbers }: NumberRange,
  from: bigint,
  last = lastNumber,
): Promise<bigint> {
  const index = shared.indexes.ofType(type);
  if (!index?.isReady)
    throw new LdapError(
      'unwillingToPerform',
      `numbers for '${type.name}' are given out only while it has an index: rowan index add ${type.name}`,
    );
  for (let start = from; start <= last; start += PROBED) {
    const count = Number(last - start < PROBED ? last - start + 1n : PROBED);
    const numbers = Array.from({ length: count }, (_, i) => start + BigInt(i));
    const prefixes = numbers.map((number) =>
      equalityPrefix(cutNorm(type.equality!.normalize(textBytes(`${number}`))!)),
    );
    const postings = await store.postingsMany(index.table, prefixes, 1);
    const free = numbers.find((number, i) => postings[i]!.length === 0 && !exceptedNumbers.has(number));
    if (free !== undefined) return free;
    // A long run of used numbers must not hold the event loop.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return last + 1n;
}

function exhaustedError({ type, firstNumber, lastNumber }: NumberRange): LdapError {
  return new LdapError(
    'unwillingToPerform',
    `all numbers for '${type.name}' from ${firstNumber} to ${lastNumber} are given out; the administrator gives it others by "rowan number set"`,
  );
}
