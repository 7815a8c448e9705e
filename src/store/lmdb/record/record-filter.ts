import { lowerBound, startsWith } from '../../../bytes/compare.js';
import type { QualifierMatch, StoreFilter } from '../../contract.js';
import { CELL_HEADER, EMPTY } from '../../row.js';
import { compileFilter, type RowTest } from '../../row-filter.js';
import { alternatives, orParts, unique } from '../../row-filter-any.js';
import { noteHoles, offsetBehind, putHoled, putSpelled, type RecordAt, UnknownWord, varint } from './decode.js';
import { newRoom } from './room.js';
import { IN_VALUE, NOWHERE, ONE_BYTE, type Word, type Words } from './words.js';

/** Tells whether the row of the record, whose cells begin at `at`, matches; `packed` is the row's length. */
export type RecordTest = (words: Words, record: RecordAt, at: number, packed: number) => boolean;

/**
 * Compiles a filter once per scan into a test of records: most cells are told by their word's number alone, and no row
 * is decoded that does not match. Right for the words of one table.
 */
export function compileRecordFilter(filter: StoreFilter): RecordTest {
  switch (filter.op) {
    case 'hasColumn':
    case 'columnEquals':
    case 'anyColumn':
      return someCell(filter);
    case 'and': {
      const tests = filter.of.map(compileRecordFilter);
      return (words, record, at, packed) => {
        for (let i = 0; i < tests.length; i++) if (!tests[i]!(words, record, at, packed)) return false;
        return true;
      };
    }
    case 'or':
      return compileOr(filter.of);
    case 'not': {
      const test = compileRecordFilter(filter.of);
      return (words, record, at, packed) => !test(words, record, at, packed);
    }
  }
}

/** Parts that ask for a cell, each for one, are answered by one walk; the same part twice counts once. */
function compileOr(of: readonly StoreFilter[]): RecordTest {
  const parts = [...alternatives(of)];
  const cells = parts.filter(asksForCell);
  const tests = parts.filter((part) => !asksForCell(part)).map(compileRecordFilter);
  if (cells.length > 0) tests.unshift(someCell({ op: 'or', of: cells }));
  if (tests.length === 1) return tests[0]!;
  return (words, record, at, packed) => {
    for (let i = 0; i < tests.length; i++) if (tests[i]!(words, record, at, packed)) return true;
    return false;
  };
}

function asksForCell({ op }: StoreFilter): boolean {
  return op === 'hasColumn' || op === 'columnEquals' || op === 'anyColumn';
}

/**
 * Whether a cell with this word passes: it does not (and what fills its hole is behind it, or it has no hole), it does,
 * its hole decides, or neither it nor a later cell does. 0: not found out yet.
 */
const NO = 1;
const NO_HOLE = 2;
const YES = 3;
const MAYBE = 4;
const NONE = 5;

/** Of a filter that asks for a cell. A cell that is put together is tested as a row of one cell. */
function someCell(filter: StoreFilter): RecordTest {
  const asked = askedOf(filter);
  const { test } = asked;
  let verdicts = new Uint8Array(64);
  let room = newRoom(256);
  const decide = (words: Words, number: number): number => {
    if (number > words.count) throw new UnknownWord();
    if (number >= verdicts.length) {
      const more = new Uint8Array(number * 2);
      more.set(verdicts);
      verdicts = more;
    }
    const verdict = verdictOf(asked, words.list[number - 1]!);
    verdicts[number] = verdict;
    return verdict;
  };
  return (words, record, from, packed) => {
    const { bytes, end } = record;
    let known = verdicts;
    if (packed > room.bytes.length) room = newRoom(packed);
    for (let at = from; at < end; ) {
      const start = at;
      let number = bytes[at++]!;
      if (number >= ONE_BYTE) number = ONE_BYTE + ((number - ONE_BYTE) << 8) + bytes[at++]!;
      if (number === 0) {
        const length = putSpelled(record, at, room, 0, packed);
        at = offsetBehind();
        if (test(room.bytes, length)) return true;
        continue;
      }
      let verdict = known[number];
      if (!verdict) {
        verdict = decide(words, number);
        known = verdicts;
      }
      if (verdict === NO_HOLE) continue;
      let n = bytes[at]!;
      if (verdict === MAYBE) {
        if ((n & 1) === 1) noteHoles(words, record, from, start);
        if (test(room.bytes, putHoled(words, number, record, at, room, 0, packed))) return true;
        at = offsetBehind();
        continue;
      }
      if (verdict === YES) return true;
      if (verdict === NONE) return false;
      if (n < 0x80) at++;
      else {
        n = varint(bytes, at);
        at = offsetBehind();
      }
      if ((n & 1) === 0) at += n >> 1;
    }
    return false;
  };
}

