import { lowerBound, startsWith } from '../../../bytes/compare.js';
import type { QualifierMatch, StoreFilter } from '../../contract.js';
import { CELL_HEADER, EMPTY } from '../../row.js';
import { compileFilter, type RowTest } from '../../row-filter.js';
import { flattenOr, groupOrOperands, sortedUnique } from '../../row-filter-any.js';
import {
  nextOffset,
  putHoleCell,
  putSpelledCell,
  type RecordView,
  readVarint,
  rememberHoles,
  UnknownWord,
} from './decode.js';
import { newRoom } from './room.js';
import { IN_VALUE, NO_HOLE, TWO_BYTE_FROM, type Word, type Words } from './words.js';

/** Returns whether a record matches. Its cells begin at `offset`; `packedLength` is the length of the packed row. */
export type RecordTest = (words: Words, record: RecordView, offset: number, packedLength: number) => boolean;

/**
 * Compiles a filter, once per scan, into a test of records. The number of a cell's dictionary word decides most cells,
 * and only matching rows are decoded. The test caches results per word, so it is valid for one table only.
 */
export function compileRecordFilter(filter: StoreFilter): RecordTest {
  switch (filter.op) {
    case 'hasColumn':
    case 'columnEquals':
    case 'anyColumn':
      return compileCellFilter(filter);
    case 'and': {
      const tests = filter.of.map(compileRecordFilter);
      return (words, record, offset, packedLength) => {
        for (let i = 0; i < tests.length; i++) if (!tests[i]!(words, record, offset, packedLength)) return false;
        return true;
      };
    }
    case 'or':
      return compileOr(filter.of);
    case 'not': {
      const test = compileRecordFilter(filter.of);
      return (words, record, offset, packedLength) => !test(words, record, offset, packedLength);
    }
  }
}

/** Compiles an OR. One walk over the record tests all operands that look for a single cell. */
function compileOr(of: readonly StoreFilter[]): RecordTest {
  const alternatives = [...flattenOr(of)];
  const cellFilters = alternatives.filter(isCellFilter);
  const tests = alternatives.filter((operand) => !isCellFilter(operand)).map(compileRecordFilter);
  if (cellFilters.length > 0) tests.unshift(compileCellFilter({ op: 'or', of: cellFilters }));
  if (tests.length === 1) return tests[0]!;
  return (words, record, offset, packedLength) => {
    for (let i = 0; i < tests.length; i++) if (tests[i]!(words, record, offset, packedLength)) return true;
    return false;
  };
}

function isCellFilter({ op }: StoreFilter): boolean {
  return op === 'hasColumn' || op === 'columnEquals' || op === 'anyColumn';
}

/*
 * A filter's verdicts on the cells that a dictionary word encodes; 0 if not computed yet. The hole of a word stands for
 * the bytes that vary from cell to cell (`words.ts`).
 */
/** No such cell matches. */
const NO_MATCH = 1;
/** The cell does not match, and the word has no hole whose bytes must be skipped. */
const NO_MATCH_NO_HOLE = 2;
/** Every such cell matches. */
const MATCH = 3;
/** The bytes of the hole decide whether the cell matches. */
const MATCH_BY_HOLE = 4;
/** No such cell matches, and no later cell of the record can match. */
const NO_LATER_MATCH = 5;

/** Compiles a filter that looks for a single cell. A cell that must be decoded is tested as a row of one cell. */
function compileCellFilter(filter: StoreFilter): RecordTest {
  const cellFilter = prepareCellFilter(filter);
  const { test } = cellFilter;
  let verdicts = new Uint8Array(64);
  let room = newRoom(256);
  const addVerdict = (words: Words, number: number): number => {
    if (number > words.count) throw new UnknownWord();
    if (number >= verdicts.length) {
      const largerVerdicts = new Uint8Array(number * 2);
      largerVerdicts.set(verdicts);
      verdicts = largerVerdicts;
    }
    const verdict = computeVerdict(cellFilter, words.list[number - 1]!);
    verdicts[number] = verdict;
    return verdict;
  };
  return (words, record, from, packedLength) => {
    const { bytes, end } = record;
    let currentVerdicts = verdicts;
    if (packedLength > room.bytes.length) room = newRoom(packedLength);
    for (let offset = from; offset < end; ) {
      const start = offset;
      let number = bytes[offset++]!;
      if (number >= TWO_BYTE_FROM) number = TWO_BYTE_FROM + ((number - TWO_BYTE_FROM) << 8) + bytes[offset++]!;
      if (number === 0) {
        const length = putSpelledCell(record, offset, room, 0, packedLength);
        offset = nextOffset();
        if (test(room.bytes, length)) return true;
        continue;
      }
      let verdict = currentVerdicts[number];
      if (!verdict) {
        verdict = addVerdict(words, number);
        currentVerdicts = verdicts;
      }
      if (verdict === NO_MATCH_NO_HOLE) continue;
      let holeCode = bytes[offset]!;
      if (verdict === MATCH_BY_HOLE) {
        if ((holeCode & 1) === 1) rememberHoles(words, record, from, start);
        if (test(room.bytes, putHoleCell(words, number, record, offset, room, 0, packedLength))) return true;
        offset = nextOffset();
        continue;
      }
      if (verdict === MATCH) return true;
      if (verdict === NO_LATER_MATCH) return false;
      if (holeCode < 0x80) offset++;
      else {
        holeCode = readVarint(bytes, offset);
        offset = nextOffset();
      }
      if ((holeCode & 1) === 0) offset += holeCode >> 1;
    }
    return false;
  };
}

