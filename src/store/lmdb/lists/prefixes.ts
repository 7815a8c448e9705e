import type { Transaction } from 'lmdb';
import { startsWith } from '../../../bytes/compare.js';
import type { KeyRange } from '../../contract.js';
import { EMPTY } from '../../row.js';
import { proveBoundary } from '../file/absent.js';
import { getVerified, type LmdbTable } from '../file/lmdb-table.js';
import type { RangeSink, RowRange } from '../file/scanner.js';
import { Lists, lowerBoundIn, type RunVisitor } from './lists.js';

/** Prefixes up to this length, in bytes, are looked up one by one. */
const MAX_PROBED = 16;

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
    const counter = new Counter(this.lists, range.to, cap);
    this.#run(range, counter);
    return Math.min(counter.count, cap);
  }

  /** Returns the suffixes of the rows in the range, at most `limit`, one prefix after another. */
  collect(range: KeyRange, limit: number): Buffer {
    const collector = new SuffixCollector(this.lists.suffix, range.to, limit);
    this.#run(range, collector);
    return collector.bytes;
  }

  #run({ from, to }: KeyRange, sink: ListSink): void {
    // Of a prefix that is shorter than `from`, some rows may lie in the range.
    for (const prefix of from ? this.prefixesOf(from) : []) {
      if (prefix.length < from!.length && !sink.full) this.#visitList(prefix, from, to, sink.visit);
    }
    if (from?.length) this.proveStart(from);
    if (!sink.full) this.scan({ start: from?.length ? from : undefined, end: to }, sink);
    for (const prefix of sink.deferred) if (!sink.full) this.#visitList(prefix, undefined, to, sink.visit);
  }

  /** Visits the suffixes of the prefix whose rows lie in the range. */
  #visitList(prefix: Buffer, from: Buffer | undefined, to: Buffer | undefined, visit: RunVisitor): void {
    const n = this.lists.suffix;
    const start = from?.subarray(prefix.length) ?? EMPTY;
    const end = to && startsWith(to, prefix) ? to.subarray(prefix.length) : undefined;
    this.lists.walk(prefix, start, (run, low, high) => {
      const begin = lowerBoundIn(run, low, high, n, start);
      const stop = end ? lowerBoundIn(run, low, high, n, end) : high;
      return (stop <= begin || visit(run, begin, stop)) && stop === high;
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
   * Truncates a bound to the longest key. No prefix lies between the bound and the result, since prefixes are shorter.
   */
  #truncate(bound: Buffer): Buffer {
    return bound.subarray(0, this.#maxKey);
  }

  /** The prefixes in the table that are prefixes of `key` or equal to `key`, longest first. */
  prefixesOf(key: Buffer): Buffer[] {
    const found: Buffer[] = [];
    let bound = this.#truncate(key);
    let inclusive = true;
    for (;;) {
      const prefix = this.#firstKey({ start: bound, reverse: true, exclusiveStart: !inclusive, end: undefined });
      if (!prefix) return found;
      const common = commonLength(prefix, key);
      if (common === prefix.length) found.push(prefix);
      if (common <= MAX_PROBED) return found.concat(this.#probe(key, common < prefix.length ? common : common - 1));
      bound = key.subarray(0, common);
      inclusive = common < prefix.length;
    }
  }

  /** The prefixes of at most `length` bytes, found by one lookup each, which is cheaper than a cursor. */
  #probe(key: Buffer, length: number): Buffer[] {
    const found: Buffer[] = [];
    for (let n = length; n > 0; n--) {
      const prefix = key.subarray(0, n);
      if (getVerified(this.#table, this.#table.rows, prefix, this.#transaction)) found.push(prefix);
    }
    return found;
  }

  #firstKey(options: object): Buffer | undefined {
    const transaction = this.#transaction;
    const one = { ...options, limit: 1, ...(transaction && { transaction }) };
    for (const key of this.#table.rows.getKeys(one)) return key;
    return undefined;
  }
}

/** Receives the records of a range. Lists that must be walked are put off: they are visited run by run afterwards. */
abstract class ListSink implements RangeSink {
  /** Prefixes whose lists must be walked after the scan. */
  readonly deferred: Buffer[] = [];
  readonly #end: Buffer | undefined;

  constructor(end: Buffer | undefined) {
    this.#end = end;
  }

  abstract readonly full: boolean;
  abstract readonly visit: RunVisitor;
  /** Receives the record of a list that lies in the range. Returns false if the list must be walked. */
  protected abstract record(record: Buffer, length: number): boolean;

  row(keys: Buffer, from: number, to: number, record: Buffer, length: number): void {
    const end = this.#end;
    // Of a prefix that is a prefix of `end`, only some rows lie in the range.
    const partly = end && to - from <= end.length && keys.compare(end, 0, to - from, from, to) === 0;
    if (partly || !this.record(record, length)) this.deferred.push(Buffer.from(keys.subarray(from, to)));
  }
}

class Counter extends ListSink {
  count = 0;
  readonly #lists: Lists;
  readonly #cap: number;

  constructor(lists: Lists, end: Buffer | undefined, cap: number) {
    super(end);
    this.#lists = lists;
    this.#cap = cap;
  }

  get full(): boolean {
    return this.count >= this.#cap;
  }

  protected record(record: Buffer, length: number): boolean {
    this.count += this.#lists.sizeOf(record, length);
    return true;
  }

  readonly visit: RunVisitor = (_run, from, to) => {
    this.count += (to - from) / this.#lists.suffix;
    return !this.full;
  };
}

class SuffixCollector extends ListSink {
  readonly #suffix: number;
  readonly #most: number;
  #bytes: Buffer = Buffer.allocUnsafeSlow(4096);
  #length = 0;

  constructor(suffix: number, end: Buffer | undefined, limit: number) {
    super(end);
    this.#suffix = suffix;
    this.#most = limit * suffix;
  }

  get full(): boolean {
    return this.#length >= this.#most;
  }

  get bytes(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  /** Returns false for a long list, which continues in blocks. */
  protected record(record: Buffer, length: number): boolean {
    if (length % this.#suffix !== 0) return false;
    this.visit(record, 0, length);
    return true;
  }

  readonly visit: RunVisitor = (run, from, to) => {
    const length = this.#length + Math.min(to - from, this.#most - this.#length);
    if (length > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(length * 2);
      this.#bytes.copy(larger, 0, 0, this.#length);
      this.#bytes = larger;
    }
    const bytes = this.#bytes;
    for (let i = this.#length, at = from; i < length; i++, at++) bytes[i] = run[at]!;
    this.#length = length;
    return !this.full;
  };
}

function commonLength(a: Buffer, b: Buffer): number {
  const n = Math.min(a.length, b.length);
  let i = 0;
  while (i < n && a[i] === b[i]) i++;
  return i;
}
