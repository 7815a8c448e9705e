import type { Transaction } from 'lmdb';
import { startsWith } from '../../../bytes/compare.js';
import type { KeyRange } from '../../contract.js';
import { EMPTY } from '../../row.js';
import { commonPrefix } from '../../row-filter-any.js';
import { proveBoundary } from '../file/absent.js';
import { getVerified, type LmdbTable, type RangeSink, type RowRange } from '../file/lmdb-table.js';
import { firstKeyIn } from '../file/records.js';
import { Lists, lowerBoundIn, type SuffixVisitor } from './lists.js';

/** Prefixes up to this length, in bytes, are looked up one by one. */
const MAX_PROBED_BYTES = 16;

/**
 * Reads ranges of rows in a table with `suffixBytes`. LMDB sorts by prefix, but the ranges of the contract are ranges
 * of whole keys: rows of a short prefix may lie in a range although the prefix itself lies outside.
 */
export class Prefixes {
  readonly lists: Lists;
  readonly #table: LmdbTable;
  readonly #transaction: Transaction | undefined;
  readonly #maxKey: number;

  /** `maxKey`: length of the longest key, in bytes. */
  constructor(table: LmdbTable, maxKey: number, transaction: Transaction | undefined) {
    this.lists = new Lists(table, transaction);
    this.#table = table;
    this.#maxKey = maxKey;
    this.#transaction = transaction;
  }

  /** Counts the rows in the range, up to `cap`. */
  count(range: KeyRange, cap: number): number {
    const counter = new SuffixCounter(this.lists, range.to, cap);
    this.#visitRange(range, counter);
    return Math.min(counter.count, cap);
  }

  /** Returns the suffixes of the rows in the range, at most `limit`, one prefix after another. */
  collect(range: KeyRange, limit: number): Buffer {
    const collector = new SuffixCollector(this.lists.suffixBytes, range.to, limit);
    this.#visitRange(range, collector);
    return collector.bytes;
  }

