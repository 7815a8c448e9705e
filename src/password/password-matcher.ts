import { costOf } from './cost.js';
import { isExpensive, untriedValues } from './cost-groups.js';
import type { PasswordPolicy } from './policy.js';
import { isSlow } from './schemes.js';
import { slowWork } from './slow-work.js';
import type { Source } from './source.js';
import { verifyPassword } from './verify.js';

/** Finds the stored values that clear passwords verify against. Computes each pair once. */
export class PasswordMatcher {
  readonly #policy: PasswordPolicy;
  readonly #source: Source;
  readonly #results = new Map<string, boolean>();

  constructor(policy: PasswordPolicy, source: Source) {
    this.#policy = policy;
    this.#source = source;
  }

  /** Returns the stored value that `clear` verifies against, if binds try it. Rejects with `SlowWorkFull`. */
  async findMatch(clear: Buffer, storedValues: readonly Buffer[]): Promise<Buffer | undefined> {
    const untried = untriedValues(storedValues, this.#policy);
    for (const value of storedValues) if (!untried.includes(value) && (await this.#matches(value, clear))) return value;
    return undefined;
  }

  async #matches(storedValue: Buffer, clear: Buffer): Promise<boolean> {
    const key = `${storedValue.length}:${storedValue.toString('latin1')}${clear.toString('latin1')}`;
    let isMatch = this.#results.get(key);
    if (isMatch === undefined) {
      isMatch = await this.#verify(storedValue, clear);
      this.#results.set(key, isMatch);
    }
    return isMatch;
  }

  #verify(storedValue: Buffer, clear: Buffer): boolean | Promise<boolean> {
    if (!isSlow(storedValue)) return verifyPassword(storedValue, clear);
    const isCostly = isExpensive(costOf(storedValue), this.#policy);
    return slowWork.run(async () => verifyPassword(storedValue, clear), this.#source, isCostly);
  }
}
