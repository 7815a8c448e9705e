import { randomBytes } from 'node:crypto';
import type { RootDatabase, Transaction } from 'lmdb';
import { damaged } from '../../store-error.js';
import { afterPrefix } from '../../tables.js';
import { CHECKSUM_BYTES, hasValidChecksum, withChecksum } from '../record/checksum.js';
import { type Word, wordFromBytes, wordToBytes } from '../record/words.js';
import { type Db, openDb } from './database.js';

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
