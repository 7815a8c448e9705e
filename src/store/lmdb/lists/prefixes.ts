import type { Transaction } from 'lmdb';
import type { KeyRange } from '../../contract.js';
import { EMPTY } from '../../row.js';
import { requireBeyond } from '../file/absent.js';
import { getSound, type LmdbTable } from '../file/lmdb-table.js';
import type { RangeSink, RowRange } from '../file/scanner.js';
import { firstAt, Lists, type Take } from './lists.js';

/** Prefixes up to so many bytes are looked up one by one. */
const PROBED = 16;

/**
 * Ranges of rows in a table with `suffixBytes`. LMDB has the prefixes in order, the contract's ranges are of whole
 * keys: where one prefix starts with another, rows of the shorter one may lie in a range in which the prefix itself
 * does not.
 */
export class Prefixes {
  readonly lists: Lists;
  readonly #table: LmdbTable;
  readonly #transaction: Transaction | undefined;
  readonly #maxKey: number;

  /** `maxKey`: bytes of the longest key. */
  constructor(table: LmdbTable, maxKey: number, transaction: Transaction | undefined) {
    this.lists = new Lists(table, transaction);
    this.#table = table;
    this.#maxKey = maxKey;
    this.#transaction = transaction;
  }

  /** Number of rows in the range, up to `cap`. */
  count(range: KeyRange, cap: number): number {
    const counter = new Counter(this.lists, range.to, cap);
    this.#run(range, counter);
    return Math.min(counter.count, cap);
  }

  /** The suffixes of the rows in the range, at most `limit`, one prefix after another. */
  collect(range: KeyRange, limit: number): Buffer {
    const collector = new SuffixCollector(this.lists.suffix, range.to, limit);
    this.#run(range, collector);
    return collector.bytes;
  }

  #run({ from, to }: KeyRange, sink: ListSink): void {
    // Rows of a prefix shorter than `from`: only some of them lie in the range.
    for (const prefix of from ? this.ancestors(from) : []) {
      if (prefix.length < from!.length && !sink.full) this.#within(prefix, from, to, sink.take);
    }
    if (from?.length) this.requireBefore(from);
    if (!sink.full) this.hand({ start: from?.length ? from : undefined, end: to }, sink);
    for (const prefix of sink.later) if (!sink.full) this.#within(prefix, undefined, to, sink.take);
  }

  /** Hands out the suffixes of the prefix's rows in the range. */
  #within(prefix: Buffer, from: Buffer | undefined, to: Buffer | undefined, take: Take): void {
    const n = this.lists.suffix;
    const start = from?.subarray(prefix.length) ?? EMPTY;
    const end = to && isPrefix(prefix, to) ? to.subarray(prefix.length) : undefined;
    this.lists.walk(prefix, start, (run, low, high) => {
      const begin = firstAt(run, low, high, n, start);
      const stop = end ? firstAt(run, low, high, n, end) : high;
      return (stop <= begin || take(run, begin, stop)) && stop === high;
    });
  }

  /** Before a scan of a range that begins here. */
  requireBefore(from: Buffer): void {
    requireBeyond(this.#table, this.#sought(from), true, this.#transaction);
  }

  /** Hands the records of the prefixes to `sink` until it is full. */
  hand(range: RowRange, sink: RangeSink): void {
    const start = range.start && this.#sought(range.start);
    this.#table.scanner.handOut({ ...range, start }, sink, this.#transaction);
  }

  /** Prefixes are shorter than the longest key: none lies between a bound that is longer and its beginning. */
  #sought(bound: Buffer): Buffer {
    return bound.subarray(0, this.#maxKey);
  }

  /** The prefixes in the table with which `key` starts (itself included), longest first. */
  ancestors(key: Buffer): Buffer[] {
    const found: Buffer[] = [];
    let bound = this.#sought(key);
    let inclusive = true;
    for (;;) {
      const prefix = this.#prefix({ start: bound, reverse: true, exclusiveStart: !inclusive, end: undefined });
      if (!prefix) return found;
      const common = commonLength(prefix, key);
      if (common === prefix.length) found.push(prefix);
      if (common <= PROBED) return found.concat(this.#probed(key, common < prefix.length ? common : common - 1));
      bound = key.subarray(0, common);
      inclusive = common < prefix.length;
    }
  }

  /** Those of at most `length` bytes: a lookup each is cheaper than a cursor. */
  #probed(key: Buffer, length: number): Buffer[] {
    const found: Buffer[] = [];
    for (let n = length; n > 0; n--) {
      const prefix = key.subarray(0, n);
      if (getSound(this.#table, this.#table.rows, prefix, this.#transaction)) found.push(prefix);
    }
    return found;
  }

  #prefix(options: object): Buffer | undefined {
    const transaction = this.#transaction;
    const one = { ...options, limit: 1, ...(transaction && { transaction }) };
    for (const key of this.#table.rows.getKeys(one)) return key;
    return undefined;
  }
}

/** Takes what a range has record by record, and run by run of the prefixes that it has left for later. */
abstract class ListSink implements RangeSink {
  readonly later: Buffer[] = [];
  readonly #end: Buffer | undefined;

  constructor(end: Buffer | undefined) {
    this.#end = end;
  }

  abstract readonly full: boolean;
  abstract readonly take: Take;
  /** Takes a record; false when it has to be walked. */
  protected abstract record(record: Buffer, length: number): boolean;

  row(keys: Buffer, from: number, to: number, record: Buffer, length: number): void {
    const end = this.#end;
    // Of the rows under a prefix with which the end starts only some lie in the range.
    const partly = end && to - from <= end.length && keys.compare(end, 0, to - from, from, to) === 0;
    if (partly || !this.record(record, length)) this.later.push(Buffer.from(keys.subarray(from, to)));
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

  readonly take: Take = (_run, from, to) => {
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

  /** A long list goes on in blocks. */
  protected record(record: Buffer, length: number): boolean {
    if (length % this.#suffix !== 0) return false;
    this.take(record, 0, length);
    return true;
  }

  readonly take: Take = (run, from, to) => {
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

export function isPrefix(prefix: Buffer, key: Buffer): boolean {
  if (prefix.length > key.length) return false;
  let i = 0;
  while (i < prefix.length && prefix[i] === key[i]) i++;
  return i === prefix.length;
}

function commonLength(a: Buffer, b: Buffer): number {
  const n = Math.min(a.length, b.length);
  let i = 0;
  while (i < n && a[i] === b[i]) i++;
  return i;
}
