import { randomBytes } from 'node:crypto';
import type { RootDatabase, Transaction } from 'lmdb';
import { damaged } from '../../store-error.js';
import { afterPrefix } from '../../tables.js';
import { CHECK_BYTES, isSound, sealed } from '../record/check.js';
import { type Word, wordFromBytes, wordToBytes } from '../record/words.js';
import { type Db, openDb } from './database.js';

/**
 * The words of all tables, in a database of their own (docs/formats/lmdb.md): under table id u32 │ number u16 the word,
 * under table id u32 a stamp that is another after each word. Words are added inside write transactions and never
 * changed, so whoever meets a number that is new to it reads the words again, and who is to write asks whether the
 * stamp is still the one it knows.
 */
export class Dictionary {
  readonly #db: Db;

  constructor(root: RootDatabase) {
    this.#db = openDb(root, 'words');
  }

  /** Words of a table from number `from` on, as they are in the transaction, or now. */
  read(id: number, name: string, from: number, transaction?: Transaction): Word[] {
    const words: Word[] = [];
    const options = { start: wordKey(id, from), end: afterPrefix(tableKey(id))!, ...(transaction && { transaction }) };
    for (const { key, value } of this.#db.getRange(options)) {
      const sound = isSound(key, 0, key.length, value, value.length);
      const word = sound ? wordFromBytes(value.subarray(0, value.length - CHECK_BYTES)) : undefined;
      if (!word || key.readUInt16BE(4) !== from + words.length) {
        throw damaged(name, undefined, `word ${from + words.length} of its dictionary is lost`);
      }
      words.push(word);
    }
    return words;
  }

  /** Inside a write transaction the newest. */
  stamp(id: number): string {
    return this.#db.getBinary(tableKey(id))?.toString('latin1') ?? '';
  }

  /** Inside a write transaction. Gives the new stamp. */
  add(id: number, number: number, word: Word): string {
    const key = wordKey(id, number);
    const stamp = randomBytes(8);
    this.#db.putSync(key, sealed(key, wordToBytes(word)));
    this.#db.putSync(tableKey(id), stamp);
    return stamp.toString('latin1');
  }

  /** Inside a write transaction: the table is dropped. */
  remove(id: number): void {
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
