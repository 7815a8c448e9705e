import type { KeyRange } from '../../../store/contract.js';
import { type Index, type IndexSet, OBJECT_CLASS_OID } from '../../model/index-set.js';
import { cutNorm, EQUALITY, equalityPrefix, gramPrefix, PRESENCE_PREFIX, prefixEnd } from '../../model/tables.js';
import { MAX_NORM } from '../../model/thresholds.js';
import type { CompiledFilter, Lookup, Term } from '../filter/compiled-filter.js';
import { boundRange } from '../filter/store-filter.js';

/** The keys from `from` (inclusive) to `to` (exclusive). Without `to`, up to the end of the table. */
export interface Range extends KeyRange {
  readonly from: Buffer;
}

/** Key ranges of one index. They are sorted and do not overlap. */
export interface IndexRanges {
  readonly index: Index;
  readonly ranges: readonly Range[];
}

const EQUALS = Buffer.of(EQUALITY);

/**
 * Returns key ranges, by index, that have all entries for which the filter is True; undefined if indexes cannot answer
 * it. The ranges depend only on the filter and the list of indexes, not on the data, so all pages of a search use the
 * same ranges.
 */
export function keyRanges(filter: CompiledFilter, indexes: IndexSet): readonly IndexRanges[] | undefined {
  const rangesByIndex: RangesByIndex = new Map();
  if (!addRanges(filter, indexes, rangesByIndex)) return undefined;
  const tables = [...rangesByIndex].map(([index, ranges]) => ({ index, ranges: mergeRanges(ranges) }));
  return tables.sort((a, b) => (a.index.table < b.index.table ? -1 : 1));
}

type RangesByIndex = Map<Index, Range[]>;

/** Adds the ranges for a filter. Returns false if no index can answer it. */
function addRanges(filter: CompiledFilter, indexes: IndexSet, ranges: RangesByIndex): boolean {
  switch (filter.kind) {
    case 'undefined':
      return true;
    case 'not':
      return false;
    case 'or':
      return filter.parts.every((part) => addRanges(part, indexes, ranges));
    case 'and':
      return addBest(filter.parts, indexes, ranges);
    case 'term':
      return !filter.moreIds && addTerm(filter, indexes, ranges);
  }
}

/** Kinds of lookups, in the order of their usual number of entries. */
const RANKS = ['equality', 'anyOf', 'pattern', 'from', 'upTo', 'presence'];

/** Adds the ranges for that operand of an AND that usually has the fewest entries. */
function addBest(operands: readonly CompiledFilter[], indexes: IndexSet, ranges: RangesByIndex): boolean {
  const rank = (part: CompiledFilter): number =>
    part.kind === 'term' ? RANKS.indexOf(part.lookup?.kind ?? '') : RANKS.length;
  const usableParts = operands.filter((part) => addRanges(part, indexes, new Map())).sort((a, b) => rank(a) - rank(b));
  return usableParts.length > 0 && addRanges(usableParts[0]!, indexes, ranges);
}

function addTerm({ lookup, types, chain }: Term, indexes: IndexSet, ranges: RangesByIndex): boolean {
  if (!lookup || types.length === 0) return false;
  if (chain && !addClass(chain.classNorm, indexes, ranges)) return false;
  for (const type of types) {
    const index = indexes.ofType(type);
    if (!index?.isReady) return false;
    const newRanges = lookupRanges(index, lookup);
    if (!newRanges) return false;
    ranges.set(index, [...(ranges.get(index) ?? []), ...newRanges]);
  }
  return true;
}

/** Adds the range for all entries of an object class, given as normal form. */
function addClass(norm: Buffer | undefined, indexes: IndexSet, ranges: RangesByIndex): boolean {
  const index = indexes.list.find(({ type }) => type.oid === OBJECT_CLASS_OID);
  if (!index?.isReady || !norm) return false;
  ranges.set(index, [...(ranges.get(index) ?? []), prefixRange(equalityPrefix(norm))]);
  return true;
}

function lookupRanges(index: Index, lookup: Lookup): Range[] | undefined {
  switch (lookup.kind) {
    case 'equality':
      return [prefixRange(equalityPrefix(cutNorm(lookup.norm)))];
    case 'anyOf':
      return lookup.norms.map((norm) => prefixRange(equalityPrefix(cutNorm(norm))));
    case 'presence':
      return index.hasPresence ? [prefixRange(PRESENCE_PREFIX)] : undefined;
    case 'from':
    case 'upTo':
      return [boundRange(EQUALS, lookup)];
    case 'pattern':
      return patternRange(index, lookup);
  }
}

/** From this length on, an initial part selects fewer entries than any three bytes of the pattern. */
const SELECTIVE_INITIAL = 3;

function patternRange(index: Index, { initial, any, final }: Extract<Lookup, { kind: 'pattern' }>) {
  const gramParts = index.hasAllSubstrings
    ? [...any, ...(final ? [final] : [])].filter(({ length }) => length >= 3)
    : [];
  const longestPart = gramParts.sort((a, b) => b.length - a.length)[0];
  if (longestPart && (!initial || initial.length < SELECTIVE_INITIAL)) return [prefixRange(gramPrefix(longestPart, 0))];
  return initial ? [prefixRange(Buffer.concat([EQUALS, initial.subarray(0, MAX_NORM)]))] : undefined;
}

function prefixRange(prefix: Buffer): Range {
  return { from: prefix, to: prefixEnd(prefix) };
}

/** Sorts ranges, and merges those that overlap or touch. */
function mergeRanges(ranges: readonly Range[]): Range[] {
  const mergedRanges: Range[] = [];
  for (const range of [...ranges].sort((a, b) => Buffer.compare(a.from, b.from))) {
    const lastRange = mergedRanges.at(-1);
    if (!lastRange || (lastRange.to && Buffer.compare(lastRange.to, range.from) < 0)) mergedRanges.push(range);
    else if (lastRange.to && (!range.to || Buffer.compare(range.to, lastRange.to) > 0))
      mergedRanges[mergedRanges.length - 1] = { from: lastRange.from, to: range.to };
  }
  return mergedRanges;
}

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
