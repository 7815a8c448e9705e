import { compareRun, hasBytesAt } from '../bytes/compare.js';
import type { QualifierMatch, StoreFilter } from './contract.js';
import { CELL_HEADER } from './row.js';
import { commonPrefix, equalityTest, groupOrOperands, prefixTest, type QualifierTest } from './row-filter-any.js';
import { StoreError } from './store-error.js';

/**
 * Returns whether the packed row in `row[0..end)` matches. `end` is needed when the buffer is longer than the row: a
 * scan evaluates rows in the engine's read buffer. Allocates nothing. A row whose lengths point past its end throws
 * `corrupt`, unless the result is known before the damaged cell.
 */
export type RowTest = (row: Buffer, end?: number) => boolean;

/** Compiles a filter once per scan into a test of packed rows. */
export function compileFilter(filter: StoreFilter): RowTest {
  const test = compile(filter);
  return (row, end = row.length) => test(row, end);
}

type FilterTest = (row: Buffer, end: number) => boolean;

function compile(filter: StoreFilter): FilterTest {
  switch (filter.op) {
    case 'hasColumn':
      return columnTest(filter.family, filter.qualifier, undefined);
    case 'columnEquals':
      return columnTest(filter.family, filter.qualifier, filter.value);
    case 'anyColumn':
      return anyColumnTest(filter.family, [compileMatch(filter.match)]);
    case 'and':
      return andTest(filter.of.map(compile));
    case 'or':
      return compileOr(filter.of);
    case 'not': {
      const test = compile(filter.of);
      return (row, end) => !test(row, end);
    }
  }
}

function andTest(tests: readonly FilterTest[]): FilterTest {
  return (row, end) => {
    for (let i = 0; i < tests.length; i++) if (!tests[i]!(row, end)) return false;
    return true;
  };
}

/** Compiles an OR. One walk over the cells of a family tests all operands that depend on that family's qualifiers. */
function compileOr(of: readonly StoreFilter[]): FilterTest {
  const { qualifiers, prefixes, patterns, otherFilters } = groupOrOperands(of);
  const testsByFamily = new Map<number, QualifierTest[]>();
  const addTest = (family: number, test: QualifierTest): void => {
    const tests = testsByFamily.get(family);
    if (tests) tests.push(test);
    else testsByFamily.set(family, [test]);
  };
  for (const [family, list] of qualifiers) addTest(family, equalityTest(list));
  for (const [family, list] of prefixes) addTest(family, prefixTest(list));
  for (const { family, match } of patterns) addTest(family, compileMatch(match));
  const tests = [...testsByFamily].map(([family, list]) => anyColumnTest(family, list));
  for (const otherFilter of otherFilters) tests.push(compile(otherFilter));
  return tests.length === 1 ? tests[0]! : orTest(tests);
}

function orTest(tests: readonly FilterTest[]): FilterTest {
  return (row, end) => {
    for (let i = 0; i < tests.length; i++) if (tests[i]!(row, end)) return true;
    return false;
  };
}

/** Compiles a test for a cell. Compares lengths first, then bytes from the end, because qualifiers share prefixes. */
function columnTest(family: number, qualifier: Buffer, value: Buffer | undefined): FilterTest {
  const n = qualifier.length;
  return (row, end) => {
    let offset = 0;
    while (offset < end) {
      const f = row[offset]!;
      if (f > family) return false;
      const q = (row[offset + 1]! << 8) | row[offset + 2]!;
      const v =
        ((row[offset + 3]! << 24) | (row[offset + 4]! << 16) | (row[offset + 5]! << 8) | row[offset + 6]!) >>> 0;
      if (q === n && f === family && hasBytesAt(row, offset + CELL_HEADER, qualifier))
        return value === undefined || (v === value.length && hasBytesAt(row, offset + CELL_HEADER + q, value));
      offset += CELL_HEADER + q + v;
    }
    if (offset !== end) throwCut(end);
    return false;
  };
}

