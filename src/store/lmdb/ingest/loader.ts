import type { PutOptions, RootDatabase } from 'lmdb';
import { compareRuns } from '../../../bytes/compare.js';
import { checkKey } from '../../checks.js';
import { type PackedRows, RowCursor } from '../../load.js';
import { EMPTY, nextCell, qualifierStart, valueStart } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { afterPrefix, cellKey } from '../../tables.js';
import type { Db } from '../file/database.js';
import { type LmdbTable, separateOf } from '../file/lmdb-table.js';
import { ListWriter } from '../lists/list-writer.js';
import { recordRoom } from '../lists/lists.js';
import { sealed, sealRun } from '../record/check.js';
import { headOf, isHead, isSplit } from '../rows/segments.js';
import { removeSegments, splitRow } from '../rows/split-row.js';
import { SuffixRun } from './suffix-run.js';

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
  readonly #lists: ListWriter | undefined;
  /** The rows so far came behind the table's last one. */
  #appending = true;
  /** The prefix before had no list. */
  #mostlyNew = true;

  /** Opens a handle of its own, so not inside a transaction. */
  constructor(root: RootDatabase, table: LmdbTable, maxKey: number) {
    this.#table = table;
    this.#maxKey = maxKey;
    this.#db = openPieces(root, table, this.#key);
    this.#lists = table.spec.suffixBytes === undefined ? undefined : new ListWriter(table, maxKey);
  }

  /** In key order. `absent`: throws `guard` when one of the rows is there; else each replaces what is there. */
  write(rows: PackedRows, absent: boolean): void {
    const cursor = this.#begin(rows.sorted());
    if (this.#lists) this.#writeLists(cursor, this.#lists);
    else this.#writeRows(cursor, absent);
  }

  #writeRows(cursor: RowCursor, absent: boolean): void {
    const key = this.#key;
    for (let first = true; cursor.next(); first = false) {
      if (!first && !this.#isAbove(cursor)) throw new TypeError('rows to load must rise by key');
      this.#takeKey(cursor);
      if (key.start === key.end || key.end - key.start > this.#maxKey)
        checkKey(this.#rowKey(), this.#table.spec, this.#maxKey);
      this.#writeRow(cursor, absent);
    }
  }

  /** Whether the cursor's key is above the one in hand. */
  #isAbove({ bytes, keyStart, rowStart }: RowCursor): boolean {
    return compareRuns(bytes, keyStart, rowStart, bytes, this.#key.start, this.#key.end) > 0;
  }

  #isSame({ bytes, keyStart, rowStart }: RowCursor): boolean {
    const { start, end } = this.#key;
    if (end - start !== rowStart - keyStart) return false;
    // They are sorted, and differ at their ends if at all.
    for (let i = end - start - 1; i >= 0; i--) if (bytes[keyStart + i] !== bytes[start + i]) return false;
    return true;
  }

  #takeKey({ keyStart, rowStart }: RowCursor): void {
    this.#key.start = keyStart;
    this.#key.end = rowStart;
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
    this.#appending = true;
    return new RowCursor(rows);
  }

  #writeRow(cursor: RowCursor, absent: boolean): void {
    const { bytes, separateStart, end } = cursor;
    const { cells } = this.#table;
    if (!absent) this.#removeSegments();
    if (isSplit(this.#key.end - this.#key.start, separateStart - cursor.rowStart, this.#maxKey))
      this.#putSplit(bytes.subarray(cursor.rowStart, separateStart), absent);
    else this.#putRecord(cursor, absent);
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

  #putRecord({ bytes, rowStart, separateStart }: RowCursor, absent: boolean): void {
    const { bytes: keys, start, end } = this.#key;
    const made = this.#table.records.writer.record(keys, start, end, bytes, rowStart, separateStart);
    this.#value.bytes = made.record;
    this.#value.end = made.length;
    this.#put(absent);
  }

  #putSplit(row: Buffer, absent: boolean): void {
    const value = this.#value;
    value.bytes = headOf(this.#rowKey(), row.length);
    value.end = value.bytes.length;
    this.#put(absent);
    splitRow(this.#table, this.#rowKey(), row, this.#maxKey);
  }

  #removeSegments(): void {
    const key = this.#rowKey();
    // Unverified: a record that is damaged can be replaced.
    const record = this.#table.rows.getBinaryFast(key);
    if (record && isHead(record)) removeSegments(this.#table, key, this.#maxKey);
  }

  #rowKey(): Buffer {
    return this.#key.bytes.subarray(this.#key.start, this.#key.end);
  }

  /** The rows of one key come one after another. */
  #writeLists(cursor: RowCursor, lists: ListWriter): void {
    const run = new SuffixRun(this.#table.spec.suffixBytes!);
    let open = false;
    while (cursor.next()) {
      if (open && this.#isSame(cursor)) {
        run.add(cursor);
        continue;
      }
      if (open) this.#writeList(run, lists);
      this.#takeKey(cursor);
      run.start(cursor);
      open = true;
    }
    if (open) this.#writeList(run, lists);
  }

  #writeList(run: SuffixRun, lists: ListWriter): void {
    const { spec } = this.#table;
    const length = this.#key.end - this.#key.start;
    if (length === 0 || length + spec.suffixBytes! > this.#maxKey) {
      const end = Buffer.alloc(spec.suffixBytes!);
      checkKey(Buffer.concat([this.#rowKey(), end]), spec, this.#maxKey);
    }
    run.end();
    const bytes = run.to - run.from;
    if (bytes === 0) return;
    if (bytes <= recordRoom(length, spec.suffixBytes!)) {
      const value = this.#value;
      const { bytes: keys, start, end } = this.#key;
      const made = sealRun(keys, start, end, run.bytes, run.from, run.to);
      value.bytes = made.bytes;
      value.end = made.length;
      if (this.#append()) return;
      // What comes once is mostly new where the one before was, what comes often was mostly there.
      if (bytes === spec.suffixBytes && this.#mostlyNew && this.#db.putSync(undefined, value, ABSENT)) return;
    }
    this.#mostlyNew = !lists.change(this.#rowKey(), run.bytes.subarray(run.from, run.to), EMPTY);
  }

  #append(): boolean {
    this.#appending &&= this.#db.putSync(undefined, this.#value, APPEND);
    return this.#appending;
  }

  #writeCells(key: Buffer, packed: Buffer): void {
    for (let at = 0; at < packed.length; at = nextCell(packed, at)) {
      const db = separateOf(this.#table, packed[at]!);
      const value = valueStart(packed, at);
      const name = cellKey(key, packed.subarray(qualifierStart(at), value));
      db.putSync(name, sealed(name, packed.subarray(value, nextCell(packed, at))));
    }
  }
}

/** Opens the table's rows with encoders that copy the key from `key` and take the value from the piece given. */
function openPieces(root: RootDatabase, table: LmdbTable, key: Piece): PieceDb {
  const options = {
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
