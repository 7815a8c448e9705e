import type { CredentialCache } from './cache.js';
import { dummyVerify, type PasswordPolicy } from './policy.js';
import { isSlow } from './schemes.js';
import { verifyPassword } from './verify.js';

/** Of an entry's values in slow schemes so many are tried: whoever may write them must not make a bind cost minutes. */
export const MAX_SLOW_VALUES = 8;

/** Verifies a bind: an entry's passwords, from the cache where possible, a failure always at the same price. */
export class PasswordVerifier {
  readonly #policy: PasswordPolicy;
  readonly #cache: CredentialCache | undefined;

  constructor(policy: PasswordPolicy, cache?: CredentialCache) {
    this.#policy = policy;
    this.#cache = cache;
  }

  /**
   * The stored value that `clear` verifies against, or undefined. `entry` is the entry's id and whatever changes with it:
   * what the cache knows holds for that state. An entry that does not exist has no values and any state. Fast schemes and
   * cached credentials that match answer at once. A failure costs at least one verification of the policy's scheme,
   * whether the user exists or not and however weak its stored value is, so that time does not tell them apart. Never
   * throws or rejects.
   */
  verify(entry: Buffer, stored: readonly Buffer[], clear: Buffer): Buffer | undefined | Promise<Buffer | undefined> {
    const slow: Buffer[] = [];
    for (const value of stored) {
      if (isSlow(value)) slow.push(value);
      else if (verifyPassword(value, clear) === true) return value;
    }
    if (slow.length > MAX_SLOW_VALUES) slow.length = MAX_SLOW_VALUES;
    const cache = this.#cache;
    const known = cache && slow.find((value) => cache.has(entry, value, clear));
    return known ?? this.#verifySlowly(entry, slow, clear);
  }

  async #verifySlowly(entry: Buffer, slow: readonly Buffer[], clear: Buffer): Promise<Buffer | undefined> {
    let worked = false;
    for (const value of slow) {
      const result = verifyPassword(value, clear);
      if (typeof result === 'boolean') continue;
      worked = true;
      if (await result) {
        this.#cache?.remember(entry, value, clear);
        return value;
      }
    }
    if (!worked) await dummyVerify(clear, this.#policy);
    return undefined;
  }
}
