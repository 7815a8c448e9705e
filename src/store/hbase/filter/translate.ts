import type { CellName, StoreFilter } from '../../contract.js';
import { EMPTY } from '../../row.js';
import { Compare, columnFilter, filterList } from '../rpc/filters.js';
import type { EncodedFilter } from '../rpc/rpc-types.js';
import { type CellTest, cellFilter, rowsWithoutFilter, seekFilter, selectivity } from './cells.js';

/** The parameters of a scan with which the region servers evaluate a filter. */
export interface ServerFilter {
  /** Whether no row can match. No scan is needed then. */
  readonly matchesNone: boolean;
  /** Undefined: every row with a requested cell is returned. */
  readonly filter: EncodedFilter | undefined;
  readonly families: readonly number[];
  /** The columns to be requested; undefined: all columns of the families. */
  readonly columns: readonly CellName[] | undefined;
  /** Whether rows are returned with all cells of `rowFamilies`. Otherwise the rows must be read by key. */
  readonly hasWholeRows: boolean;
  /** Whether only matching rows are returned. Otherwise the result may contain other rows as well. */
  readonly isExact: boolean;
}

/** The HBase names of the families by number, and the numbers of the families that make up a row, in order. */
export interface Families {
  readonly familyNames: readonly string[];
  readonly rowFamilies: readonly number[];
}

/** A filter with more tests is evaluated by the client, because servers would run every test on every cell. */
const MAX_SERVER_TESTS = 256;
/** Minimum number of columns of an OR for which columns are requested by name instead of tested. */
const MIN_NAMED_COLUMNS = 8;

/** A test of rows. Matching rows are returned as a whole. */
type RowTest =
  | { readonly op: 'has' | 'hasNot'; readonly family: number; readonly qualifier: Buffer }
  | { readonly op: 'equals' | 'differs'; readonly family: number; readonly qualifier: Buffer; readonly value: Buffer }
  | { readonly op: 'lacks'; readonly test: Extract<CellTest, { readonly op: 'any' }> }
  | { readonly op: 'all' | 'one'; readonly of: readonly RowTest[] };

/**
 * The translation of a filter or of an operand. `cells`: the cells that pass any test in `of`, from rows that pass all
 * tests in `rows`. HBase has no filter for whole rows that contain a matching cell.
 */
type Translation =
  | { readonly kind: 'true' | 'false' }
  /** Not translatable: every row may match or not. */
  | { readonly kind: 'unknown' }
  | { readonly kind: 'rows'; readonly test: RowTest; readonly exact: boolean }
  | {
      readonly kind: 'cells';
      readonly of: readonly CellTest[];
      readonly rows: readonly RowTest[];
      readonly exact: boolean;
    };

/** Translates a filter. A filter that HBase cannot evaluate exactly is widened, never narrowed. */
export function translate(filter: StoreFilter, { familyNames, rowFamilies }: Families): ServerFilter {
  const filterFamilies = usedFamilies(filter);
  const isTooLarge = countTests(filter) > MAX_SERVER_TESTS && !isColumnList(filter);
  const translation: Translation = isTooLarge ? { kind: 'unknown' } : translateOperand(filter, rowFamilies.at(-1));
  const scan = { matchesNone: false, filter: undefined, families: rowFamilies, columns: undefined, hasWholeRows: true };
  switch (translation.kind) {
    case 'true':
      return { ...scan, isExact: true };
    case 'unknown':
      return { ...scan, isExact: false };
    case 'false':
      return { ...scan, matchesNone: true, isExact: true };
    case 'rows': {
      const columns = namedColumns(translation.test);
      if (columns)
        return { ...scan, families: filterFamilies, columns, hasWholeRows: false, isExact: translation.exact };
      return { ...scan, filter: encodeRows(translation.test, familyNames), isExact: translation.exact };
    }
    case 'cells': {
      const cells =
        translation.of.length === 1 && translation.rows.length === 0 && filterFamilies.length === 1
          ? seekFilter(translation.of[0]!)
          : filterList('one', translation.of.map(cellFilter));
      const rows = translation.rows.map((test) => encodeRows(test, familyNames));
      return {
        ...scan,
        filter: filterList('all', [...rows, cells]),
        families: filterFamilies,
        hasWholeRows: false,
        // Cell tests look only at qualifiers, not at families.
        isExact: translation.exact && filterFamilies.length === 1,
      };
    }
  }
}