/** A filter that asks for a cell, compiled once for all words. */
interface Asked {
  readonly cells: AskedCells;
  readonly test: RowTest;
  /** What of the filter can be told without values. */
  readonly names: RowTest;
  readonly looksAtValues: boolean;
}

function askedOf(filter: StoreFilter): Asked {
  const test = compileFilter(filter);
  const values = looksAtValues(filter);
  const names = values ? compileFilter(namesOnly(filter)) : test;
  return { cells: new AskedCells(filter), test, names, looksAtValues: values };
}

function verdictOf({ cells, test, names, looksAtValues }: Asked, { hole, at, cell }: Word): number {
  const stop = Math.min(hole === NOWHERE ? cell.length : at, CELL_HEADER + cell.readUInt16BE(1));
  // Cells lie in the order of their families and qualifiers.
  if (cells.areBefore(cell[0]!, cell.subarray(CELL_HEADER, stop))) return NONE;
  if (hole === NOWHERE) return test(cell) ? YES : NO_HOLE;
  if (hole === IN_VALUE) {
    if (!names(cell)) return NO;
    return looksAtValues ? MAYBE : YES;
  }
  return cells.mayBegin(cell[0]!, cell.subarray(CELL_HEADER, at)) ? MAYBE : NO;
}

type AnyColumn = Extract<StoreFilter, { readonly op: 'anyColumn' }>;

/** Where the cells lie that a filter asks for: thousands of names are told as quickly as one. */
class AskedCells {
  /** By family, rising. */
  readonly #names = new Map<number, readonly Buffer[]>();
  readonly #patterns: readonly AnyColumn[];

  constructor(filter: StoreFilter) {
    for (const [family, names] of orParts([namesOnly(filter)]).names) this.#names.set(family, unique(names));
    this.#patterns = [...alternatives([filter])].filter((part) => part.op === 'anyColumn');
  }

  /** Whether one may have a qualifier that begins with these bytes. */
  mayBegin(family: number, start: Buffer): boolean {
    const names = this.#names.get(family);
    if (names && startsWith(names[lowerBound(names, start)] ?? EMPTY, start)) return true;
    return this.#patterns.some((part) => part.family === family && mayMatch(part.match, start));
  }

  /** Whether all lie before those whose qualifier begins with these bytes. */
  areBefore(family: number, start: Buffer): boolean {
    for (const [its, names] of this.#names) {
      if (its > family || (its === family && Buffer.compare(start, names.at(-1)!) <= 0)) return false;
    }
    return this.#patterns.every((part) => isBefore(part, family, start));
  }
}

function isBefore({ family: its, match }: AnyColumn, family: number, start: Buffer): boolean {
  if (its !== family) return its < family;
  if ('from' in match) return Buffer.compare(start, match.to) > 0;
  const head = headOf(match);
  return Buffer.compare(start, head) > 0 && !startsWith(start, head);
}

function namesOnly(filter: StoreFilter): StoreFilter {
  if (filter.op === 'or') return { op: 'or', of: filter.of.map(namesOnly) };
  return filter.op === 'columnEquals'
    ? { op: 'hasColumn', family: filter.family, qualifier: filter.qualifier }
    : filter;
}

function looksAtValues(filter: StoreFilter): boolean {
  return filter.op === 'or' ? filter.of.some(looksAtValues) : filter.op === 'columnEquals';
}

function mayMatch(match: QualifierMatch, start: Buffer): boolean {
  if ('from' in match) {
    // The names that begin so are those from `start` to the first one that does not.
    return (
      Buffer.compare(match.to, start) > 0 && (Buffer.compare(match.from, start) <= 0 || startsWith(match.from, start))
    );
  }
  const head = headOf(match);
  return startsWith(head, start) || startsWith(start, head);
}

/** What the qualifiers of a pattern begin with. */
function headOf(match: Exclude<QualifierMatch, { readonly from: Buffer }>): Buffer {
  return 'any' in match && match.initial ? Buffer.concat([match.prefix, match.initial]) : match.prefix;
}
