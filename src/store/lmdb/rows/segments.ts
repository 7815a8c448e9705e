import type { RangeOptions, Transaction } from 'lmdb';
import { selectColumns } from '../../columns.js';
import type { ColumnRange } from '../../contract.js';
import { EMPTY } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { afterPrefix } from '../../tables.js';
import type { Db } from '../file/database.js';
import { getSound, type LmdbTable } from '../file/lmdb-table.js';
import { roomIn } from '../file/pages.js';
import { viewOf } from '../file/read-buffer.js';
import { CHECK_BYTES, sealed } from '../record/check.js';

/**
 * Split rows. A row over `SPLIT` bytes is kept as segments of consecutive cells in a database of their own, so that a
 * step that touches a few of 100,000 cells reads and writes a few segments; its record in the table is a head:
 *
 *   0 │ length of the whole row u32
 *
 * A record begins with its row's length, which is never 0. Segments have the keys
 *
 *   row key length u16 │ row key │ family u8 │ qualifier
 *
 * with the name of their first cell, cut to what tells it from the cell before; the first segment's key ends after the
 * row key. So the segment of a cell is the last one whose key is not above the cell's (docs/formats/lmdb.md).
 */
const HEAD = 0;

/** A row longer than this is split, … */
const SPLIT = 32 * 1024;
/** … one that has become shorter than this is joined, … */
export const JOIN = 16 * 1024;
/** … and a segment never grows beyond this, but for a single cell: two pages of LMDB with its check. */
export const SEGMENT = roomIn(2) - CHECK_BYTES;

const HEAD_BYTES = 5;

/** Whether a row is to be split. One whose key leaves no room for a segment's is not. */
export function isSplit(keyLength: number, length: number, maxKey: number): boolean {
  return length > SPLIT && 2 + keyLength <= maxKey;
}

/** Whether the record is the head of a split row. */
export function isHead(record: Buffer): boolean {
  return record[0] === HEAD;
}

/** The head's length field; by elements, which are right in LMDB's shared buffer too. */
export function lengthIn(head: Buffer): number {
  return ((head[1]! << 24) | (head[2]! << 16) | (head[3]! << 8) | head[4]!) >>> 0;
}

/** The record of a split row. */
export function headOf(key: Buffer, length: number): Buffer {
  if (length > 0xffffffff) throw new StoreError('limit', `row of ${length} bytes; ${0xffffffff} are the most`);
  const head = Buffer.allocUnsafe(HEAD_BYTES);
  head[0] = HEAD;
  head.writeUInt32BE(length, 1);
  return sealed(key, head);
}

/** Key of a row's first segment, and beginning of the others'. */
export function firstSegmentKey(rowKey: Buffer): Buffer {
  const key = Buffer.allocUnsafe(2 + rowKey.length);
  key.writeUInt16BE(rowKey.length);
  key.set(rowKey, 2);
  return key;
}

export function segmentKey(first: Buffer, family: number, qualifier: Buffer): Buffer {
  const key = Buffer.allocUnsafe(first.length + 1 + qualifier.length);
  key.set(first);
  key[first.length] = family;
  key.set(qualifier, first.length + 1);
  return key;
}

export interface Segment {
  readonly key: Buffer;
  /** Packed cells. */
  readonly cells: Buffer;
}

/** The segments of one split row, as they are stored. */
export class Segments {
  readonly first: Buffer;
  readonly #table: LmdbTable;
  readonly #db: Db;
  readonly #maxKey: number;
  readonly #transaction: Transaction | undefined;
  readonly #with: object;

  constructor(table: LmdbTable, rowKey: Buffer, maxKey: number, transaction?: Transaction) {
    this.first = firstSegmentKey(rowKey);
    this.#table = table;
    this.#db = table.segments!;
    this.#maxKey = maxKey;
    this.#transaction = transaction;
    this.#with = transaction ? { transaction } : {};
  }

