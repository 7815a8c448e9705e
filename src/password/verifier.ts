import { argon2Setting, verifyArgon2Any } from './argon2.js';
import type { CredentialCache } from './cache.js';
import { costOf } from './cost.js';
import type { Source } from './fair-queue.js';
import { isAffordable, type PasswordPolicy, policyCost, spend } from './policy.js';
import { bodyStart, isSlow, knownScheme } from './schemes.js';
import { slowWork } from './slow-work.js';
import { verifyPassword } from './verify.js';

/** Of an entry's values in slow schemes so many are tried: more cannot be stored. */
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
   * The stored value that `clear` verifies against, or undefined. `entry` is the entry's id and whatever changes with
   * it: what the cache knows holds for that state. An entry that does not exist has no values and any state. Fast
   * schemes and cached credentials that match answer at once; other work waits for its turn as one of `source`, and
   * rejects with `SlowWorkFull` where too many wait. A failure costs one verification of the policy's scheme, whether
   * the user exists or not and however cheap its stored values are, so that time does not tell them apart; more only
   * where those cost more.
   */
  verify(
    entry: Buffer,
    stored: readonly Buffer[],
    clear: Buffer,
    source?: Source,
  ): Buffer | undefined | Promise<Buffer | undefined> {
    const slow: Buffer[] = [];
    for (const value of stored) {
      if (isSlow(value)) slow.push(value);
      else if (verifyPassword(value, clear) === true) return value;
    }
    const cache = this.#cache;
    const known = cache && slow.find((value) => cache.has(entry, value, clear));
    return known ?? this.#verifySlowly(entry, slow, clear, source);
  }

  async #verifySlowly(
    entry: Buffer,
    slow: readonly Buffer[],
    clear: Buffer,
    source: Source | undefined,
  ): Promise<Buffer | undefined> {
    const affordable = slow.filter((value) => isAffordable(value, this.#policy)).slice(0, MAX_SLOW_VALUES);
    const matched = await slowWork.run(() => this.#work(together(affordable), clear), source);
    if (source) slowWork.note(source, matched !== undefined);
    if (matched) this.#cache?.remember(entry, matched, clear);
    return matched;
  }

  async #work(groups: Iterable<readonly Buffer[]>, clear: Buffer): Promise<Buffer | undefined> {
    let left = policyCost(this.#policy);
    for (const group of groups) {
      const working = verifyAny(group, clear);
      if (!working) continue;
      const cost = costOf(group[0]!);
      slowWork.spent += cost;
      left -= cost;
      const matched = await working;
      if (matched) return matched;
    }
    if (left > 0) slowWork.spent += left;
    await spend(left, clear, this.#policy);
    return undefined;
  }
}

/** What a bind that fails costs with these values stored, in units of `costOf`: the policy's cost at least. */
export function failureCost(stored: readonly Buffer[], policy: PasswordPolicy): number {
  const worked = stored.filter((value) => isSlow(value) && isAffordable(value, policy));
  let cost = 0;
  for (const [first] of together(worked.slice(0, MAX_SLOW_VALUES))) cost += costOf(first!);
  return Math.max(cost, policyCost(policy));
}

/** Values that one computation verifies. */
function together(values: readonly Buffer[]): Iterable<readonly Buffer[]> {
  const groups = new Map<string, Buffer[]>();
  for (const value of values) {
    const text = value.toString('latin1');
    const key = knownScheme(value)?.kind === 'argon2' ? argon2Setting(text) : text;
    const group = groups.get(key);
    if (group) group.push(value);
    else groups.set(key, [value]);
  }
  return groups.values();
}

/** The value of a group that matches; undefined at once where there is nothing to work on. */
function verifyAny(group: readonly Buffer[], clear: Buffer): Promise<Buffer | undefined> | undefined {
  const [first] = group;
  if (group.length > 1) {
    const texts = group.map((value) => value.toString('latin1', bodyStart(value)));
    return verifyArgon2Any(texts, clear)?.then((text) => (text === undefined ? undefined : group[texts.indexOf(text)]));
  }
  const result = verifyPassword(first!, clear);
  return typeof result === 'boolean' ? undefined : result.then((matches) => (matches ? first : undefined));
}
