import { CELL_HEADER, qualifierLength, valueLength } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { CHECK_BYTES, computeCheck } from './check.js';
import {
  FIRST_HOLE,
  KEY_AS_UUID,
  KEY_END,
  keyEnd,
  MAX_HOLES,
  putUuid,
  type RecordView,
  UUID_BYTES,
  UUID_TEXT,
} from './decode.js';
import type { Learner } from './learner.js';
import { CellCursor, matchesPattern, type Name, type Vocabulary } from './vocabulary.js';
import { ONE_BYTE, type Word } from './words.js';

/** The learner sees each of the first rows of a process, … */
const ALL_ROWS = 512;
/** … and later one row in this many. */
const SAMPLE = 8;
/** Longer holes are not compared with earlier holes. */
const MAX_REPEAT_BYTES = 128;
/** Maximum bytes that a spelled-out cell takes beyond its packed form; a whole record takes at most this much more. */
const EXCESS = 8;
const LOOP = 48;

/** Encodes packed rows of one table as records. */
export class RowEncoder {
  /** The last encoded record is `record[0, length)`. */
  record = Buffer.allocUnsafeSlow(8192);
  length = 0;
  readonly #vocabulary: Vocabulary;
  readonly #learner: Learner;
  readonly #added: (word: Word) => void;
  #rows = 0;
  #last: Name | undefined;
  readonly #cell = new CellCursor();
  /** Offsets and lengths of the current row's holes, by number: in the record, but the first two in key and `#uuid`. */
  readonly #starts = new Int32Array(MAX_HOLES);
  readonly #lengths = new Int32Array(MAX_HOLES);
  #holes = FIRST_HOLE;
  readonly #uuid = Buffer.alloc(UUID_TEXT);
  readonly #key: RecordView = { keys: this.#uuid, from: 0, to: 0, bytes: this.#uuid, end: 0 };
  /** The qualifier of the last spelled-out cell is `row[#spelled, #spelledEnd)`. */
  #spelled = 0;
  #spelledEnd = 0;

  /** `added` is called with each new word, to store it. */
  constructor(vocabulary: Vocabulary, learner: Learner, added: (word: Word) => void) {
    this.#vocabulary = vocabulary;
    this.#learner = learner;
    this.#added = added;
  }

  /** Must be called when the vocabulary was cleared. */
  reset(): void {
    this.#last = undefined;
  }

  /** Encodes the packed row `row[start, end)` under the key `keys[from, to)`, with the check. */
  encode(keys: Buffer, from: number, to: number, row: Buffer, start: number, end: number): void {
    this.#begin(keys, from, to, end - start);
    const learns = this.#rows < ALL_ROWS || this.#rows % SAMPLE === 0;
    this.#rows++;
    const cell = this.#cell;
    // The last name of the row before predicts the first name of this row.
    let name = this.#last;
    for (let at = start; at < end; at = cell.end) {
      cell.set(row, at);
      if (cell.end > end) throw new StoreError('corrupt', `packed row is cut inside the cell at offset ${at - start}`);
      const before = this.length;
      name = this.#vocabulary.findName(cell, name);
      this.#putCell(cell, name);
      if (!learns) continue;
      const word = this.length - before > 2 ? this.#learner.learn(cell, name, this.length - before) : undefined;
      if (word) {
        this.#vocabulary.add(word);
        this.#added(word);
      }
    }
    this.#last = name;
    const check = computeCheck(keys, from, to, this.record, this.length);
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

  #putCell(cell: CellCursor, name: Name | undefined): void {
    if (name) {
      const whole = this.#vocabulary.findWholeCell(name, cell);
      if (whole !== 0) {
        this.#putNumber(whole);
        return;
      }
      for (const pattern of name.patterns) {
        if (!matchesPattern(pattern, cell)) continue;
        this.#putNumber(pattern.number);
        this.#putHole(cell.row, cell.subjectStart + pattern.prefix.length, cell.subjectEnd - pattern.suffix.length);
        return;
      }
    }
    this.#putSpelled(cell.row, cell.at, cell.valueStart, cell.end);
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
    const repeated = length > 1 && length <= MAX_REPEAT_BYTES ? this.#holeLike(row, from, length) : -1;
    if (repeated >= 0) {
      this.#putVarint(repeated * 2 + 1);
      return;
    }
    this.#putVarint(length * 2);
    if (this.#holes < MAX_HOLES) {
      this.#starts[this.#holes] = this.length;
      this.#lengths[this.#holes++] = length;
    }
    this.#putRun(row, from, to);
  }

  /** Returns the number of an earlier hole with the same bytes; -1 if there is none. */
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
   * Writes a cell without a word:
   *
   *   0 │ family │ bytes shared with the last spelled qualifier │ length of the rest │ value length │ rest │ value
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
