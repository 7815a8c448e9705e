import type { PutOptions, RootDatabase } from 'lmdb';
import { compareRuns } from '../../../bytes/compare.js';
import { type PackedRows, RowCursor } from '../../load.js';
import { EMPTY, nextCell, qualifierStart, valueStart } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { afterPrefix, cellKey, checkKey } from '../../tables.js';
import { type LmdbTable, separateFamilyDb } from '../file/lmdb-table.js';
import type { Db } from '../file/records.js';
import { ListWriter } from '../lists/list-writer.js';
import { recordRoom } from '../lists/lists.js';
import { appendChecksum, withChecksum } from '../record/checksum.js';
import { isSplitRowHead, needsSplit, splitRowHead } from '../rows/segments.js';
import { removeSegments, splitRow } from '../rows/split-row.js';
import { SuffixRun } from './suffix-run.js';

/** The key or value to be written next. LMDB's encoders read the bytes from here, so a write allocates no objects. */
class ByteSpan {
  bytes: Buffer = Buffer.alloc(0);
  start = 0;
  end = 0;
}

/** The result of an encoder: the value is `[start, end)` of a reused buffer. lmdb-js reads both properties. */
type Window = Buffer & { start?: number; end?: number };

/** A database handle whose put takes the key from a `ByteSpan` known to the encoder. */
interface SpanDb {
  putSync(key: undefined, value: ByteSpan, options?: PutOptions): boolean;
}

/** Appends without a search, so that LMDB fills its pages. `putSync` returns false if the key is not the greatest. */
const APPEND: PutOptions = { append: true };
/** Does not overwrite: `putSync` returns false if the key exists. */
const IF_ABSENT: PutOptions = { noOverwrite: true };

/** Writes packed rows of one table inside write transactions. */
export class TableLoader {
  readonly #table: LmdbTable;
  readonly #db: SpanDb;
  readonly #key = new ByteSpan();
  readonly #value = new ByteSpan();
  readonly #maxKey: number;
  readonly #lists: ListWriter | undefined;
  /** Whether all rows of the batch so far could be appended behind the last row of the table. */
  #isAppending = true;
  /** Whether the previous prefix had no list. */
  #wasPreviousNew = true;

  /** Opens a database handle, so the constructor must not be called inside a transaction. */
  constructor(root: RootDatabase, table: LmdbTable, maxKey: number) {
    this.#table = table;
    this.#maxKey = maxKey;
    this.#db = openSpanDb(root, table, this.#key);
    this.#lists = table.spec.suffixBytes === undefined ? undefined : new ListWriter(table, maxKey);
  }

  /** Writes the rows in key order. Replaces existing rows, or throws `guard` for them with `mustBeNew`. */
  write(rows: PackedRows, mustBeNew: boolean): void {
    const cursor = this.#openCursor(rows.sorted());
    if (this.#lists) this.#writeLists(cursor, this.#lists);
    else this.#writeRows(cursor, mustBeNew);
  }

  #writeRows(cursor: RowCursor, mustBeNew: boolean): void {
    const key = this.#key;
    for (let isFirst = true; cursor.next(); isFirst = false) {
      if (!isFirst && !this.#isGreater(cursor)) throw new TypeError('rows to load must rise by key');
      this.#setKey(cursor);
      if (key.start === key.end || key.end - key.start > this.#maxKey)
        checkKey(this.#rowKey(), this.#table.spec, this.#maxKey);
      this.#writeRow(cursor, mustBeNew);
    }
  }

  /** Returns whether the cursor's key is greater than the current key. */
  #isGreater({ bytes, keyStart, rowStart }: RowCursor): boolean {
    return compareRuns(bytes, keyStart, rowStart, bytes, this.#key.start, this.#key.end) > 0;
  }

  #hasSameKey({ bytes, keyStart, rowStart }: RowCursor): boolean {
    const { start, end } = this.#key;
    if (end - start !== rowStart - keyStart) return false;
    // Sorted keys of equal length usually differ near the end.
    for (let i = end - start - 1; i >= 0; i--) if (bytes[keyStart + i] !== bytes[start + i]) return false;
    return true;
  }

  #setKey({ keyStart, rowStart }: RowCursor): void {
    this.#key.start = keyStart;
    this.#key.end = rowStart;
  }

  /** Appends the rows under the numbers after `lastNumber`. Returns the number of the last appended row. */
  append(rows: PackedRows, lastNumber: bigint): bigint {
    const cursor = this.#openCursor(rows);
    const numberKey = Buffer.alloc(8);
    this.#key.bytes = numberKey;
    this.#key.start = 0;
    this.#key.end = numberKey.length;
    let rowNumber = lastNumber;
    while (cursor.next()) {
      numberKey.writeBigUInt64BE(++rowNumber);
      this.#writeRow(cursor, true);
    }
    return rowNumber;
  }

  #openCursor(rows: PackedRows): RowCursor {
    this.#key.bytes = rows.bytes;
    this.#isAppending = true;
    return new RowCursor(rows);
  }

