import { CELL_HEADER } from '../../row.js';
import { type CellCursor, hashOf, hashOfName, makeWord, type Name, type Vocabulary } from './vocabulary.js';
import { IN_QUALIFIER, IN_VALUE, MAX_WORD_BYTES, NO_HOLE, type Word } from './words.js';

/** A word is created once it would have saved this many bytes, … */
const MIN_GAIN = 96;
/** … counting at most this many bytes per cell, so at least four cells are needed. */
const MAX_CELL_GAIN = MIN_GAIN / 4;
/** Maximum bytes of a word number in a record. */
const NUMBER_BYTES = 2;
/** Maximum number of words of a table, and of words that are whole cells. */
const MAX_WORDS = 4096;
const MAX_WHOLE_CELLS = 2048;

/**
 * Size of the hash table of word candidates, a power of two. Each hash may use two slots, and a new candidate replaces
 * the candidate with the smaller gain. So two candidates of every row do not evict each other.
 */
const SLOTS = 16384;

const EQUALS = 0x3d;
const BRACE = 0x7b;
const BRACE_END = 0x7d;
const COMMA = 0x2c;
const AT = 0x40;
const NUMBER_SIGN = 0x23;

/** Finds new words in the cells of one table. */
export class Learner {
  readonly #vocabulary: Vocabulary;
  readonly #hashes = new Int32Array(SLOTS);
  readonly #gains = new Uint8Array(SLOTS);

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
  }

  /** Counts the cell. Returns a new word once one is worthwhile. `spent`: bytes of the cell with the present words. */
  learn(cell: CellCursor, name: Name | undefined, spent: number): Word | undefined {
    const { wholeCells, words } = this.#vocabulary;
    if (words.count >= MAX_WORDS) return undefined;
    const empty = cell.subjectStart === cell.subjectEnd;
    const hole = cell.hasEquals ? IN_QUALIFIER : IN_VALUE;
    const hash = name?.hash ?? hashOfName(cell);
    if (!name || (name.patterns.length === 0 && !empty)) {
      if (cell.nameEnd - cell.at + (cell.hasEquals ? cell.end - cell.valueStart : 0) > MAX_WORD_BYTES) return undefined;
      if (!this.#addGain(hash, cell.nameEnd - cell.at - CELL_HEADER)) return undefined;
      return empty ? makeWord(cell, NO_HOLE, 0, 0) : makeWord(cell, hole, cell.subjectStart, cell.subjectEnd);
    }
    const { row, subjectStart: from, subjectEnd: to } = cell;
    if (to - from > 2 * MAX_WORD_BYTES) return undefined;
    const whole = hashOf(hash, row, from, to);
    if (
      wholeCells < MAX_WHOLE_CELLS &&
      cell.end - cell.at <= MAX_WORD_BYTES &&
      this.#addGain(whole, spent - NUMBER_BYTES)
    )
      return makeWord(cell, NO_HOLE, 0, 0);
    const start = commonStart(cell);
    const end = commonEnd(cell, start);
    const saved = start - from + to - end - (name.patterns[0]!.prefix.length + name.patterns[0]!.suffix.length);
    if (saved <= 0 || end <= start || cell.end - cell.at - (end - start) > MAX_WORD_BYTES) return undefined;
    const around = hashOf(hashOf(~hash, row, from, start), row, end, to);
    return this.#addGain(around, saved) ? makeWord(cell, hole, start, end) : undefined;
  }

  #addGain(hash: number, gain: number): boolean {
    if (gain <= 0) return false;
    const slot = this.#slotOf(hash);
    const before = this.#hashes[slot] === hash ? this.#gains[slot]! : 0;
    const sum = before + Math.min(gain, MAX_CELL_GAIN);
    this.#hashes[slot] = hash;
    this.#gains[slot] = sum >= MIN_GAIN ? 0 : sum;
    return sum >= MIN_GAIN;
  }

  #slotOf(hash: number): number {
    const first = (hash ^ (hash >>> 15)) & (SLOTS - 1);
    const second = first ^ 1;
    if (this.#hashes[first] === hash) return first;
    if (this.#hashes[second] === hash) return second;
    return this.#gains[first]! <= this.#gains[second]! ? first : second;
  }
}

/** Offset behind the first `=` (names) or `}` (hashed passwords): subjects often share the bytes up to here. */
function commonStart({ row, subjectStart: from, subjectEnd: to }: CellCursor): number {
  const mark = row[from] === BRACE ? BRACE_END : EQUALS;
  const last = Math.min(to, from + MAX_WORD_BYTES / 2);
  for (let i = from; i < last; i++) if (row[i] === mark) return i + 1;
  return from;
}

/** Offset of the first `,` (names), `@` (mail addresses) or `#` (CSNs): subjects often share the bytes from here on. */
function commonEnd({ row, subjectEnd: to }: CellCursor, from: number): number {
  for (let i = from; i < to; i++) {
    const byte = row[i]!;
    if (byte === COMMA || byte === AT || byte === NUMBER_SIGN) return i;
  }
  return to;
}
