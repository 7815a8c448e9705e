import type { Dn } from '../../schema/schema-types.js';
import type { AttributeBits, Attributes } from './attribute-bits.js';

/** A DN as a list of RDNs, leftmost first. */
export interface Name {
  readonly rdns: readonly { readonly text: string; readonly norm: string }[];
}

/** A set of entries. Scope `children`: all entries below the base. The subtree of the root: the whole directory. */
export interface Place {
  readonly scope: 'base' | 'one' | 'subtree' | 'children';
  readonly base: Name;
}

export const ROOT_NAME: Name = { rdns: [] };
export const EVERYWHERE: Place = { scope: 'subtree', base: ROOT_NAME };

export function nameFromDn(dn: Dn): Name {
  return { rdns: dn.rdns.map(({ text, norm }) => ({ text, norm: norm.toString('latin1') })) };
}

export function nameText(name: Name): string {
  return name.rdns.map(({ text }) => text).join(',');
}

/** Undefined for the root. */
export function parentName({ rdns }: Name): Name | undefined {
  return rdns.length === 0 ? undefined : { rdns: rdns.slice(1) };
}

export function isSameName(a: Name, b: Name): boolean {
  return a.rdns.length === b.rdns.length && isAtOrBelow(a, b);
}

/** Whether `name` equals `ancestor` or lies below it. */
export function isAtOrBelow(name: Name, ancestor: Name): boolean {
  const depthBelow = name.rdns.length - ancestor.rdns.length;
  return depthBelow >= 0 && ancestor.rdns.every(({ norm }, i) => norm === name.rdns[depthBelow + i]!.norm);
}

/** Whether the place contains the entry with the name. */
export function containsName({ scope, base }: Place, name: Name): boolean {
  const depth = name.rdns.length - base.rdns.length;
  if (!isAtOrBelow(name, base)) return false;
  if (scope === 'subtree') return true;
  return scope === 'base' ? depth === 0 : scope === 'one' ? depth === 1 : depth > 0;
}

/** The intersection of two places; undefined if it is empty. */
export function intersectPlaces(a: Place, b: Place): Place | undefined {
  if (a.scope === 'base') return containsName(b, a.base) ? a : undefined;
  if (b.scope === 'base') return containsName(a, b.base) ? b : undefined;
  if (a.scope === 'one') return intersectOne(a, b);
  if (b.scope === 'one') return intersectOne(b, a);
  if (isSameName(a.base, b.base)) return a.scope === 'children' ? a : b;
  if (isAtOrBelow(a.base, b.base)) return a;
  return isAtOrBelow(b.base, a.base) ? b : undefined;
}

function intersectOne(one: Place, other: Place): Place | undefined {
  if (other.scope === 'one') return isSameName(one.base, other.base) ? one : undefined;
  if (isAtOrBelow(one.base, other.base)) return one;
  const parent = parentName(other.base);
  const isChild = other.scope === 'subtree' && parent && isSameName(parent, one.base);
  return isChild ? { scope: 'base', base: other.base } : undefined;
}

function placeContains(outer: Place, inner: Place): boolean {
  const intersection = intersectPlaces(outer, inner);
  return intersection !== undefined && intersection.scope === inner.scope && isSameName(intersection.base, inner.base);
}

/** A set of attributes of a set of entries: the entries at a place that match all filters. */
export interface Region {
  readonly place: Place;
  /** Filters in text form, each in parentheses. */
  readonly filters: readonly string[];
  readonly attributes: Attributes;
}

export function negateFilter(filter: string): string {
  return filter.startsWith('(!') ? filter.slice(2, -1) : `(!${filter})`;
}

/** The intersection of two regions; undefined if it is empty. */
export function intersectRegions(a: Region, b: Region): Region | undefined {
  const attributes = a.attributes & b.attributes;
  if (!attributes) return undefined;
  const place = intersectPlaces(a.place, b.place);
  if (!place || a.filters.some((filter) => b.filters.includes(negateFilter(filter)))) return undefined;
  return { place, filters: [...new Set([...a.filters, ...b.filters])], attributes };
}

export function regionContains(outer: Region, inner: Region): boolean {
  return (
    (inner.attributes & ~outer.attributes) === 0n &&
    placeContains(outer.place, inner.place) &&
    outer.filters.every((filter) => inner.filters.includes(filter))
  );
}

/** The difference of two regions; undefined if rules cannot express it. */
export function subtractRegion(region: Region, without: Region, bits: AttributeBits): Region | undefined {
  if (!placeContains(without.place, region.place)) return undefined;
  const extraFilters = without.filters.filter((filter) => !region.filters.includes(filter));
  const attributes = region.attributes & ~without.attributes;
  if (attributes === 0n)
    return extraFilters.length === 1
      ? { ...region, filters: [...region.filters, negateFilter(extraFilters[0]!)] }
      : undefined;
  return extraFilters.length === 0 && bits.ruleWords(attributes) ? { ...region, attributes } : undefined;
}