/** A filter that looks for a single cell, prepared for computing verdicts. */
interface CellFilter {
  readonly wantedCells: WantedCells;
  readonly test: RowTest;
  /** The filter without its conditions on values. */
  readonly qualifierTest: RowTest;
  readonly testsValues: boolean;
}

function prepareCellFilter(filter: StoreFilter): CellFilter {
  const test = compileFilter(filter);
  const testsValues = looksAtValues(filter);
  const qualifierTest = testsValues ? compileFilter(withoutValues(filter)) : test;
  return { wantedCells: new WantedCells(filter), test, qualifierTest, testsValues };
}

function computeVerdict(
  { wantedCells, test, qualifierTest, testsValues }: CellFilter,
  { holeKind, holeAt, cell }: Word,
): number {
  const qualifierEnd = Math.min(holeKind === NO_HOLE ? cell.length : holeAt, CELL_HEADER + cell.readUInt16BE(1));
  // Cells are sorted by family and qualifier.
  if (wantedCells.areBefore(cell[0]!, cell.subarray(CELL_HEADER, qualifierEnd))) return NO_LATER_MATCH;
  if (holeKind === NO_HOLE) return test(cell) ? MATCH : NO_MATCH_NO_HOLE;
  if (holeKind === IN_VALUE) {
    if (!qualifierTest(cell)) return NO_MATCH;
    return testsValues ? MATCH_BY_HOLE : MATCH;
  }
  return wantedCells.mayStartWith(cell[0]!, cell.subarray(CELL_HEADER, holeAt)) ? MATCH_BY_HOLE : NO_MATCH;
}

type AnyColumn = Extract<StoreFilter, { readonly op: 'anyColumn' }>;

/** The family and qualifier conditions of a filter, searchable in logarithmic time. */
class WantedCells {
  /** Sorted qualifiers by family. */
  readonly #qualifiers = new Map<number, readonly Buffer[]>();
  readonly #patterns: readonly AnyColumn[];

  constructor(filter: StoreFilter) {
    for (const [family, names] of groupOrOperands([withoutValues(filter)]).qualifiers)
      this.#qualifiers.set(family, sortedUnique(names));
    this.#patterns = [...flattenOr([filter])].filter((operand) => operand.op === 'anyColumn');
  }

  /** Returns whether a wanted cell may have a qualifier that starts with these bytes. */
  mayStartWith(family: number, start: Buffer): boolean {
    const qualifiers = this.#qualifiers.get(family);
    if (qualifiers && startsWith(qualifiers[lowerBound(qualifiers, start)] ?? EMPTY, start)) return true;
    return this.#patterns.some((operand) => operand.family === family && mayMatch(operand.match, start));
  }

  /** Returns whether all wanted cells lie before the cells whose qualifier starts with these bytes. */
  areBefore(family: number, start: Buffer): boolean {
    for (const [wanted, qualifiers] of this.#qualifiers) {
      if (wanted > family || (wanted === family && Buffer.compare(start, qualifiers.at(-1)!) <= 0)) return false;
    }
    return this.#patterns.every((operand) => isBefore(operand, family, start));
  }
}

function isBefore({ family: wanted, match }: AnyColumn, family: number, start: Buffer): boolean {
  if (wanted !== family) return wanted < family;
  if ('from' in match) return Buffer.compare(start, match.to) > 0;
  const prefix = matchedPrefix(match);
  return Buffer.compare(start, prefix) > 0 && !startsWith(start, prefix);
}

function withoutValues(filter: StoreFilter): StoreFilter {
  if (filter.op === 'or') return { op: 'or', of: filter.of.map(withoutValues) };
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
  const prefix = matchedPrefix(match);
  return startsWith(prefix, start) || startsWith(start, prefix);
}

/** The prefix of all qualifiers that match the pattern. */
function matchedPrefix(match: Exclude<QualifierMatch, { readonly from: Buffer }>): Buffer {
  return 'any' in match && match.initial ? Buffer.concat([match.prefix, match.initial]) : match.prefix;
}
