import { randomBytes } from 'node:crypto';
import type { Database, RangeOptions, RootDatabase, Transaction } from 'lmdb';
import { damaged, StoreError } from '../../store-error.js';
import { afterPrefix } from '../../tables.js';
import { CHECKSUM_BYTES, hasValidChecksum, withChecksum } from '../record/checksum.js';
import { decodeRow, nextOffset, type RecordView, readVarint, UnknownWord } from '../record/decode.js';
import { RowEncoder } from '../record/encode.js';
import { Learner } from '../record/learner.js';
import type { RecordTest } from '../record/record-filter.js';
import { allocate } from '../record/room.js';
import { Vocabulary } from '../record/vocabulary.js';
import { type DecodedLayout, type Word, Words, wordFromBytes, wordToBytes } from '../record/words.js';

/** One of the named databases of an LMDB environment. */
export type Db = Database<Buffer, Buffer>;

const BINARY = { encoding: 'binary', keyEncoding: 'binary' } as const;

/** Opens a named database. Creates the database if it is absent and the environment is not read-only. */
export function openDb(root: RootDatabase, name: string, coding: object = BINARY): Db {
  const db: Db | undefined = root.openDB<Buffer, Buffer>(name, coding);
  if (!db) throw new StoreError('damaged', `LMDB's list of databases is damaged: database ${name} is not in it`);
  return db;
}

/** Returns the first key of the range; undefined if the range is empty. */
export function firstKeyIn(db: Db, range: object, transaction: Transaction | undefined): Buffer | undefined {
  const options = { ...range, limit: 1, ...(transaction && { transaction }) } as RangeOptions;
  for (const key of db.getKeys(options)) return key;
  return undefined;
}

/**
 * The shared read buffer of LMDB, passed to decoders and returned by `getBinaryFast`: a large Buffer whose `length`
 * property is set to the value's size at each read. Element access is right, but methods see the real length.
 */
interface SharedBytes extends Buffer {
  isGlobal?: boolean;
  maxLength?: number;
}

let sharedBuffer: Buffer | undefined;
let sharedView: Buffer = Buffer.alloc(0);

/** Returns a plain Buffer over the same memory, longer than the value. The value is valid until the next read. */
export function plainView(bytes: Buffer): Buffer {
  if (bytes === sharedBuffer) return sharedView;
  const { isGlobal, maxLength } = bytes as SharedBytes;
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, isGlobal ? maxLength! : bytes.byteLength);
  if (isGlobal) {
    sharedBuffer = bytes;
    sharedView = view;
  }
  return view;
}

/** Returns the first `length` bytes of the value, in the same memory. */
export function shortenValue(bytes: Buffer, length: number): Buffer {
  if (!(bytes as SharedBytes).isGlobal) return bytes.subarray(0, length);
  (bytes as { length: number }).length = length;
  return bytes;
}

/** Copies the first `length` bytes of a value into `into` if it is long enough, else into a new Buffer. */
export function copyValue(bytes: Buffer, length: number, into?: Buffer): Buffer {
  const out = into && length <= into.length ? into.subarray(0, length) : allocate(length);
  plainView(bytes).copy(out, 0, 0, length);
  return out;
}

/** The fields of `Environment` that the `Records` of all tables use. */
export interface RecordContext {
  readonly dictionary: Dictionary;
  /** Number of write transactions so far. A writer checks once per transaction for words that other writers added. */
  readonly writeCount: number;
  readonly rowLayout: DecodedLayout;
}

/** Verifies and decodes the records of one table. */
export class Records {
  readonly #context: RecordContext;
  readonly #tableId: number;
  readonly #tableName: string;
  /** Committed words of the table's dictionary. New words are loaded when a committed row refers to them. */
  readonly #words: Words;
  readonly #view: RecordView = { keys: Buffer.alloc(0), from: 0, to: 0, bytes: Buffer.alloc(0), end: 0 };
  #writer: RecordWriter | undefined;

