import { argon2GroupKey } from './argon2.js';
import { costOf, DEFAULT_ARGON2_COST, isAffordable, type PasswordPolicy, policyCost } from './policy.js';
import { isSlow, knownScheme } from './schemes.js';

/** The most values in slow schemes (argon2, PBKDF2, crypt) that a bind tries. An entry cannot store more. */
export const MAX_SLOW_VALUES = 8;

/** Stored values that one computation verifies together: they differ only in their hashes. */
export type ValueGroup = readonly Buffer[];

/** Returns the values in slow schemes that a bind tries: the cheapest groups, up to `maxTotalCost` together. */
export function groupsToTry(storedValues: readonly Buffer[], policy: PasswordPolicy): readonly ValueGroup[] {
  const groups = groupValues(affordableSlow(storedValues, policy).slice(0, MAX_SLOW_VALUES));
  return groups.length < 2 ? groups : cheapestGroups(groups, maxTotalCost(policy));
}

/** Returns the values in slow schemes that no bind tries, because verifying them would cost too much. */
export function untriedValues(storedValues: readonly Buffer[], policy: PasswordPolicy): Buffer[] {
  const triedValues = groupsToTry(storedValues, policy).flat();
  return storedValues.filter((value) => isSlow(value) && !triedValues.includes(value));
}

/** Returns those of `addedValues` that cost too much, alone or together with the entry's `existing` values. */
export function unaffordableValues(
  addedValues: readonly Buffer[],
  existing: readonly Buffer[],
  policy: PasswordPolicy,
): Buffer[] {
  const existingKeys = new Set(affordableSlow(existing, policy).map(groupKey));
  const groups = groupValues(affordableSlow(addedValues, policy)).filter(
    ([first]) => !existingKeys.has(groupKey(first!)),
  );
  const keptGroups = cheapestGroups(groups, Math.max(0, maxTotalCost(policy) - totalCost(existing, policy)));
  const droppedValues = groups.filter((group) => !keptGroups.includes(group)).flat();
  return addedValues.filter((value) => !isAffordable(value, policy) || droppedValues.includes(value));
}

/** Returns the total cost of verifying the values, in units of `costOf`, without those too costly alone. */
export function totalCost(storedValues: readonly Buffer[], policy: PasswordPolicy): number {
  return costOfGroups(groupValues(affordableSlow(storedValues, policy)));
}

function affordableSlow(storedValues: readonly Buffer[], policy: PasswordPolicy): Buffer[] {
  return storedValues.filter((value) => isSlow(value) && isAffordable(value, policy));
}

export function costOfGroups(groups: readonly ValueGroup[]): number {
  return groups.reduce((cost, [first]) => cost + costOf(first!), 0);
}

/** Returns the limit for all values of an entry: `maxCost`, but at least two computations of the policy's scheme. */
export function maxTotalCost(policy: PasswordPolicy): number {
  return policy.maxCost === undefined ? Number.POSITIVE_INFINITY : Math.max(policy.maxCost, 2 * policyCost(policy));
}

/** Whether a task of this cost goes to the queue of expensive tasks (`SlowWork.run`). */
export function isExpensive(cost: number, policy: PasswordPolicy): boolean {
  return cost > 2 * Math.max(policyCost(policy), DEFAULT_ARGON2_COST);
}

/** Returns the cheapest groups. Their total cost is at most `maxCost`. */
function cheapestGroups(groups: readonly ValueGroup[], maxCost: number): ValueGroup[] {
  let remainingCost = maxCost;
  return [...groups]
    .sort((a, b) => costOf(a[0]!) - costOf(b[0]!))
    .filter(([first]) => {
      remainingCost -= costOf(first!);
      return remainingCost >= 0;
    });
}

function groupValues(values: readonly Buffer[]): ValueGroup[] {
  const groups = new Map<string, Buffer[]>();
  for (const value of values) {
    const key = groupKey(value);
    const group = groups.get(key);
    if (group) group.push(value);
    else groups.set(key, [value]);
  }
  return [...groups.values()];
}

/** Returns a key that is equal for values that a single computation verifies. */
function groupKey(value: Buffer): string {
  const text = value.toString('latin1');
  return knownScheme(value)?.kind === 'argon2' ? argon2GroupKey(text) : text;
}
