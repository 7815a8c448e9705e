import { costOf } from './cost.js';
import { isExpensive, untriedValues } from './cost-groups.js';
import type { PasswordPolicy } from './policy.js';
import { isSlow } from './schemes.js';
import { slowWork } from './slow-work.js';
import type { Source } from './source.js';
import { verifyPassword } from './verify.js';

/** Finds the stored values that clear passwords verify against. Each pair is computed once. */
export class PasswordMatcher {
  readonly #policy: PasswordPolicy;
  readonly #source: Source;
  readonly #results = new Map<string, boolean>();

  constructor(policy: PasswordPolicy, source: Source) {
    this.#policy = policy;
    this.#source = source;
  }

  /**
   * Returns the first stored value that the clear password verifies against, without values that no bind tries. Rejects
   * with `SlowWorkFull`.
   */
  async findMatch(clear: Buffer, stored: readonly Buffer[]): Promise<Buffer | undefined> {
    const untried = untriedValues(stored, this.#policy);
    for (const value of stored) if (!untried.includes(value) && (await this.#matches(value, clear))) return value;
    return undefined;
  }

  async #matches(stored: Buffer, clear: Buffer): Promise<boolean> {
    const key = `${stored.length}:${stored.toString('latin1')}${clear.toString('latin1')}`;
    let isMatch = this.#results.get(key);
    if (isMatch === undefined) {
      isMatch = await this.#verify(stored, clear);
      this.#results.set(key, isMatch);
    }
    return isMatch;
  }

  #verify(stored: Buffer, clear: Buffer): boolean | Promise<boolean> {
    if (!isSlow(stored)) return verifyPassword(stored, clear);
    const isCostly = isExpensive(costOf(stored), this.#policy);
    return slowWork.run(async () => verifyPassword(stored, clear), this.#source, isCostly);
  }
}
