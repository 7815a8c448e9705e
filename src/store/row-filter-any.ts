import { compareRun, startsWith } from '../bytes/compare.js';
import type { QualifierMatch, StoreFilter } from './contract.js';

export interface QualifierTest {
  /** A passing qualifier starts with one of these prefixes. At least one element, which may be empty. */
  readonly prefixes: readonly Buffer[];
  /** Tests the qualifier in `row[start..end)`. */
  readonly matches: (row: Buffer, start: number, end: number) => boolean;
}

/** The operands of an OR by kind. One walk over a row's cells evaluates all of them but `otherFilters`. */
export interface OrOperands {
  /** By family: the qualifiers of the `hasColumn` operands. */
  readonly qualifiers: ReadonlyMap<number, readonly Buffer[]>;
  /** By family: the prefixes of the `anyColumn` operands that match by prefix alone. */
  readonly prefixes: ReadonlyMap<number, readonly Buffer[]>;
  /** The `anyColumn` operands that match substrings. */
  readonly patterns: readonly Pattern[];
  readonly otherFilters: readonly StoreFilter[];
}

interface Pattern {
  readonly family: number;
  readonly match: QualifierMatch;
}

/** Flattens nested ORs into a set of their operands. */
export function flattenOr(of: readonly StoreFilter[]): ReadonlySet<StoreFilter> {
  const operands = new Set<StoreFilter>();
  const visit = (filter: StoreFilter): void => {
    if (filter.op === 'or') filter.of.forEach(visit);
    else operands.add(filter);
  };
  of.forEach(visit);
  return operands;
}

export function groupOrOperands(of: readonly StoreFilter[]): OrOperands {
  const qualifiers = new Map<number, Buffer[]>();
  const prefixes = new Map<number, Buffer[]>();
  const patterns: Pattern[] = [];
  const otherFilters: StoreFilter[] = [];
  for (const filter of flattenOr(of)) {
    if (filter.op === 'hasColumn') addToList(qualifiers, filter.family, filter.qualifier);
    else if (filter.op === 'anyColumn' && 'prefix' in filter.match) {
      if ('any' in filter.match) patterns.push({ family: filter.family, match: filter.match });
      else addToList(prefixes, filter.family, filter.match.prefix);
    } else otherFilters.push(filter);
  }
  return { qualifiers, prefixes, patterns, otherFilters };
}

function addToList(listsByFamily: Map<number, Buffer[]>, family: number, bytes: Buffer): void {
  const list = listsByFamily.get(family);
  if (list) list.push(bytes);
  else listsByFamily.set(family, [bytes]);
}

/** Returns a test for qualifiers equal to one of `qualifiers`. */
export function equalityTest(qualifiers: readonly Buffer[]): QualifierTest {
  return searchTest(sortedUnique(qualifiers), true);
}

/** Returns a test for qualifiers that start with one of `prefixes`. */
export function prefixTest(prefixes: readonly Buffer[]): QualifierTest {
  // Once no prefix starts with another prefix, only the last prefix ≤ the qualifier can match.
  const shortestPrefixes: Buffer[] = [];
  for (const prefix of sortedUnique(prefixes)) {
    const lastPrefix = shortestPrefixes.at(-1);
    if (!lastPrefix || !startsWith(prefix, lastPrefix)) shortestPrefixes.push(prefix);
  }
  return searchTest(shortestPrefixes, false);
}

/**
 * Returns a test by binary search: a qualifier passes if it starts with the last element of `sorted` ≤ the qualifier.
 * With `exact`, the two must be equal. Qualifiers without the common prefix of `sorted` are rejected first.
 */
function searchTest(sorted: readonly Buffer[], exact: boolean): QualifierTest {
  const sharedPrefix = commonPrefix(sorted[0]!, sorted.at(-1)!);
  return {
    prefixes: sorted,
    matches: (row, start, end) => {
      if (!startsWith(row, sharedPrefix, start, end)) return false;
      const index = lastAtMost(sorted, row, start, end);
      if (index < 0 || (exact && sorted[index]!.length !== end - start)) return false;
      return startsWith(row, sorted[index]!, start, end);
    },
  };
}

/** Sorts and deduplicates the list. A list that is sorted already costs one comparison per element. */
export function sortedUnique(qualifiers: readonly Buffer[]): Buffer[] {
  const isSorted = qualifiers.every((bytes, i) => i === 0 || Buffer.compare(qualifiers[i - 1]!, bytes) <= 0);
  const sorted = isSorted ? qualifiers : [...qualifiers].sort(Buffer.compare);
  return sorted.filter((bytes, i) => i === 0 || !bytes.equals(sorted[i - 1]!));
}

/** The common prefix of two names. For the first and last of a sorted list, all names between share it. */
export function commonPrefix(first: Buffer, last: Buffer): Buffer {
  let n = 0;
  while (n < first.length && n < last.length && first[n] === last[n]) n++;
  return first.subarray(0, n);
}

/** Index of the last element of `sorted` that is ≤ the qualifier, or -1. */
function lastAtMost(sorted: readonly Buffer[], row: Buffer, start: number, end: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareRun(row, start, end, sorted[middle]!) >= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
