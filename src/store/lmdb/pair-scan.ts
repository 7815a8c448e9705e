import type { RangeOptions, Transaction } from 'lmdb';
import type { KeyRange } from '../contract.js';
import { MARK_ROW } from '../tables.js';
import { boundsOf } from './bounds.js';
import { allocate } from './bytes.js';
import { isPrefix, Pairs, type SuffixSink } from './pairs.js';
import { Collector, type ScanShape } from './rows.js';
import type { LmdbTable } from './table.js';

/**
 * One batch of a table with `suffixBytes`. Returns the key to resume after, or undefined at the end of the range.
 *
 * The fast way runs through LMDB's order and is right as long as no prefix it meets, nor one before the start or
 * after the end, starts with another. When one does, what it collected is thrown away and the rows are found one by one.
 */
export function scanPairs(
  table: LmdbTable,
  range: KeyRange,
  after: Buffer | undefined,
  shape: ScanShape,
  limit: number,
  transaction: Transaction | undefined,
  maxKey: number,
): { collector: Collector; resume: Buffer | undefined } {
  const pairs = new Pairs(table, transaction);
  const collect = () => new Collector({ ...shape, test: undefined }, limit);
  if (!boundsOf(range, maxKey + table.spec.suffixBytes!)) return { collector: collect(), resume: undefined };
  const fast = new FastPairs(table, pairs, range, after, shape.reverse, collect(), transaction);
  if (fast.run()) return { collector: fast.collector, resume: fast.resume };
  const collector = collect();
  return { collector, resume: scanNested(pairs, range, after, shape.reverse, collector) };
}

function scanNested(
  pairs: Pairs,
  { from, to }: KeyRange,
  after: Buffer | undefined,
  reverse: boolean,
  collector: Collector,
): Buffer | undefined {
  let key = reverse ? pairs.predecessor(after ?? to) : pairs.successor(after ?? from, after === undefined);
  while (key && (reverse ? !from || Buffer.compare(key, from) >= 0 : !to || Buffer.compare(key, to) < 0)) {
    collector.own(key, Buffer.from(MARK_ROW));
    if (collector.full) return key;
    key = reverse ? pairs.predecessor(key) : pairs.successor(key, false);
  }
  return undefined;
}

/** The fast way through one batch. */
class FastPairs implements SuffixSink {
  readonly collector: Collector;
  resume: Buffer | undefined;
  full = false;
  readonly #table: LmdbTable;
  readonly #pairs: Pairs;
  readonly #range: KeyRange;
  readonly #after: Buffer | undefined;
  readonly #reverse: boolean;
  readonly #transaction: Transaction | undefined;
  /** The prefix whose suffixes are running. */
  #prefix: Buffer | undefined;
  #nested = false;
  /** The far bound was reached. */
  #ended = false;
  #last: Buffer | undefined;
  /** Running through prefixes, no longer within the first one. */
  #through = false;
  readonly #mark = Buffer.from(MARK_ROW);

  constructor(
    table: LmdbTable,
    pairs: Pairs,
    range: KeyRange,
    after: Buffer | undefined,
    reverse: boolean,
    collector: Collector,
    transaction: Transaction | undefined,
  ) {
    this.#table = table;
    this.#pairs = pairs;
    this.#range = range;
    this.#after = after;
    this.#reverse = reverse;
    this.collector = collector;
    this.#transaction = transaction;
  }

  /** False when prefixes are nested: then nothing of this run counts. */
  run(): boolean {
    const bound = this.#after ?? (this.#reverse ? this.#range.to : this.#range.from);
    const groups = bound?.length ? this.#pairs.ancestors(bound) : [];
    if (groups.length > 1) return false;
    const group = groups[0];
    if (group) this.#finishGroup(group, bound!);
    if (!this.full && !this.#nested) this.#runThrough(group, bound);
    if (this.#nested || this.#nestedBeyond()) return false;
    this.resume = this.full && !this.#ended ? this.#last : undefined;
    return true;
  }

  /** The rows that are left under the prefix in which the bound lies. */
  #finishGroup(prefix: Buffer, bound: Buffer): void {
    if (this.#reverse) {
      const previous = this.#pairs.previousPrefix(bound);
      if (!previous?.equals(prefix) && !(prefix.length === bound.length)) {
        this.#nested = true;
        return;
      }
      if (prefix.length === bound.length) return;
    }
    this.#prefix = prefix;
    const rest = prefix.length < bound.length ? bound.subarray(prefix.length) : undefined;
    this.#pairs.suffixes(prefix, rest, this.#after === undefined, this.#reverse, this);
  }

  #runThrough(group: Buffer | undefined, bound: Buffer | undefined): void {
    const options = this.#options(group, bound);
    if (!options) return;
    if (this.#transaction) options.transaction = this.#transaction;
    const { scanner } = this.#table;
    const outer = scanner.sink;
    scanner.sink = this;
    this.#through = true;
    const rows = scanner.db.getRange(options)[Symbol.iterator]();
    try {
      while (!this.full && !rows.next().done);
    } finally {
      rows.return?.();
      scanner.sink = outer;
    }
  }

  /** LMDB compares prefixes only: from the first (last) prefix beyond `group` to the far bound. */
  #options(group: Buffer | undefined, bound: Buffer | undefined): RangeOptions | undefined {
    if (!this.#reverse) {
      const start = group ? Buffer.concat([group, Buffer.alloc(1)]) : bound?.length ? bound : undefined;
      // An absent start would mean LMDB's own idea of the first key, which is not the smallest.
      return rangeOf({ start, ...(this.#range.to && { end: this.#range.to }) });
    }
    const start = this.#pairs.previousPrefix(group ?? bound);
    return start && rangeOf({ start, reverse: true, end: undefined });
  }

  row(keys: Buffer, from: number, to: number, row: Buffer, length: number): void {
    if (this.full) return;
    if (this.#through) this.#enter(keys, from, to);
    if (this.#nested) return;
    const prefix = this.#prefix!;
    const key = allocate(prefix.length + length);
    prefix.copy(key);
    row.copy(key, prefix.length, 0, length);
    const { from: low, to: high } = this.#range;
    if (this.#reverse ? low && Buffer.compare(key, low) < 0 : high && Buffer.compare(key, high) >= 0) {
      this.#ended = true;
      this.full = true;
      return;
    }
    this.collector.own(key, this.#mark);
    this.#last = key;
    this.full = this.collector.full;
  }

  /** Notes when the rows of another prefix begin, and whether one of the two starts with the other. */
  #enter(keys: Buffer, from: number, to: number): void {
    const before = this.#prefix;
    if (before && before.length === to - from && keys.compare(before, 0, before.length, from, to) === 0) return;
    const prefix = Buffer.from(keys.subarray(from, to));
    if (before && (this.#reverse ? isPrefix(prefix, before) : isPrefix(before, prefix))) {
      this.#nested = true;
      this.full = true;
    }
    this.#prefix = prefix;
  }

  /** Whether prefixes that this batch did not reach interleave with the rows it has. */
  #nestedBeyond(): boolean {
    const last = this.#prefix;
    if (!last || !this.full) return false;
    if (this.#reverse) return this.#pairs.ancestors(last).length > 1;
    const next = this.#pairs.nextPrefix(last);
    return next !== undefined && isPrefix(last, next);
  }
}

function rangeOf(options: object): RangeOptions {
  return options;
}
