import type { RangeOptions, Transaction } from 'lmdb';
import { compareRuns } from '../../../bytes/compare.js';
import { suffixOf } from '../../checks.js';
import { EMPTY } from '../../row.js';
import { damaged, type StoreError } from '../../store-error.js';
import { afterPrefix } from '../../tables.js';
import { type Gap, gapAt, liesIn, requireAbsent } from '../file/absent.js';
import { getSound, type LmdbTable } from '../file/lmdb-table.js';
import { roomIn } from '../file/pages.js';
import { copyOf, viewOf } from '../file/read-buffer.js';
import type { RowRange } from '../file/scanner.js';
import { CHECK_BYTES } from '../record/check.js';
import { firstSegmentKey } from '../rows/segments.js';

/**
 * Lists of a table with `suffixBytes`: the suffixes of the rows under one prefix, rising, one after another.
 *
 * The record of a prefix is its list. A long list has most of it in blocks, in a database of their own; its record is
 * then a head and the greatest suffixes, of which there is always one:
 *
 *   suffixes in blocks u32 │ one zero byte where the suffix is of 2 or 4 bytes │ suffixes
 *
 * so that a record is a whole list where its length is a multiple of the suffix. (A suffix of 1 byte has no long
 * lists.) Blocks have the keys
 *
 *   prefix length u16 │ prefix │ suffix
 *
 * and a suffix that is smaller than those in the record belongs to the last block whose key is not above its own; the
 * first block's key ends after the prefix (docs/formats/lmdb.md).
 */
const PAGE_HALF = 4064 - CHECK_BYTES;
/** Long prefixes leave less room in a page: then records take pages of their own. */
const SMALLEST = 1024;
/** Bytes of a block's suffixes: one page of LMDB with its check. */
const BLOCK = roomIn(1) - CHECK_BYTES;

/** Bytes that a record holds, head included, so that LMDB puts two of them into a page. */
export function recordRoom(prefixLength: number, suffix: number): number {
  return Math.max(SMALLEST, PAGE_HALF - prefixLength - suffix);
}

/** Bytes that a block holds. */
export function blockRoom(suffix: number): number {
  return BLOCK - (BLOCK % suffix);
}

/** Whether blocks can be named. A list whose prefix leaves no room for a block's key stays one record. */
export function hasBlocks(prefixLength: number, suffix: number, maxKey: number): boolean {
  return 2 + prefixLength + suffix <= maxKey;
}

/** Length of the head of a long list's record. */
export function headLength(suffix: number): number {
  return 4 % suffix === 0 ? 5 : 4;
}

/** Length of the head of a record of `length` bytes, 0 where it is a whole list. */
export function headIn(length: number, suffix: number): number {
  return length % suffix === 0 ? 0 : headLength(suffix);
}

/** The head's number of suffixes in blocks; by elements, which are right in LMDB's shared buffer too. */
export function inBlocks(record: Buffer): number {
  return ((record[0]! << 24) | (record[1]! << 16) | (record[2]! << 8) | record[3]!) >>> 0;
}

/** Key of the block that is named by a suffix; cut to a suffix's length. */
export function blockKey(first: Buffer, bound: Buffer, suffix: number): Buffer {
  return Buffer.concat([first, bound.length > suffix ? bound.subarray(0, suffix) : bound]);
}

/** Where in `run[from, to)` the first suffix ≥ `bound` begins, > when `exclusive`; `to` when there is none. */
export function firstAt(
  run: Buffer,
  from: number,
  to: number,
  suffix: number,
  bound: Buffer,
  exclusive = false,
): number {
  let low = 0;
  let high = (to - from) / suffix;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const d = compareRuns(run, from + middle * suffix, from + (middle + 1) * suffix, bound);
    if (d < 0 || (exclusive && d === 0)) low = middle + 1;
    else high = middle;
  }
  return from + low * suffix;
}

/** Takes a run of suffixes, `run[from, to)`, good only during the call. True when it wants more. */
export type Take = (run: Buffer, from: number, to: number) => boolean;

