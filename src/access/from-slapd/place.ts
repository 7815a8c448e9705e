import type { Dn } from '../../schema/schema-types.js';

/** A DN as a list of RDNs, leftmost first. */
export interface Name {
  readonly rdns: readonly { readonly text: string; readonly norm: string }[];
}

/** A set of entries. `children` are all entries below a name. The subtree of the root is everything. */
export interface Place {
  readonly scope: 'base' | 'one' | 'subtree' | 'children';
  readonly name: Name;
}

export const ROOT_NAME: Name = { rdns: [] };
export const EVERYWHERE: Place = { scope: 'subtree', name: ROOT_NAME };

export function nameOf(dn: Dn): Name {
  return { rdns: dn.rdns.map(({ text, norm }) => ({ text, norm: norm.toString('latin1') })) };
}

export function textOf(name: Name): string {
  return name.rdns.map(({ text }) => text).join(',');
}

/** Undefined for the root. */
export function parentOf({ rdns }: Name): Name | undefined {
  return rdns.length === 0 ? undefined : { rdns: rdns.slice(1) };
}

export function isSameName(a: Name, b: Name): boolean {
  return a.rdns.length === b.rdns.length && isAtOrBelow(a, b);
}

/** Whether `name` equals `above` or lies below it. */
export function isAtOrBelow(name: Name, above: Name): boolean {
  const from = name.rdns.length - above.rdns.length;
  return from >= 0 && above.rdns.every(({ norm }, i) => norm === name.rdns[from + i]!.norm);
}

/** Whether the place contains the entry with the name. */
export function containsName({ scope, name: above }: Place, name: Name): boolean {
  const depth = name.rdns.length - above.rdns.length;
  if (!isAtOrBelow(name, above)) return false;
  if (scope === 'subtree') return true;
  return scope === 'base' ? depth === 0 : scope === 'one' ? depth === 1 : depth > 0;
}

/** The intersection of two places; undefined if it is empty. */
export function intersectPlaces(a: Place, b: Place): Place | undefined {
  if (a.scope === 'base') return containsName(b, a.name) ? a : undefined;
  if (b.scope === 'base') return containsName(a, b.name) ? b : undefined;
  if (a.scope === 'one') return oneWithin(a, b);
  if (b.scope === 'one') return oneWithin(b, a);
  if (isSameName(a.name, b.name)) return a.scope === 'children' ? a : b;
  if (isAtOrBelow(a.name, b.name)) return a;
  return isAtOrBelow(b.name, a.name) ? b : undefined;
}

function oneWithin(one: Place, other: Place): Place | undefined {
  if (other.scope === 'one') return isSameName(one.name, other.name) ? one : undefined;
  if (isAtOrBelow(one.name, other.name)) return one;
  const parent = parentOf(other.name);
  const isChild = other.scope === 'subtree' && parent && isSameName(parent, one.name);
  return isChild ? { scope: 'base', name: other.name } : undefined;
}

export function placeContains(outer: Place, inner: Place): boolean {
  const both = intersectPlaces(outer, inner);
  return both !== undefined && both.scope === inner.scope && isSameName(both.name, inner.name);
}
