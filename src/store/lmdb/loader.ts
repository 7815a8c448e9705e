import type { RangeOptions } from 'lmdb';
import type { LoadRow } from '../contract.js';
import { nextCell, qualifierStart, valueStart } from '../row.js';
import { afterPrefix, cellKey } from '../tables.js';
import type { Db, LmdbTable } from './table.js';

/** The last key. Without an `end` of its own lmdb-js stops a reverse range at the first key of its own key format. */
const LAST = { reverse: true, limit: 1, end: undefined } as object as RangeOptions;

/** Puts a record behind the last one where it belongs there: LMDB then fills its pages and skips the search. */
class Appender {
  readonly #db: Db;
  #last: Buffer | undefined;

  constructor(db: Db) {
    this.#db = db;
    for (const key of db.getKeys(LAST)) this.#last = key;
  }

  put(key: Buffer, value: Buffer): void {
    if (this.#last && Buffer.compare(key, this.#last) <= 0) {
      this.#db.putSync(key, value);
      return;
    }
    this.#db.putSync(key, value, { append: true });
    this.#last = key;
  }
}

/** Writes rows of a table; each replaces what is there. */
export class RowWriter {
  readonly #table: LmdbTable;
  readonly #rows: Appender;

  constructor(table: LmdbTable) {
    this.#table = table;
    this.#rows = new Appender(table.rows);
  }

  /** `fresh`: the key is known not to be there, so no separate cells of an earlier row are either. */
  write({ key, row, separate }: LoadRow, fresh = false): void {
    if (!fresh) for (const db of this.#table.cells.values()) removeCells(db, key);
    this.#rows.put(key, row);
    if (separate) this.#writeCells(key, separate);
  }

  #writeCells(key: Buffer, packed: Buffer): void {
    for (let at = 0; at < packed.length; at = nextCell(packed, at)) {
      const db = this.#table.cells.get(packed[at]!);
      if (!db) throw new TypeError(`family ${packed[at]} of table ${this.#table.spec.name} is not separate`);
      const value = valueStart(packed, at);
      db.putSync(
        cellKey(key, packed.subarray(qualifierStart(at), value)),
        packed.subarray(value, nextCell(packed, at)),
      );
    }
  }
}

function removeCells(db: Db, key: Buffer): void {
  const start = cellKey(key, Buffer.alloc(0));
  for (const found of [...db.getKeys({ start, end: afterPrefix(start)! })]) db.removeSync(found);
}

/** Writes rows of a table with `suffixBytes`. */
export class SuffixWriter {
  readonly #rows: Appender;
  readonly #suffix: number;

  constructor(table: LmdbTable) {
    this.#rows = new Appender(table.rows);
    this.#suffix = table.spec.suffixBytes!;
  }

  /** The key is a prefix, the row its suffixes one after another. */
  write({ key, row }: LoadRow, _fresh?: boolean): void {
    for (let at = 0; at < row.length; at += this.#suffix) this.#rows.put(key, row.subarray(at, at + this.#suffix));
  }
}