/** Compiles a test for a cell of the family whose qualifier passes one of the tests. */
function anyColumnTest(family: number, tests: readonly QualifierTest[]): FilterTest {
  const { minLength, lastBytes, secondLastBytes } = buildByteCheck(tests);
  return (row, end) => {
    let offset = 0;
    while (offset < end) {
      const f = row[offset]!;
      if (f > family) return false;
      const q = (row[offset + 1]! << 8) | row[offset + 2]!;
      const v =
        ((row[offset + 3]! << 24) | (row[offset + 4]! << 16) | (row[offset + 5]! << 8) | row[offset + 6]!) >>> 0;
      const start = offset + CELL_HEADER;
      const stop = start + q;
      if (
        q >= minLength &&
        f === family &&
        stop <= end &&
        lastBytes[row[start + minLength - 1]!] === 1 &&
        secondLastBytes[row[start + minLength - 2]!] === 1 &&
        passesAny(tests, row, start, stop)
      )
        return true;
      offset = stop + v;
    }
    if (offset !== end) throwCut(end);
    return false;
  };
}

function passesAny(tests: readonly QualifierTest[], row: Buffer, start: number, stop: number): boolean {
  for (let i = 0; i < tests.length; i++) if (tests[i]!.matches(row, start, stop)) return true;
  return false;
}

/**
 * A cheap necessary condition for passing any of the tests. A qualifier must have at least `minLength` bytes. Of its
 * first `minLength` bytes, the last must be set in `lastBytes` and the last but one in `secondLastBytes`.
 */
interface ByteCheck {
  readonly minLength: number;
  readonly lastBytes: Uint8Array;
  readonly secondLastBytes: Uint8Array;
}

/** Two bytes reject most qualifiers. Where the shortest prefix has fewer than two bytes, the tables accept any byte. */
function buildByteCheck(tests: readonly QualifierTest[]): ByteCheck {
  const prefixes = tests.flatMap((test) => test.prefixes);
  const minLength = Math.min(...prefixes.map((prefix) => prefix.length));
  const [lastBytes, secondLastBytes] = [1, 2].map((back) => {
    const bytes = new Uint8Array(256);
    if (back > minLength) bytes.fill(1);
    else for (const prefix of prefixes) bytes[prefix[minLength - back]!] = 1;
    return bytes;
  });
  return { minLength, lastBytes: lastBytes!, secondLastBytes: secondLastBytes! };
}

function compileMatch(match: QualifierMatch): QualifierTest {
  if ('from' in match) {
    const { from, to } = match;
    return {
      prefixes: [commonPrefix(from, to)],
      matches: (row, start, stop) => compareRun(row, start, stop, from) >= 0 && compareRun(row, start, stop, to) < 0,
    };
  }
  if (!('any' in match)) return prefixTest([match.prefix]);
  const prefix = match.initial ? Buffer.concat([match.prefix, match.initial]) : match.prefix;
  const { any, final } = match;
  const finalLength = final?.length ?? 0;
  return {
    prefixes: [prefix],
    matches: (row, start, stop) => {
      if (stop - start < prefix.length + finalLength || !hasBytesAt(row, start, prefix)) return false;
      if (final && !hasBytesAt(row, stop - finalLength, final)) return false;
      let offset = start + prefix.length;
      for (let i = 0; i < any.length; i++) {
        const infix = any[i]!;
        offset = findBytes(row, offset, stop - finalLength, infix);
        if (offset < 0) return false;
        offset += infix.length;
      }
      return true;
    },
  };
}

/** Offset of the first occurrence of `infix` in `row[start..end)`, or -1. */
function findBytes(row: Buffer, start: number, end: number, infix: Buffer): number {
  const lastStart = end - infix.length;
  for (let offset = start; offset <= lastStart; offset++) if (hasBytesAt(row, offset, infix)) return offset;
  return -1;
}

function throwCut(end: number): never {
  throw new StoreError('corrupt', `packed row of ${end} bytes is cut inside a cell`);
}
