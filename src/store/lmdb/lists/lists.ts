import type { Transaction } from 'lmdb';
import { compareRuns } from '../../../bytes/compare.js';
import { EMPTY } from '../../row.js';
import { damaged, type StoreError } from '../../store-error.js';
import { afterPrefix, suffixOf } from '../../tables.js';
import { type Gap, gapAt, isInGap, proveAbsent as proveKeyAbsent } from '../file/absent.js';
import { overflowRoom } from '../file/data-file.js';
import { getVerified, type LmdbTable, type RowRange } from '../file/lmdb-table.js';
import { copyValue, firstKeyIn, plainView } from '../file/records.js';
import { CHECKSUM_BYTES } from '../record/checksum.js';
import { firstSegmentKey } from '../rows/segments.js';

/**
 * Lists of a table with `suffixBytes`. A list consists of the key suffixes of all rows with one key prefix,
 * concatenated in rising order.
 *
 * The record of a prefix is its list. Most suffixes of a long list lie in blocks, in a separate database. The record of
 * a long list consists of a head and the greatest suffixes, at least one:
 *
 *   number of suffixes in blocks u32 │ a zero byte if a suffix has 2 or 4 bytes │ suffixes
 *
 * So a record is a whole list if and only if its length is a multiple of the suffix length. (A suffix of 1 byte has no
 * long lists.) Blocks have the keys
 *
 *   prefix length u16 │ prefix │ suffix
 *
 * A suffix that is smaller than the suffixes in the record belongs to the last block whose key is not above the key
 * made from that suffix. The key of the first block ends after the prefix (docs/formats/lmdb.md).
 */
/** Maximum bytes of a key and a record, so that a page has room for two rows. */
const HALF_PAGE_BYTES = 4064 - CHECKSUM_BYTES;
/** Minimum room of a record, for long prefixes, whose records then take overflow pages. */
const MIN_RECORD_ROOM = 1024;
/** Maximum bytes of a block's suffixes, which fit one LMDB page with the checksum. */
const BLOCK_BYTES = overflowRoom(1) - CHECKSUM_BYTES;

/** Maximum bytes of a record, head included, so that LMDB puts two records into a page. */
export function recordRoom(prefixLength: number, suffixBytes: number): number {
  return Math.max(MIN_RECORD_ROOM, HALF_PAGE_BYTES - prefixLength - suffixBytes);
}

/** Maximum bytes of a block. */
export function blockRoom(suffixBytes: number): number {
  return BLOCK_BYTES - (BLOCK_BYTES % suffixBytes);
}

/** Returns whether a list may have blocks. If the prefix leaves no room for block keys, the list stays one record. */
export function mayHaveBlocks(prefixLength: number, suffixBytes: number, maxKey: number): boolean {
  return 2 + prefixLength + suffixBytes <= maxKey;
}

/** Length of the head of a long list's record. */
export function headLength(suffixBytes: number): number {
  return 4 % suffixBytes === 0 ? 5 : 4;
}

/** Length of the head in a record of `length` bytes; 0 for a whole list. */
export function headLengthIn(length: number, suffixBytes: number): number {
  return length % suffixBytes === 0 ? 0 : headLength(suffixBytes);
}

/** Reads the number of suffixes in blocks from a head. By element access: `record` may be LMDB's read buffer. */
export function suffixesInBlocks(record: Buffer): number {
  return ((record[0]! << 24) | (record[1]! << 16) | (record[2]! << 8) | record[3]!) >>> 0;
}

/** Key made from a block's first suffix. A longer `bound` is truncated to the length of a suffix. */
export function blockKey(firstBlockKey: Buffer, bound: Buffer, suffixBytes: number): Buffer {
  return Buffer.concat([firstBlockKey, bound.length > suffixBytes ? bound.subarray(0, suffixBytes) : bound]);
}

/** Offset of the first suffix ≥ `bound` in `suffixes[start, end)`, or > `bound` with `exclusive`; `end` for none. */
export function lowerBoundIn(
  suffixes: Buffer,
  start: number,
  end: number,
  suffixBytes: number,
  bound: Buffer,
  exclusive = false,
): number {
  let low = 0;
  let high = (end - start) / suffixBytes;
  while (low < high) {
    const middle = (low + high) >>> 1;
    const d = compareRuns(suffixes, start + middle * suffixBytes, start + (middle + 1) * suffixBytes, bound);
    if (d < 0 || (exclusive && d === 0)) low = middle + 1;
    else high = middle;
  }
  return start + low * suffixBytes;
}

