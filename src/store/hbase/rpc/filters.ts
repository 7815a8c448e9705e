import { MessageWriter } from './protobuf.js';
import type { EncodedFilter } from './rpc-types.js';

const PACKAGE = 'org.apache.hadoop.hbase.filter.';

/** hbase.pb.CompareType */
export const Compare = { less: 0, lessOrEqual: 1, equal: 2, notEqual: 3, greaterOrEqual: 4, greater: 5 } as const;
export type CompareType = (typeof Compare)[keyof typeof Compare];

/** An hbase.pb.Comparator: name 1, serialized_comparator 2. */
type Comparator = MessageWriter;

/** `hbase.pb.Filter`: name 1, serialized_filter 2. */
export function encodeFilter(name: string, fields: MessageWriter): EncodedFilter {
  return encodeComparator(name, fields).finish();
}

/** Comparators have the same fields as filters. */
function encodeComparator(name: string, fields: MessageWriter): Comparator {
  return new MessageWriter().string(1, PACKAGE + name).message(2, fields);
}

/** A ByteArrayComparable, the only field of comparators of bytes. */
function encodeComparable(bytes: Buffer): MessageWriter {
  return new MessageWriter().message(1, new MessageWriter().bytes(1, bytes));
}

export function binaryComparator(bytes: Buffer): Comparator {
  return encodeComparator('BinaryComparator', encodeComparable(bytes));
}

/** Returns a comparator that is equal to all byte strings that start with `bytes`. */
export function prefixComparator(bytes: Buffer): Comparator {
  return encodeComparator('BinaryPrefixComparator', encodeComparable(bytes));
}

const DOTALL = 32;

/** Returns a comparator that is equal to all byte strings with a match. Each character of the pattern is a byte. */
export function regexComparator(pattern: string): Comparator {
  const fields = new MessageWriter().string(1, pattern).uint(2, DOTALL).string(3, 'ISO-8859-1').string(4, 'JAVA');
  return encodeComparator('RegexStringComparator', fields);
}

function compareFilter(name: string, compare: CompareType, comparator: Comparator): EncodedFilter {
  const comparison = new MessageWriter().uint(1, compare).message(2, comparator);
  return encodeFilter(name, new MessageWriter().message(1, comparison));
}

export function qualifierFilter(compare: CompareType, comparator: Comparator): EncodedFilter {
  return compareFilter('QualifierFilter', compare, comparator);
}

export function valueFilter(compare: CompareType, comparator: Comparator): EncodedFilter {
  return compareFilter('ValueFilter', compare, comparator);
}

/** Filters cells by family. A failed test ends the row for the enclosing list: see `rowsWithoutFilter`. */
export function familyFilter(compare: CompareType, family: Buffer): EncodedFilter {
  return compareFilter('FamilyFilter', compare, binaryComparator(family));
}

export interface ColumnTest {
  readonly family: Buffer;
  readonly qualifier: Buffer;
  readonly compare: CompareType;
  readonly value: Buffer;
  /** Whether rows without the column pass. */
  readonly passesIfMissing: boolean;
}

/**
 * Filters whole rows by the value of a column. SingleColumnValueFilter: column_family 1, column_qualifier 2,
 * compare_op 3, comparator 4, filter_if_missing 5, latest_version_only 6.
 */
export function columnFilter({ family, qualifier, compare, value, passesIfMissing }: ColumnTest): EncodedFilter {
  const fields = new MessageWriter()
    .bytes(1, family)
    .bytes(2, qualifier)
    .uint(3, compare)
    .message(4, binaryComparator(value))
    .bool(5, !passesIfMissing)
    .bool(6, true);
  return encodeFilter('SingleColumnValueFilter', fields);
}

/** Passes whole rows in which every cell passes. */
export function skipFilter(filter: EncodedFilter): EncodedFilter {
  return encodeFilter('SkipFilter', new MessageWriter().bytes(1, filter));
}

/** Passes cells whose qualifier has the prefix. The server skips all other cells. */
export function columnPrefixFilter(prefix: Buffer): EncodedFilter {
  return encodeFilter('ColumnPrefixFilter', new MessageWriter().bytes(1, prefix));
}

/** Passes cells with `from` ≤ qualifier < `to`. The server skips all other cells. */
export function columnRangeFilter(from: Buffer, to: Buffer): EncodedFilter {
  const fields = new MessageWriter().bytes(1, from).bool(2, true).bytes(3, to).bool(4, false);
  return encodeFilter('ColumnRangeFilter', fields);
}

const LIST_OPERATORS = { all: 1, one: 2 } as const;

/** Combines filters, also a single one. */
export function encodeList(operator: keyof typeof LIST_OPERATORS, filters: readonly EncodedFilter[]): EncodedFilter {
  const fields = new MessageWriter().uint(1, LIST_OPERATORS[operator]);
  for (const filter of filters) fields.bytes(2, filter);
  return encodeFilter('FilterList', fields);
}

/** Combines filters. A single filter is returned as it is. */
export function filterList(operator: keyof typeof LIST_OPERATORS, filters: readonly EncodedFilter[]): EncodedFilter {
  return filters.length === 1 ? filters[0]! : encodeList(operator, filters);
}

/** Filter that omits the values of cells. */
export const KEY_ONLY = encodeFilter('KeyOnlyFilter', new MessageWriter().bool(1, false));
/** Filter that passes the first cell of each row, without its value. */
export const FIRST_KEY_ONLY = filterList('all', [encodeFilter('FirstKeyOnlyFilter', new MessageWriter()), KEY_ONLY]);