  /** In order, from the one at `from` on. */
  *from(from = this.first): Generator<Segment> {
    const options = { start: from, end: afterPrefix(this.first)!, ...this.#with };
    for (const { key, value } of this.#db.getRange(options as RangeOptions)) yield this.#segment(key, value);
  }

  keys(): Buffer[] {
    return [...this.#keysFrom()];
  }

  #keysFrom(from = this.first): Iterable<Buffer> {
    const options = { start: from, end: afterPrefix(this.first)!, ...this.#with };
    return this.#db.getKeys(options as RangeOptions);
  }

  /** The segment in which the cell is, or belongs; undefined before the first one. */
  of(family: number, qualifier: Buffer): Segment | undefined {
    const name = segmentKey(this.first, family, qualifier);
    for (const { key, value } of this.#db.getRange(this.#upTo(name))) return this.#segment(key, value);
    return undefined;
  }

  #segment(key: Buffer, value: Buffer): Segment {
    return { key, cells: value.subarray(0, this.#table.records.verify(key, 0, key.length, value, value.length)) };
  }

  /** Key of the segment after the one at `key`. */
  next(key: Buffer): Buffer | undefined {
    const end = afterPrefix(this.first)!;
    const options = { start: key, exclusiveStart: true, end, limit: 1, ...this.#with };
    for (const found of this.#db.getKeys(options as RangeOptions)) return found;
    return undefined;
  }

  /** The whole row; `length` is what its head says. */
  row(length: number): Buffer {
    const row = Buffer.allocUnsafeSlow(length);
    let at = 0;
    for (const key of this.#keysFrom()) {
      const cells = getSound(this.#table, this.#db, key, this.#transaction);
      if (!cells || at + cells.length > length) throw this.#damaged(length);
      at += viewOf(cells).copy(row, at, 0, cells.length);
    }
    if (at !== length) throw this.#damaged(length);
    return row;
  }

  #damaged(length: number): StoreError {
    return this.#table.records.damaged(
      this.first.subarray(2),
      `its segments do not have the ${length} bytes of its head`,
    );
  }

  /** Cells of the ranges, which rise; a segment that several of them meet is read once. */
  columns(ranges: readonly ColumnRange[]): Buffer | undefined {
    const parts: Buffer[] = [];
    let run: SegmentRun | undefined;
    try {
      for (const range of ranges) {
        const from = segmentKey(this.first, range.family, range.from ?? EMPTY);
        const end = range.to ? segmentKey(this.first, range.family, range.to) : this.#familyEnd(range.family);
        if (!run?.covers(from)) {
          run?.close();
          run = new SegmentRun(this.#keysFrom(this.#keyOf(from)), this.#table, this.#transaction);
        }
        run.select(range, end, parts);
      }
    } finally {
      run?.close();
    }
    return parts.length > 1 ? Buffer.concat(parts) : parts[0];
  }

  /** Key of the segment in which the cell of this name is; undefined before the first one. */
  #keyOf(name: Buffer): Buffer | undefined {
    for (const key of this.#db.getKeys(this.#upTo(name))) return key;
    return undefined;
  }

  #upTo(name: Buffer): RangeOptions {
    const start = name.subarray(0, this.#maxKey);
    return { start, end: this.first, reverse: true, inclusiveEnd: true, limit: 1, ...this.#with } as RangeOptions;
  }

  #familyEnd(family: number): Buffer {
    return segmentKey(this.first, family + 1, EMPTY);
  }
}

/** A way through consecutive segments, which knows where the present one ends. */
class SegmentRun {
  readonly #keys: Iterator<Buffer>;
  readonly #table: LmdbTable;
  readonly #transaction: Transaction | undefined;
  /** Of the present segment, undefined behind the last one; and of the one after it. */
  #key: Buffer | undefined;
  #next: Buffer | undefined;

  constructor(keys: Iterable<Buffer>, table: LmdbTable, transaction: Transaction | undefined) {
    this.#keys = keys[Symbol.iterator]();
    this.#table = table;
    this.#transaction = transaction;
    this.#next = this.#read();
    this.#advance();
  }

  /**
   * Adds the cells of a range, which begins in the present segment, to `parts`, and stays at the segment where it ends.
   */
  select(range: ColumnRange, end: Buffer, parts: Buffer[]): void {
    for (; this.#key; this.#advance()) {
      const cells = getSound(this.#table, this.#table.segments!, this.#key, this.#transaction);
      const found = cells && selectColumns(viewOf(cells), cells.length, [range]);
      if (found) parts.push(found);
      if (this.covers(end)) return;
    }
  }

  /** Whether a cell at or behind the present segment's beginning is in it, by its key. */
  covers(key: Buffer): boolean {
    return this.#next === undefined || Buffer.compare(key, this.#next) < 0;
  }

  /** Lets go of LMDB's cursor. */
  close(): void {
    this.#keys.return?.();
  }

  #advance(): void {
    this.#key = this.#next;
    this.#next = this.#key && this.#read();
  }

  #read(): Buffer | undefined {
    const { value, done } = this.#keys.next();
    return done ? undefined : (value as Buffer);
  }
}