function usedFamilies(filter: StoreFilter): number[] {
  const families = new Set<number>();
  const visit = (operand: StoreFilter): void => {
    if ('family' in operand) families.add(operand.family);
    else if (operand.op === 'not') visit(operand.of);
    else operand.of.forEach(visit);
  };
  visit(filter);
  return [...families].sort((a, b) => a - b);
}

function countTests(filter: StoreFilter): number {
  if (filter.op === 'not') return countTests(filter.of);
  if (filter.op !== 'and' && filter.op !== 'or') return 1;
  return filter.of.reduce((sum, operand) => sum + countTests(operand), 0);
}

function isColumnList(filter: StoreFilter): boolean {
  return filter.op === 'or' && filter.of.every((operand) => operand.op === 'hasColumn' || isColumnList(operand));
}

function translateOperand(filter: StoreFilter, lastFamily: number | undefined): Translation {
  switch (filter.op) {
    case 'hasColumn':
      return rowTranslation({ op: 'has', family: filter.family, qualifier: filter.qualifier });
    case 'columnEquals':
      return rowTranslation({ op: 'equals', family: filter.family, qualifier: filter.qualifier, value: filter.value });
    case 'anyColumn':
      return { kind: 'cells', of: [{ op: 'any', family: filter.family, match: filter.match }], rows: [], exact: true };
    case 'and':
      return combineAnd(filter.of.map((operand) => translateOperand(operand, lastFamily)));
    case 'or':
      return combineOr(filter.of.map((operand) => translateOperand(operand, lastFamily)));
    case 'not':
      return translateNegation(filter.of, lastFamily);
  }
}

/** Translates the complement by negating single tests, which HBase does exactly. */
function translateNegation(filter: StoreFilter, lastFamily: number | undefined): Translation {
  switch (filter.op) {
    case 'hasColumn':
      return rowTranslation({ op: 'hasNot', family: filter.family, qualifier: filter.qualifier });
    case 'columnEquals':
      return rowTranslation({ op: 'differs', family: filter.family, qualifier: filter.qualifier, value: filter.value });
    case 'anyColumn':
      if (filter.family !== lastFamily) return { kind: 'unknown' };
      return rowTranslation({ op: 'lacks', test: { op: 'any', family: filter.family, match: filter.match } });
    case 'and':
      return combineOr(filter.of.map((operand) => translateNegation(operand, lastFamily)));
    case 'or':
      return combineAnd(filter.of.map((operand) => translateNegation(operand, lastFamily)));
    case 'not':
      return translateOperand(filter.of, lastFamily);
  }
}

function rowTranslation(test: RowTest): Translation {
  return { kind: 'rows', test, exact: true };
}

function combineAnd(translations: readonly Translation[]): Translation {
  if (translations.some(({ kind }) => kind === 'false')) return { kind: 'false' };
  const tests: RowTest[] = [];
  let exact = !translations.some(({ kind }) => kind === 'unknown');
  let bestTests: readonly CellTest[] | undefined;
  for (const operand of translations) {
    if (operand.kind === 'rows') tests.push(operand.test);
    if (operand.kind === 'rows' || operand.kind === 'cells') exact &&= operand.exact;
    if (operand.kind !== 'cells') continue;
    tests.push(...operand.rows);
    // The tests may match different cells, and no single cell passes both. The client evaluates the other test.
    if (bestTests) exact = false;
    if (!bestTests || lowestSelectivity(operand.of) > lowestSelectivity(bestTests)) bestTests = operand.of;
  }
  if (bestTests) return { kind: 'cells', of: bestTests, rows: tests, exact };
  if (tests.length === 0) return { kind: exact ? 'true' : 'unknown' };
  return { kind: 'rows', test: tests.length === 1 ? tests[0]! : { op: 'all', of: tests }, exact };
}