/** Receives some suffixes of a list, `suffixes[start, end)`, valid only during the call. Returns true to get more. */
export type SuffixVisitor = (suffixes: Buffer, start: number, end: number) => boolean;

/** Holds the record of a list while blocks are read into LMDB's buffer. */
const recordBuffer = Buffer.allocUnsafeSlow(HALF_PAGE_BYTES);

/** Reads the lists of one table. */
export class Lists {
  readonly suffixBytes: number;
  readonly #table: LmdbTable;
  readonly #transaction: Transaction | undefined;

  constructor(table: LmdbTable, transaction: Transaction | undefined) {
    this.suffixBytes = suffixOf(table.spec);
    this.#table = table;
    this.#transaction = transaction;
  }

  /** Implements `Reader.postings`. */
  postings(prefix: Buffer, limit: number, after: Buffer | undefined, into: Buffer | undefined): Buffer {
    suffixOf(this.#table.spec, after);
    const record = this.record(prefix);
    if (record) return this.#postingsIn(prefix, record, limit, after, into);
    this.proveAbsent(prefix);
    return EMPTY;
  }

  #postingsIn(prefix: Buffer, record: Buffer, limit: number, after: Buffer | undefined, into?: Buffer): Buffer {
    const n = this.suffixBytes;
    const { length } = record;
    if (limit <= 0) return EMPTY;
    if (!after && length % n === 0) return copyValue(record, Math.min(length, limit * n), into);
    return this.#postingsAfter(prefix, record, limit, after, into);
  }

