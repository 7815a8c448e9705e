import { isAtOrBelow, isSameName, type Name, nameText } from './place.js';

/**
 * A set of requesters. Like the `who` of a rule, but with any number of conditions `not`. A list matches if one of its
 * elements does. Functions return `undefined` for the empty set.
 */
export interface WhoSet {
  readonly users?: true;
  readonly anonymous?: true;
  readonly self?: true;
  readonly dn?: readonly Name[];
  readonly subtree?: readonly Name[];
  readonly group?: readonly Name[];
  readonly attribute?: readonly string[];
  readonly network?: readonly string[];
  readonly strength?: number;
  readonly mechanism?: readonly string[];
  readonly nots: readonly WhoSet[];
}

type MutableWhoSet = { -readonly [K in keyof WhoSet]: WhoSet[K] };

export const EVERYBODY: WhoSet = { nots: [] };
export const USERS: WhoSet = { users: true, nots: [] };
export const ANONYMOUS: WhoSet = { anonymous: true, nots: [] };

/** Keys that never match an anonymous client. */
const USER_KEYS = ['users', 'self', 'dn', 'subtree', 'group', 'attribute', 'mechanism'] as const;
const KEYS = ['anonymous', ...USER_KEYS, 'network', 'strength'] as const;
type Key = (typeof KEYS)[number];

function conditionKeys(who: WhoSet): Key[] {
  return KEYS.filter((key) => who[key] !== undefined);
}

function isUser(who: WhoSet): boolean {
  return USER_KEYS.some((key) => who[key] !== undefined);
}

/** Whether the keys of `who` alone show that every member satisfies the condition `key` of `outer`. */
function implies(who: WhoSet, outer: WhoSet, key: Key): boolean {
  switch (key) {
    case 'users':
      return isUser(who);
    case 'anonymous':
    case 'self':
      return who[key] === true;
    case 'dn':
      return who.dn?.every((one) => outer.dn!.some((other) => isSameName(one, other))) ?? false;
    case 'subtree':
      return [who.dn, who.subtree].some((names) =>
        names?.every((one) => outer.subtree!.some((above) => isAtOrBelow(one, above))),
      );
    case 'group':
      return who.group?.every((one) => outer.group!.some((other) => isSameName(one, other))) ?? false;
    case 'strength':
      return who.strength !== undefined && who.strength >= outer.strength!;
    default:
      return who[key]?.every((one) => outer[key]!.includes(one)) ?? false;
  }
}

/** Whether `outer` contains `inner`. False if undecidable. */
export function whoContains(outer: WhoSet, inner: WhoSet): boolean {
  return (
    conditionKeys(outer).every((key) => implies(inner, outer, key)) &&
    outer.nots.every((not) => areDisjoint(inner, not))
  );
}

/** Whether the sets are disjoint. False if undecidable. */
export function areDisjoint(a: WhoSet, b: WhoSet): boolean {
  if ((a.anonymous && isUser(b)) || (b.anonymous && isUser(a))) return true;
  if (haveDisjointNames(a, b)) return true;
  return (
    a.nots.some((not) => whoContains(not, b)) ||
    b.nots.some((not) => whoContains(not, a)) ||
    notsCoverIntersection(a, b)
  );
}

/** Whether a `not` of one of the sets excludes the whole intersection. */
function notsCoverIntersection(a: WhoSet, b: WhoSet): boolean {
  return [...a.nots, ...b.nots].some(
    (not) => not.nots.length === 0 && conditionKeys(not).every((key) => implies(a, not, key) || implies(b, not, key)),
  );
}

function haveDisjointNames(a: WhoSet, b: WhoSet): boolean {
  if (a.dn && b.dn && !a.dn.some((one) => b.dn!.some((other) => isSameName(one, other)))) return true;
  const areOutside = (dns?: readonly Name[], trees?: readonly Name[]) =>
    dns && trees && !dns.some((one) => trees.some((above) => isAtOrBelow(one, above)));
  if (areOutside(a.dn, b.subtree) || areOutside(b.dn, a.subtree)) return true;
  const isRelated = (one: Name) => b.subtree!.some((other) => isAtOrBelow(one, other) || isAtOrBelow(other, one));
  return Boolean(a.subtree && b.subtree && !a.subtree.some(isRelated));
}

