import type { PutOptions, RootDatabase } from 'lmdb';
import { StoreError } from '../errors.js';
import { type PackedRows, RowCursor } from '../load.js';
import { nextCell, qualifierStart, valueStart } from '../row.js';
import { checkKey } from '../stage.js';
import { afterPrefix, cellKey } from '../tables.js';
import { removeSegments, splitRow } from './long-row.js';
import { headOf, isLong, isSplit } from './segments.js';
import type { Db, LmdbTable } from './table.js';

/** Bytes to be written next: LMDB's encoders read them from here, so that no object is made for a key or a value. */
class Piece {
  bytes: Buffer = Buffer.alloc(0);
  start = 0;
  end = 0;
}

/** What an encoder may give back: a buffer of which only a part counts (lmdb-js's way of reusing buffers). */
type Window = Buffer & { start?: number; end?: number };

/** The handle's put takes no key and no value: they are what its pieces say. */
interface PieceDb {
  putSync(key: undefined, value: Piece, options?: PutOptions): boolean;
}

/** Only behind the last key; false where it does not belong there. LMDB then fills its pages and skips the search. */
const APPEND: PutOptions = { append: true };
/** False where the key is there. */
const ABSENT: PutOptions = { noOverwrite: true };

/** Writes packed rows of one table inside write transactions. */
export class TableLoader {
  readonly #table: LmdbTable;
  readonly #db: PieceDb;
  readonly #key = new Piece();
  readonly #value = new Piece();
  readonly #maxKey: number;
  /** The rows so far came behind the table's last one. */
  #appending = true;

  /** Opens a handle of its own, so not inside a transaction. */
  constructor(root: RootDatabase, table: LmdbTable, maxKey: number) {
    this.#table = table;
    this.#maxKey = maxKey;
    this.#db = openPieces(root, table, this.#key);
  }

  /** In key order. `absent`: throws `guard` when one of the rows is there; else each replaces what is there. */
  write(rows: PackedRows, absent: boolean): void {
    const { spec } = this.#table;
    const { suffixBytes } = spec;
    const repeated = suffixBytes === undefined ? 0 : -1;
    const cursor = this.#begin(rows.sorted());
    let lastStart = 0;
    let lastEnd = 0;
    while (cursor.next()) {
      const { keyStart, rowStart } = cursor;
      if (keyStart === rowStart || rowStart - keyStart > this.#maxKey)
        checkKey(rows.bytes.subarray(keyStart, rowStart), { ...spec, suffixBytes: 0 }, this.#maxKey);
      if (lastEnd > 0 && rows.bytes.compare(rows.bytes, lastStart, lastEnd, keyStart, rowStart) <= repeated)
        throw new TypeError('rows to load must rise by key');
      lastStart = keyStart;
      lastEnd = rowStart;
      this.#key.start = keyStart;
      this.#key.end = rowStart;
      if (suffixBytes === undefined) this.#writeRow(cursor, absent);
      else this.#writeSuffixes(cursor, suffixBytes);
    }
  }

  /** The rows get the numbers after `last`; gives the last one. */
  append(rows: PackedRows, last: bigint): bigint {
    const cursor = this.#begin(rows);
    const number = Buffer.alloc(8);
    this.#key.bytes = number;
    this.#key.start = 0;
    this.#key.end = number.length;
    let next = last;
    while (cursor.next()) {
      number.writeBigUInt64BE(++next);
      this.#writeRow(cursor, true);
    }
    return next;
  }

  #begin(rows: PackedRows): RowCursor {
    this.#key.bytes = rows.bytes;
    this.#value.bytes = rows.bytes;
    this.#appending = true;
    return new RowCursor(rows);
  }

  #writeRow(cursor: RowCursor, absent: boolean): void {
    const { bytes, separateStart, end } = cursor;
    const { cells } = this.#table;
    this.#value.start = cursor.rowStart;
    this.#value.end = separateStart;
    if (!absent) this.#removeLong();
    if (isSplit(this.#key.end - this.#key.start, separateStart - cursor.rowStart, this.#maxKey))
      this.#putLong(bytes.subarray(cursor.rowStart, separateStart), absent);
    else this.#put(absent);
    if (cells.size === 0 || (absent && separateStart === end)) return;
    const key = this.#rowKey();
    if (!absent) for (const db of cells.values()) removeCells(db, key);
    if (separateStart < end) this.#writeCells(key, bytes.subarray(separateStart, end));
  }

  /** The record that the pieces make. */
  #put(absent: boolean): void {
    if (!this.#append() && !this.#db.putSync(undefined, this.#value, absent ? ABSENT : undefined))
      throw new StoreError('guard', `a row of ${this.#table.spec.name} that is to be loaded exists`);
  }

  #putLong(row: Buffer, absent: boolean): void {
    const value = this.#value;
    const { bytes } = value;
    value.bytes = headOf(row.length);
    value.start = 0;
    value.end = value.bytes.length;
    this.#put(absent);
    value.bytes = bytes;
    splitRow(this.#table, this.#rowKey(), row, this.#maxKey);
  }

  #removeLong(): void {
    const key = this.#rowKey();
    const record = this.#table.rows.getBinaryFast(key);
    if (record && isLong(record)) removeSegments(this.#table, key, this.#maxKey);
  }

  #rowKey(): Buffer {
    return this.#key.bytes.subarray(this.#key.start, this.#key.end);
  }

  #writeSuffixes(cursor: RowCursor, length: number): void {
    const value = this.#value;
    for (let at = cursor.rowStart; at < cursor.separateStart; at += length) {
      value.start = at;
      value.end = at + length;
      // Only a key that was not there can be appended: its further suffixes are put.
      if (at > cursor.rowStart || !this.#append()) this.#db.putSync(undefined, value);
    }
  }

  #append(): boolean {
    this.#appending &&= this.#db.putSync(undefined, this.#value, APPEND);
    return this.#appending;
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

/** Opens the table's rows with encoders that copy the key from `key` and take the value from the piece given. */
function openPieces(root: RootDatabase, table: LmdbTable, key: Piece): PieceDb {
  const pairs = table.spec.suffixBytes === undefined ? {} : { dupSort: true, dupFixed: true };
  const options = {
    ...pairs,
    keyEncoder: {
      writeKey(_key: undefined, target: Buffer, start: number): number {
        const { bytes, end } = key;
        let to = start;
        for (let at = key.start; at < end; at++) target[to++] = bytes[at]!;
        return to;
      },
      readKey: () => undefined,
    },
    encoder: {
      encode(value: Piece): Buffer {
        const bytes: Window = value.bytes;
        // Counted from the start of its memory.
        bytes.start = bytes.byteOffset + value.start;
        bytes.end = bytes.byteOffset + value.end;
        return bytes;
      },
      decode: () => undefined,
    },
  };
  return root.openDB(`t${table.id}`, options as object) as unknown as PieceDb;
}

function removeCells(db: Db, key: Buffer): void {
  const start = cellKey(key, Buffer.alloc(0));
  for (const found of [...db.getKeys({ start, end: afterPrefix(start)! })]) db.removeSync(found);
}
