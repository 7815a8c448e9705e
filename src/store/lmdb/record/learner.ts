import { CELL_HEADER } from '../../row.js';
import { type CellCursor, hashBytes, hashOfName, makeWord, type NameEntry, type Vocabulary } from './vocabulary.js';
import { IN_QUALIFIER, IN_VALUE, MAX_WORD_BYTES, NO_HOLE, type Word } from './words.js';

/** Number of bytes that a dictionary word would have saved so far when it is created. */
const MIN_GAIN = 96;
/** Maximum number of saved bytes that count per cell, so that at least four cells share a word. */
const MAX_CELL_GAIN = MIN_GAIN / 4;
/** Maximum bytes of a word number in a record. */
const NUMBER_BYTES = 2;
/** Maximum number of words of a table. */
const MAX_WORDS = 4096;
/** Maximum number of words of a table that are whole cells. */
const MAX_WHOLE_CELLS = 2048;

/**
 * Size of the hash table of word candidates, a power of two. Each hash may use two slots, and a new candidate replaces
 * the candidate with the smaller gain. So two candidates of every row do not evict each other.
 */
const SLOT_COUNT = 16384;

const EQUALS = 0x3d;
const BRACE = 0x7b;
const BRACE_END = 0x7d;
const COMMA = 0x2c;
const AT = 0x40;
const NUMBER_SIGN = 0x23;

/** Finds new dictionary words in the cells of one table. */
export class Learner {
  readonly #vocabulary: Vocabulary;
  readonly #hashes = new Int32Array(SLOT_COUNT);
  readonly #gains = new Uint8Array(SLOT_COUNT);

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
  }

  /** Examines a cell that takes `encodedBytes` with the present words. Returns a new word once it is worthwhile. */
  learn(cell: CellCursor, name: NameEntry | undefined, encodedBytes: number): Word | undefined {
    const { wholeCellCount, words } = this.#vocabulary;
    if (words.count >= MAX_WORDS) return undefined;
    const isEmpty = cell.subjectStart === cell.subjectEnd;
    const holeKind = cell.hasEquals ? IN_QUALIFIER : IN_VALUE;
    const hash = name?.hash ?? hashOfName(cell);
    if (!name || (name.patterns.length === 0 && !isEmpty)) {
      if (cell.nameEnd - cell.at + (cell.hasEquals ? cell.end - cell.valueStart : 0) > MAX_WORD_BYTES) return undefined;
      if (!this.#addGain(hash, cell.nameEnd - cell.at - CELL_HEADER)) return undefined;
      return isEmpty ? makeWord(cell, NO_HOLE, 0, 0) : makeWord(cell, holeKind, cell.subjectStart, cell.subjectEnd);
    }
    const { row, subjectStart, subjectEnd } = cell;
    if (subjectEnd - subjectStart > 2 * MAX_WORD_BYTES) return undefined;
    const wholeHash = hashBytes(hash, row, subjectStart, subjectEnd);
    if (
      wholeCellCount < MAX_WHOLE_CELLS &&
      cell.end - cell.at <= MAX_WORD_BYTES &&
      this.#addGain(wholeHash, encodedBytes - NUMBER_BYTES)
    )
      return makeWord(cell, NO_HOLE, 0, 0);
    const start = commonStart(cell);
    const end = commonEnd(cell, start);
    const savedBytes =
      start - subjectStart + subjectEnd - end - (name.patterns[0]!.prefix.length + name.patterns[0]!.suffix.length);
    if (savedBytes <= 0 || end <= start || cell.end - cell.at - (end - start) > MAX_WORD_BYTES) return undefined;
    const patternHash = hashBytes(hashBytes(~hash, row, subjectStart, start), row, end, subjectEnd);
    return this.#addGain(patternHash, savedBytes) ? makeWord(cell, holeKind, start, end) : undefined;
  }

  /** Adds saved bytes to a word candidate. Returns true, and starts again at 0, when they reach `MIN_GAIN`. */
  #addGain(hash: number, gain: number): boolean {
    if (gain <= 0) return false;
    const slot = this.#findSlot(hash);
    const oldGain = this.#hashes[slot] === hash ? this.#gains[slot]! : 0;
    const newGain = oldGain + Math.min(gain, MAX_CELL_GAIN);
    this.#hashes[slot] = hash;
    this.#gains[slot] = newGain >= MIN_GAIN ? 0 : newGain;
    return newGain >= MIN_GAIN;
  }

  #findSlot(hash: number): number {
    const firstSlot = (hash ^ (hash >>> 15)) & (SLOT_COUNT - 1);
    const secondSlot = firstSlot ^ 1;
    if (this.#hashes[firstSlot] === hash) return firstSlot;
    if (this.#hashes[secondSlot] === hash) return secondSlot;
    return this.#gains[firstSlot]! <= this.#gains[secondSlot]! ? firstSlot : secondSlot;
  }
}

/** Offset behind the first `=` (DNs) or `}` (hashed passwords): subjects often share the bytes up to here. */
function commonStart({ row, subjectStart, subjectEnd }: CellCursor): number {
  const endByte = row[subjectStart] === BRACE ? BRACE_END : EQUALS;
  const searchEnd = Math.min(subjectEnd, subjectStart + MAX_WORD_BYTES / 2);
  for (let i = subjectStart; i < searchEnd; i++) if (row[i] === endByte) return i + 1;
  return subjectStart;
}

/** Offset of the first `,` (DNs), `@` (mail addresses) or `#` (CSNs): subjects often share the bytes from here on. */
function commonEnd({ row, subjectEnd }: CellCursor, start: number): number {
  for (let i = start; i < subjectEnd; i++) {
    const byte = row[i]!;
    if (byte === COMMA || byte === AT || byte === NUMBER_SIGN) return i;
  }
  return subjectEnd;
}
