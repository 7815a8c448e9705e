import { MessageWriter } from '../rpc/protobuf.js';
import type { EncodedFilter } from '../rpc/rpc-types.js';

/** HBase's filters and comparators as hbase.pb.Filter and hbase.pb.Comparator messages. */

const PACKAGE = 'org.apache.hadoop.hbase.filter.';

/** hbase.pb.CompareType */
export const Compare = { less: 0, lessOrEqual: 1, equal: 2, notEqual: 3, greaterOrEqual: 4, greater: 5 } as const;
export type CompareType = (typeof Compare)[keyof typeof Compare];

export interface Comparator {
  readonly message: MessageWriter;
}

function filter(name: string, fields: MessageWriter): EncodedFilter {
  return new MessageWriter()
    .string(1, PACKAGE + name)
    .message(2, fields)
    .finish();
}

/** ByteArrayComparable in the one field that comparators of bytes have. */
function comparator(name: string, bytes: Buffer): Comparator {
  const fields = new MessageWriter().message(1, new MessageWriter().bytes(1, bytes));
  return {
    message: new MessageWriter().string(1, PACKAGE + name).message(2, fields),
  };
}

export function binary(bytes: Buffer): Comparator {
  return comparator('BinaryComparator', bytes);
}

/** Equal to all that start with `bytes`. */
export function startsWith(bytes: Buffer): Comparator {
  return comparator('BinaryPrefixComparator', bytes);
}

const DOTALL = 32;

/** Equal where the pattern is found; its characters are bytes. */
export function matches(pattern: string): Comparator {
  const fields = new MessageWriter().string(1, pattern).uint(2, DOTALL).string(3, 'ISO-8859-1').string(4, 'JAVA');
  return {
    message: new MessageWriter().string(1, `${PACKAGE}RegexStringComparator`).message(2, fields),
  };
}

function comparing(name: string, compare: CompareType, to: Comparator): EncodedFilter {
  return filter(name, new MessageWriter().message(1, new MessageWriter().uint(1, compare).message(2, to.message)));
}

/** Cells by qualifier. */
export function qualifierFilter(compare: CompareType, to: Comparator): EncodedFilter {
  return comparing('QualifierFilter', compare, to);
}

/** Cells by value. */
export function valueFilter(compare: CompareType, to: Comparator): EncodedFilter {
  return comparing('ValueFilter', compare, to);
}

/** Cells by family. Where it does not hold it ends the row for the list it is in: see `cells.ts`. */
export function familyFilter(compare: CompareType, family: string): EncodedFilter {
  return comparing('FamilyFilter', compare, binary(Buffer.from(family)));
}

export interface ColumnTest {
  readonly family: string;
  readonly qualifier: Buffer;
  readonly compare: CompareType;
  readonly value: Buffer;
  /** Whether rows without the column pass. */
  readonly orMissing: boolean;
}

/** Whole rows by the value of one column. */
export function columnFilter({ family, qualifier, compare, value, orMissing }: ColumnTest): EncodedFilter {
  const fields = new MessageWriter()
    .string(1, family)
    .bytes(2, qualifier)
    .uint(3, compare)
    .message(4, binary(value).message)
    .bool(5, !orMissing)
    .bool(6, true);
  return filter('SingleColumnValueFilter', fields);
}

/** Whole rows all of whose cells pass. */
export function skipFilter(of: EncodedFilter): EncodedFilter {
  return filter('SkipFilter', new MessageWriter().bytes(1, of));
}

/** Cells whose qualifier has the prefix; others are not looked at. */
export function columnPrefixFilter(prefix: Buffer): EncodedFilter {
  return filter('ColumnPrefixFilter', new MessageWriter().bytes(1, prefix));
}

/** Cells with `from` ≤ qualifier < `to`; others are not looked at. */
export function columnRangeFilter(from: Buffer, to: Buffer): EncodedFilter {
  return filter('ColumnRangeFilter', new MessageWriter().bytes(1, from).bool(2, true).bytes(3, to).bool(4, false));
}

const LIST = { all: 1, one: 2 } as const;

/** One filter is itself. */
export function filterList(operator: keyof typeof LIST, of: readonly EncodedFilter[]): EncodedFilter {
  if (of.length === 1) return of[0]!;
  const fields = new MessageWriter().uint(1, LIST[operator]);
  for (const one of of) fields.bytes(2, one);
  return filter('FilterList', fields);
}