  constructor(context: RecordContext, id: number, name: string) {
    this.#context = context;
    this.#tableId = id;
    this.#tableName = name;
    this.#words = new Words(context.rowLayout);
  }

  /** Verifies the checksum of `bytes[0, length)` with key `keys[keyStart, keyEnd)`. Returns the length without it. */
  verify(keys: Buffer, keyStart: number, keyEnd: number, bytes: Buffer, length: number): number {
    if (!hasValidChecksum(keys, keyStart, keyEnd, bytes, length))
      throw this.damagedError(keys.subarray(keyStart, keyEnd), 'its check does not fit');
    return length - CHECKSUM_BYTES;
  }

  /** Returns a view of a verified record, which is valid until the next call. */
  view(keys: Buffer, keyStart: number, keyEnd: number, bytes: Buffer, end: number): RecordView {
    const view = this.#view;
    view.keys = keys;
    view.from = keyStart;
    view.to = keyEnd;
    view.bytes = bytes;
    view.end = end;
    return view;
  }

  /**
   * Returns the packed row; with `headOnly`, the first family only, undefined if that has no cell. Throws `UnknownWord`
   * if the record has a new word: the caller then calls `loadWords`, which overwrites LMDB's buffers, and reads the row
   * again. `inScratch`: see `getScratchHead` of the contract.
   */
  decode(view: RecordView, headOnly = false, inScratch = false): Buffer | undefined {
    try {
      return decodeRow(this.#words, view, headOnly, inScratch);
    } catch (error) {
      throw this.#toDamage(view, error);
    }
  }

  /** Returns whether the record matches the filter, which was compiled for this table. Throws as `decode`. */
  matches(test: RecordTest, view: RecordView): boolean {
    try {
      const length = readVarint(view.bytes, 0);
      return test(this.#words, view, nextOffset(), length);
    } catch (error) {
      throw this.#toDamage(view, error);
    }
  }

  /** Reads the words that were committed since the last call. Must not be called inside a write transaction. */
  loadWords(transaction: Transaction | undefined): void {
    const firstNumber = this.#words.count + 1;
    const words = this.#context.dictionary.readWords(this.#tableId, this.#tableName, firstNumber, transaction);
    if (words.length === 0) throw damaged(this.#tableName, undefined, 'a row has a word that is not in its dictionary');
    for (const word of words) this.#words.add(word);
  }

  #toDamage({ keys, from, to }: RecordView, error: unknown): unknown {
    return error instanceof StoreError ? this.damagedError(keys.subarray(from, to), error.message) : error;
  }

  damagedError(key: Buffer, detail: string): StoreError {
    return damaged(this.#tableName, Buffer.from(key), detail);
  }

  /** The writer for the current write transaction. The first use in a transaction may overwrite LMDB's read buffer. */
  get writer(): RecordWriter {
    this.#writer ??= new RecordWriter(this.#context.dictionary, this.#tableId, this.#tableName);
    this.#writer.beginTransaction(this.#context.writeCount);
    return this.#writer;
  }
}

/** Encodes and decodes records inside write transactions, and adds words to the dictionary. */
export class RecordWriter {
  readonly #dictionary: Dictionary;
  readonly #tableId: number;
  readonly #tableName: string;
  readonly #vocabulary = new Vocabulary();
  readonly #encoder: RowEncoder;
  /** The stamp of the loaded words (`Dictionary`). */
  #stamp = '';
  /** Number of the transaction in which the stamp was last compared. */
  #seenWriteCount = -1;

  constructor(dictionary: Dictionary, id: number, name: string) {
    this.#dictionary = dictionary;
    this.#tableId = id;
    this.#tableName = name;
    const vocabulary = this.#vocabulary;
    this.#encoder = new RowEncoder(vocabulary, new Learner(vocabulary), (word) => {
      this.#stamp = dictionary.addWord(id, vocabulary.words.count, word);
    });
  }

  get words(): Words {
    return this.#vocabulary.words;
  }

  /** Reloads the words if another writer added words since, or if the last transaction was rolled back. */
  beginTransaction(writeCount: number): void {
    if (writeCount === this.#seenWriteCount) return;
    this.#seenWriteCount = writeCount;
    const stamp = this.#dictionary.readStamp(this.#tableId);
    if (stamp === this.#stamp) return;
    this.#vocabulary.clear();
    this.#encoder.reset();
    for (const word of this.#dictionary.readWords(this.#tableId, this.#tableName, 1)) this.#vocabulary.addWord(word);
    this.#stamp = stamp;
  }

  /** Returns the packed row of a verified record. */
  decode(view: RecordView): Buffer {
    try {
      return decodeRow(this.words, view, false)!;
    } catch (error) {
      if (!(error instanceof UnknownWord || error instanceof StoreError)) throw error;
      const detail = error instanceof StoreError ? error.message : 'it has a word that is not in the dictionary';
      throw damaged(this.#tableName, Buffer.from(view.keys.subarray(view.from, view.to)), detail);
    }
  }

  /** Encodes the packed row `row[start, end)` with key `keys[keyStart, keyEnd)`. Valid until the next call. */
  encode(keys: Buffer, keyStart: number, keyEnd: number, row: Buffer, start: number, end: number): RowEncoder {
    this.#encoder.encode(keys, keyStart, keyEnd, row, start, end);
    return this.#encoder;
  }

  /** Encodes a packed row and returns the record as a buffer, which is valid until the next call. */
  encodeValue(key: Buffer, row: Buffer): Buffer {
    const { record, length } = this.encode(key, 0, key.length, row, 0, row.length);
    return record.subarray(0, length);
  }
}

/**
 * The database of the words of all tables. A word is a cell, or the start of a cell, to which records refer by number
 * (docs/formats/lmdb.md). The key table id u32 │ number u16 holds a word, and the key table id u32 holds a random
 * stamp, which changes with each added word. Words are added inside write transactions and never change. A reader that
 * meets an unknown number reads the new words; a writer compares the stamp to learn whether its words are current.
 */
export class Dictionary {
  readonly #db: Db;

  constructor(root: RootDatabase) {
    this.#db = openDb(root, 'words');
  }

  /** Reads the words of a table from number `from` on, in the given transaction or else in the current state. */
  readWords(id: number, name: string, from: number, transaction?: Transaction): Word[] {
    const words: Word[] = [];
    const options = { start: wordKey(id, from), end: afterPrefix(tableKey(id))!, ...(transaction && { transaction }) };
    for (const { key, value } of this.#db.getRange(options)) {
      const isSound = hasValidChecksum(key, 0, key.length, value, value.length);
      const word = isSound ? wordFromBytes(value.subarray(0, value.length - CHECKSUM_BYTES)) : undefined;
      if (!word || key.readUInt16BE(4) !== from + words.length)
        throw damaged(name, undefined, `word ${from + words.length} of its dictionary is lost`);
      words.push(word);
    }
    return words;
  }

  /** Reads the stamp of a table; inside a write transaction the newest. */
  readStamp(id: number): string {
    return this.#db.getBinary(tableKey(id))?.toString('latin1') ?? '';
  }

  /** Adds a word inside a write transaction. Returns the new stamp. */
  addWord(id: number, number: number, word: Word): string {
    const key = wordKey(id, number);
    const stamp = randomBytes(8);
    this.#db.putSync(key, withChecksum(key, wordToBytes(word)));
    this.#db.putSync(tableKey(id), stamp);
    return stamp.toString('latin1');
  }

  /** Deletes the words of a dropped table, inside a write transaction. */
  removeWords(id: number): void {
    const start = tableKey(id);
    for (const key of [...this.#db.getKeys({ start, end: afterPrefix(start)! })]) this.#db.removeSync(key);
  }
}

function tableKey(id: number): Buffer {
  const key = Buffer.allocUnsafe(4);
  key.writeUInt32BE(id);
  return key;
}

function wordKey(id: number, number: number): Buffer {
  const key = Buffer.allocUnsafe(6);
  key.writeUInt32BE(id);
  key.writeUInt16BE(number, 4);
  return key;
}