/** Where the record of a list lies while its blocks are copied. */
const held = Buffer.allocUnsafeSlow(PAGE_HALF);

/** Reads the lists of one table. */
export class Lists {
  readonly suffix: number;
  readonly #table: LmdbTable;
  readonly #transaction: Transaction | undefined;

  constructor(table: LmdbTable, transaction: Transaction | undefined) {
    this.suffix = suffixOf(table.spec);
    this.#table = table;
    this.#transaction = transaction;
  }

  /** As `Reader.postings`. */
  postings(prefix: Buffer, limit: number, after: Buffer | undefined, into: Buffer | undefined): Buffer {
    suffixOf(this.#table.spec, after);
    const record = this.record(prefix);
    if (record) return this.#postingsIn(prefix, record, limit, after, into);
    this.requireNone(prefix);
    return EMPTY;
  }

  #postingsIn(prefix: Buffer, record: Buffer, limit: number, after: Buffer | undefined, into?: Buffer): Buffer {
    const n = this.suffix;
    const { length } = record;
    if (limit <= 0) return EMPTY;
    if (!after && length % n === 0) return copyOf(record, Math.min(length, limit * n), into);
    return this.#some(prefix, record, limit, after, into);
  }

  /** As `Reader.postingsMany`, all from one state; an undefined prefix has no list. */
  postingsMany(prefixes: readonly (Buffer | undefined)[], limit: number, after: Buffer | undefined): Buffer[] {
    suffixOf(this.#table.spec, after);
    let gap: Gap | undefined;
    return prefixes.map((prefix) => {
      if (!prefix || (gap && liesIn(gap, prefix))) return EMPTY;
      const record = this.record(prefix);
      if (record) return this.#postingsIn(prefix, record, limit, after);
      gap = gapAt(this.#table, prefix, this.#transaction);
      return EMPTY;
    });
  }

  #some(prefix: Buffer, record: Buffer, limit: number, after: Buffer | undefined, into: Buffer | undefined): Buffer {
    const n = this.suffix;
    const bytes = Math.min(this.#sizeOf(record), limit) * n;
    const out = into && bytes <= into.length ? into.subarray(0, bytes) : Buffer.allocUnsafeSlow(bytes);
    let at = 0;
    this.#walk(prefix, copyOf(record, record.length, held), after, (run, from, to) => {
      const start = after ? firstAt(run, from, to, n, after, true) : from;
      at += run.copy(out, at, start, to);
      return at < out.length;
    });
    // Only those before `after` may be missing.
    if (!after && at < out.length) throw this.damaged(prefix);
    return out.subarray(0, at);
  }

  /** Number of rows under exactly this prefix. */
  size(prefix: Buffer): number {
    const record = this.record(prefix);
    if (record) return this.#sizeOf(record);
    this.requireNone(prefix);
    return 0;
  }

