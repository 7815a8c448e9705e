import type { RangeOptions, Transaction } from 'lmdb';
import type { KeyRange } from '../contract.js';
import { EMPTY } from '../row.js';
import { MARK_ROW } from '../tables.js';
import { copyOf } from './bytes.js';
import { countFound, countValues, getFast, type LmdbTable, type RowSink } from './table.js';

/** Prefixes up to so many bytes are looked up one by one. */
const PROBED = 16;

/**
 * Reads of a table with `suffixBytes`, which LMDB holds as sorted suffixes under each prefix.
 *
 * LMDB's order (prefix, then suffix) is the contract's (byte order of the whole key) except where one prefix starts
 * with another: the rows of `a` then interleave with those of `ab`. `successor` and `predecessor` are exact for any
 * prefixes; `pair-scan.ts` goes the fast way where nothing is nested.
 */
export class Pairs {
  readonly #table: LmdbTable;
  readonly #transaction: Transaction | undefined;
  readonly #suffix: number;

  constructor(table: LmdbTable, transaction: Transaction | undefined) {
    this.#table = table;
    this.#transaction = transaction;
    this.#suffix = table.spec.suffixBytes!;
  }

  postings(prefix: Buffer, limit: number, after: Buffer | undefined): Buffer {
    if (limit <= 0) return EMPTY;
    const n = this.#suffix;
    if (after && after.length !== n) throw new TypeError(`after is ${after.length} bytes; a suffix is ${n}`);
    const first = getFast(this.#table.rows, prefix, this.#transaction);
    if (!first) return EMPTY;
    const one = copyOf(first, n);
    if (!after && limit === 1) return one;
    const count = this.#transaction ? this.size(prefix) : countFound(this.#table.rows, prefix);
    if (!after && count === 1) return one;
    const list = new SuffixList(Buffer.allocUnsafe(Math.min(count, limit) * n));
    this.#values(prefix, list, after ? { start: after, exclusiveStart: true, limit } : { limit });
    return list.taken();
  }

  /** Number of rows under exactly this prefix. */
  size(prefix: Buffer): number {
    if (this.#transaction) return countValues(this.#table.rows, prefix, this.#transaction);
    return getFast(this.#table.rows, prefix) ? countFound(this.#table.rows, prefix) : 0;
  }

  /** The row of prefix + suffix. */
  mark(prefix: Buffer, suffix: Buffer): Buffer | undefined {
    return this.#first(prefix, suffix, false)?.equals(suffix) ? Buffer.from(MARK_ROW) : undefined;
  }

  count(range: KeyRange, cap: number): number {
    const { from, to } = range;
    let count = 0;
    // Rows of a prefix shorter than `from`: only some of them lie in the range.
    for (const prefix of from ? this.ancestors(from) : []) {
      if (prefix.length < from!.length) count += this.#countWithin(prefix, range, cap - count);
    }
    if (count >= cap) return count;
    // A bound that names a prefix exactly is the common case: one lookup, no cursor.
    if (from?.length && !(to && isPrefix(from, to))) {
      count += this.size(from);
      if (count >= cap) return cap;
    }
    let prefix = from?.length ? from : undefined;
    if (prefix && to && isPrefix(prefix, to)) count += this.#countWithin(prefix, range, cap - count);
    while (count < cap) {
      prefix = this.nextPrefix(prefix);
      if (!prefix || (to && Buffer.compare(prefix, to) >= 0)) break;
      count += to && isPrefix(prefix, to) ? this.#countWithin(prefix, range, cap - count) : this.size(prefix);
    }
    return Math.min(count, cap);
  }

  #countWithin(prefix: Buffer, { from, to }: KeyRange, cap: number): number {
    if (cap <= 0) return 0;
    const start =
      from && from.length > prefix.length && isPrefix(prefix, from)
        ? this.#atLeast(from.subarray(prefix.length), false)
        : {};
    const end = to && isPrefix(prefix, to) ? to.subarray(prefix.length) : undefined;
    const counter = new SuffixCounter(end);
    this.#values(prefix, counter, { ...start, limit: cap });
    return counter.count;
  }

  /** The smallest key that is > `bound`, or ≥ when `inclusive`; the first of all without a bound. */
  successor(bound: Buffer | undefined, inclusive: boolean): Buffer | undefined {
    let best: Buffer | undefined;
    for (const prefix of bound ? this.ancestors(bound) : []) {
      const suffix = this.#first(prefix, bound!.subarray(prefix.length), !inclusive);
      if (suffix) best = smaller(best, Buffer.concat([prefix, suffix]));
    }
    let prefix = this.nextPrefix(bound);
    while (prefix && (!best || Buffer.compare(prefix, best) < 0)) {
      const suffix = this.#first(prefix, EMPTY, false);
      if (suffix) best = smaller(best, Buffer.concat([prefix, suffix]));
      prefix = this.nextPrefix(prefix);
    }
    return best;
  }

  /** The greatest key that is < `bound`; the last of all without a bound. */
  predecessor(bound: Buffer | undefined): Buffer | undefined {
    let best: Buffer | undefined;
    let prefix = this.previousPrefix(bound);
    while (prefix && (!best || Buffer.compare(prefix, best) > 0)) {
      best = greater(best, this.#below(prefix, bound));
      prefix = this.previousPrefix(prefix);
    }
    // A prefix before the best key has rows behind it only where that key starts with it.
    for (const ancestor of best ? this.ancestors(best) : []) best = greater(best, this.#below(ancestor, bound));
    return best;
  }

  /** The last key under `prefix` that is < `bound`. */
  #below(prefix: Buffer, bound: Buffer | undefined): Buffer | undefined {
    const suffix = this.#last(prefix, bound && isPrefix(prefix, bound) ? bound.subarray(prefix.length) : undefined);
    return suffix && Buffer.concat([prefix, suffix]);
  }

  /** The prefixes in the table with which `key` starts (itself included), longest first. */
  ancestors(key: Buffer): Buffer[] {
    const found: Buffer[] = [];
    let bound: Buffer = key;
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
      if (getFast(this.#table.rows, prefix, this.#transaction)) found.push(prefix);
    }
    return found;
  }

  /** The first prefix > `after`. */
  nextPrefix(after: Buffer | undefined): Buffer | undefined {
    return this.#prefix({ start: after, exclusiveStart: after !== undefined });
  }

  /** The last prefix < `before`. */
  previousPrefix(before: Buffer | undefined): Buffer | undefined {
    return this.#prefix({ start: before, exclusiveStart: before !== undefined, reverse: true, end: undefined });
  }

  #prefix(options: object): Buffer | undefined {
    for (const key of this.#table.rows.getKeys(this.#with({ ...options, limit: 1 }))) return key;
    return undefined;
  }

  /** The first suffix under `prefix` that is ≥ `bound` (> when exclusive), comparing as far as both reach. */
  #first(prefix: Buffer, bound: Buffer, exclusive: boolean): Buffer | undefined {
    return this.#one(prefix, this.#atLeast(bound, exclusive));
  }

  /** The last suffix under `prefix` that is < `below`; the very last without. */
  #last(prefix: Buffer, below: Buffer | undefined): Buffer | undefined {
    if (!below) return this.#one(prefix, { reverse: true });
    const n = this.#suffix;
    const start = this.#padded(below);
    return this.#one(prefix, { reverse: true, start, ...(below.length <= n && { exclusiveStart: true }) });
  }

  /** A bound of another length than a suffix, as LMDB can compare it. */
  #atLeast(bound: Buffer, exclusive: boolean): RangeOptions {
    if (bound.length === 0) return {};
    const n = this.#suffix;
    const above = bound.length > n || (exclusive && bound.length === n);
    return { start: this.#padded(bound), ...(above && { exclusiveStart: true }) };
  }

  #padded(bound: Buffer): Buffer {
    const n = this.#suffix;
    return bound.length >= n ? bound.subarray(0, n) : Buffer.concat([bound, Buffer.alloc(n - bound.length)]);
  }

  #one(prefix: Buffer, options: RangeOptions): Buffer | undefined {
    const list = new SuffixList(Buffer.allocUnsafe(this.#suffix));
    this.#values(prefix, list, { ...options, limit: 1 });
    const bytes = list.taken();
    return bytes.length ? bytes : undefined;
  }

  /** Hands the suffixes under `prefix` to `sink` until it is full. */
  #values(prefix: Buffer, sink: SuffixSink, options: RangeOptions): void {
    const { scanner } = this.#table;
    const outer = scanner.sink;
    scanner.sink = sink;
    const values = scanner.db.getValues(prefix, this.#with(options))[Symbol.iterator]();
    try {
      while (!sink.full && !values.next().done);
    } finally {
      values.return?.();
      scanner.sink = outer;
    }
  }

  /** Hands the suffixes under `prefix` after (before, in reverse) `bound` to `sink`. */
  suffixes(prefix: Buffer, bound: Buffer | undefined, inclusive: boolean, reverse: boolean, sink: SuffixSink): void {
    if (!reverse) {
      this.#values(prefix, sink, bound ? this.#atLeast(bound, !inclusive) : {});
      return;
    }
    const exclusive = bound !== undefined && bound.length <= this.#suffix;
    const start = bound && { start: this.#padded(bound), ...(exclusive && { exclusiveStart: true }) };
    this.#values(prefix, sink, { reverse: true, ...start });
  }

  #with(options: RangeOptions): RangeOptions {
    return this.#transaction ? { ...options, transaction: this.#transaction } : options;
  }
}

export interface SuffixSink extends RowSink {
  readonly full: boolean;
}

/** Appends suffixes to one buffer. */
class SuffixList implements SuffixSink {
  readonly full = false;
  readonly #out: Buffer;
  #at = 0;

  constructor(out: Buffer) {
    this.#out = out;
  }

  row(_keys: Buffer, _from: number, _to: number, row: Buffer, length: number): void {
    this.#at += row.copy(this.#out, this.#at, 0, length);
  }

  taken(): Buffer {
    return this.#out.subarray(0, this.#at);
  }
}

/** Counts suffixes below `end`. */
class SuffixCounter implements SuffixSink {
  count = 0;
  full = false;
  readonly #end: Buffer | undefined;

  constructor(end: Buffer | undefined) {
    this.#end = end;
  }

  row(_keys: Buffer, _from: number, _to: number, row: Buffer, length: number): void {
    if (this.#end && row.compare(this.#end, 0, this.#end.length, 0, length) >= 0) this.full = true;
    else this.count++;
  }
}

export function isPrefix(prefix: Buffer, key: Buffer): boolean {
  return prefix.length <= key.length && prefix.compare(key, 0, prefix.length) === 0;
}

function commonLength(a: Buffer, b: Buffer): number {
  const n = Math.min(a.length, b.length);
  let i = 0;
  while (i < n && a[i] === b[i]) i++;
  return i;
}

function smaller(a: Buffer | undefined, b: Buffer): Buffer {
  return a && Buffer.compare(a, b) <= 0 ? a : b;
}

function greater(a: Buffer | undefined, b: Buffer | undefined): Buffer | undefined {
  return !b || (a && Buffer.compare(a, b) >= 0) ? a : b;
}
