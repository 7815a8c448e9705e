import { verifyArgon2Any } from './argon2.js';
import type { CredentialCache } from './cache.js';
import { costOfGroups, groupsToTry, isExpensive, untriedValues, type ValueGroup } from './cost-groups.js';
import { costOf, type PasswordPolicy, policyCost, spendCost } from './policy.js';
import { bodyStart, isSlow } from './schemes.js';
import { type Source, slowWork } from './slow-work.js';
import { verifyPassword } from './verify.js';

/** Verifies the password of a bind, from the cache if possible. All failures cost the same time. */
export class PasswordVerifier {
  readonly #policy: PasswordPolicy;
  readonly #cache: CredentialCache | undefined;
  /** Number of passwords that the cache knew and did not know. */
  readonly cacheUse = { hits: 0, misses: 0 };
  readonly #onValuesSkipped: ((entry: Buffer) => void) | undefined;

  /** `onValuesSkipped` is called for an entry with values that are too costly to be tried. */
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
    storedValues: readonly Buffer[],
    clear: Buffer,
    source?: Source,
  ): Buffer | undefined | Promise<Buffer | undefined> {
    const slowValues: Buffer[] = [];
    for (const value of storedValues) {
      if (isSlow(value)) slowValues.push(value);
      else if (verifyPassword(value, clear) === true) return value;
    }
    const cache = this.#cache;
    const cachedValue = cache && slowValues.find((value) => cache.isVerified(entry, value, clear));
    if (cache && slowValues.length > 0) this.cacheUse[cachedValue ? 'hits' : 'misses']++;
    return cachedValue ?? this.#verifySlowly(entry, slowValues, clear, source);
  }

  async #verifySlowly(
    entry: Buffer,
    slowValues: readonly Buffer[],
    clear: Buffer,
    source: Source | undefined,
  ): Promise<Buffer | undefined> {
    const groups = groupsToTry(slowValues, this.#policy);
    if (groups.reduce((count, group) => count + group.length, 0) < slowValues.length) this.#onValuesSkipped?.(entry);
    const matchedValue = await this.#tryGroups(groups, clear, source);
    if (source) slowWork.recordResult(source, matchedValue !== undefined);
    if (matchedValue) this.#cache?.remember(entry, matchedValue, clear);
    return matchedValue;
  }

  /**
   * Tries the groups. Each task of `slowWork` costs about as much as the policy's scheme. If no group matches, the last
   * task spends the remaining cost, so that a failure costs at least as much as the policy's scheme.
   */
  async #tryGroups(
    groups: readonly ValueGroup[],
    clear: Buffer,
    source: Source | undefined,
  ): Promise<Buffer | undefined> {
    const usualCost = policyCost(this.#policy);
    const tasks = splitIntoTasks(groups, usualCost);
    let remainingCost = usualCost;
    for (const [i, taskGroups] of tasks.entries()) {
      const verifyGroups = async (): Promise<Buffer | undefined> => {
        for (const group of taskGroups) {
          const computation = verifyGroup(group, clear);
          if (!computation) continue;
          remainingCost -= countCost(costOf(group[0]!, clear.length));
          const matchedValue = await computation;
          if (matchedValue) return matchedValue;
        }
        if (i === tasks.length - 1 && remainingCost > 0) await spendCost(countCost(remainingCost), clear, this.#policy);
        return undefined;
      };
      const isCostly = isExpensive(costOfGroups(taskGroups), this.#policy);
      const matchedValue = await slowWork.run(verifyGroups, source, isCostly);
      if (matchedValue) return matchedValue;
    }
    return undefined;
  }
}

/** Adds the cost to the total cost of the process. Returns the cost. */
function countCost(cost: number): number {
  slowWork.totalCost += cost;
  return cost;
}

/** Returns at least one task. A task costs at most `usualCost`, unless it is a single group that costs more. */
function splitIntoTasks(groups: readonly ValueGroup[], usualCost: number): ValueGroup[][] {
  const tasks: ValueGroup[][] = [[]];
  let taskCost = 0;
  for (const group of groups) {
    const groupCost = costOf(group[0]!);
    if (taskCost > 0 && taskCost + groupCost > usualCost) {
      tasks.push([]);
      taskCost = 0;
    }
    tasks.at(-1)!.push(group);
    taskCost += groupCost;
  }
  return tasks;
}

/** Returns the cost of a failed bind with these stored values, in units of `costOf`. At least the policy's cost. */
export function failureCost(storedValues: readonly Buffer[], policy: PasswordPolicy): number {
  return Math.max(costOfGroups(groupsToTry(storedValues, policy)), policyCost(policy));
}

/** Resolves to the value in the group that `clear` matches. Returns undefined when no value needs a computation. */
function verifyGroup(group: ValueGroup, clear: Buffer): Promise<Buffer | undefined> | undefined {
  const [first] = group;
  if (group.length > 1) {
    const texts = group.map((value) => value.toString('latin1', bodyStart(value)));
    return verifyArgon2Any(texts, clear)?.then((text) => (text === undefined ? undefined : group[texts.indexOf(text)]));
  }
  const result = verifyPassword(first!, clear);
  return typeof result === 'boolean' ? undefined : result.then((matches) => (matches ? first : undefined));
}

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