  #writeRow(cursor: RowCursor, mustBeNew: boolean): void {
    const { bytes, separateStart, end } = cursor;
    const { separateFamilies } = this.#table;
    if (!mustBeNew) this.#removeSegments();
    if (needsSplit(this.#key.end - this.#key.start, separateStart - cursor.rowStart, this.#maxKey))
      this.#putSplit(bytes.subarray(cursor.rowStart, separateStart), mustBeNew);
    else this.#putRecord(cursor, mustBeNew);
    if (separateFamilies.size === 0 || (mustBeNew && separateStart === end)) return;
    const key = this.#rowKey();
    if (!mustBeNew) for (const db of separateFamilies.values()) removeCells(db, key);
    if (separateStart < end) this.#writeCells(key, bytes.subarray(separateStart, end));
  }

  /** Writes the record in `#key` and `#value`. */
  #putOrThrow(mustBeNew: boolean): void {
    if (!this.#tryAppend() && !this.#db.putSync(undefined, this.#value, mustBeNew ? IF_ABSENT : undefined))
      throw new StoreError('guard', `a row of ${this.#table.spec.name} that is to be loaded exists`);
  }

  #putRecord({ bytes, rowStart, separateStart }: RowCursor, mustBeNew: boolean): void {
    const { bytes: keys, start, end } = this.#key;
    const encoded = this.#table.records.writer.encode(keys, start, end, bytes, rowStart, separateStart);
    this.#value.bytes = encoded.record;
    this.#value.end = encoded.length;
    this.#putOrThrow(mustBeNew);
  }

  #putSplit(row: Buffer, mustBeNew: boolean): void {
    const value = this.#value;
    value.bytes = splitRowHead(this.#rowKey(), row.length);
    value.end = value.bytes.length;
    this.#putOrThrow(mustBeNew);
    splitRow(this.#table, this.#rowKey(), row, this.#maxKey);
  }

  #removeSegments(): void {
    const key = this.#rowKey();
    // Reads without verifying, so that a damaged record can be replaced.
    const record = this.#table.rows.getBinaryFast(key);
    if (record && isSplitRowHead(record)) removeSegments(this.#table, key, this.#maxKey);
  }

  #rowKey(): Buffer {
    return this.#key.bytes.subarray(this.#key.start, this.#key.end);
  }

  /** Writes lists. Rows with equal keys are adjacent and belong to one list. */
  #writeLists(cursor: RowCursor, lists: ListWriter): void {
    const suffixes = new SuffixRun(this.#table.spec.suffixBytes!);
    let hasSuffixes = false;
    while (cursor.next()) {
      if (hasSuffixes && this.#hasSameKey(cursor)) {
        suffixes.add(cursor);
        continue;
      }
      if (hasSuffixes) this.#writeList(suffixes, lists);
      this.#setKey(cursor);
      suffixes.begin(cursor);
      hasSuffixes = true;
    }
    if (hasSuffixes) this.#writeList(suffixes, lists);
  }

  #writeList(suffixes: SuffixRun, lists: ListWriter): void {
    const { spec } = this.#table;
    const length = this.#key.end - this.#key.start;
    if (length === 0 || length + spec.suffixBytes! > this.#maxKey) {
      const end = Buffer.alloc(spec.suffixBytes!);
      checkKey(Buffer.concat([this.#rowKey(), end]), spec, this.#maxKey);
    }
    suffixes.finish();
    const bytes = suffixes.end - suffixes.start;
    if (bytes === 0) return;
    if (bytes <= recordRoom(length, spec.suffixBytes!)) {
      const value = this.#value;
      const { bytes: keys, start, end } = this.#key;
      const checksummedValue = appendChecksum(keys, start, end, suffixes.bytes, suffixes.start, suffixes.end);
      value.bytes = checksummedValue.bytes;
      value.end = checksummedValue.length;
      if (this.#tryAppend()) return;
      // A prefix with a single suffix is usually new if the previous prefix was; other prefixes usually exist already.
      if (bytes === spec.suffixBytes && this.#wasPreviousNew && this.#db.putSync(undefined, value, IF_ABSENT)) return;
    }
    const additions = suffixes.bytes.subarray(suffixes.start, suffixes.end);
    this.#wasPreviousNew = !lists.changeList(this.#rowKey(), additions, EMPTY);
  }

  #tryAppend(): boolean {
    this.#isAppending &&= this.#db.putSync(undefined, this.#value, APPEND);
    return this.#isAppending;
  }

  #writeCells(key: Buffer, packed: Buffer): void {
    for (let offset = 0; offset < packed.length; offset = nextCell(packed, offset)) {
      const db = separateFamilyDb(this.#table, packed[offset]!);
      const valueOffset = valueStart(packed, offset);
      const separateKey = cellKey(key, packed.subarray(qualifierStart(offset), valueOffset));
      db.putSync(separateKey, withChecksum(separateKey, packed.subarray(valueOffset, nextCell(packed, offset))));
    }
  }
}

/** Opens the rows of the table with an encoder that copies the key from `key` and takes the value from a `ByteSpan`. */
function openSpanDb(root: RootDatabase, table: LmdbTable, key: ByteSpan): SpanDb {
  const options = {
    keyEncoder: {
      writeKey(_key: undefined, target: Buffer, start: number): number {
        const { bytes, end } = key;
        let to = start;
        for (let offset = key.start; offset < end; offset++) target[to++] = bytes[offset]!;
        return to;
      },
      readKey: () => undefined,
    },
    encoder: {
      encode(value: ByteSpan): Buffer {
        const bytes: Window = value.bytes;
        // Offsets count from the start of the ArrayBuffer.
        bytes.start = bytes.byteOffset + value.start;
        bytes.end = bytes.byteOffset + value.end;
        return bytes;
      },
      decode: () => undefined,
    },
  };
  return root.openDB(`t${table.id}`, options as object) as unknown as SpanDb;
}

function removeCells(db: Db, key: Buffer): void {
  const start = cellKey(key, Buffer.alloc(0));
  for (const storedKey of [...db.getKeys({ start, end: afterPrefix(start)! })]) db.removeSync(storedKey);
}
