import { MessageWriter } from '../rpc/protobuf.js';
import type { EncodedFilter } from '../rpc/rpc-types.js';

/** Encodes HBase's filters and comparators as hbase.pb.Filter and hbase.pb.Comparator messages. */

const PACKAGE = 'org.apache.hadoop.hbase.filter.';

/** hbase.pb.CompareType */
export const Compare = { less: 0, lessOrEqual: 1, equal: 2, notEqual: 3, greaterOrEqual: 4, greater: 5 } as const;
export type CompareType = (typeof Compare)[keyof typeof Compare];

export interface Comparator {
  readonly message: MessageWriter;
}

function encodeFilter(name: string, fields: MessageWriter): EncodedFilter {
  return new MessageWriter()
    .string(1, PACKAGE + name)
    .message(2, fields)
    .finish();
}

/** Encodes a comparator whose only field is a ByteArrayComparable. */
function bytesComparator(name: string, bytes: Buffer): Comparator {
  const fields = new MessageWriter().message(1, new MessageWriter().bytes(1, bytes));
  return {
    message: new MessageWriter().string(1, PACKAGE + name).message(2, fields),
  };
}

export function binaryComparator(bytes: Buffer): Comparator {
  return bytesComparator('BinaryComparator', bytes);
}

/** Equal to all byte strings that start with `bytes`. */
export function prefixComparator(bytes: Buffer): Comparator {
  return bytesComparator('BinaryPrefixComparator', bytes);
}

const DOTALL = 32;

/** Equal to all byte strings in which the pattern is found. Each character of the pattern is a byte. */
export function regexComparator(pattern: string): Comparator {
  const fields = new MessageWriter().string(1, pattern).uint(2, DOTALL).string(3, 'ISO-8859-1').string(4, 'JAVA');
  return {
    message: new MessageWriter().string(1, `${PACKAGE}RegexStringComparator`).message(2, fields),
  };
}

function compareFilter(name: string, compare: CompareType, to: Comparator): EncodedFilter {
  return encodeFilter(
    name,
    new MessageWriter().message(1, new MessageWriter().uint(1, compare).message(2, to.message)),
  );
}

/** Filters cells by qualifier. */
export function qualifierFilter(compare: CompareType, to: Comparator): EncodedFilter {
  return compareFilter('QualifierFilter', compare, to);
}

/** Filters cells by value. */
export function valueFilter(compare: CompareType, to: Comparator): EncodedFilter {
  return compareFilter('ValueFilter', compare, to);
}

/**
 * Filters cells by family. A failed test ends the row for the list that contains the filter: see `rowsWithoutFilter`.
 */
export function familyFilter(compare: CompareType, family: string): EncodedFilter {
  return compareFilter('FamilyFilter', compare, binaryComparator(Buffer.from(family)));
}

export interface ColumnTest {
  readonly family: string;
  readonly qualifier: Buffer;
  readonly compare: CompareType;
  readonly value: Buffer;
  /** Whether rows without the column pass. */
  readonly orMissing: boolean;
}

/** Filters whole rows by the value of a column. */
export function columnFilter({ family, qualifier, compare, value, orMissing }: ColumnTest): EncodedFilter {
  const fields = new MessageWriter()
    .string(1, family)
    .bytes(2, qualifier)
    .uint(3, compare)
    .message(4, binaryComparator(value).message)
    .bool(5, !orMissing)
    .bool(6, true);
  return encodeFilter('SingleColumnValueFilter', fields);
}

/** Passes whole rows in which every cell passes. */
export function skipFilter(of: EncodedFilter): EncodedFilter {
  return encodeFilter('SkipFilter', new MessageWriter().bytes(1, of));
}

/** Passes cells whose qualifier has the prefix. The server skips all other cells. */
export function columnPrefixFilter(prefix: Buffer): EncodedFilter {
  return encodeFilter('ColumnPrefixFilter', new MessageWriter().bytes(1, prefix));
}

/** Passes cells with `from` ≤ qualifier < `to`. The server skips all other cells. */
export function columnRangeFilter(from: Buffer, to: Buffer): EncodedFilter {
  return encodeFilter(
    'ColumnRangeFilter',
    new MessageWriter().bytes(1, from).bool(2, true).bytes(3, to).bool(4, false),
  );
}

const LIST_OPERATORS = { all: 1, one: 2 } as const;

/** Combines filters. A single filter is returned as it is. */
export function filterList(operator: keyof typeof LIST_OPERATORS, of: readonly EncodedFilter[]): EncodedFilter {
  if (of.length === 1) return of[0]!;
  const fields = new MessageWriter().uint(1, LIST_OPERATORS[operator]);
  for (const part of of) fields.bytes(2, part);
  return encodeFilter('FilterList', fields);
}
