import { hasBytesAt } from '../../../bytes/compare.js';
import { CELL_HEADER, cellFamily, EMPTY, nextCell, qualifierLength } from '../../row.js';
import { IN_QUALIFIER, IN_VALUE, NO_HOLE, type Word, Words } from './words.js';

/** A dictionary word with a hole (`words.ts`): the bytes of the subject before and behind the hole. */
interface Pattern {
  readonly number: number;
  readonly prefix: Buffer;
  readonly suffix: Buffer;
}

/**
 * A cell name, by which dictionary words are found. A cell consists of a name and a *subject*, the part that varies.
 * If the qualifier has a `=`, the subject is the rest of the qualifier behind the `=`, and the name is the start of the
 * qualifier and the value. Otherwise the name is the qualifier, and the subject is the value.
 */
export interface NameEntry {
  readonly family: number;
  /** The qualifier, or its start up to and including the `=`. */
  readonly fixedQualifier: Buffer;
  /** Whether `fixedQualifier` ends with a `=`. */
  readonly hasEquals: boolean;
  /** The value of the cells, if `hasEquals`; else empty. */
  readonly value: Buffer;
  /** The words that have a hole, longest first. */
  readonly patterns: Pattern[];
  /** Numbers of the words that are whole cells, by the hash of the subject. */
  readonly wholeCellNumbers: Map<number, number>;
  /** Number of the whole-cell word that matched last; 0 for none. */
  lastNumber: number;
  /** The next name with the same hash. */
  readonly nextSameHash: NameEntry | undefined;
  /** The name that followed this name the last time: a guess for the next cell. */
  likelyNext: NameEntry | undefined;
  readonly hash: number;
}

const EQUALS = 0x3d;
const FNV_START = 0x811c9dc5 | 0;
const FNV_PRIME = 0x01000193;

export function hashBytes(hash: number, bytes: Buffer, subjectStart: number, subjectEnd: number): number {
  let h = hash;
  for (let i = subjectStart; i < subjectEnd; i++) h = Math.imul(h ^ bytes[i]!, FNV_PRIME);
  return h;
}

/** A cell of a packed row, divided into name and subject by offsets in `row`. */
export class CellCursor {
  row: Buffer = EMPTY;
  at = 0;
  /** End of those bytes of the qualifier that belong to the name. */
  nameEnd = 0;
  /** Start of the value, which is the end of the qualifier. */
  valueStart = 0;
  end = 0;
  hasEquals = false;
  /** The subject is `row[subjectStart, subjectEnd)`. */
  subjectStart = 0;
  subjectEnd = 0;

  moveTo(row: Buffer, offset: number): void {
    this.row = row;
    this.at = offset;
    this.valueStart = offset + CELL_HEADER + qualifierLength(row, offset);
    this.end = nextCell(row, offset);
    this.hasEquals = false;
    this.subjectStart = this.valueStart;
    this.subjectEnd = this.end;
    this.nameEnd = this.valueStart;
  }

  /** Divides the cell at the first `=` of the qualifier. Without a `=`, the subject stays the value. */
  divide(): void {
    let i = this.at + CELL_HEADER;
    while (i < this.valueStart && this.row[i] !== EQUALS) i++;
    if (i === this.valueStart) return;
    this.hasEquals = true;
    this.nameEnd = i + 1;
    this.subjectStart = i + 1;
    this.subjectEnd = this.valueStart;
  }

  /** Returns whether the cell has the given name. If so, sets the offsets of its subject and value. */
  divideAs({ family, fixedQualifier, hasEquals, value }: NameEntry): boolean {
    const { row, at } = this;
    const n = fixedQualifier.length;
    const start = at + CELL_HEADER;
    if (row[at] !== family || (hasEquals ? this.valueStart < start + n : this.valueStart !== start + n)) return false;
    if (!hasBytesAt(row, start, fixedQualifier)) return false;
    if (!hasEquals) return true;
    if (this.end - this.valueStart !== value.length || !hasBytesAt(row, this.valueStart, value)) return false;
    this.hasEquals = true;
    this.nameEnd = start + n;
    this.subjectStart = this.nameEnd;
    this.subjectEnd = this.valueStart;
    return true;
  }
}

/** The words of one table, searchable by cell. */
export class Vocabulary {
  readonly words = new Words();
  /** Number of words that are whole cells. */
  wholeCellCount = 0;
  readonly #namesByHash = new Map<number, NameEntry>();
  readonly #cursor = new CellCursor();

  /**
   * Divides the cell and returns its name, or undefined if no word has the name.
   */
  findName(cell: CellCursor, previousName: NameEntry | undefined): NameEntry | undefined {
    const guess = previousName?.likelyNext;
    if (guess && cell.divideAs(guess)) return guess;
    cell.divide();
    const foundName = this.#lookUpName(cell);
    if (previousName && foundName) previousName.likelyNext = foundName;
    return foundName;
  }

