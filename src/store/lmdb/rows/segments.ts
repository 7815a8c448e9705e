import type { RangeOptions, Transaction } from 'lmdb';
import type { ColumnRange } from '../../contract.js';
import { EMPTY, selectColumns } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { afterPrefix } from '../../tables.js';
import { overflowRoom } from '../file/data-file.js';
import { getVerified, type LmdbTable } from '../file/lmdb-table.js';
import { type Db, firstKeyIn, plainView } from '../file/records.js';
import { CHECKSUM_BYTES, withChecksum } from '../record/checksum.js';

/**
 * Split rows. A row over `SPLIT_BYTES` is stored as segments of consecutive cells in a separate database, so that a
 * plan that changes a few of 100,000 cells reads and writes a few segments only. The record of the row is a head:
 *
 *   0 │ length of the whole row u32
 *
 * Other records begin with the length of the row, which is never 0. Segments have the keys
 *
 *   row key length u16 │ row key │ family u8 │ qualifier
 *
 * of the segment's first cell, truncated to the bytes that distinguish it from the previous cell.
 * The key of the first segment ends after the row key. So the segment of a cell is the last segment whose key is not
 * above the key made from the cell's name (docs/formats/lmdb.md).
 */
const HEAD_MARK = 0;

/** A row longer than this, in bytes, is split. */
const SPLIT_BYTES = 32 * 1024;
/** A split row that becomes shorter than this, in bytes, is stored as a single record again. */
export const JOIN_BYTES = 16 * 1024;
/** Maximum size of a segment with more than one cell, in bytes. With the checksum it fits two LMDB pages. */
export const SEGMENT_BYTES = overflowRoom(2) - CHECKSUM_BYTES;

const HEAD_BYTES = 5;

/** Returns whether a row must be split. A row whose key leaves no room for segment keys is not split. */
export function needsSplit(keyLength: number, length: number, maxKey: number): boolean {
  return length > SPLIT_BYTES && 2 + keyLength <= maxKey;
}

/** Returns whether the record is the head of a split row. */
export function isSplitRowHead(record: Buffer): boolean {
  return record[0] === HEAD_MARK;
}

/** Reads the row length from a head. By element access, because `head` may be LMDB's read buffer. */
export function splitRowLength(head: Buffer): number {
  return ((head[1]! << 24) | (head[2]! << 16) | (head[3]! << 8) | head[4]!) >>> 0;
}

/** The record of a split row. */
export function splitRowHead(key: Buffer, length: number): Buffer {
  if (length > 0xffffffff) throw new StoreError('limit', `row of ${length} bytes; ${0xffffffff} are the most`);
  const head = Buffer.allocUnsafe(HEAD_BYTES);
  head[0] = HEAD_MARK;
  head.writeUInt32BE(length, 1);
  return withChecksum(key, head);
}

/** Key of the first segment of a row, and prefix of the keys of the other segments. */
export function firstSegmentKey(rowKey: Buffer): Buffer {
  const key = Buffer.allocUnsafe(2 + rowKey.length);
  key.writeUInt16BE(rowKey.length);
  key.set(rowKey, 2);
  return key;
}

export function segmentKey(firstKey: Buffer, family: number, qualifier: Buffer): Buffer {
  const key = Buffer.allocUnsafe(firstKey.length + 1 + qualifier.length);
  key.set(firstKey);
  key[firstKey.length] = family;
  key.set(qualifier, firstKey.length + 1);
  return key;
}

export interface Segment {
  readonly key: Buffer;
  /** Packed cells. */
  readonly cells: Buffer;
}

/** Reads the stored segments of one split row. */
export class Segments {
  readonly firstKey: Buffer;
  readonly #table: LmdbTable;
  readonly #db: Db;
  readonly #maxKey: number;
  readonly #transaction: Transaction | undefined;
  readonly #options: object;

  constructor(table: LmdbTable, rowKey: Buffer, maxKey: number, transaction?: Transaction) {
    this.firstKey = firstSegmentKey(rowKey);
    this.#table = table;
    this.#db = table.segments!;
    this.#maxKey = maxKey;
    this.#transaction = transaction;
    this.#options = transaction ? { transaction } : {};
  }

