import { CELL_HEADER, qualifierLength, valueLength } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { CHECKSUM_BYTES, computeChecksum } from './checksum.js';
import {
  FIRST_HOLE,
  KEY_END_HOLE,
  KEY_UUID_HOLE,
  keyTailStart,
  MAX_HOLES,
  putUuid,
  type RecordView,
  UUID_BYTES,
  UUID_TEXT_BYTES,
} from './decode.js';
import type { Learner } from './learner.js';
import { CellCursor, matchesPattern, type NameEntry, type Vocabulary } from './vocabulary.js';
import { TWO_BYTE_FROM, type Word } from './words.js';

/** The learner examines this many rows after the start of the process. */
const FULL_SAMPLE_ROWS = 512;
/** Later, the learner examines one row in this many. */
const SAMPLE_INTERVAL = 8;
/** Longest hole, in bytes, that is compared with earlier holes. A hole is the varying part of a word (`words.ts`). */
const MAX_REPEAT_BYTES = 128;
/** Maximum number of bytes by which a cell in a record exceeds its packed form. Length and checksum take as many. */
const EXCESS_BYTES = 8;
/** Longer byte strings are copied with `copy`, whose call costs as much as a loop over this many bytes. */
const MAX_LOOP_BYTES = 48;

/** Encodes packed rows of one table as records. */
export class RowEncoder {
  /** The last encoded record is `record[0, length)`. */
  record = Buffer.allocUnsafeSlow(8192);
  length = 0;
  readonly #vocabulary: Vocabulary;
  readonly #learner: Learner;
  readonly #onNewWord: (word: Word) => void;
  #rowCount = 0;
  #lastName: NameEntry | undefined;
  readonly #cursor = new CellCursor();
  /** Offsets and lengths of the row's holes in the record, by number. The first two lie in the key and `#keyUuid`. */
  readonly #holeStarts = new Int32Array(MAX_HOLES);
  readonly #holeLengths = new Int32Array(MAX_HOLES);
  #holeCount = FIRST_HOLE;
  readonly #keyUuid = Buffer.alloc(UUID_TEXT_BYTES);
  readonly #keyView: RecordView = { keys: this.#keyUuid, from: 0, to: 0, bytes: this.#keyUuid, end: 0 };
  /** The qualifier of the last spelled-out cell is `row[#spelledStart, #spelledEnd)`. */
  #spelledStart = 0;
  #spelledEnd = 0;

  /** `onNewWord` is called with each new word, to store it. */
  constructor(vocabulary: Vocabulary, learner: Learner, onNewWord: (word: Word) => void) {
    this.#vocabulary = vocabulary;
    this.#learner = learner;
    this.#onNewWord = onNewWord;
  }

  /** Must be called when the vocabulary was cleared. */
  reset(): void {
    this.#lastName = undefined;
  }

  /** Encodes the packed row `row[start, end)` with key `keys[keyStart, keyEnd)` and appends the checksum. */
  encode(keys: Buffer, keyStart: number, keyEnd: number, row: Buffer, start: number, end: number): void {
    this.#beginRecord(keys, keyStart, keyEnd, end - start);
    const isLearning = this.#rowCount < FULL_SAMPLE_ROWS || this.#rowCount % SAMPLE_INTERVAL === 0;
    this.#rowCount++;
    const cell = this.#cursor;
    // The last name of the row before predicts the first name of this row.
    let name = this.#lastName;
    for (let offset = start; offset < end; offset = cell.end) {
      cell.moveTo(row, offset);
      if (cell.end > end)
        throw new StoreError('corrupt', `packed row is cut inside the cell at offset ${offset - start}`);
      const cellStart = this.length;
      name = this.#vocabulary.findName(cell, name);
      this.#putCell(cell, name);
      if (!isLearning) continue;
      const word = this.length - cellStart > 2 ? this.#learner.learn(cell, name, this.length - cellStart) : undefined;
      if (word) {
        this.#vocabulary.addWord(word);
        this.#onNewWord(word);
      }
    }
    this.#lastName = name;
    const checksum = computeChecksum(keys, keyStart, keyEnd, this.record, this.length);
    this.record.writeInt32LE(checksum, this.length);
    this.length += CHECKSUM_BYTES;
  }

