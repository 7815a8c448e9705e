import type { KeyRange } from '../../../store/contract.js';
import { type Index, type IndexSet, OBJECT_CLASS_OID } from '../../model/index-set.js';
import { cutNorm, EQUALITY, equalityPrefix, gramPrefix, PRESENCE_PREFIX, prefixEnd } from '../../model/tables.js';
import { MAX_NORM } from '../../model/thresholds.js';
import type { CompiledFilter, Lookup, Term } from '../filter/compiled-filter.js';
import { boundRange } from '../filter/store-filter.js';

/** The keys `from` <= key < `to`. Without `to`, the range ends with the table. */
export interface Range extends KeyRange {
  readonly from: Buffer;
}

/** Sorted ranges of keys of one index that do not overlap. */
export interface IndexRanges {
  readonly index: Index;
  readonly ranges: readonly Range[];
}

const EQUALS = Buffer.of(EQUALITY);

/**
 * Returns ranges of index keys that hold every entry for which the filter is true, by index; undefined where indexes
 * cannot answer the filter. The ranges depend only on the filter and the list of indexes, not on the data. All pages of
 * a search therefore use the same ranges.
 */
export function keyRanges(filter: CompiledFilter, indexes: IndexSet): readonly IndexRanges[] | undefined {
  const byIndex: RangesByIndex = new Map();
  if (!addRanges(filter, indexes, byIndex)) return undefined;
  const tables = [...byIndex].map(([index, ranges]) => ({ index, ranges: mergeRanges(ranges) }));
  return tables.sort((a, b) => (a.index.table < b.index.table ? -1 : 1));
}

type RangesByIndex = Map<Index, Range[]>;

/** Adds the ranges of a filter. Returns false where no index can answer the filter. */
function addRanges(filter: CompiledFilter, indexes: IndexSet, ranges: RangesByIndex): boolean {
  switch (filter.kind) {
    case 'undefined':
      return true;
    case 'not':
      return false;
    case 'or':
      return filter.of.every((part) => addRanges(part, indexes, ranges));
    case 'and':
      return addBest(filter.of, indexes, ranges);
    case 'term':
      return addTerm(filter, indexes, ranges);
  }
}

/** Kinds of lookups, ordered by the usual number of entries, fewest first. */
const RANKS = ['equality', 'anyOf', 'pattern', 'from', 'upTo', 'presence'];

/** Adds the ranges of the best part of an AND. */
function addBest(parts: readonly CompiledFilter[], indexes: IndexSet, ranges: RangesByIndex): boolean {
  const rank = (part: CompiledFilter): number =>
    part.kind === 'term' ? RANKS.indexOf(part.lookup?.kind ?? '') : RANKS.length;
  const usable = parts.filter((part) => addRanges(part, indexes, new Map())).sort((a, b) => rank(a) - rank(b));
  return usable.length > 0 && addRanges(usable[0]!, indexes, ranges);
}

function addTerm({ lookup, types, chain }: Term, indexes: IndexSet, ranges: RangesByIndex): boolean {
  if (!lookup || types.length === 0) return false;
  if (chain && !addClass(chain.among, indexes, ranges)) return false;
  for (const type of types) {
    const index = indexes.ofType(type);
    if (!index?.isReady) return false;
    const added = rangesOf(index, lookup);
    if (!added) return false;
    ranges.set(index, [...(ranges.get(index) ?? []), ...added]);
  }
  return true;
}

/** Adds the range of all entries of an object class, given in normal form. */
function addClass(norm: Buffer | undefined, indexes: IndexSet, ranges: RangesByIndex): boolean {
  const index = indexes.list.find(({ type }) => type.oid === OBJECT_CLASS_OID);
  if (!index?.isReady || !norm) return false;
  ranges.set(index, [...(ranges.get(index) ?? []), startingWith(equalityPrefix(norm))]);
  return true;
}

function rangesOf(index: Index, lookup: Lookup): Range[] | undefined {
  switch (lookup.kind) {
    case 'equality':
      return [startingWith(equalityPrefix(cutNorm(lookup.norm)))];
    case 'anyOf':
      return lookup.norms.map((norm) => startingWith(equalityPrefix(cutNorm(norm))));
    case 'presence':
      return index.hasPresence ? [startingWith(PRESENCE_PREFIX)] : undefined;
    case 'from':
    case 'upTo':
      return [boundRange(EQUALS, lookup)];
    case 'pattern':
      return patternRange(index, lookup);
  }
}

/** Length from which the initial part of a pattern selects fewer entries than a gram of three bytes. */
const LONG_INITIAL = 3;

function patternRange(index: Index, { initial, any, final }: Extract<Lookup, { kind: 'pattern' }>) {
  const parts = index.hasAllSubstrings ? [...any, ...(final ? [final] : [])].filter(({ length }) => length >= 3) : [];
  const longest = parts.sort((a, b) => b.length - a.length)[0];
  if (longest && (!initial || initial.length < LONG_INITIAL)) return [startingWith(gramPrefix(longest, 0))];
  return initial ? [startingWith(Buffer.concat([EQUALS, initial.subarray(0, MAX_NORM)]))] : undefined;
}

function startingWith(prefix: Buffer): Range {
  return { from: prefix, to: prefixEnd(prefix) };
}

/** Sorts ranges and merges ranges that overlap or touch. */
function mergeRanges(ranges: readonly Range[]): Range[] {
  const all: Range[] = [];
  for (const range of [...ranges].sort((a, b) => Buffer.compare(a.from, b.from))) {
    const last = all.at(-1);
    if (!last || (last.to && Buffer.compare(last.to, range.from) < 0)) all.push(range);
    else if (last.to && (!range.to || Buffer.compare(range.to, last.to) > 0))
      all[all.length - 1] = { from: last.from, to: range.to };
  }
  return all;
}

/** Whether a range contains the key. */
export function containsKey(ranges: readonly Range[], key: Buffer): boolean {
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