/** Returns a simpler equivalent set; undefined if the set is empty. */
function simplify(whoSet: WhoSet): WhoSet | undefined {
  const who: MutableWhoSet = { ...whoSet };
  if (who.anonymous && isUser(who)) return undefined;
  if (who.dn && who.subtree) {
    who.dn = who.dn.filter((one) => who.subtree!.some((above) => isAtOrBelow(one, above)));
    delete who.subtree;
  }
  if (isUser(who) && (who.users ?? false) && conditionKeys(who).some((key) => key !== 'users' && isUserKey(key)))
    delete who.users;
  const nots: WhoSet[] = [];
  for (const not of whoSet.nots) {
    const positive: WhoSet = { ...who, nots: [] };
    const remainingNot = dropImpliedKeys(not, positive);
    if (conditionKeys(remainingNot).length === 0 && remainingNot.nots.length === 0) return undefined;
    if (areDisjoint(positive, remainingNot)) continue;
    const doubleNot =
      conditionKeys(remainingNot).length === 0 && remainingNot.nots.length === 1 ? remainingNot.nots[0]! : undefined;
    const intersection = doubleNot ? intersectWho(positive, doubleNot) : 'unknown';
    if (!intersection) return undefined;
    // The intersection has more keys, so all conditions `not` have to be simplified again.
    if (intersection !== 'unknown')
      return simplify({ ...intersection, nots: [...intersection.nots, ...whoSet.nots.filter((one) => one !== not)] });
    if (hasOnly(remainingNot, 'users')) who.anonymous = true;
    else if (hasOnly(remainingNot, 'anonymous')) {
      if (!isUser(who)) who.users = true;
    } else if (who.dn && (hasOnly(remainingNot, 'dn') || hasOnly(remainingNot, 'subtree'))) {
      who.dn = who.dn.filter((one) => !whoContains(remainingNot, { dn: [one], nots: [] }));
    } else if (!nots.some((other) => whoContains(other, remainingNot))) nots.push(remainingNot);
  }
  if (who.anonymous && isUser(who)) return undefined;
  if (who.dn?.length === 0) return undefined;
  return { ...who, nots };
}

function isUserKey(key: Key): boolean {
  return (USER_KEYS as readonly Key[]).includes(key);
}

function hasOnly(who: WhoSet, key: Key): boolean {
  const keys = conditionKeys(who);
  return who.nots.length === 0 && keys.length === 1 && keys[0] === key;
}

/** Returns the `not` without the keys that every member of `positive` satisfies. */
function dropImpliedKeys(not: WhoSet, positive: WhoSet): WhoSet {
  const remainingNot: MutableWhoSet = { ...not };
  for (const key of conditionKeys(not)) if (implies(positive, not, key)) delete remainingNot[key];
  return remainingNot;
}

/** The intersection of two sets. `unknown` if the intersection may not be empty and a `WhoSet` cannot express it. */
export function intersectWho(a: WhoSet, b: WhoSet): WhoSet | undefined | 'unknown' {
  if (areDisjoint(a, b)) return undefined;
  if (whoContains(a, b)) return b;
  if (whoContains(b, a)) return a;
  const intersection: MutableWhoSet = { ...a, ...b, nots: [...a.nots, ...b.nots] };
  if (a.strength !== undefined && b.strength !== undefined) intersection.strength = Math.max(a.strength, b.strength);
  if (a.dn && b.dn) intersection.dn = a.dn.filter((one) => b.dn!.some((other) => isSameName(one, other)));
  if (a.subtree && b.subtree) intersection.subtree = deeperNames(a.subtree, b.subtree);
  for (const key of ['group', 'attribute', 'network', 'mechanism'] as const) {
    if (!a[key] || !b[key]) continue;
    if (implies(a, b, key)) Object.assign(intersection, { [key]: a[key] });
    else if (!implies(b, a, key)) return 'unknown';
  }
  return simplify(intersection);
}

function deeperNames(a: readonly Name[], b: readonly Name[]): Name[] {
  return a.flatMap((one) =>
    b.flatMap((other) => (isAtOrBelow(one, other) ? [one] : isAtOrBelow(other, one) ? [other] : [])),
  );
}

/** The difference of two sets; undefined if it is empty. */
export function subtractWho(who: WhoSet, not: WhoSet): WhoSet | undefined {
  return simplify({ ...who, nots: [...who.nots, not] });
}

export function simplifyNonEmpty(who: WhoSet): WhoSet {
  return simplify(who) ?? who;
}

/** The value of `who` in a rules file. */
export type RuleWho = { readonly [key: string]: unknown };

/** Converts a set to the notation of rules. */
export function toRuleWho(who: WhoSet): RuleWho {
  const ruleWho: { [key: string]: unknown } = {};
  for (const key of conditionKeys(who)) ruleWho[key] = plainValue(who[key]!);
  const nots = mergeNots(who.nots).map(toRuleWho);
  return nots.length === 0 ? ruleWho : { ...ruleWho, not: nots.length === 1 ? nots[0] : nots };
}

function plainValue(value: true | number | readonly (Name | string)[]): unknown {
  if (value === true || typeof value === 'number') return value;
  const texts = [...new Set(value.map((one) => (typeof one === 'string' ? one : nameText(one))))];
  return texts.length === 1 ? texts[0] : texts;
}

/** Merges the conditions `not` that consist of the same single key. */
function mergeNots(nots: readonly WhoSet[]): WhoSet[] {
  const merged: WhoSet[] = [];
  for (const not of nots) {
    const keys = conditionKeys(not);
    const index = merged.findIndex((other) => keys.length === 1 && hasOnly(not, keys[0]!) && hasOnly(other, keys[0]!));
    if (index < 0) merged.push(not);
    else merged[index] = mergeValues(merged[index]!, not, keys[0]!);
  }
  return merged;
}

function mergeValues(a: WhoSet, b: WhoSet, key: Key): WhoSet {
  if (key === 'strength') return { strength: Math.min(a.strength!, b.strength!), nots: [] };
  const [one, other] = [a[key], b[key]];
  return Array.isArray(one) && Array.isArray(other) ? { [key]: [...one, ...other], nots: [] } : a;
}
