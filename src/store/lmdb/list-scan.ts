import type { Transaction } from 'lmdb';
import type { KeyRange } from '../contract.js';
import { MARK_ROW } from '../tables.js';
import { boundsOf } from './bounds.js';
import { allocate } from './bytes.js';
import { firstAt } from './lists.js';
import { isPrefix, Prefixes, type PrefixRange } from './prefixes.js';
import { Collector, type ScanShape } from './rows.js';
import type { LmdbTable, RangeSink } from './table.js';

/**
 * One batch of a table with `suffixBytes`. Returns the key to resume after, or undefined at the end of the range.
 *
 * The fast way runs through LMDB's order and is right as long as no prefix it meets, nor one before the start or
 * after the end, starts with another. When one does, what it collected is thrown away and the rows are found one by one.
 */
export function scanLists(
  table: LmdbTable,
  range: KeyRange,
  after: Buffer | undefined,
  shape: ScanShape,
  limit: number,
  transaction: Transaction | undefined,
  maxKey: number,
): { collector: Collector; resume: Buffer | undefined } {
  const collect = () => new Collector({ ...shape, test: undefined }, limit);
  if (!boundsOf(range, maxKey + table.spec.suffixBytes!)) return { collector: collect(), resume: undefined };
  const prefixes = new Prefixes(table, transaction);
  const fast = new FastLists(prefixes, range, after, shape.reverse, collect());
  if (fast.run()) return { collector: fast.collector, resume: fast.resume };
  const collector = collect();
  return { collector, resume: scanNested(prefixes, range, after, shape.reverse, collector) };
}

function scanNested(
  prefixes: Prefixes,
  { from, to }: KeyRange,
  after: Buffer | undefined,
  reverse: boolean,
  collector: Collector,
): Buffer | undefined {
  let key = reverse ? prefixes.predecessor(after ?? to) : prefixes.successor(after ?? from, after === undefined);
  while (key && (reverse ? !from || Buffer.compare(key, from) >= 0 : !to || Buffer.compare(key, to) < 0)) {
    collector.own(key, Buffer.from(MARK_ROW));
    if (collector.full) return key;
    key = reverse ? prefixes.predecessor(key) : prefixes.successor(key, false);
  }
  return undefined;
}

/** The fast way through one batch. */
class FastLists implements RangeSink {
  readonly collector: Collector;
  resume: Buffer | undefined;
  /** Ends a run through records: enough is collected, the far bound was reached, or a list goes on in blocks. */
  full = false;
  readonly #prefixes: Prefixes;
  readonly #suffix: number;
  readonly #after: Buffer | undefined;
  readonly #near: Buffer | undefined;
  readonly #far: Buffer | undefined;
  readonly #reverse: boolean;
  /** The prefix whose suffixes are running, and whether the far bound lies within them. */
  #prefix: Buffer | undefined;
  #bounded = false;
  #nested = false;
  /** The far bound was reached. */
  #ended = false;
  /** The list of `#prefix` is long: only its record was met. */
  #long = false;
  #last: Buffer | undefined;
  readonly #mark = Buffer.from(MARK_ROW);

  constructor(
    prefixes: Prefixes,
    { from, to }: KeyRange,
    after: Buffer | undefined,
    reverse: boolean,
    collector: Collector,
  ) {
    this.#prefixes = prefixes;
    this.#suffix = prefixes.lists.suffix;
    this.#after = after;
    this.#reverse = reverse;
    this.#near = reverse ? to : from;
    this.#far = reverse ? from : to;
    this.collector = collector;
  }