  #beginRecord(keys: Buffer, keyStart: number, keyEnd: number, packedLength: number): void {
    if (this.record.length < 2 * packedLength + EXCESS_BYTES * 2)
      this.record = Buffer.allocUnsafeSlow(2 * packedLength + EXCESS_BYTES * 2);
    const key = this.#keyView;
    key.keys = keys;
    key.from = keyStart;
    key.to = keyEnd;
    this.#holeStarts[KEY_END_HOLE] = keyTailStart(keys, keyStart, keyEnd);
    this.#holeLengths[KEY_END_HOLE] = keyEnd - this.#holeStarts[KEY_END_HOLE]!;
    this.#holeLengths[KEY_UUID_HOLE] = 0;
    if (keyEnd - keyStart === UUID_BYTES)
      this.#holeLengths[KEY_UUID_HOLE] = putUuid(key, this.#keyUuid, 0, UUID_TEXT_BYTES);
    this.#holeCount = FIRST_HOLE;
    this.#spelledStart = 0;
    this.#spelledEnd = 0;
    this.length = 0;
    this.#putVarint(packedLength);
  }

  #putCell(cell: CellCursor, name: NameEntry | undefined): void {
    if (name) {
      const wordNumber = this.#vocabulary.findWholeCell(name, cell);
      if (wordNumber !== 0) {
        this.#putWordNumber(wordNumber);
        return;
      }
      for (const pattern of name.patterns) {
        if (!matchesPattern(pattern, cell)) continue;
        this.#putWordNumber(pattern.number);
        this.#putHole(cell.row, cell.subjectStart + pattern.prefix.length, cell.subjectEnd - pattern.suffix.length);
        return;
      }
    }
    this.#putSpelledCell(cell.row, cell.at, cell.valueStart, cell.end);
  }

  #putWordNumber(number: number): void {
    if (number < TWO_BYTE_FROM) this.record[this.length++] = number;
    else {
      this.record[this.length++] = TWO_BYTE_FROM + ((number - TWO_BYTE_FROM) >>> 8);
      this.record[this.length++] = number - TWO_BYTE_FROM;
    }
  }

  #putVarint(value: number): void {
    let bits = value;
    for (; bits >= 0x80; bits = Math.floor(bits / 128)) this.record[this.length++] = (bits & 0x7f) | 0x80;
    this.record[this.length++] = bits;
  }

  #putHole(row: Buffer, start: number, end: number): void {
    const length = end - start;
    const repeatedHole = length > 1 && length <= MAX_REPEAT_BYTES ? this.#findSameHole(row, start, length) : -1;
    if (repeatedHole >= 0) {
      this.#putVarint(repeatedHole * 2 + 1);
      return;
    }
    this.#putVarint(length * 2);
    if (this.#holeCount < MAX_HOLES) {
      this.#holeStarts[this.#holeCount] = this.length;
      this.#holeLengths[this.#holeCount++] = length;
    }
    this.#putRun(row, start, end);
  }

  /** Returns the number of an earlier hole with the same bytes; -1 if there is none. */
  #findSameHole(row: Buffer, rowOffset: number, length: number): number {
    for (let hole = 0; hole < this.#holeCount; hole++) {
      if (this.#holeLengths[hole] !== length) continue;
      const bytes = hole === KEY_END_HOLE ? this.#keyView.keys : hole === KEY_UUID_HOLE ? this.#keyUuid : this.record;
      const start = this.#holeStarts[hole]!;
      let i = length - 1;
      while (i >= 0 && bytes[start + i] === row[rowOffset + i]) i--;
      if (i < 0) return hole;
    }
    return -1;
  }

  /**
   * Writes a cell without a word:
   *
   *   0 │ family │ bytes shared with the last spelled qualifier │ length of the rest │ value length │ rest │ value
   */
  #putSpelledCell(row: Buffer, offset: number, valueOffset: number, end: number): void {
    const start = offset + CELL_HEADER;
    const maxShared = Math.min(valueOffset - start, this.#spelledEnd - this.#spelledStart);
    let sharedBytes = 0;
    while (sharedBytes < maxShared && row[this.#spelledStart + sharedBytes] === row[start + sharedBytes]) sharedBytes++;
    this.record[this.length++] = 0;
    this.record[this.length++] = row[offset]!;
    this.#putVarint(sharedBytes);
    this.#putVarint(qualifierLength(row, offset) - sharedBytes);
    this.#putVarint(valueLength(row, offset));
    this.#putRun(row, start + sharedBytes, end);
    this.#spelledStart = start;
    this.#spelledEnd = valueOffset;
  }

  #putRun(row: Buffer, start: number, end: number): void {
    const { record } = this;
    let offset = this.length;
    if (end - start > MAX_LOOP_BYTES) row.copy(record, offset, start, end);
    else for (let i = start; i < end; i++) record[offset++] = row[i]!;
    this.length += end - start;
  }
}
