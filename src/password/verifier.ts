import { verifyArgon2Any } from './argon2.js';
import type { CredentialCache } from './cache.js';
import { costOf } from './cost.js';
import { type PasswordPolicy, policyCost, spend } from './policy.js';
import { bodyStart, isSlow } from './schemes.js';
import { slowWork } from './slow-work.js';
import type { Source } from './source.js';
import { costOfGroups, type Group, isDear, triedOf } from './tried.js';
import { verifyPassword } from './verify.js';

/** Verifies a bind: an entry's passwords, from the cache where possible, a failure always at the same price. */
export class PasswordVerifier {
  readonly #policy: PasswordPolicy;
  readonly #cache: CredentialCache | undefined;
  readonly #leftOut: ((entry: Buffer) => void) | undefined;

  /** `leftOut` is told of an entry of whose values some are not tried, as they cost too much. */
  constructor(policy: PasswordPolicy, cache?: CredentialCache, leftOut?: (entry: Buffer) => void) {
    this.#policy = policy;
    this.#cache = cache;
    this.#leftOut = leftOut;
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
    const groups = triedOf(slow, this.#policy);
    if (groups.reduce((count, group) => count + group.length, 0) < slow.length) this.#leftOut?.(entry);
    const matched = await this.#try(groups, clear, source);
    if (source) slowWork.note(source, matched !== undefined);
    if (matched) this.#cache?.remember(entry, matched, clear);
    return matched;
  }

  /** What costs no more than the policy's scheme is one piece of work, with what it lacks; others come in several. */
  async #try(groups: readonly Group[], clear: Buffer, source: Source | undefined): Promise<Buffer | undefined> {
    const usual = policyCost(this.#policy);
    const pieces = piecesOf(groups, usual);
    let left = usual;
    for (const [i, piece] of pieces.entries()) {
      const work = async (): Promise<Buffer | undefined> => {
        for (const group of piece) {
          const working = verifyAny(group, clear);
          if (!working) continue;
          left -= spent(costOf(group[0]!, clear.length));
          const matched = await working;
          if (matched) return matched;
        }
        if (i === pieces.length - 1 && left > 0) await spend(spent(left), clear, this.#policy);
        return undefined;
      };
      const matched = await slowWork.run(work, source, isDear(costOfGroups(piece), this.#policy));
      if (matched) return matched;
    }
    return undefined;
  }
}

function spent(cost: number): number {
  slowWork.spent += cost;
  return cost;
}

/** At least one, of `usual` cost each but for the last, or of one dearer group. */
function piecesOf(groups: readonly Group[], usual: number): Group[][] {
  const pieces: Group[][] = [[]];
  let cost = 0;
  for (const group of groups) {
    const more = costOf(group[0]!);
    if (cost > 0 && cost + more > usual) {
      pieces.push([]);
      cost = 0;
    }
    pieces.at(-1)!.push(group);
    cost += more;
  }
  return pieces;
}

/** What a bind that fails costs with these values stored, in units of `costOf`: the policy's cost at least. */
export function failureCost(stored: readonly Buffer[], policy: PasswordPolicy): number {
  return Math.max(costOfGroups(triedOf(stored, policy)), policyCost(policy));
}

/** The value of a group that matches; undefined at once where there is nothing to work on. */
function verifyAny(group: Group, clear: Buffer): Promise<Buffer | undefined> | undefined {
  const [first] = group;
  if (group.length > 1) {
    const texts = group.map((value) => value.toString('latin1', bodyStart(value)));
    return verifyArgon2Any(texts, clear)?.then((text) => (text === undefined ? undefined : group[texts.indexOf(text)]));
  }
  const result = verifyPassword(first!, clear);
  return typeof result === 'boolean' ? undefined : result.then((matches) => (matches ? first : undefined));
}
