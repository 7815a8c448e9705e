import { lowerBound, startsWith } from '../../../bytes/compare.js';
import type { QualifierMatch, StoreFilter } from '../../contract.js';
import { CELL_HEADER, EMPTY } from '../../row.js';
import { compileFilter, type RowTest } from '../../row-filter.js';
import { flattenOr, groupOrParts, sortedUnique } from '../../row-filter-any.js';
import {
  nextOffset,
  noteHoles,
  putHoleCell,
  putSpelledCell,
  type RecordView,
  readVarint,
  UnknownWord,
} from './decode.js';
import { newRoom } from './room.js';
import { IN_VALUE, NO_HOLE, ONE_BYTE, type Word, type Words } from './words.js';

/** Returns whether a record matches. Its cells begin at `at`; `packed` is the length of the packed row. */
export type RecordTest = (words: Words, record: RecordView, at: number, packed: number) => boolean;

/**
 * Compiles a filter, once per scan, into a test of records. The word number alone decides most cells, and only matching
 * rows are decoded. The test caches results per word, which are valid for the words of one table only.
 */
export function compileRecordFilter(filter: StoreFilter): RecordTest {
  switch (filter.op) {
    case 'hasColumn':
    case 'columnEquals':
    case 'anyColumn':
      return compileCellFilter(filter);
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

/** Compiles an OR. One walk over the record tests all parts that look for a single cell. */
function compileOr(of: readonly StoreFilter[]): RecordTest {
  const parts = [...flattenOr(of)];
  const cells = parts.filter(isCellFilter);
  const tests = parts.filter((part) => !isCellFilter(part)).map(compileRecordFilter);
  if (cells.length > 0) tests.unshift(compileCellFilter({ op: 'or', of: cells }));
  if (tests.length === 1) return tests[0]!;
  return (words, record, at, packed) => {
    for (let i = 0; i < tests.length; i++) if (tests[i]!(words, record, at, packed)) return true;
    return false;
  };
}

function isCellFilter({ op }: StoreFilter): boolean {
  return op === 'hasColumn' || op === 'columnEquals' || op === 'anyColumn';
}

/** Verdicts of a filter on the cells with a given word; 0 means not computed yet. The cell does not match, … */
const NO = 1;
/** … does not match and has no hole to skip, … */
const NO_WITHOUT_HOLE = 2;
/** … matches, … */
const YES = 3;
/** … matches or not, depending on the bytes of the hole, … */
const MAYBE = 4;
/** … does not match, and no later cell of the record can match. */
const NO_MORE = 5;

/** Compiles a filter that looks for a single cell. A cell that must be decoded is tested as a row of one cell. */
function compileCellFilter(filter: StoreFilter): RecordTest {
  const cellFilter = prepareCellFilter(filter);
  const { test } = cellFilter;
  let verdicts = new Uint8Array(64);
  let room = newRoom(256);
  const decide = (words: Words, number: number): number => {
    if (number > words.count) throw new UnknownWord();
    if (number >= verdicts.length) {
      const more = new Uint8Array(number * 2);
      more.set(verdicts);
      verdicts = more;
    }
    const verdict = verdictOf(cellFilter, words.list[number - 1]!);
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
        const length = putSpelledCell(record, at, room, 0, packed);
        at = nextOffset();
        if (test(room.bytes, length)) return true;
        continue;
      }
      let verdict = known[number];
      if (!verdict) {
        verdict = decide(words, number);
        known = verdicts;
      }
      if (verdict === NO_WITHOUT_HOLE) continue;
      let n = bytes[at]!;
      if (verdict === MAYBE) {
        if ((n & 1) === 1) noteHoles(words, record, from, start);
        if (test(room.bytes, putHoleCell(words, number, record, at, room, 0, packed))) return true;
        at = nextOffset();
        continue;
      }
      if (verdict === YES) return true;
      if (verdict === NO_MORE) return false;
      if (n < 0x80) at++;
      else {
        n = readVarint(bytes, at);
        at = nextOffset();
      }
      if ((n & 1) === 0) at += n >> 1;
    }
    return false;
  };
}

/** A filter that looks for a single cell, prepared for computing verdicts. */
interface CellFilter {
  readonly cells: WantedCells;
  readonly test: RowTest;
  /** The filter without its conditions on values. */
  readonly names: RowTest;
  readonly looksAtValues: boolean;
}

function prepareCellFilter(filter: StoreFilter): CellFilter {
  const test = compileFilter(filter);
  const values = looksAtValues(filter);
  const names = values ? compileFilter(namesOnly(filter)) : test;
  return { cells: new WantedCells(filter), test, names, looksAtValues: values };
}

function verdictOf({ cells, test, names, looksAtValues }: CellFilter, { hole, at, cell }: Word): number {
  const stop = Math.min(hole === NO_HOLE ? cell.length : at, CELL_HEADER + cell.readUInt16BE(1));
  // Cells are sorted by family and qualifier.
  if (cells.areBefore(cell[0]!, cell.subarray(CELL_HEADER, stop))) return NO_MORE;
  if (hole === NO_HOLE) return test(cell) ? YES : NO_WITHOUT_HOLE;
  if (hole === IN_VALUE) {
    if (!names(cell)) return NO;
    return looksAtValues ? MAYBE : YES;
  }
  return cells.mayBegin(cell[0]!, cell.subarray(CELL_HEADER, at)) ? MAYBE : NO;
}

type AnyColumn = Extract<StoreFilter, { readonly op: 'anyColumn' }>;

/** The family and qualifier conditions of a filter, searchable in logarithmic time. */
class WantedCells {
  /** Sorted qualifiers by family. */
  readonly #names = new Map<number, readonly Buffer[]>();
  readonly #patterns: readonly AnyColumn[];

  constructor(filter: StoreFilter) {
    for (const [family, names] of groupOrParts([namesOnly(filter)]).names) this.#names.set(family, sortedUnique(names));
    this.#patterns = [...flattenOr([filter])].filter((part) => part.op === 'anyColumn');
  }

  /** Returns whether a wanted cell may have a qualifier that starts with these bytes. */
  mayBegin(family: number, start: Buffer): boolean {
    const names = this.#names.get(family);
    if (names && startsWith(names[lowerBound(names, start)] ?? EMPTY, start)) return true;
    return this.#patterns.some((part) => part.family === family && mayMatch(part.match, start));
  }

  /** Returns whether all wanted cells lie before the cells whose qualifier starts with these bytes. */
  areBefore(family: number, start: Buffer): boolean {
    for (const [wanted, names] of this.#names) {
      if (wanted > family || (wanted === family && Buffer.compare(start, names.at(-1)!) <= 0)) return false;
    }
    return this.#patterns.every((part) => isBefore(part, family, start));
  }
}

function isBefore({ family: wanted, match }: AnyColumn, family: number, start: Buffer): boolean {
  if (wanted !== family) return wanted < family;
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
    // The qualifiers that start with `start` form an interval, which begins at `start`.
    return (
      Buffer.compare(match.to, start) > 0 && (Buffer.compare(match.from, start) <= 0 || startsWith(match.from, start))
    );
  }
  const head = headOf(match);
  return startsWith(head, start) || startsWith(start, head);
}

/** The prefix of all qualifiers that match the pattern. */
function headOf(match: Exclude<QualifierMatch, { readonly from: Buffer }>): Buffer {
  return 'any' in match && match.initial ? Buffer.concat([match.prefix, match.initial]) : match.prefix;
}
