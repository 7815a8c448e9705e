import type { CellName, StoreFilter } from '../../contract.js';
import { EMPTY } from '../../row.js';
import type { EncodedFilter } from '../rpc/rpc-types.js';
import { type CellTest, lacking, passing, seeking, weight } from './cells.js';
import { Compare, columnFilter, filterList } from './encode.js';

/** What a scan has to ask so that the region servers evaluate a filter. */
export interface ServerFilter {
  /** No row passes: nothing has to be asked. */
  readonly none: boolean;
  /** Undefined: every row that has a cell asked for comes. */
  readonly filter: EncodedFilter | undefined;
  /** Families to be scanned. */
  readonly families: readonly number[];
  /** Only these columns are to be asked for, where given. */
  readonly columns: readonly CellName[] | undefined;
  /** Rows come with all the cells of `data`. Otherwise only some cells of each come: take the keys and get the rows. */
  readonly whole: boolean;
  /** Exactly the rows for which the filter is true come; otherwise others may be among them. */
  readonly exact: boolean;
}

/** HBase's names of the families by number, and the numbers of those that a whole row has, rising. */
export interface Families {
  readonly names: readonly string[];
  readonly data: readonly number[];
}

/** A filter with more tests than this is left to the reader: servers would try each on every cell. */
const MAX_TESTS = 256;
/** So many columns are asked for by name rather than tested one by one. */
const MANY_COLUMNS = 8;

/** Rows that pass come whole. */
type RowTest =
  | { readonly op: 'has' | 'hasNot'; readonly family: number; readonly qualifier: Buffer }
  | { readonly op: 'equals' | 'differs'; readonly family: number; readonly qualifier: Buffer; readonly value: Buffer }
  | { readonly op: 'lacks'; readonly test: Extract<CellTest, { readonly op: 'any' }> }
  | { readonly op: 'all' | 'one'; readonly of: readonly RowTest[] };

/**
 * What HBase can do with a part of a filter. `cells`: the cells that pass one of `of`, from rows that pass all of
 * `rows`; HBase has no filter for whole rows with some cell that passes a test.
 */
type Part =
  | { readonly kind: 'true' | 'false' }
  /** Nothing: rows may pass or not. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'rows'; readonly test: RowTest; readonly exact: boolean }
  | {
      readonly kind: 'cells';
      readonly of: readonly CellTest[];
      readonly rows: readonly RowTest[];
      readonly exact: boolean;
    };

/** Translates a filter. What HBase cannot evaluate is widened, never narrowed. */
export function translate(filter: StoreFilter, { names, data }: Families): ServerFilter {
  const used = usedFamilies(filter);
  const part: Part =
    countTests(filter) > MAX_TESTS && !isNames(filter) ? { kind: 'unknown' } : translatePart(filter, data.at(-1));
  const everything = { none: false, filter: undefined, families: data, columns: undefined, whole: true };
  switch (part.kind) {
    case 'true':
      return { ...everything, exact: true };
    case 'unknown':
      return { ...everything, exact: false };
    case 'false':
      return { ...everything, none: true, exact: true };
    case 'rows': {
      const columns = namedColumns(part.test);
      if (columns) return { ...everything, families: used, columns, whole: false, exact: part.exact };
      return { ...everything, filter: encodeRows(part.test, names), exact: part.exact };
    }
    case 'cells': {
      const cells =
        part.of.length === 1 && part.rows.length === 0 && used.length === 1
          ? seeking(part.of[0]!)
          : filterList('one', part.of.map(passing));
      const rows = part.rows.map((test) => encodeRows(test, names));
      return {
        ...everything,
        filter: filterList('all', [...rows, cells]),
        families: used,
        whole: false,
        // Cells are told apart by their qualifiers alone.
        exact: part.exact && used.length === 1,
      };
    }
  }
}

function usedFamilies(filter: StoreFilter): number[] {
  const found = new Set<number>();
  const visit = (part: StoreFilter): void => {
    if ('family' in part) found.add(part.family);
    else if (part.op === 'not') visit(part.of);
    else part.of.forEach(visit);
  };
  visit(filter);
  return [...found].sort((a, b) => a - b);
}

function countTests(filter: StoreFilter): number {
  if (filter.op === 'not') return countTests(filter.of);
  if (filter.op !== 'and' && filter.op !== 'or') return 1;
  return filter.of.reduce((sum, part) => sum + countTests(part), 0);
}

function isNames(filter: StoreFilter): boolean {
  return filter.op === 'or' && filter.of.every((part) => part.op === 'hasColumn' || isNames(part));
}

function translatePart(filter: StoreFilter, last: number | undefined): Part {
  switch (filter.op) {
    case 'hasColumn':
      return rows({ op: 'has', family: filter.family, qualifier: filter.qualifier });
    case 'columnEquals':
      return rows({ op: 'equals', family: filter.family, qualifier: filter.qualifier, value: filter.value });
    case 'anyColumn':
      return { kind: 'cells', of: [{ op: 'any', family: filter.family, match: filter.match }], rows: [], exact: true };
    case 'and':
      return both(filter.of.map((part) => translatePart(part, last)));
    case 'or':
      return either(filter.of.map((part) => translatePart(part, last)));
    case 'not':
      return negated(filter.of, last);
  }
}

/**
 * The complement; negation stands at single tests alone, where HBase has exact ones. `last`: the last family of a row.
 */
