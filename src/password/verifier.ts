import { verifyArgon2Any } from './argon2.js';
import type { CredentialCache } from './cache.js';
import { costOf } from './cost.js';
import { costOfGroups, type Group, groupsToTry, isExpensive } from './cost-groups.js';
import { type PasswordPolicy, policyCost, spend } from './policy.js';
import { bodyStart, isSlow } from './schemes.js';
import { slowWork } from './slow-work.js';
import type { Source } from './source.js';
import { verifyPassword } from './verify.js';

/** Verifies the password of a bind, from the cache if possible. Every failure costs the same time. */
export class PasswordVerifier {
  readonly #policy: PasswordPolicy;
  readonly #cache: CredentialCache | undefined;
  readonly #onValuesSkipped: ((entry: Buffer) => void) | undefined;

  /** `onValuesSkipped` is called for an entry with values that are not tried, because the values cost too much. */
  constructor(policy: PasswordPolicy, cache?: CredentialCache, onValuesSkipped?: (entry: Buffer) => void) {
    this.#policy = policy;
    this.#cache = cache;
    this.#onValuesSkipped = onValuesSkipped;
  }

  /**
   * Returns the stored value that `clear` verifies against, or undefined. `entry` is the state of the entry (id and
   * version), under which the cache keeps credentials. A missing entry has no values and an arbitrary state. Matches of
   * fast schemes and of the cache are returned at once. Other work waits in the queue of `source`, and rejects with
   * `SlowWorkFull`. A failure costs one verification of the policy's scheme, whether the user exists or not, so that
   * the time does not reveal which users exist. Only stored values that cost more make a failure cost more.
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
    const cached = cache && slow.find((value) => cache.has(entry, value, clear));
    return cached ?? this.#verifySlowly(entry, slow, clear, source);
  }

  async #verifySlowly(
    entry: Buffer,
    slow: readonly Buffer[],
    clear: Buffer,
    source: Source | undefined,
  ): Promise<Buffer | undefined> {
    const groups = groupsToTry(slow, this.#policy);
    if (groups.reduce((count, group) => count + group.length, 0) < slow.length) this.#onValuesSkipped?.(entry);
    const matched = await this.#tryGroups(groups, clear, source);
    if (source) slowWork.recordResult(source, matched !== undefined);
    if (matched) this.#cache?.remember(entry, matched, clear);
    return matched;
  }

  /**
   * Tries the groups in pieces of slow work that cost about as much as the policy's scheme. If no group matches, the
   * last piece also spends the rest of the cost of the policy's scheme.
   */
  async #tryGroups(groups: readonly Group[], clear: Buffer, source: Source | undefined): Promise<Buffer | undefined> {
    const usualCost = policyCost(this.#policy);
    const pieces = splitIntoPieces(groups, usualCost);
    let left = usualCost;
    for (const [i, piece] of pieces.entries()) {
      const work = async (): Promise<Buffer | undefined> => {
        for (const group of piece) {
          const computation = verifyAny(group, clear);
          if (!computation) continue;
          left -= countCost(costOf(group[0]!, clear.length));
          const matched = await computation;
          if (matched) return matched;
        }
        if (i === pieces.length - 1 && left > 0) await spend(countCost(left), clear, this.#policy);
        return undefined;
      };
      const matched = await slowWork.run(work, source, isExpensive(costOfGroups(piece), this.#policy));
      if (matched) return matched;
    }
    return undefined;
  }
}

/** Adds the cost to the total of the process, and returns the cost. */
function countCost(cost: number): number {
  slowWork.spent += cost;
  return cost;
}

/** Returns at least one piece. A piece costs at most `usualCost`, unless it is a single group that costs more. */
function splitIntoPieces(groups: readonly Group[], usualCost: number): Group[][] {
  const pieces: Group[][] = [[]];
  let cost = 0;
  for (const group of groups) {
    const groupCost = costOf(group[0]!);
    if (cost > 0 && cost + groupCost > usualCost) {
      pieces.push([]);
      cost = 0;
    }
    pieces.at(-1)!.push(group);
    cost += groupCost;
  }
  return pieces;
}

/** Returns the cost of a failed bind with these stored values, in units of `costOf`. At least the policy's cost. */
export function failureCost(stored: readonly Buffer[], policy: PasswordPolicy): number {
  return Math.max(costOfGroups(groupsToTry(stored, policy)), policyCost(policy));
}

/** Resolves to the value of the group that matches. Returns undefined at once when no value needs a computation. */
function verifyAny(group: Group, clear: Buffer): Promise<Buffer | undefined> | undefined {
  const [first] = group;
  if (group.length > 1) {
    const texts = group.map((value) => value.toString('latin1', bodyStart(value)));
    return verifyArgon2Any(texts, clear)?.then((text) => (text === undefined ? undefined : group[texts.indexOf(text)]));
  }
  const result = verifyPassword(first!, clear);
  return typeof result === 'boolean' ? undefined : result.then((matches) => (matches ? first : undefined));
}