  #sizeOf(record: Buffer): number {
    return this.sizeOf(record, record.length);
  }

  /** Number of suffixes of the list with this record. */
  sizeOf(record: Buffer, length: number): number {
    const n = this.suffix;
    return length % n === 0 ? length / n : inBlocks(record) + (length - headLength(n)) / n;
  }

  /** The prefix's record in LMDB's read buffer. */
  record(prefix: Buffer): Buffer | undefined {
    return getSound(this.#table, this.#table.rows, prefix, this.#transaction);
  }

  /** After no record of the prefix was found. */
  requireNone(prefix: Buffer): void {
    requireAbsent(this.#table, prefix, this.#transaction);
  }

  has(prefix: Buffer, suffix: Buffer): boolean {
    return this.first(prefix, suffix, false)?.equals(suffix) ?? false;
  }

  /** The first suffix under `prefix` that is ≥ `bound`, > when exclusive. */
  first(prefix: Buffer, bound: Buffer, exclusive: boolean): Buffer | undefined {
    const n = this.suffix;
    let found: Buffer | undefined;
    this.walk(prefix, bound, (run, from, to) => {
      const at = firstAt(run, from, to, n, bound, exclusive);
      if (at < to) found = Buffer.from(run.subarray(at, at + n));
      return !found;
    });
    return found;
  }

  /**
   * Hands the list out run by run, from the run on in which `bound` lies; it stops when `take` has enough. What lies
   * before the bound within the first run is for `take` to leave out.
   */
  walk(prefix: Buffer, bound: Buffer | undefined, take: Take): void {
    const record = this.record(prefix);
    if (!record) {
      this.requireNone(prefix);
      return;
    }
    const { length } = record;
    if (length % this.suffix === 0) take(viewOf(record), 0, length);
    else this.#walk(prefix, copyOf(record, length), bound, take);
  }

  /** The record is not LMDB's read buffer, which is used for the blocks. */
  #walk(prefix: Buffer, record: Buffer, bound: Buffer | undefined, take: Take): void {
    const n = this.suffix;
    const head = headIn(record.length, n);
    // Of the suffixes in the record the first divides the list.
    const d = bound ? compareRuns(record, head, head + n, bound) : 0;
    if (head && !bound && !this.#allBlocks(prefix, inBlocks(record) * n, take)) return;
    if (head && bound && d > 0 && !this.#blocks(this.#from(prefix, bound), take)) return;
    take(record, head, record.length);
  }

  /**
   * Of a list with so many bytes in blocks: most have one block, which is read without a cursor. False when `take` has
   * enough.
   */
  #allBlocks(prefix: Buffer, bytes: number, take: Take): boolean {
    const first = firstSegmentKey(prefix);
    const block = getSound(this.#table, this.#table.blocks!.rows, first, this.#transaction);
    const length = block?.length ?? 0;
    if (block && !take(viewOf(block), 0, length)) return false;
    if (length >= bytes) return true;
    return this.#blocks({ start: first, exclusiveStart: true, end: afterPrefix(first)! }, take);
  }

  /** False when `take` has enough. */
  #blocks(range: RowRange, take: Take): boolean {
    const sink = {
      full: false,
      row(_keys: Buffer, _from: number, _to: number, run: Buffer, length: number): void {
        this.full = !take(run, 0, length);
      },
    };
    this.#table.blocks!.scanner.handOut(range, sink, this.#transaction);
    return !sink.full;
  }

  #from(prefix: Buffer, bound: Buffer): RowRange {
    const first = firstSegmentKey(prefix);
    return { start: this.blockOf(first, bound) ?? first, end: afterPrefix(first)! };
  }

  /** Key of the block to which a suffix belongs; undefined before the first one. */
  blockOf(first: Buffer, bound: Buffer): Buffer | undefined {
    return this.#firstKey(upTo(first, blockKey(first, bound, this.suffix)));
  }

  /** Key of the last block. */
  lastBlock(first: Buffer): Buffer | undefined {
    return this.#firstKey(upTo(first, undefined));
  }

  /** Key of the block behind the one at `key`. */
  nextBlock(first: Buffer, key: Buffer): Buffer | undefined {
    return this.#firstKey({ start: key, exclusiveStart: true, end: afterPrefix(first)! });
  }

  damaged(prefix: Buffer): StoreError {
    return damaged(this.#table.spec.name, prefix, 'its blocks do not have the rows that its head counts');
  }

  #firstKey(range: RowRange): Buffer | undefined {
    const { rows } = this.#table.blocks!;
    const transaction = this.#transaction;
    const one = { ...range, limit: 1, ...(transaction && { transaction }) } as RangeOptions;
    for (const key of rows.getKeys(one)) return key;
    return undefined;
  }
}

/** Backwards from `key`, or from the last block, to the first. */
function upTo(first: Buffer, key: Buffer | undefined): RowRange {
  const start = key ? { start: key } : { start: afterPrefix(first)!, exclusiveStart: true };
  return { ...start, end: first, inclusiveEnd: true, reverse: true };
}