  /** False when prefixes are nested: then nothing of this run counts. */
  run(): boolean {
    const bound = this.#after ?? (this.#near?.length ? this.#near : undefined);
    const groups = bound ? this.#prefixes.ancestors(bound) : [];
    if (groups.length > 1) return false;
    const group = groups[0];
    if (group) this.#finishGroup(group, bound!);
    for (let options = this.#start(group, bound); options && !this.full; options = this.#behind()) {
      this.#prefixes.hand(options, this);
      if (!this.#long) break;
      this.#long = false;
      this.full = false;
      this.#walk(this.#prefix!, undefined);
    }
    if (this.#nested || this.#nestedBeyond()) return false;
    this.resume = this.full && !this.#ended ? this.#last : undefined;
    return true;
  }

  /** The rows that are left under the prefix in which the bound lies. */
  #finishGroup(prefix: Buffer, bound: Buffer): void {
    if (this.#reverse) {
      if (prefix.length === bound.length) return;
      if (!this.#prefixes.previousPrefix(bound)?.equals(prefix)) {
        this.#stop({ nested: true });
        return;
      }
    }
    this.#enter(prefix, 0, prefix.length);
    this.#walk(prefix, bound.subarray(prefix.length));
  }

  #walk(prefix: Buffer, bound: Buffer | undefined): void {
    if (this.full) return;
    const n = this.#suffix;
    this.#prefixes.lists.walk(prefix, bound, this.#reverse, (run, from, to) => {
      if (!bound) this.#emit(run, from, to);
      else if (this.#reverse) this.#emit(run, from, firstAt(run, from, to, n, bound));
      else this.#emit(run, firstAt(run, from, to, n, bound, this.#after !== undefined), to);
      return !this.full;
    });
  }

  /** LMDB compares prefixes only: from the first (last) prefix beyond `group` to the far bound. */
  #start(group: Buffer | undefined, bound: Buffer | undefined): PrefixRange | undefined {
    if (!this.#reverse) return this.#options(group ?? bound, group !== undefined);
    const start = this.#prefixes.previousPrefix(group ?? bound);
    return start && this.#options(start, false);
  }

  #behind(): PrefixRange {
    return this.#options(this.#prefix, true);
  }

  #options(start: Buffer | undefined, exclusiveStart: boolean): PrefixRange {
    return { start, end: this.#reverse ? undefined : this.#far, reverse: this.#reverse, exclusiveStart };
  }

  row(keys: Buffer, from: number, to: number, record: Buffer, length: number): void {
    this.#enter(keys, from, to);
    if (this.full) return;
    this.#long = length % this.#suffix !== 0;
    if (this.#long) this.full = true;
    else this.#emit(record, 0, length);
  }

  /** Notes that the rows of another prefix begin, and whether one of the two starts with the other. */
  #enter(keys: Buffer, from: number, to: number): void {
    const before = this.#prefix;
    const prefix = allocate(to - from);
    keys.copy(prefix, 0, from, to);
    this.#prefix = prefix;
    const far = this.#far;
    this.#bounded = far !== undefined && isPrefix(prefix, far);
    if (before && (this.#reverse ? isPrefix(prefix, before) : isPrefix(before, prefix))) this.#stop({ nested: true });
    else if (far && this.#reverse && !this.#bounded && this.#beyond(prefix)) this.#stop({ ended: true });
  }

  #beyond(key: Buffer): boolean {
    const d = Buffer.compare(key, this.#far!);
    return this.#reverse ? d < 0 : d >= 0;
  }

  #stop({ nested = false, ended = false }): void {
    this.full = true;
    this.#nested = nested;
    this.#ended = ended;
  }

  #emit(run: Buffer, from: number, to: number): void {
    const n = this.#suffix;
    const { collector } = this;
    const prefix = this.#prefix!;
    const { length } = prefix;
    const step = this.#reverse ? -n : n;
    for (let at = this.#reverse ? to - n : from; at >= from && at < to; at += step) {
      const key = allocate(length + n);
      // Shorter than what a call of `copy` is worth.
      for (let i = 0; i < length; i++) key[i] = prefix[i]!;
      for (let i = 0; i < n; i++) key[length + i] = run[at + i]!;
      if (this.#bounded && this.#beyond(key)) {
        this.#stop({ ended: true });
        return;
      }
      collector.own(key, this.#mark);
      this.#last = key;
      if (collector.full) {
        this.full = true;
        return;
      }
    }
  }

  /** Whether prefixes that this batch did not reach interleave with the rows it has. */
  #nestedBeyond(): boolean {
    const last = this.#prefix;
    if (!last || !this.full) return false;
    if (this.#reverse) return this.#prefixes.ancestors(last).length > 1;
    const next = this.#prefixes.nextPrefix(last);
    return next !== undefined && isPrefix(last, next);
  }
}
