import type { AttributeBits, Attributes } from './attribute-bits.js';
import { intersectPlaces, type Place, placeContains } from './place.js';

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
