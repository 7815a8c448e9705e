import type { QualifierMatch } from '../../contract.js';
import type { EncodedFilter } from '../rpc/rpc-types.js';
import {
  binary,
  Compare,
  columnPrefixFilter,
  columnRangeFilter,
  familyFilter,
  filterList,
  matches,
  qualifierFilter,
  skipFilter,
  startsWith,
  valueFilter,
} from './encode.js';

/** A test of single cells. */
export type CellTest =
  | { readonly op: 'is'; readonly family: number; readonly qualifier: Buffer; readonly value: Buffer | undefined }
  | { readonly op: 'any'; readonly family: number; readonly match: QualifierMatch };

type Pattern = Extract<QualifierMatch, { readonly any: unknown }>;

function isPattern(match: QualifierMatch): match is Pattern {
  return 'any' in match;
}

/** Every byte as `\xHH`: none has a meaning of its own. */
function literal(bytes: Buffer): string {
  let text = '';
  for (const byte of bytes) text += `\\x${byte < 16 ? '0' : ''}${byte.toString(16)}`;
  return text;
}

/**
 * The pattern as a Java regular expression over bytes. Each part is taken where it first occurs and kept there (atomic
 * groups): that finds a match whenever there is one, and the time it takes does not multiply with the parts.
 */
function expression({ prefix, initial, any, final }: Pattern): string {
  const head = literal(initial ? Buffer.concat([prefix, initial]) : prefix);
  const parts = any.map((part) => `(?>.*?${literal(part)})`).join('');
  return `\\A${head}${parts}${final ? `.*${literal(final)}\\z` : ''}`;
}

/** Cells that pass the test, whatever their family. */
export function passing(test: CellTest): EncodedFilter {
  if (test.op === 'is') {
    const name = qualifierFilter(Compare.equal, binary(test.qualifier));
    return test.value === undefined ? name : filterList('all', [name, valueFilter(Compare.equal, binary(test.value))]);
  }
  const { match } = test;
  if (isPattern(match)) return qualifierFilter(Compare.equal, matches(expression(match)));
  if ('prefix' in match) return qualifierFilter(Compare.equal, startsWith(match.prefix));
  return filterList('all', [
    qualifierFilter(Compare.greaterOrEqual, binary(match.from)),
    qualifierFilter(Compare.less, binary(match.to)),
  ]);
}

/**
 * As `passing`, for a test that stands alone over one family: the server goes to the cells and leaves the row after
 * them.
 */
export function seeking(test: CellTest): EncodedFilter {
  if (test.op === 'is') return passing(test);
  const { match } = test;
  if (!isPattern(match)) {
    return 'prefix' in match ? columnPrefixFilter(match.prefix) : columnRangeFilter(match.from, match.to);
  }
  const head = match.initial ? Buffer.concat([match.prefix, match.initial]) : match.prefix;
  return filterList('all', [columnPrefixFilter(head), passing(test)]);
}

function failing(match: QualifierMatch): EncodedFilter {
  if (isPattern(match)) return qualifierFilter(Compare.notEqual, matches(expression(match)));
  if ('prefix' in match) return qualifierFilter(Compare.notEqual, startsWith(match.prefix));
  return filterList('one', [
    qualifierFilter(Compare.less, binary(match.from)),
    qualifierFilter(Compare.greaterOrEqual, binary(match.to)),
  ]);
}

/**
 * Whole rows that have no cell of the family that matches. `family` must be the last of those scanned: a FamilyFilter
 * that has failed is not asked again in its row, so cells of a later family would count too.
 */
export function lacking(match: QualifierMatch, family: string): EncodedFilter {
  return skipFilter(filterList('one', [familyFilter(Compare.notEqual, family), failing(match)]));
}

/** How many bytes the test pins down: of several the one that likely lets fewest cells through. */
export function weight(test: CellTest): number {
  if (test.op === 'is') return Number.MAX_SAFE_INTEGER;
  const { match } = test;
  if (isPattern(match)) {
    const parts = [match.prefix, match.initial, ...match.any, match.final];
    return parts.reduce((sum, part) => sum + (part?.length ?? 0), 0);
  }
  if ('prefix' in match) return match.prefix.length;
  let common = 0;
  while (common < match.from.length && match.from[common] === match.to[common]) common++;
  return common;
}
