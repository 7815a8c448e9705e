import { argon2Setting } from './argon2.js';
import { costOf, ONE_COST } from './cost.js';
import { isAffordable, type PasswordPolicy, policyCost } from './policy.js';
import { isSlow, knownScheme } from './schemes.js';

/** Of an entry's values in slow schemes so many are tried: more cannot be stored. */
export const MAX_SLOW_VALUES = 8;

/** Values that one computation verifies. */
export type Group = readonly Buffer[];

/**
 * Of an entry's values those in slow schemes that a bind tries, in groups, the cheapest first. Together they cost no
 * more than `mostTogether`.
 */
export function triedOf(stored: readonly Buffer[], policy: PasswordPolicy): readonly Group[] {
  const groups = together(affordable(stored, policy).slice(0, MAX_SLOW_VALUES));
  return groups.length < 2 ? groups : cheapest(groups, mostTogether(policy));
}

/** Of an entry's values those in slow schemes that no bind tries. */
export function untriedOf(stored: readonly Buffer[], policy: PasswordPolicy): Buffer[] {
  const tried = triedOf(stored, policy).flat();
  return stored.filter((value) => isSlow(value) && !tried.includes(value));
}

/** Of values that are to be stored beside those of an entry the ones that cost too much, alone or with the others. */
export function tooDearOf(given: readonly Buffer[], beside: readonly Buffer[], policy: PasswordPolicy): Buffer[] {
  const settings = new Set(affordable(beside, policy).map(settingOf));
  const groups = together(affordable(given, policy)).filter(([first]) => !settings.has(settingOf(first!)));
  const kept = cheapest(groups, Math.max(0, mostTogether(policy) - costTogether(beside, policy)));
  const dropped = groups.filter((group) => !kept.includes(group)).flat();
  return given.filter((value) => !isAffordable(value, policy) || dropped.includes(value));
}

/** What verifying all of them costs that alone might be tried, in units of `costOf`. */
export function costTogether(stored: readonly Buffer[], policy: PasswordPolicy): number {
  return costOfGroups(together(affordable(stored, policy)));
}

function affordable(stored: readonly Buffer[], policy: PasswordPolicy): Buffer[] {
  return stored.filter((value) => isSlow(value) && isAffordable(value, policy));
}

export function costOfGroups(groups: readonly Group[]): number {
  return groups.reduce((cost, [first]) => cost + costOf(first!), 0);
}

/** What the values of one entry may cost together: as much as one, and what the policy makes under two salts. */
export function mostTogether(policy: PasswordPolicy): number {
  return policy.maxCost === undefined ? Number.POSITIVE_INFINITY : Math.max(policy.maxCost, 2 * policyCost(policy));
}

/** Work of that cost is not to have all turns: `SlowWork.run`. */
export function isDear(cost: number, policy: PasswordPolicy): boolean {
  return cost > 2 * Math.max(policyCost(policy), ONE_COST);
}

/** The cheapest groups, as many as cost no more than `most`. */
function cheapest(groups: readonly Group[], most: number): Group[] {
  let left = most;
  return [...groups]
    .sort((a, b) => costOf(a[0]!) - costOf(b[0]!))
    .filter(([first]) => {
      left -= costOf(first!);
      return left >= 0;
    });
}

function together(values: readonly Buffer[]): Group[] {
  const groups = new Map<string, Buffer[]>();
  for (const value of values) {
    const setting = settingOf(value);
    const group = groups.get(setting);
    if (group) group.push(value);
    else groups.set(setting, [value]);
  }
  return [...groups.values()];
}

/** The same for values that one computation verifies. */
function settingOf(value: Buffer): string {
  const text = value.toString('latin1');
  return knownScheme(value)?.kind === 'argon2' ? argon2Setting(text) : text;
}
