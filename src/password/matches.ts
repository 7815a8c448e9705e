import { costOf } from './cost.js';
import type { PasswordPolicy } from './policy.js';
import { isSlow } from './schemes.js';
import { slowWork } from './slow-work.js';
import type { Source } from './source.js';
import { isDear, untriedOf } from './tried.js';
import { verifyPassword } from './verify.js';

/**
 * Which clear passwords verify against which stored values: each pair is worked out once, however often it is asked
 * for.
 */
export class Matches {
  readonly #policy: PasswordPolicy;
  readonly #source: Source;
  readonly #known = new Map<string, boolean>();

  constructor(policy: PasswordPolicy, source: Source) {
    this.#policy = policy;
    this.#source = source;
  }

  /**
   * The first of an entry's stored values that the clear password verifies against; those that no bind tries are left
   * out. Rejects with `SlowWorkFull`.
   */
  async find(clear: Buffer, stored: readonly Buffer[]): Promise<Buffer | undefined> {
    const untried = untriedOf(stored, this.#policy);
    for (const value of stored) if (!untried.includes(value) && (await this.#matches(value, clear))) return value;
    return undefined;
  }

  async #matches(stored: Buffer, clear: Buffer): Promise<boolean> {
    const key = `${stored.length}:${stored.toString('latin1')}${clear.toString('latin1')}`;
    let matches = this.#known.get(key);
    if (matches === undefined) {
      matches = await this.#verify(stored, clear);
      this.#known.set(key, matches);
    }
    return matches;
  }

  #verify(stored: Buffer, clear: Buffer): boolean | Promise<boolean> {
    if (!isSlow(stored)) return verifyPassword(stored, clear);
    const dear = isDear(costOf(stored), this.#policy);
    return slowWork.run(async () => verifyPassword(stored, clear), this.#source, dear);
  }
}
