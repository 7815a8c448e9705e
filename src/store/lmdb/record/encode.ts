import { CELL_HEADER, qualifierLength, valueLength } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { CHECK_BYTES, checkOf } from './check.js';
import {
  FIRST_HOLE,
  KEY_AS_UUID,
  KEY_END,
  keyEnd,
  putUuid,
  REPEATED,
  type RecordAt,
  UUID_BYTES,
  UUID_TEXT,
} from './decode.js';
import type { Learner } from './learner.js';
import { CellAt, fits, type Name, type Vocabulary } from './vocabulary.js';
import { ONE_BYTE, type Word } from './words.js';

/** All rows are learned from at first, … */
const ALL_ROWS = 512;
/** … later one of so many. */
const ONE_OF = 8;
/** Longer holes are not looked for among those before. */
const LONGEST_REPEAT = 128;
/** What a cell that is spelled out takes more than in a packed row, at most; and a whole record. */
const EXCESS = 8;
const LOOP = 48;

/** Makes records of the packed rows of one table. */
export class RowEncoder {
  /** The record that was made last is `record[0, length)`. */
  record = Buffer.allocUnsafeSlow(8192);
  length = 0;
  readonly #vocabulary: Vocabulary;
  readonly #learner: Learner;
  readonly #added: (word: Word) => void;
  #rows = 0;
  #last: Name | undefined;
  readonly #cell = new CellAt();
  /** Holes of the row in hand: those of its own lie in the record; the first two here. */
  readonly #starts = new Int32Array(REPEATED);
  readonly #lengths = new Int32Array(REPEATED);
  #holes = FIRST_HOLE;
  readonly #uuid = Buffer.alloc(UUID_TEXT);
  readonly #key: RecordAt = { keys: this.#uuid, from: 0, to: 0, bytes: this.#uuid, end: 0 };
  /** Of the cell that was spelled out last, where its qualifier lies in the row. */
  #spelled = 0;
  #spelledEnd = 0;

  /** `added` keeps a word that was found. */
  constructor(vocabulary: Vocabulary, learner: Learner, added: (word: Word) => void) {
    this.#vocabulary = vocabulary;
    this.#learner = learner;
    this.#added = added;
  }

  /** The words are no longer those that they were. */
  reset(): void {
    this.#last = undefined;
  }

  /** Makes the record of the packed row `row[start, end)` under `keys[from, to)`. */
  encode(keys: Buffer, from: number, to: number, row: Buffer, start: number, end: number): void {
    this.#begin(keys, from, to, end - start);
    const learns = this.#rows < ALL_ROWS || this.#rows % ONE_OF === 0;
    this.#rows++;
    const cell = this.#cell;
    // The last row's last name foretells the first one's.
    let name = this.#last;
    for (let at = start; at < end; at = cell.end) {
      cell.set(row, at);
      if (cell.end > end) throw new StoreError('corrupt', `packed row is cut inside the cell at offset ${at - start}`);
      const before = this.length;
      name = this.#vocabulary.nameOf(cell, name);
      this.#putCell(cell, name);
      if (!learns) continue;
      const word = this.length - before > 2 ? this.#learner.learn(cell, name, this.length - before) : undefined;
      if (word) {
        this.#vocabulary.add(word);
        this.#added(word);
      }
    }
    this.#last = name;
    const check = checkOf(keys, from, to, this.record, this.length);
    this.record.writeInt32LE(check, this.length);
    this.length += CHECK_BYTES;
  }

  #begin(keys: Buffer, from: number, to: number, packed: number): void {
    if (this.record.length < 2 * packed + EXCESS * 2) this.record = Buffer.allocUnsafeSlow(2 * packed + EXCESS * 2);
    const key = this.#key;
    key.keys = keys;
    key.from = from;
    key.to = to;
    this.#starts[KEY_END] = keyEnd(keys, from, to);
    this.#lengths[KEY_END] = to - this.#starts[KEY_END]!;
    this.#lengths[KEY_AS_UUID] = 0;
    if (to - from === UUID_BYTES) this.#lengths[KEY_AS_UUID] = putUuid(key, this.#uuid, 0, UUID_TEXT);
    this.#holes = FIRST_HOLE;
    this.#spelled = 0;
    this.#spelledEnd = 0;
    this.length = 0;
    this.#putVarint(packed);
  }

  #putCell(cell: CellAt, name: Name | undefined): void {
    if (name) {
      const whole = this.#vocabulary.wholeCell(name, cell);
      if (whole !== 0) {
        this.#putNumber(whole);
        return;
      }
      for (const pattern of name.patterns) {
        if (!fits(pattern, cell)) continue;
        this.#putNumber(pattern.number);
        this.#putHole(cell.row, cell.from + pattern.before.length, cell.to - pattern.behind.length);
        return;
      }
    }
    this.#putSpelled(cell.row, cell.at, cell.value, cell.end);
  }

  #putNumber(number: number): void {
    if (number < ONE_BYTE) this.record[this.length++] = number;
    else {
      this.record[this.length++] = ONE_BYTE + ((number - ONE_BYTE) >>> 8);
      this.record[this.length++] = number - ONE_BYTE;
    }
  }

  #putVarint(value: number): void {
    let rest = value;
    for (; rest >= 0x80; rest = Math.floor(rest / 128)) this.record[this.length++] = (rest & 0x7f) | 0x80;
    this.record[this.length++] = rest;
  }

  #putHole(row: Buffer, from: number, to: number): void {
    const length = to - from;
    const repeated = length > 1 && length <= LONGEST_REPEAT ? this.#holeLike(row, from, length) : -1;
    if (repeated >= 0) {
      this.#putVarint(repeated * 2 + 1);
      return;
    }
    this.#putVarint(length * 2);
    if (this.#holes < REPEATED) {
      this.#starts[this.#holes] = this.length;
      this.#lengths[this.#holes++] = length;
    }
    this.#putRun(row, from, to);
  }

  /** The number of an earlier hole with the same bytes, -1 where there is none. */
  #holeLike(row: Buffer, from: number, length: number): number {
    for (let hole = 0; hole < this.#holes; hole++) {
      if (this.#lengths[hole] !== length) continue;
      const bytes = hole === KEY_END ? this.#key.keys : hole === KEY_AS_UUID ? this.#uuid : this.record;
      const start = this.#starts[hole]!;
      let i = length - 1;
      while (i >= 0 && bytes[start + i] === row[from + i]) i--;
      if (i < 0) return hole;
    }
    return -1;
  }

  /**
   * Word number 0 │ family │ bytes shared with the qualifier spelled before │ length of the rest │ of the value
   * │ rest │ value
   */
  #putSpelled(row: Buffer, at: number, value: number, end: number): void {
    const start = at + CELL_HEADER;
    const most = Math.min(value - start, this.#spelledEnd - this.#spelled);
    let shared = 0;
    while (shared < most && row[this.#spelled + shared] === row[start + shared]) shared++;
    this.record[this.length++] = 0;
    this.record[this.length++] = row[at]!;
    this.#putVarint(shared);
    this.#putVarint(qualifierLength(row, at) - shared);
    this.#putVarint(valueLength(row, at));
    this.#putRun(row, start + shared, end);
    this.#spelled = start;
    this.#spelledEnd = value;
  }

  #putRun(row: Buffer, from: number, to: number): void {
    const { record } = this;
    let at = this.length;
    if (to - from > LOOP) row.copy(record, at, from, to);
    else for (let i = from; i < to; i++) record[at++] = row[i]!;
    this.length += to - from;
  }
}