function negated(filter: StoreFilter, last: number | undefined): Part {
  switch (filter.op) {
    case 'hasColumn':
      return rows({ op: 'hasNot', family: filter.family, qualifier: filter.qualifier });
    case 'columnEquals':
      return rows({ op: 'differs', family: filter.family, qualifier: filter.qualifier, value: filter.value });
    case 'anyColumn':
      if (filter.family !== last) return { kind: 'unknown' };
      return rows({ op: 'lacks', test: { op: 'any', family: filter.family, match: filter.match } });
    case 'and':
      return either(filter.of.map((part) => negated(part, last)));
    case 'or':
      return both(filter.of.map((part) => negated(part, last)));
    case 'not':
      return translatePart(filter.of, last);
  }
}

function rows(test: RowTest): Part {
  return { kind: 'rows', test, exact: true };
}

function both(parts: readonly Part[]): Part {
  if (parts.some(({ kind }) => kind === 'false')) return { kind: 'false' };
  const tests: RowTest[] = [];
  let exact = !parts.some(({ kind }) => kind === 'unknown');
  let best: readonly CellTest[] | undefined;
  for (const part of parts) {
    if (part.kind === 'rows') tests.push(part.test);
    if (part.kind === 'rows' || part.kind === 'cells') exact &&= part.exact;
    if (part.kind !== 'cells') continue;
    tests.push(...part.rows);
    // Two tests hold of different cells, and no cell passes both: the other is left to the reader.
    if (best) exact = false;
    if (!best || lightest(part.of) > lightest(best)) best = part.of;
  }
  if (best) return { kind: 'cells', of: best, rows: tests, exact };
  if (tests.length === 0) return { kind: exact ? 'true' : 'unknown' };
  return { kind: 'rows', test: tests.length === 1 ? tests[0]! : { op: 'all', of: tests }, exact };
}

function lightest(tests: readonly CellTest[]): number {
  return tests.reduce((least, test) => Math.min(least, weight(test)), Number.MAX_SAFE_INTEGER);
}

function either(all: readonly Part[]): Part {
  if (all.some(({ kind }) => kind === 'true')) return { kind: 'true' };
  const parts = all.filter(({ kind }) => kind !== 'false');
  if (parts.length === 0) return { kind: 'false' };
  if (parts.some(({ kind }) => kind === 'unknown')) return { kind: 'unknown' };
  if (parts.length === 1) return parts[0]!;
  if (parts.every((part) => part.kind === 'rows')) {
    const of = parts.flatMap(({ test }) => (test.op === 'one' ? test.of : [test]));
    return { kind: 'rows', test: { op: 'one', of }, exact: parts.every(({ exact }) => exact) };
  }
  const of: CellTest[] = [];
  let exact = true;
  for (const part of parts) {
    const cells = asCells(part);
    if (!cells) return { kind: 'unknown' };
    of.push(...cells.of);
    exact &&= cells.exact;
  }
  return { kind: 'cells', of, rows: [], exact };
}

interface Cells {
  readonly of: readonly CellTest[];
  readonly exact: boolean;
}

/** Cells one of which every row has that passes the part. */
function asCells(part: Part): Cells | undefined {
  if (part.kind === 'cells') return { of: part.of, exact: part.exact && part.rows.length === 0 };
  if (part.kind !== 'rows') return undefined;
  const cells = cellsOfRows(part.test);
  return cells && { of: cells.of, exact: cells.exact && part.exact };
}

function cellsOfRows(test: RowTest): Cells | undefined {
  switch (test.op) {
    case 'has':
      return { of: [{ ...test, op: 'is', value: undefined }], exact: true };
    case 'equals':
      return { of: [{ ...test, op: 'is' }], exact: true };
    case 'all': {
      const some = test.of.map(cellsOfRows).filter((cells) => cells !== undefined);
      const best = some.sort((a, b) => a.of.length - b.of.length)[0];
      return best && { of: best.of, exact: false };
    }
    case 'one': {
      const each = test.of.map(cellsOfRows);
      if (!each.every((cells) => cells !== undefined)) return undefined;
      return { of: each.flatMap(({ of }) => of), exact: each.every(({ exact }) => exact) };
    }
    default:
      return undefined;
  }
}

/** The columns of an OR of many, one of which is enough. */
function namedColumns(test: RowTest): CellName[] | undefined {
  if (test.op !== 'one' || test.of.length < MANY_COLUMNS) return undefined;
  const names: CellName[] = [];
  for (const one of test.of) {
    if (one.op !== 'has') return undefined;
    names.push({ family: one.family, qualifier: one.qualifier });
  }
  return names;
}

function encodeRows(test: RowTest, names: readonly string[]): EncodedFilter {
  switch (test.op) {
    case 'all':
    case 'one':
      return filterList(
        test.op,
        test.of.map((one) => encodeRows(one, names)),
      );
    case 'lacks':
      return lacking(test.test.match, names[test.test.family]!);
    default: {
      const { family, qualifier } = test;
      const column = { family: names[family]!, qualifier, orMissing: test.op === 'hasNot' || test.op === 'differs' };
      if (test.op === 'equals' || test.op === 'differs') {
        const compare = test.op === 'equals' ? Compare.equal : Compare.notEqual;
        return columnFilter({ ...column, compare, value: test.value });
      }
      // Every value is at least the empty one, and none is below it.
      const compare = test.op === 'has' ? Compare.greaterOrEqual : Compare.less;
      return columnFilter({ ...column, compare, value: EMPTY });
    }
  }
}
