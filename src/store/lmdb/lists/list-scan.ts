import type { Transaction } from 'lmdb';
import { startsWith } from '../../../bytes/compare.js';
import type { KeyRange } from '../../contract.js';
import { MARK_ROW } from '../../tables.js';
import type { LmdbTable, RangeSink } from '../file/lmdb-table.js';
import { allocate } from '../record/room.js';
import { Collector, type ScanShape, toKeyBounds } from '../rows/row-scan.js';
import { lowerBoundIn } from './lists.js';
import { Prefixes } from './prefixes.js';

/**
 * Reads one batch of a table with `suffixBytes`: the rows of one prefix after another, in the order of prefixes.
 * `resume` is the key to resume after, which is the last key of the batch; undefined at the end of the range.
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
  const collector = new Collector(table.records, { ...shape, recordTest: undefined, splitRowTest: undefined }, limit);
  if (!toKeyBounds(range, maxKey + table.spec.suffixBytes!)) return { collector, resume: undefined };
  const scan = new ListScan(new Prefixes(table, maxKey, transaction), range, collector);
  return { collector, resume: scan.run(after) };
}

class ListScan implements RangeSink {
  /** Stops the scan of records, because the batch is full or the next list must be read by `visitSuffixes`. */
  isFull = false;
  readonly #collector: Collector;
  readonly #prefixes: Prefixes;
  readonly #from: Buffer | undefined;
  readonly #to: Buffer | undefined;
  readonly #suffixBytes: number;
  /** A prefix whose list must be read by `visitSuffixes`, because the list is long or only partly in the range. */
  #pendingPrefix: Buffer | undefined;
  #lastKey: Buffer | undefined;
  readonly #markRow = Buffer.from(MARK_ROW);

  constructor(prefixes: Prefixes, { from, to }: KeyRange, collector: Collector) {
    this.#prefixes = prefixes;
    this.#from = from?.length ? from : undefined;
    this.#to = to;
    this.#suffixBytes = prefixes.lists.suffixBytes;
    this.#collector = collector;
  }

  run(after: Buffer | undefined): Buffer | undefined {
    const from = this.#from;
    const resumedPrefix = after?.subarray(0, after.length - this.#suffixBytes);
    if (resumedPrefix) this.#emitList(resumedPrefix, after!.subarray(resumedPrefix.length));
    if (from && !after) this.#prefixes.proveStart(from);
    // A prefix of `from` lies before the range, but some of its rows may lie in the range.
    if (from && (!resumedPrefix || Buffer.compare(resumedPrefix, from) < 0)) {
      for (const prefix of this.#prefixes.findPrefixes(from).reverse()) {
        const isDone = resumedPrefix && Buffer.compare(prefix, resumedPrefix) <= 0;
        if (!this.isFull && !isDone && prefix.length < from.length) this.#emitList(prefix, undefined);
      }
    }
    let start = resumedPrefix && (!from || Buffer.compare(resumedPrefix, from) >= 0) ? resumedPrefix : from;
    let exclusiveStart = start !== undefined && start === resumedPrefix;
    while (!this.isFull) {
      this.#prefixes.scan({ start, end: this.#to, exclusiveStart }, this);
      const prefix = this.#pendingPrefix;
      if (!prefix) break;
      this.#pendingPrefix = undefined;
      this.isFull = false;
      this.#emitList(prefix, undefined);
      start = prefix;
      exclusiveStart = true;
    }
    return this.isFull ? this.#lastKey : undefined;
  }

  addRow(keys: Buffer, keyStart: number, keyEnd: number, record: Buffer, length: number): void {
    const prefix = allocate(keyEnd - keyStart);
    keys.copy(prefix, 0, keyStart, keyEnd);
    const end = this.#to;
    if (length % this.#suffixBytes === 0 && !(end && startsWith(end, prefix))) {
      this.#emitRows(prefix, record, 0, length);
    } else {
      this.#pendingPrefix = prefix;
      this.isFull = true;
    }
  }

  /** Emits the rows of a prefix that lie in the range, behind the suffix `after`. */
  #emitList(prefix: Buffer, after: Buffer | undefined): void {
    const n = this.#suffixBytes;
    const from = this.#from;
    const low = from && startsWith(from, prefix) ? from.subarray(prefix.length) : undefined;
    const to = this.#to;
    const high = to && startsWith(to, prefix) ? to.subarray(prefix.length) : undefined;
    this.#prefixes.lists.visitSuffixes(prefix, after ?? low, (suffixes, startOffset, end) => {
      const start = after
        ? lowerBoundIn(suffixes, startOffset, end, n, after, true)
        : low
          ? lowerBoundIn(suffixes, startOffset, end, n, low)
          : startOffset;
      const stop = high ? lowerBoundIn(suffixes, startOffset, end, n, high) : end;
      this.#emitRows(prefix, suffixes, start, stop);
      return !this.isFull && stop === end;
    });
  }

  #emitRows(prefix: Buffer, suffixes: Buffer, start: number, end: number): void {
    const n = this.#suffixBytes;
    const { length } = prefix;
    for (let offset = start; offset < end; offset += n) {
      const key = allocate(length + n);
      // Prefix and suffix are short, so a loop is faster than a call of `copy`.
      for (let i = 0; i < length; i++) key[i] = prefix[i]!;
      for (let i = 0; i < n; i++) key[length + i] = suffixes[offset + i]!;
      this.#collector.addUntested(key, this.#markRow);
      this.#lastKey = key;
      if (this.#collector.isFull) {
        this.isFull = true;
        return;
      }
    }
  }
}