function lowestSelectivity(tests: readonly CellTest[]): number {
  return tests.reduce((least, test) => Math.min(least, selectivity(test)), Number.MAX_SAFE_INTEGER);
}

function combineOr(translations: readonly Translation[]): Translation {
  if (translations.some(({ kind }) => kind === 'true')) return { kind: 'true' };
  const possibleOperands = translations.filter(({ kind }) => kind !== 'false');
  if (possibleOperands.length === 0) return { kind: 'false' };
  if (possibleOperands.some(({ kind }) => kind === 'unknown')) return { kind: 'unknown' };
  if (possibleOperands.length === 1) return possibleOperands[0]!;
  if (possibleOperands.every((operand) => operand.kind === 'rows')) {
    const of = possibleOperands.flatMap(({ test }) => (test.op === 'one' ? test.of : [test]));
    return { kind: 'rows', test: { op: 'one', of }, exact: possibleOperands.every(({ exact }) => exact) };
  }
  const of: CellTest[] = [];
  let exact = true;
  for (const operand of possibleOperands) {
    const cellTests = toCellTests(operand);
    if (!cellTests) return { kind: 'unknown' };
    of.push(...cellTests.of);
    exact &&= cellTests.exact;
  }
  return { kind: 'cells', of, rows: [], exact };
}

interface CellTests {
  readonly of: readonly CellTest[];
  readonly exact: boolean;
}

/** Returns cell tests such that every row that passes the operand has a cell that passes at least one test. */
function toCellTests(operand: Translation): CellTests | undefined {
  if (operand.kind === 'cells') return { of: operand.of, exact: operand.exact && operand.rows.length === 0 };
  if (operand.kind !== 'rows') return undefined;
  const cellTests = cellTestsOf(operand.test);
  return cellTests && { of: cellTests.of, exact: cellTests.exact && operand.exact };
}

function cellTestsOf(test: RowTest): CellTests | undefined {
  switch (test.op) {
    case 'has':
      return { of: [{ ...test, op: 'is', value: undefined }], exact: true };
    case 'equals':
      return { of: [{ ...test, op: 'is' }], exact: true };
    case 'all': {
      const operands = test.of.map(cellTestsOf).filter((cells) => cells !== undefined);
      const fewestTests = operands.sort((a, b) => a.of.length - b.of.length)[0];
      return fewestTests && { of: fewestTests.of, exact: false };
    }
    case 'one': {
      const operands = test.of.map(cellTestsOf);
      if (!operands.every((cells) => cells !== undefined)) return undefined;
      return { of: operands.flatMap(({ of }) => of), exact: operands.every(({ exact }) => exact) };
    }
    default:
      return undefined;
  }
}

/** Returns the columns of an OR of many columns. */
function namedColumns(test: RowTest): CellName[] | undefined {
  if (test.op !== 'one' || test.of.length < MIN_NAMED_COLUMNS) return undefined;
  const columns: CellName[] = [];
  for (const operand of test.of) {
    if (operand.op !== 'has') return undefined;
    columns.push({ family: operand.family, qualifier: operand.qualifier });
  }
  return columns;
}

function encodeRows(test: RowTest, familyNames: readonly string[]): EncodedFilter {
  switch (test.op) {
    case 'all':
    case 'one':
      return filterList(
        test.op,
        test.of.map((operand) => encodeRows(operand, familyNames)),
      );
    case 'lacks':
      return rowsWithoutFilter(test.test.match, familyNames[test.test.family]!);
    default: {
      const { family, qualifier } = test;
      const passesIfMissing = test.op === 'hasNot' || test.op === 'differs';
      const column = { family: Buffer.from(familyNames[family]!), qualifier, passesIfMissing };
      if (test.op === 'equals' || test.op === 'differs') {
        const compare = test.op === 'equals' ? Compare.equal : Compare.notEqual;
        return columnFilter({ ...column, compare, value: test.value });
      }
      // Every value is at least the empty value, and none is less.
      const compare = test.op === 'has' ? Compare.greaterOrEqual : Compare.less;
      return columnFilter({ ...column, compare, value: EMPTY });
    }
  }
}