  #visitRange({ from, to }: KeyRange, sink: ListSink): void {
    // Rows of a prefix that is shorter than `from` may lie in the range.
    for (const prefix of from ? this.findPrefixes(from) : []) {
      if (prefix.length < from!.length && !sink.isFull) this.#visitList(prefix, from, to, sink.visitSuffixes);
    }
    if (from?.length) this.proveStart(from);
    if (!sink.isFull) this.scan({ start: from?.length ? from : undefined, end: to }, sink);
    for (const prefix of sink.deferredPrefixes)
      if (!sink.isFull) this.#visitList(prefix, undefined, to, sink.visitSuffixes);
  }

  /** Visits the suffixes of the prefix whose rows lie in the range. */
  #visitList(prefix: Buffer, from: Buffer | undefined, to: Buffer | undefined, visit: SuffixVisitor): void {
    const n = this.lists.suffixBytes;
    const start = from?.subarray(prefix.length) ?? EMPTY;
    const end = to && startsWith(to, prefix) ? to.subarray(prefix.length) : undefined;
    this.lists.visitSuffixes(prefix, start, (suffixes, low, high) => {
      const firstOffset = lowerBoundIn(suffixes, low, high, n, start);
      const stop = end ? lowerBoundIn(suffixes, low, high, n, end) : high;
      return (stop <= firstOffset || visit(suffixes, firstOffset, stop)) && stop === high;
    });
  }

  /** Proves the start of a scan that begins at `from`, see `proveBoundary`. */
  proveStart(from: Buffer): void {
    proveBoundary(this.#table, this.#truncate(from), true, this.#transaction);
  }

  /** Passes the records of the prefixes to the sink until the sink is full. */
  scan(range: RowRange, sink: RangeSink): void {
    const start = range.start && this.#truncate(range.start);
    this.#table.scanner.scan({ ...range, start }, sink, this.#transaction);
  }

  /**
   * Truncates a bound to the length of the longest key. Prefixes are shorter, so none lies between bound and result.
   */
  #truncate(bound: Buffer): Buffer {
    return bound.subarray(0, this.#maxKey);
  }

  /** The prefixes in the table that are prefixes of `key` or equal to `key`, longest first. */
  findPrefixes(key: Buffer): Buffer[] {
    const prefixes: Buffer[] = [];
    let bound = this.#truncate(key);
    let isInclusive = true;
    for (;;) {
      const range = { start: bound, reverse: true, exclusiveStart: !isInclusive, end: undefined };
      const prefix = firstKeyIn(this.#table.rows, range, this.#transaction);
      if (!prefix) return prefixes;
      const sharedLength = commonPrefix(prefix, key).length;
      if (sharedLength === prefix.length) prefixes.push(prefix);
      if (sharedLength <= MAX_PROBED_BYTES)
        return prefixes.concat(
          this.#probePrefixes(key, sharedLength < prefix.length ? sharedLength : sharedLength - 1),
        );
      bound = key.subarray(0, sharedLength);
      isInclusive = sharedLength < prefix.length;
    }
  }

  /** The prefixes of at most `length` bytes, found by one lookup each, which is cheaper than a cursor. */
  #probePrefixes(key: Buffer, length: number): Buffer[] {
    const prefixes: Buffer[] = [];
    for (let n = length; n > 0; n--) {
      const prefix = key.subarray(0, n);
      if (getVerified(this.#table, this.#table.rows, prefix, this.#transaction)) prefixes.push(prefix);
    }
    return prefixes;
  }
}

/** Receives the records of a range. Lists that must be read block by block are deferred until after the scan. */
abstract class ListSink implements RangeSink {
  /** Prefixes whose lists are to be read by `visitSuffixes` after the scan. */
  readonly deferredPrefixes: Buffer[] = [];
  readonly #endKey: Buffer | undefined;

  constructor(end: Buffer | undefined) {
    this.#endKey = end;
  }

  abstract readonly isFull: boolean;
  abstract readonly visitSuffixes: SuffixVisitor;
  /** Receives the record of a list that lies in the range. Returns false to defer the list. */
  protected abstract addRecord(record: Buffer, length: number): boolean;

  addRow(keys: Buffer, keyStart: number, keyEnd: number, record: Buffer, length: number): void {
    const end = this.#endKey;
    // When `end` starts with the prefix, only some of its rows lie in the range.
    const isPartial =
      end && keyEnd - keyStart <= end.length && keys.compare(end, 0, keyEnd - keyStart, keyStart, keyEnd) === 0;
    if (isPartial || !this.addRecord(record, length))
      this.deferredPrefixes.push(Buffer.from(keys.subarray(keyStart, keyEnd)));
  }
}

class SuffixCounter extends ListSink {
  count = 0;
  readonly #lists: Lists;
  readonly #cap: number;

  constructor(lists: Lists, end: Buffer | undefined, cap: number) {
    super(end);
    this.#lists = lists;
    this.#cap = cap;
  }

  get isFull(): boolean {
    return this.count >= this.#cap;
  }

  protected addRecord(record: Buffer, length: number): boolean {
    this.count += this.#lists.suffixCount(record, length);
    return true;
  }

  readonly visitSuffixes: SuffixVisitor = (_suffixes, start, end) => {
    this.count += (end - start) / this.#lists.suffixBytes;
    return !this.isFull;
  };
}

class SuffixCollector extends ListSink {
  readonly #suffixBytes: number;
  readonly #maxBytes: number;
  #bytes: Buffer = Buffer.allocUnsafeSlow(4096);
  #length = 0;

  constructor(suffixBytes: number, end: Buffer | undefined, limit: number) {
    super(end);
    this.#suffixBytes = suffixBytes;
    this.#maxBytes = limit * suffixBytes;
  }

  get isFull(): boolean {
    return this.#length >= this.#maxBytes;
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Returns false for a long list, which continues in blocks. */
  protected addRecord(record: Buffer, length: number): boolean {
    if (length % this.#suffixBytes !== 0) return false;
    this.visitSuffixes(record, 0, length);
    return true;
  }

  readonly visitSuffixes: SuffixVisitor = (suffixes, start, end) => {
    const length = this.#length + Math.min(end - start, this.#maxBytes - this.#length);
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(length * 2);
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    const bytes = this.#bytes;
    for (let i = this.#length, offset = start; i < length; i++, offset++) bytes[i] = suffixes[offset]!;
    this.#length = length;
    return !this.isFull;
  };
}
