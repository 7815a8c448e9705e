import { CELL_HEADER } from '../../row.js';
import { type CellAt, hashOf, type Name, nameHash, type Vocabulary, wordOf } from './vocabulary.js';
import { IN_QUALIFIER, IN_VALUE, LONGEST_WORD, NOWHERE, type Word } from './words.js';

/** A word is made when it would have saved so many bytes, … */
const WORTH = 96;
/** … of which one cell counts at most so many: it was met four times at least. */
const AT_ONCE = WORTH / 4;
/** Bytes that a word of two bytes' number takes. */
const NUMBER = 2;
/** Words of one table, and those among them that are whole cells. */
const MOST_WORDS = 4096;
const MOST_CELLS = 2048;

/**
 * What was met lately and is no word yet, by hash; a power of two. Each hash has two of them, and what comes later
 * takes the place of the one that was less worth: two that come in every row do not drive each other out.
 */
const SLOTS = 16384;

const EQUALS = 0x3d;
const BRACE = 0x7b;
const BRACE_END = 0x7d;
const COMMA = 0x2c;
const AT = 0x40;
const NUMBER_SIGN = 0x23;

/** Finds words in the cells of one table. */
export class Learner {
  readonly #vocabulary: Vocabulary;
  readonly #hashes = new Int32Array(SLOTS);
  readonly #gains = new Uint8Array(SLOTS);

  constructor(vocabulary: Vocabulary) {
    this.#vocabulary = vocabulary;
  }

  /**
   * The word that the cell, whose name is known or not, should have from now on. `spent`: bytes it takes as things are.
   */
  learn(cell: CellAt, name: Name | undefined, spent: number): Word | undefined {
    const { wholeCells, words } = this.#vocabulary;
    if (words.count >= MOST_WORDS) return undefined;
    const empty = cell.from === cell.to;
    const hole = cell.headed ? IN_QUALIFIER : IN_VALUE;
    const hash = name?.hash ?? nameHash(cell);
    if (!name || (name.patterns.length === 0 && !empty)) {
      if (cell.fixed - cell.at + (cell.headed ? cell.end - cell.value : 0) > LONGEST_WORD) return undefined;
      if (!this.#isWorth(hash, cell.fixed - cell.at - CELL_HEADER)) return undefined;
      return empty ? wordOf(cell, NOWHERE, 0, 0) : wordOf(cell, hole, cell.from, cell.to);
    }
    const { row, from, to } = cell;
    if (to - from > 2 * LONGEST_WORD) return undefined;
    const whole = hashOf(hash, row, from, to);
    if (wholeCells < MOST_CELLS && cell.end - cell.at <= LONGEST_WORD && this.#isWorth(whole, spent - NUMBER))
      return wordOf(cell, NOWHERE, 0, 0);
    const start = endOfBeginning(cell);
    const end = startOfEnd(cell, start);
    const saved = start - from + to - end - (name.patterns[0]!.before.length + name.patterns[0]!.behind.length);
    if (saved <= 0 || end <= start || cell.end - cell.at - (end - start) > LONGEST_WORD) return undefined;
    const around = hashOf(hashOf(~hash, row, from, start), row, end, to);
    return this.#isWorth(around, saved) ? wordOf(cell, hole, start, end) : undefined;
  }

  #isWorth(hash: number, gain: number): boolean {
    if (gain <= 0) return false;
    const slot = this.#slotOf(hash);
    const before = this.#hashes[slot] === hash ? this.#gains[slot]! : 0;
    const sum = before + Math.min(gain, AT_ONCE);
    this.#hashes[slot] = hash;
    this.#gains[slot] = sum >= WORTH ? 0 : sum;
    return sum >= WORTH;
  }

  #slotOf(hash: number): number {
    const first = (hash ^ (hash >>> 15)) & (SLOTS - 1);
    const second = first ^ 1;
    if (this.#hashes[first] === hash) return first;
    if (this.#hashes[second] === hash) return second;
    return this.#gains[first]! <= this.#gains[second]! ? first : second;
  }
}

/** Subjects often begin alike up to a `=` (names) or a `}` (hashed passwords), … */
function endOfBeginning({ row, from, to }: CellAt): number {
  const mark = row[from] === BRACE ? BRACE_END : EQUALS;
  const last = Math.min(to, from + LONGEST_WORD / 2);
  for (let i = from; i < last; i++) if (row[i] === mark) return i + 1;
  return from;
}

/** … and end alike from a `,` (names), `@` (mail addresses) or `#` (CSNs) on. */
function startOfEnd({ row, to }: CellAt, from: number): number {
  for (let i = from; i < to; i++) {
    const byte = row[i]!;
    if (byte === COMMA || byte === AT || byte === NUMBER_SIGN) return i;
  }
  return to;
}