  /** Implements `Reader.postingsMany`, from one state. An undefined prefix has no list. */
  postingsMany(prefixes: readonly (Buffer | undefined)[], limit: number, after: Buffer | undefined): Buffer[] {
    suffixOf(this.#table.spec, after);
    let gap: Gap | undefined;
    return prefixes.map((prefix) => {
      if (!prefix || (gap && isInGap(gap, prefix))) return EMPTY;
      const record = this.record(prefix);
      if (record) return this.#postingsIn(prefix, record, limit, after);
      gap = gapAt(this.#table, prefix, this.#transaction);
      return EMPTY;
    });
  }

  #postingsAfter(
    prefix: Buffer,
    record: Buffer,
    limit: number,
    after: Buffer | undefined,
    into: Buffer | undefined,
  ): Buffer {
    const n = this.suffixBytes;
    const bytes = Math.min(this.suffixCount(record, record.length), limit) * n;
    const out = into && bytes <= into.length ? into.subarray(0, bytes) : Buffer.allocUnsafeSlow(bytes);
    let offset = 0;
    this.#visitSuffixes(prefix, copyValue(record, record.length, recordBuffer), after, (suffixes, from, end) => {
      const start = after ? lowerBoundIn(suffixes, from, end, n, after, true) : from;
      offset += suffixes.copy(out, offset, start, end);
      return offset < out.length;
    });
    // Without `after`, all counted suffixes must be there.
    if (!after && offset < out.length) throw this.damagedError(prefix);
    return out.subarray(0, offset);
  }

  /** Number of rows under exactly this prefix. */
  size(prefix: Buffer): number {
    const record = this.record(prefix);
    if (record) return this.suffixCount(record, record.length);
    this.proveAbsent(prefix);
    return 0;
  }

  /** Number of suffixes of the list with the record `record[0, length)`. */
  suffixCount(record: Buffer, length: number): number {
    const n = this.suffixBytes;
    return length % n === 0 ? length / n : suffixesInBlocks(record) + (length - headLength(n)) / n;
  }

  /** Reads the record of the prefix into LMDB's read buffer. */
  record(prefix: Buffer): Buffer | undefined {
    return getVerified(this.#table, this.#table.rows, prefix, this.#transaction);
  }

  /** Proves that the prefix has no record, after LMDB did not find one. */
  proveAbsent(prefix: Buffer): void {
    proveKeyAbsent(this.#table, prefix, this.#transaction);
  }

  hasSuffix(prefix: Buffer, suffix: Buffer): boolean {
    return this.first(prefix, suffix, false)?.equals(suffix) ?? false;
  }

  /** The first suffix under `prefix` that is ≥ `bound`, or > `bound` with `exclusive`. */
  first(prefix: Buffer, bound: Buffer, exclusive: boolean): Buffer | undefined {
    const n = this.suffixBytes;
    let firstSuffix: Buffer | undefined;
    this.visitSuffixes(prefix, bound, (suffixes, start, end) => {
      const offset = lowerBoundIn(suffixes, start, end, n, bound, exclusive);
      if (offset < end) firstSuffix = Buffer.from(suffixes.subarray(offset, offset + n));
      return !firstSuffix;
    });
    return firstSuffix;
  }

  /** Passes the suffixes from `bound` on to `visit`, one call per block. The first call may begin below `bound`. */
  visitSuffixes(prefix: Buffer, bound: Buffer | undefined, visit: SuffixVisitor): void {
    const record = this.record(prefix);
    if (!record) {
      this.proveAbsent(prefix);
      return;
    }
    const { length } = record;
    if (length % this.suffixBytes === 0) visit(plainView(record), 0, length);
    else this.#visitSuffixes(prefix, copyValue(record, length), bound, visit);
  }

  /** As the public `visitSuffixes`, for a record that does not lie in LMDB's read buffer, which receives the blocks. */
  #visitSuffixes(prefix: Buffer, record: Buffer, bound: Buffer | undefined, visit: SuffixVisitor): void {
    const n = this.suffixBytes;
    const head = headLengthIn(record.length, n);
    // All suffixes in blocks are smaller than the first suffix in the record.
    const d = bound ? compareRuns(record, head, head + n, bound) : 0;
    if (head && !bound && !this.#visitAllBlocks(prefix, suffixesInBlocks(record) * n, visit)) return;
    if (head && bound && d > 0 && !this.#visitBlocks(this.#blockRange(prefix, bound), visit)) return;
    visit(record, head, record.length);
  }

  /** Visits all blocks, `bytes` long in total. A single block needs no cursor. Returns false if `visit` does. */
  #visitAllBlocks(prefix: Buffer, bytes: number, visit: SuffixVisitor): boolean {
    const firstBlockKey = firstSegmentKey(prefix);
    const block = getVerified(this.#table, this.#table.blocks!.rows, firstBlockKey, this.#transaction);
    const length = block?.length ?? 0;
    if (block && !visit(plainView(block), 0, length)) return false;
    if (length >= bytes) return true;
    return this.#visitBlocks({ start: firstBlockKey, exclusiveStart: true, end: afterPrefix(firstBlockKey)! }, visit);
  }

  /** Visits the blocks of the range. Returns false if `visit` wants no more. */
  #visitBlocks(range: RowRange, visit: SuffixVisitor): boolean {
    const sink = {
      isFull: false,
      addRow(_keys: Buffer, _from: number, _to: number, suffixes: Buffer, length: number): void {
        this.isFull = !visit(suffixes, 0, length);
      },
    };
    this.#table.blocks!.scanner.scan(range, sink, this.#transaction);
    return !sink.isFull;
  }

  #blockRange(prefix: Buffer, bound: Buffer): RowRange {
    const firstBlockKey = firstSegmentKey(prefix);
    return { start: this.blockKeyFor(firstBlockKey, bound) ?? firstBlockKey, end: afterPrefix(firstBlockKey)! };
  }

  /** Key of the block to which a suffix belongs; undefined before the first block. */
  blockKeyFor(firstBlockKey: Buffer, bound: Buffer): Buffer | undefined {
    return this.#firstKey(descendingRange(firstBlockKey, blockKey(firstBlockKey, bound, this.suffixBytes)));
  }

  lastBlockKey(firstBlockKey: Buffer): Buffer | undefined {
    return this.#firstKey(descendingRange(firstBlockKey, undefined));
  }

  /** Key of the block behind the block `key`. */
  nextBlockKey(firstBlockKey: Buffer, key: Buffer): Buffer | undefined {
    return this.#firstKey({ start: key, exclusiveStart: true, end: afterPrefix(firstBlockKey)! });
  }

  damagedError(prefix: Buffer): StoreError {
    return damaged(this.#table.spec.name, prefix, 'its blocks do not have the rows that its head counts');
  }

  #firstKey(range: RowRange): Buffer | undefined {
    return firstKeyIn(this.#table.blocks!.rows, range, this.#transaction);
  }
}

/** The blocks in descending order from `key`, or from the last block, to the first. */
function descendingRange(firstBlockKey: Buffer, key: Buffer | undefined): RowRange {
  const start = key ? { start: key } : { start: afterPrefix(firstBlockKey)!, exclusiveStart: true };
  return { ...start, end: firstBlockKey, inclusiveEnd: true, reverse: true };
}
