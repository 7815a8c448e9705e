import type { Transaction } from 'lmdb';
import { damaged, StoreError } from '../../store-error.js';
import { CHECK_BYTES, isSound } from '../record/check.js';
import { decodedRow, offsetBehind, type RecordAt, UnknownWord, varint } from '../record/decode.js';
import { RowEncoder } from '../record/encode.js';
import { Learner } from '../record/learner.js';
import type { RecordTest } from '../record/record-filter.js';
import { Vocabulary } from '../record/vocabulary.js';
import { Words } from '../record/words.js';
import type { Dictionary } from './dictionary.js';

/** Counts the write transactions: in each a writer looks once whether others have added words. */
export interface Writes {
  readonly writes: number;
}

/** The records of one table: verifies and decodes those that are read, makes those that are written. */
export class Records {
  readonly #dictionary: Dictionary;
  readonly #writes: Writes;
  readonly #id: number;
  readonly #name: string;
  /** As committed: what a transaction adds is found when a row that was committed has it. */
  readonly #words = new Words();
  readonly #at: RecordAt = { keys: Buffer.alloc(0), from: 0, to: 0, bytes: Buffer.alloc(0), end: 0 };
  #writer: RecordWriter | undefined;

  constructor(dictionary: Dictionary, writes: Writes, id: number, name: string) {
    this.#dictionary = dictionary;
    this.#writes = writes;
    this.#id = id;
    this.#name = name;
  }

  /** Verifies the value `bytes[0, length)` under `keys[from, to)`; gives its length without the check. */
  verify(keys: Buffer, from: number, to: number, bytes: Buffer, length: number): number {
    if (!isSound(keys, from, to, bytes, length)) throw this.damaged(keys.subarray(from, to), 'its check does not fit');
    return length - CHECK_BYTES;
  }

  /** Where a record lies that was verified; good until the next call. */
  at(keys: Buffer, from: number, to: number, bytes: Buffer, end: number): RecordAt {
    const at = this.#at;
    at.keys = keys;
    at.from = from;
    at.to = to;
    at.bytes = bytes;
    at.end = end;
    return at;
  }

  /**
   * The packed row; with `first` its first family alone, undefined where that has no cell. Throws `UnknownWord` where
   * the row has a word that is new: it is to be read again after `learn`, which uses LMDB's buffers. `lends`: see
   * `lendHead` of the contract.
   */
  row(at: RecordAt, first = false, lends = false): Buffer | undefined {
    try {
      return decodedRow(this.#words, at, first, lends);
    } catch (error) {
      throw this.#failure(at, error);
    }
  }

  /** As `row`: whether the filter, which is of this table, takes it. */
  matches(test: RecordTest, at: RecordAt): boolean {
    try {
      const length = varint(at.bytes, 0);
      return test(this.#words, at, offsetBehind(), length);
    } catch (error) {
      throw this.#failure(at, error);
    }
  }

  /** Reads the words that came since. Not inside a write transaction. */
  learn(transaction: Transaction | undefined): void {
    const words = this.#dictionary.read(this.#id, this.#name, this.#words.count + 1, transaction);
    if (words.length === 0) throw damaged(this.#name, undefined, 'a row has a word that is not in its dictionary');
    for (const word of words) this.#words.add(word);
  }

  #failure({ keys, from, to }: RecordAt, error: unknown): unknown {
    return error instanceof StoreError ? this.damaged(keys.subarray(from, to), error.message) : error;
  }

  damaged(key: Buffer, detail: string): StoreError {
    return damaged(this.#name, Buffer.from(key), detail);
  }

  /** Of the present write transaction, in which it may use LMDB's read buffer once. */
  get writer(): RecordWriter {
    this.#writer ??= new RecordWriter(this.#dictionary, this.#id, this.#name);
    this.#writer.begin(this.#writes.writes);
    return this.#writer;
  }
}

/** Makes records inside write transactions, and words for what they have in common. */
export class RecordWriter {
  readonly #dictionary: Dictionary;
  readonly #id: number;
  readonly #name: string;
  readonly #vocabulary = new Vocabulary();
  readonly #encoder: RowEncoder;
  /** Of the words in hand, and the transaction in which that was found to be the newest. */
  #stamp = '';
  #write = -1;

  constructor(dictionary: Dictionary, id: number, name: string) {
    this.#dictionary = dictionary;
    this.#id = id;
    this.#name = name;
    const vocabulary = this.#vocabulary;
    this.#encoder = new RowEncoder(vocabulary, new Learner(vocabulary), (word) => {
      this.#stamp = dictionary.add(id, vocabulary.words.count, word);
    });
  }

  get words(): Words {
    return this.#vocabulary.words;
  }

  /** Others may have written since the last transaction, and what that one added may have been taken back. */
  begin(write: number): void {
    if (write === this.#write) return;
    this.#write = write;
    const stamp = this.#dictionary.stamp(this.#id);
    if (stamp === this.#stamp) return;
    this.#vocabulary.clear();
    this.#encoder.reset();
    for (const word of this.#dictionary.read(this.#id, this.#name, 1)) this.#vocabulary.add(word);
    this.#stamp = stamp;
  }

  /** The packed row of a record that was verified. */
  row(at: RecordAt): Buffer {
    try {
      return decodedRow(this.words, at, false)!;
    } catch (error) {
      if (!(error instanceof UnknownWord || error instanceof StoreError)) throw error;
      const detail = error instanceof StoreError ? error.message : 'it has a word that is not in the dictionary';
      throw damaged(this.#name, Buffer.from(at.keys.subarray(at.from, at.to)), detail);
    }
  }

  /** The record of the packed row `row[start, end)` under `keys[from, to)`; good until the next call. */
  record(keys: Buffer, from: number, to: number, row: Buffer, start: number, end: number): RowEncoder {
    this.#encoder.encode(keys, from, to, row, start, end);
    return this.#encoder;
  }

  /** The same as a value. */
  value(key: Buffer, row: Buffer): Buffer {
    const { record, length } = this.record(key, 0, key.length, row, 0, row.length);
    return record.subarray(0, length);
  }
}