  #lookUpName(cell: CellCursor): NameEntry | undefined {
    let name = this.#namesByHash.get(hashOfName(cell));
    while (name && !(name.hasEquals === cell.hasEquals && cell.divideAs(name))) name = name.nextSameHash;
    return name;
  }

  /** Returns the number of the whole-cell word that equals the cell; 0 if there is none. */
  findWholeCell(name: NameEntry, { row, at, subjectStart, subjectEnd, end }: CellCursor): number {
    if (name.wholeCellNumbers.size === 0) return 0;
    const { list } = this.words;
    if (name.lastNumber !== 0 && equalsCell(list[name.lastNumber - 1]!, row, at, end)) return name.lastNumber;
    const number = name.wholeCellNumbers.get(hashBytes(FNV_START, row, subjectStart, subjectEnd));
    if (number === undefined || !equalsCell(list[number - 1]!, row, at, end)) return 0;
    name.lastNumber = number;
    return number;
  }

  clear(): void {
    this.words.clear();
    this.wholeCellCount = 0;
    this.#namesByHash.clear();
  }

  addWord(word: Word): number {
    const number = this.words.add(word);
    const cell = this.#cursor;
    cell.moveTo(word.cell, 0);
    cell.divide();
    const name = this.#lookUpName(cell) ?? this.#addName(cell);
    if (word.holeKind === NO_HOLE) {
      this.wholeCellCount++;
      name.wholeCellNumbers.set(hashBytes(FNV_START, word.cell, cell.subjectStart, cell.subjectEnd), number);
    } else {
      const prefix = word.cell.subarray(cell.subjectStart, word.holeAt);
      const suffix = word.cell.subarray(word.holeAt, cell.subjectEnd);
      name.patterns.push({ number, prefix, suffix });
      name.patterns.sort((a, b) => b.prefix.length + b.suffix.length - a.prefix.length - a.suffix.length);
    }
    return number;
  }

  #addName(cell: CellCursor): NameEntry {
    const { row, at, hasEquals } = cell;
    const hash = hashOfName(cell);
    const name: NameEntry = {
      family: cellFamily(row, at),
      fixedQualifier: Buffer.from(row.subarray(at + CELL_HEADER, cell.nameEnd)),
      hasEquals,
      value: hasEquals ? Buffer.from(row.subarray(cell.valueStart, cell.end)) : EMPTY,
      patterns: [],
      wholeCellNumbers: new Map(),
      lastNumber: 0,
      nextSameHash: this.#namesByHash.get(hash),
      likelyNext: undefined,
      hash,
    };
    this.#namesByHash.set(hash, name);
    return name;
  }
}

function equalsCell({ cell }: Word, row: Buffer, offset: number, end: number): boolean {
  return cell.length === end - offset && hasBytesAt(row, offset, cell);
}

/** Returns whether the subject of the cell starts and ends with the bytes of the pattern. */
export function matchesPattern({ prefix, suffix }: Pattern, { row, subjectStart, subjectEnd }: CellCursor): boolean {
  const start = subjectStart + prefix.length;
  const end = subjectEnd - suffix.length;
  return start <= end && hasBytesAt(row, subjectStart, prefix) && hasBytesAt(row, end, suffix);
}

export function hashOfName({ row, at, nameEnd, hasEquals, valueStart, end }: CellCursor): number {
  const hash = hashBytes(Math.imul(FNV_START ^ row[at]!, FNV_PRIME), row, at + CELL_HEADER, nameEnd);
  return hasEquals ? hashBytes(hash, row, valueStart, end) : hash;
}

/** Makes a dictionary word of a cell. The hole is `row[from, to)`, unless `hole` is `NO_HOLE`. */
export function makeWord(
  { row, at, end, valueStart }: CellCursor,
  hole: Word['holeKind'],
  subjectStart: number,
  subjectEnd: number,
): Word {
  if (hole === NO_HOLE) return { holeKind: hole, holeAt: end - at, cell: Buffer.from(row.subarray(at, end)) };
  const cell = Buffer.concat([row.subarray(at, subjectStart), row.subarray(subjectEnd, end)]);
  const holeLength = subjectEnd - subjectStart;
  if (hole === IN_QUALIFIER) cell.writeUInt16BE(valueStart - at - CELL_HEADER - holeLength, 1);
  if (hole === IN_VALUE) cell.writeUInt32BE(end - valueStart - holeLength, 3);
  return { holeKind: hole, holeAt: subjectStart - at, cell };
}
