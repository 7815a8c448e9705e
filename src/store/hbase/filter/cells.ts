import type { QualifierMatch } from '../../contract.js';
import {
  binaryComparator,
  Compare,
  columnPrefixFilter,
  columnRangeFilter,
  familyFilter,
  filterList,
  prefixComparator,
  qualifierFilter,
  regexComparator,
  skipFilter,
  valueFilter,
} from '../rpc/filters.js';
import type { EncodedFilter } from '../rpc/rpc-types.js';

/** A condition on a single cell. */
export type CellTest =
  | { readonly op: 'is'; readonly family: number; readonly qualifier: Buffer; readonly value: Buffer | undefined }
  | { readonly op: 'any'; readonly family: number; readonly match: QualifierMatch };

type SubstringMatch = Extract<QualifierMatch, { readonly any: unknown }>;

function isPattern(match: QualifierMatch): match is SubstringMatch {
  return 'any' in match;
}

/** Escapes every byte as `\xHH`, so that no byte has a special meaning. */
function escapeBytes(bytes: Buffer): string {
  let text = '';
  for (const byte of bytes) text += `\\x${byte < 16 ? '0' : ''}${byte.toString(16)}`;
  return text;
}

/**
 * Returns the pattern as a Java regular expression over bytes. Atomic groups fix each infix at its first occurrence.
 * The expression still finds every match, and its time does not multiply with the number of infixes.
 */
function toRegex({ prefix, initial, any, final }: SubstringMatch): string {
  const start = escapeBytes(initial ? Buffer.concat([prefix, initial]) : prefix);
  const middle = any.map((infix) => `(?>.*?${escapeBytes(infix)})`).join('');
  return `\\A${start}${middle}${final ? `.*${escapeBytes(final)}\\z` : ''}`;
}

/** Returns a filter for the cells that pass the test, in any family. */
export function cellFilter(test: CellTest): EncodedFilter {
  if (test.op === 'is') {
    const qualifierTest = qualifierFilter(Compare.equal, binaryComparator(test.qualifier));
    return test.value === undefined
      ? qualifierTest
      : filterList('all', [qualifierTest, valueFilter(Compare.equal, binaryComparator(test.value))]);
  }
  const { match } = test;
  if (isPattern(match)) return qualifierFilter(Compare.equal, regexComparator(toRegex(match)));
  if ('prefix' in match) return qualifierFilter(Compare.equal, prefixComparator(match.prefix));
  return filterList('all', [
    qualifierFilter(Compare.greaterOrEqual, binaryComparator(match.from)),
    qualifierFilter(Compare.less, binaryComparator(match.to)),
  ]);
}

/** As `cellFilter`, for a single test over a single family: the server seeks to the cells, then leaves the row. */
export function seekFilter(test: CellTest): EncodedFilter {
  if (test.op === 'is') return cellFilter(test);
  const { match } = test;
  if (!isPattern(match))
    return 'prefix' in match ? columnPrefixFilter(match.prefix) : columnRangeFilter(match.from, match.to);
  const prefix = match.initial ? Buffer.concat([match.prefix, match.initial]) : match.prefix;
  return filterList('all', [columnPrefixFilter(prefix), cellFilter(test)]);
}

function inverseCellFilter(match: QualifierMatch): EncodedFilter {
  if (isPattern(match)) return qualifierFilter(Compare.notEqual, regexComparator(toRegex(match)));
  if ('prefix' in match) return qualifierFilter(Compare.notEqual, prefixComparator(match.prefix));
  return filterList('one', [
    qualifierFilter(Compare.less, binaryComparator(match.from)),
    qualifierFilter(Compare.greaterOrEqual, binaryComparator(match.to)),
  ]);
}

/**
 * Returns a filter for whole rows without a matching cell in the family. `family` must be the last family scanned:
 * HBase does not evaluate a failed FamilyFilter again in the same row, so cells of later families would count as well.
 */
export function rowsWithoutFilter(match: QualifierMatch, family: string): EncodedFilter {
  return skipFilter(filterList('one', [familyFilter(Compare.notEqual, Buffer.from(family)), inverseCellFilter(match)]));
}

/** Returns the number of bytes that the test fixes. Tests with more bytes probably pass fewer cells. */
export function selectivity(test: CellTest): number {
  if (test.op === 'is') return Number.MAX_SAFE_INTEGER;
  const { match } = test;
  if (isPattern(match)) {
    const substrings = [match.prefix, match.initial, ...match.any, match.final];
    return substrings.reduce((sum, substring) => sum + (substring?.length ?? 0), 0);
  }
  if ('prefix' in match) return match.prefix.length;
  let commonLength = 0;
  while (commonLength < match.from.length && match.from[commonLength] === match.to[commonLength]) commonLength++;
  return commonLength;
}
