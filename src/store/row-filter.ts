import { compareRun, hasBytesAt } from '../bytes/compare.js';
import type { QualifierMatch, StoreFilter } from './contract.js';
import { CELL_HEADER } from './row.js';
import { commonPrefix, groupOrParts, isOneOf, type NameTest, startsWithOneOf } from './row-filter-any.js';
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

type Test = (row: Buffer, end: number) => boolean;

function compile(filter: StoreFilter): Test {
  switch (filter.op) {
    case 'hasColumn':
      return hasColumn(filter.family, filter.qualifier, undefined);
    case 'columnEquals':
      return hasColumn(filter.family, filter.qualifier, filter.value);
    case 'anyColumn':
      return anyColumn(filter.family, [compileMatch(filter.match)]);
    case 'and':
      return every(filter.of.map(compile));
    case 'or':
      return compileOr(filter.of);
    case 'not': {
      const test = compile(filter.of);
      return (row, end) => !test(row, end);
    }
  }
}

function every(tests: readonly Test[]): Test {
  return (row, end) => {
    for (let i = 0; i < tests.length; i++) if (!tests[i]!(row, end)) return false;
    return true;
  };
}

/** Compiles an OR. One walk over the cells of a family tests all parts that depend on the qualifiers of that family. */
function compileOr(of: readonly StoreFilter[]): Test {
  const { names, prefixes, patterns, others } = groupOrParts(of);
  const walks = new Map<number, NameTest[]>();
  const add = (family: number, test: NameTest): void => {
    const tests = walks.get(family);
    if (tests) tests.push(test);
    else walks.set(family, [test]);
  };
  for (const [family, list] of names) add(family, isOneOf(list));
  for (const [family, list] of prefixes) add(family, startsWithOneOf(list));
  for (const { family, match } of patterns) add(family, compileMatch(match));
  const tests = [...walks].map(([family, list]) => anyColumn(family, list));
  for (const other of others) tests.push(compile(other));
  return tests.length === 1 ? tests[0]! : some(tests);
}

function some(tests: readonly Test[]): Test {
  return (row, end) => {
    for (let i = 0; i < tests.length; i++) if (tests[i]!(row, end)) return true;
    return false;
  };
}

/** Compiles a test for a cell. Compares lengths first, then bytes from the end, because qualifiers share prefixes. */
function hasColumn(family: number, qualifier: Buffer, value: Buffer | undefined): Test {
  const n = qualifier.length;
  return (row, end) => {
    let at = 0;
    while (at < end) {
      const f = row[at]!;
      if (f > family) return false;
      const q = (row[at + 1]! << 8) | row[at + 2]!;
      const v = ((row[at + 3]! << 24) | (row[at + 4]! << 16) | (row[at + 5]! << 8) | row[at + 6]!) >>> 0;
      if (q === n && f === family && hasBytesAt(row, at + CELL_HEADER, qualifier)) {
        return value === undefined || (v === value.length && hasBytesAt(row, at + CELL_HEADER + q, value));
      }
      at += CELL_HEADER + q + v;
    }
    if (at !== end) cut(end);
    return false;
  };
}

/** Compiles a test for a cell of the family whose qualifier passes one of the tests. */
function anyColumn(family: number, tests: readonly NameTest[]): Test {
  const { minLength, last, secondLast } = gateOf(tests);
  return (row, end) => {
    let at = 0;
    while (at < end) {
      const f = row[at]!;
      if (f > family) return false;
      const q = (row[at + 1]! << 8) | row[at + 2]!;
      const v = ((row[at + 3]! << 24) | (row[at + 4]! << 16) | (row[at + 5]! << 8) | row[at + 6]!) >>> 0;
      const start = at + CELL_HEADER;
      const stop = start + q;
      if (
        q >= minLength &&
        f === family &&
        stop <= end &&
        last[row[start + minLength - 1]!] === 1 &&
        secondLast[row[start + minLength - 2]!] === 1 &&
        passes(tests, row, start, stop)
      )
        return true;
      at = stop + v;
    }
    if (at !== end) cut(end);
    return false;
  };
}

function passes(tests: readonly NameTest[], row: Buffer, start: number, stop: number): boolean {
  for (let i = 0; i < tests.length; i++) if (tests[i]!.matches(row, start, stop)) return true;
  return false;
}

/**
 * A cheap necessary condition for passing any of the tests. A qualifier must have at least `minLength` bytes. Of its
 * first `minLength` bytes, the last must be set in `last` and the last but one in `secondLast`.
 */
interface Gate {
  readonly minLength: number;
  readonly last: Uint8Array;
  readonly secondLast: Uint8Array;
}

/** Two bytes reject most qualifiers. The table of a byte that not every prefix has accepts all values. */
function gateOf(tests: readonly NameTest[]): Gate {
  const prefixes = tests.flatMap((test) => test.prefixes);
  const minLength = Math.min(...prefixes.map((head) => head.length));
  const [last, secondLast] = [1, 2].map((back) => {
    const bytes = new Uint8Array(256);
    if (back > minLength) bytes.fill(1);
    else for (const head of prefixes) bytes[head[minLength - back]!] = 1;
    return bytes;
  });
  return { minLength, last: last!, secondLast: secondLast! };
}

function compileMatch(match: QualifierMatch): NameTest {
  if ('from' in match) {
    const { from, to } = match;
    return {
      prefixes: [commonPrefix(from, to)],
      matches: (row, start, stop) => compareRun(row, start, stop, from) >= 0 && compareRun(row, start, stop, to) < 0,
    };
  }
  if (!('any' in match)) return startsWithOneOf([match.prefix]);
  const head = match.initial ? Buffer.concat([match.prefix, match.initial]) : match.prefix;
  const { any, final } = match;
  const tail = final?.length ?? 0;
  return {
    prefixes: [head],
    matches: (row, start, stop) => {
      if (stop - start < head.length + tail || !hasBytesAt(row, start, head)) return false;
      if (final && !hasBytesAt(row, stop - tail, final)) return false;
      let at = start + head.length;
      for (let i = 0; i < any.length; i++) {
        const part = any[i]!;
        at = find(row, at, stop - tail, part);
        if (at < 0) return false;
        at += part.length;
      }
      return true;
    },
  };
}

/** Offset of the first occurrence of `part` within `row[from..to)`, or -1. */
function find(row: Buffer, from: number, to: number, part: Buffer): number {
  const last = to - part.length;
  for (let at = from; at <= last; at++) if (hasBytesAt(row, at, part)) return at;
  return -1;
}

function cut(end: number): never {
  throw new StoreError('corrupt', `packed row of ${end} bytes is cut inside a cell`);
}
