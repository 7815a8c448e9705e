import type { KeyRange } from '../../../store/contract.js';
import { type Index, type IndexSet, OBJECT_CLASS_OID } from '../../model/index-set.js';
import { cutNorm, EQUALITY, equalityPrefix, gramPrefix, PRESENCE_PREFIX, prefixEnd } from '../../model/tables.js';
import { MAX_NORM } from '../../model/thresholds.js';
import type { CompiledFilter, Lookup, Term } from '../filter/compiled-filter.js';
import { boundRange } from '../filter/store-filter.js';

/** Keys `from` ≤ key < `to`; both given but for the end of the table. */
export interface Range extends KeyRange {
  readonly from: Buffer;
}

/** Rows of one index: rising ranges of keys that do not overlap. */
export interface IndexRanges {
  readonly index: Index;
  readonly ranges: readonly Range[];
}

const EQUALS = Buffer.of(EQUALITY);

/**
 * The rows of indexes that hold every entry for which the filter is true, by index. Which ones follows from the filter
 * and the list of indexes alone, not from what is in them: pages of one search find the same. Undefined where there are
 * none.
 */
export function keyRanges(filter: CompiledFilter, indexes: IndexSet): readonly IndexRanges[] | undefined {
  const found = new Map<Index, Range[]>();
  if (!addRanges(filter, indexes, found)) return undefined;
  const tables = [...found].map(([index, ranges]) => ({ index, ranges: merged(ranges) }));
  return tables.sort((a, b) => (a.index.table < b.index.table ? -1 : 1));
}

type Found = Map<Index, Range[]>;

/** False where no index can answer the filter. */
function addRanges(filter: CompiledFilter, indexes: IndexSet, found: Found): boolean {
  switch (filter.kind) {
    case 'undefined':
      return true;
    case 'not':
      return false;
    case 'or':
      return filter.of.every((part) => addRanges(part, indexes, found));
    case 'and':
      return addBest(filter.of, indexes, found);
    case 'term':
      return addTerm(filter, indexes, found);
  }
}

/** Kinds of lookups, the one first that mostly finds the least. */
const RANKS = ['equality', 'anyOf', 'pattern', 'from', 'upTo', 'presence'];

function addBest(parts: readonly CompiledFilter[], indexes: IndexSet, found: Found): boolean {
  const rank = (part: CompiledFilter): number =>
    part.kind === 'term' ? RANKS.indexOf(part.lookup?.kind ?? '') : RANKS.length;
  const usable = parts.filter((part) => addRanges(part, indexes, new Map())).sort((a, b) => rank(a) - rank(b));
  return usable.length > 0 && addRanges(usable[0]!, indexes, found);
}

function addTerm({ lookup, types, chain }: Term, indexes: IndexSet, found: Found): boolean {
  if (!lookup || types.length === 0) return false;
  if (chain && !addClass(chain.among, indexes, found)) return false;
  for (const type of types) {
    const index = indexes.of(type);
    if (!index?.ready) return false;
    const ranges = rangesOf(index, lookup);
    if (!ranges) return false;
    found.set(index, [...(found.get(index) ?? []), ...ranges]);
  }
  return true;
}

/** All entries of a class. */
function addClass(norm: Buffer | undefined, indexes: IndexSet, found: Found): boolean {
  const index = indexes.list.find(({ type }) => type.oid === OBJECT_CLASS_OID);
  if (!index?.ready || !norm) return false;
  found.set(index, [...(found.get(index) ?? []), startingWith(equalityPrefix(norm))]);
  return true;
}

function rangesOf(index: Index, lookup: Lookup): Range[] | undefined {
  switch (lookup.kind) {
    case 'equality':
      return [startingWith(equalityPrefix(cutNorm(lookup.norm)))];
    case 'anyOf':
      return lookup.norms.map((norm) => startingWith(equalityPrefix(cutNorm(norm))));
    case 'presence':
      return index.presence ? [startingWith(PRESENCE_PREFIX)] : undefined;
    case 'from':
    case 'upTo':
      return [boundRange(EQUALS, lookup)];
    case 'pattern':
      return patternRange(index, lookup);
  }
}

/** From so many bytes on the beginning of a value is worth more than three bytes somewhere in it. */
const LONG_INITIAL = 3;

function patternRange(index: Index, { initial, any, final }: Extract<Lookup, { kind: 'pattern' }>) {
  const parts = index.substringReady ? [...any, ...(final ? [final] : [])].filter(({ length }) => length >= 3) : [];
  const longest = parts.sort((a, b) => b.length - a.length)[0];
  if (longest && (!initial || initial.length < LONG_INITIAL)) return [startingWith(gramPrefix(longest, 0))];
  return initial ? [startingWith(Buffer.concat([EQUALS, initial.subarray(0, MAX_NORM)]))] : undefined;
}

function startingWith(prefix: Buffer): Range {
  return { from: prefix, to: prefixEnd(prefix) };
}

/** In order, those that overlap or meet put together. */
function merged(ranges: readonly Range[]): Range[] {
  const all: Range[] = [];
  for (const range of [...ranges].sort((a, b) => Buffer.compare(a.from, b.from))) {
    const last = all.at(-1);
    if (!last || (last.to && Buffer.compare(last.to, range.from) < 0)) all.push(range);
    else if (last.to && (!range.to || Buffer.compare(range.to, last.to) > 0))
      all[all.length - 1] = { from: last.from, to: range.to };
  }
  return all;
}

/** Whether one of the ranges holds the key. */
export function holdsKey(ranges: readonly Range[], key: Buffer): boolean {
  let low = 0;
  let high = ranges.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (Buffer.compare(ranges[middle]!.from, key) <= 0) low = middle + 1;
    else high = middle;
  }
  const range = ranges[low - 1];
  return range !== undefined && (!range.to || Buffer.compare(key, range.to) < 0);
}
