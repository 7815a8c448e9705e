import { compareRun, startsWith } from '../bytes/compare.js';
import type { QualifierMatch, StoreFilter } from './contract.js';

/** A test of qualifiers. */
export interface NameTest {
  /** What passes begins with one of these. There is at least one; it may be empty. */
  readonly heads: readonly Buffer[];
  /** Tests the qualifier in `row[start..stop)`. */
  readonly matches: (row: Buffer, start: number, stop: number) => boolean;
}

/** Parts of an OR that one walk over a row's cells answers together, and the others. */
export interface OrParts {
  /** By family: is there a cell with any of these names? */
  readonly names: ReadonlyMap<number, readonly Buffer[]>;
  /** By family: is there a cell whose name starts with any of these? */
  readonly prefixes: ReadonlyMap<number, readonly Buffer[]>;
  readonly patterns: readonly Pattern[];
  readonly others: readonly StoreFilter[];
}

interface Pattern {
  readonly family: number;
  readonly match: QualifierMatch;
}

/** The parts of ORs within ORs; the same one twice counts once. */
export function alternatives(of: readonly StoreFilter[]): ReadonlySet<StoreFilter> {
  const parts = new Set<StoreFilter>();
  const visit = (filter: StoreFilter): void => {
    if (filter.op === 'or') filter.of.forEach(visit);
    else parts.add(filter);
  };
  of.forEach(visit);
  return parts;
}

export function orParts(of: readonly StoreFilter[]): OrParts {
  const names = new Map<number, Buffer[]>();
  const prefixes = new Map<number, Buffer[]>();
  const patterns: Pattern[] = [];
  const others: StoreFilter[] = [];
  for (const filter of alternatives(of)) {
    if (filter.op === 'hasColumn') push(names, filter.family, filter.qualifier);
    else if (filter.op === 'anyColumn' && 'prefix' in filter.match) {
      if ('any' in filter.match) patterns.push({ family: filter.family, match: filter.match });
      else push(prefixes, filter.family, filter.match.prefix);
    } else others.push(filter);
  }
  return { names, prefixes, patterns, others };
}

function push(lists: Map<number, Buffer[]>, family: number, bytes: Buffer): void {
  const list = lists.get(family);
  if (list) list.push(bytes);
  else lists.set(family, [bytes]);
}

/** Whether a qualifier is one of `names`. */
export function isOneOf(names: readonly Buffer[]): NameTest {
  return among(unique(names), true);
}

/** Whether a qualifier starts with one of `prefixes`. */
export function startsWithOneOf(prefixes: readonly Buffer[]): NameTest {
  // Without those that begin with another, only the last one that is not above the qualifier can be its beginning.
  const free: Buffer[] = [];
  for (const prefix of unique(prefixes)) {
    const last = free.at(-1);
    if (!last || !startsWith(prefix, last)) free.push(prefix);
  }
  return among(free, false);
}

/**
 * By binary search among those that begin as all of them do: whether a qualifier starts with the last of `sorted` that
 * is not above it or, where it has to be `whole`, is that one.
 */
function among(sorted: readonly Buffer[], whole: boolean): NameTest {
  const common = commonPrefix(sorted[0]!, sorted.at(-1)!);
  return {
    heads: sorted,
    matches: (row, start, stop) => {
      if (!startsWith(row, common, start, stop)) return false;
      const at = lastNotAbove(sorted, row, start, stop);
      if (at < 0 || (whole && sorted[at]!.length !== stop - start)) return false;
      return startsWith(row, sorted[at]!, start, stop);
    },
  };
}

/** Sorted, each once; thousands that come so already cost a comparison each. */
export function unique(list: readonly Buffer[]): Buffer[] {
  const rises = list.every((bytes, i) => i === 0 || Buffer.compare(list[i - 1]!, bytes) <= 0);
  const sorted = rises ? list : [...list].sort(Buffer.compare);
  return sorted.filter((bytes, i) => i === 0 || !bytes.equals(sorted[i - 1]!));
}

/** What two names have in common at their beginnings; of a sorted list's first and last, all have it. */
export function commonPrefix(first: Buffer, last: Buffer): Buffer {
  let n = 0;
  while (n < first.length && n < last.length && first[n] === last[n]) n++;
  return first.subarray(0, n);
}

/** Index of the last of `sorted` that is ≤ the qualifier, or -1. */
function lastNotAbove(sorted: readonly Buffer[], row: Buffer, start: number, stop: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareRun(row, start, stop, sorted[middle]!) >= 0) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