  /** Yields the segments in order. */
  *segments(): Generator<Segment> {
    const options = { start: this.firstKey, end: afterPrefix(this.firstKey)!, ...this.#options };
    for (const { key, value } of this.#db.getRange(options as RangeOptions)) yield this.#toSegment(key, value);
  }

  keys(): Buffer[] {
    return [...this.#keysFrom()];
  }

  #keysFrom(startKey = this.firstKey): Iterable<Buffer> {
    const options = { start: startKey, end: afterPrefix(this.firstKey)!, ...this.#options };
    return this.#db.getKeys(options as RangeOptions);
  }

  /** The segment that contains the cell, or would contain it; undefined before the first segment. */
  segmentWith(family: number, qualifier: Buffer): Segment | undefined {
    const cellKey = segmentKey(this.firstKey, family, qualifier);
    for (const { key, value } of this.#db.getRange(this.#rangeUpTo(cellKey))) return this.#toSegment(key, value);
    return undefined;
  }

  #toSegment(key: Buffer, value: Buffer): Segment {
    return { key, cells: value.subarray(0, this.#table.records.verify(key, 0, key.length, value, value.length)) };
  }

  /** Key of the segment after the one at `key`. */
  nextKey(key: Buffer): Buffer | undefined {
    const range = { start: key, exclusiveStart: true, end: afterPrefix(this.firstKey)! };
    return firstKeyIn(this.#db, range, this.#transaction);
  }

  /** Reads the whole row, whose length is `length` according to the head. */
  readRow(length: number): Buffer {
    const row = Buffer.allocUnsafeSlow(length);
    let offset = 0;
    for (const key of this.#keysFrom()) {
      const cells = getVerified(this.#table, this.#db, key, this.#transaction);
      if (!cells || offset + cells.length > length) throw this.#damagedError(length);
      offset += plainView(cells).copy(row, offset, 0, cells.length);
    }
    if (offset !== length) throw this.#damagedError(length);
    return row;
  }

  #damagedError(length: number): StoreError {
    return this.#table.records.damagedError(
      this.firstKey.subarray(2),
      `its segments do not have the ${length} bytes of its head`,
    );
  }

  /** Returns the cells in the ranges, which are in rising order. Reads a segment once, even for several ranges. */
  readColumns(ranges: readonly ColumnRange[]): Buffer | undefined {
    const cellRuns: Buffer[] = [];
    let cursor: SegmentCursor | undefined;
    try {
      for (const range of ranges) {
        const startKey = segmentKey(this.firstKey, range.family, range.from ?? EMPTY);
        const endKey = range.to ? segmentKey(this.firstKey, range.family, range.to) : this.#familyEndKey(range.family);
        if (!cursor?.covers(startKey)) {
          cursor?.close();
          const segmentKey = firstKeyIn(this.#db, this.#rangeUpTo(startKey), this.#transaction);
          cursor = new SegmentCursor(this.#keysFrom(segmentKey), this.#table, this.#transaction);
        }
        cursor.selectCells(range, endKey, cellRuns);
      }
    } finally {
      cursor?.close();
    }
    return cellRuns.length > 1 ? Buffer.concat(cellRuns) : cellRuns[0];
  }

  /** The last segment key that is not above `cellKey`. */
  #rangeUpTo(cellKey: Buffer): RangeOptions {
    const start = cellKey.subarray(0, this.#maxKey);
    return { start, end: this.firstKey, reverse: true, inclusiveEnd: true, limit: 1, ...this.#options } as RangeOptions;
  }

  #familyEndKey(family: number): Buffer {
    return segmentKey(this.firstKey, family + 1, EMPTY);
  }
}

/** A cursor over consecutive segments, with the key of the next segment as the end of the current segment. */
class SegmentCursor {
  readonly #keys: Iterator<Buffer>;
  readonly #table: LmdbTable;
  readonly #transaction: Transaction | undefined;
  /** Keys of the current and the next segment; undefined behind the last segment. */
  #key: Buffer | undefined;
  #nextKey: Buffer | undefined;

  constructor(keys: Iterable<Buffer>, table: LmdbTable, transaction: Transaction | undefined) {
    this.#keys = keys[Symbol.iterator]();
    this.#table = table;
    this.#transaction = transaction;
    this.#nextKey = this.#readKey();
    this.#advance();
  }

  /** Appends the cells of the range, which begins in the current segment and ends before `end`, to `cellRuns`. */
  selectCells(range: ColumnRange, end: Buffer, cellRuns: Buffer[]): void {
    for (; this.#key; this.#advance()) {
      const cells = getVerified(this.#table, this.#table.segments!, this.#key, this.#transaction);
      const selectedCells = cells && selectColumns(plainView(cells), cells.length, [range]);
      if (selectedCells) cellRuns.push(selectedCells);
      if (this.covers(end)) return;
    }
  }

  /** Returns whether the key lies before the next segment. The key must not lie before the current segment. */
  covers(key: Buffer): boolean {
    return this.#nextKey === undefined || Buffer.compare(key, this.#nextKey) < 0;
  }

  /** Closes LMDB's cursor. */
  close(): void {
    this.#keys.return?.();
  }

  #advance(): void {
    this.#key = this.#nextKey;
    this.#nextKey = this.#key && this.#readKey();
  }

  #readKey(): Buffer | undefined {
    const { value, done } = this.#keys.next();
    return done ? undefined : (value as Buffer);
  }
}
