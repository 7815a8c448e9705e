import type { RangeOptions, Transaction } from 'lmdb';
import type { Batch, KeyRange } from '../contract.js';
import type { RowTest } from '../filter.js';
import { boundsOf } from './bounds.js';
import { allocate } from './bytes.js';
import { isLong, lengthIn, type Segments } from './segments.js';
import type { LmdbTable, RowSink } from './table.js';

/** A batch ends after so many rows looked at, … */
export const BATCH_ROWS = 2000;
/** … so many bytes copied out, … */
export const BATCH_BYTES = 256 * 1024;
/** … or so many milliseconds, so that a long scan lets others in. */
export const BATCH_MS = 1;

export interface ScanShape {
  readonly test: RowTest | undefined;
  readonly reverse: boolean;
  readonly keysOnly: boolean;
}

/** Collects one batch; looks at rows in place and copies those that match. */
export class Collector implements RowSink {
  readonly keys: Buffer[] = [];
  readonly rows: (Buffer | undefined)[] = [];
  scanned = 0;
  readonly #test: RowTest | undefined;
  readonly #keysOnly: boolean;
  readonly #limit: number;
  readonly #deadline = performance.now() + BATCH_MS;
  #bytes = 0;
  #long = false;

  constructor(shape: ScanShape, limit: number) {
    this.#test = shape.test;
    this.#keysOnly = shape.keysOnly;
    this.#limit = limit;
  }

  row(keys: Buffer, from: number, to: number, row: Buffer, length: number): void {
    this.scanned++;
    // Of a long row only the head is here: the batch ends with it, and `complete` reads the rest.
    this.#long = isLong(row) && (!this.#keysOnly || this.#test !== undefined);
    if (!this.#long && this.#test && !this.#test(row, length)) return;
    const key = allocate(to - from);
    keys.copy(key, 0, from, to);
    this.keys.push(key);
    this.#bytes += key.length;
    if (this.#keysOnly && !this.#long) {
      this.rows.push(undefined);
      return;
    }
    const copy = allocate(length);
    row.copy(copy, 0, 0, length);
    this.rows.push(copy);
    this.#bytes += length;
  }

  /** To be called when the cursor is closed: puts a long row in the place of its head, or takes it out when it does not match. */
  complete(segmentsOf: (key: Buffer) => Segments): void {
    if (!this.#long) return;
    const row = segmentsOf(this.keys.at(-1)!).row(lengthIn(this.rows.pop()!));
    if (!this.#test || this.#test(row)) this.rows.push(this.#keysOnly ? undefined : row);
    else this.keys.pop();
  }

  /** Adds a row whose key is already the caller's own. */
  own(key: Buffer, row: Buffer): void {
    this.scanned++;
    this.keys.push(key);
    this.rows.push(this.#keysOnly ? undefined : row);
    this.#bytes += key.length + row.length;
  }

  get limitReached(): boolean {
    return this.keys.length >= this.#limit;
  }

  get full(): boolean {
    return (
      this.#long ||
      this.scanned >= BATCH_ROWS ||
      this.#bytes >= BATCH_BYTES ||
      this.keys.length >= this.#limit ||
      ((this.scanned & 15) === 0 && performance.now() > this.#deadline)
    );
  }

  batch(): Batch {
    return { keys: this.keys, rows: this.rows, scanned: this.scanned };
  }
}

/** One batch of a plain table. Returns the key to resume after, or undefined at the end of the range. */
export function scanRows(
  table: LmdbTable,
  range: KeyRange,
  after: Buffer | undefined,
  shape: ScanShape,
  collector: Collector,
  transaction: Transaction | undefined,
  maxKey: number,
): Buffer | undefined {
  const options = rangeOptions(range, after, shape.reverse, transaction, maxKey);
  if (!options) return undefined;
  const { scanner } = table;
  const outer = scanner.sink;
  scanner.sink = collector;
  const rows = scanner.db.getRange(options)[Symbol.iterator]();
  try {
    while (!rows.next().done) {
      if (collector.full) return Buffer.from(scanner.keys.subarray(scanner.from, scanner.to));
    }
    return undefined;
  } finally {
    rows.return?.();
    scanner.sink = outer;
  }
}

/** LMDB's range options; `after` replaces the bound the scan starts from. */
function rangeOptions(
  range: KeyRange,
  after: Buffer | undefined,
  reverse: boolean,
  transaction: Transaction | undefined,
  maxKey: number,
): RangeOptions | undefined {
  const bounds = boundsOf(range, maxKey);
  if (!bounds) return undefined;
  const options: RangeOptions = {};
  if (transaction) options.transaction = transaction;
  const start = after ?? (reverse ? bounds.to : bounds.from);
  const end = reverse ? bounds.from : bounds.to;
  const startExclusive = after !== undefined || (reverse ? !bounds.toInclusive : bounds.fromExclusive);
  const endInclusive = reverse ? !bounds.fromExclusive : bounds.toInclusive;
  // LMDB has its own idea of an absent start or end: say "none" where none is meant.
  Object.assign(options, { start, end, reverse });
  if (start && startExclusive) options.exclusiveStart = true;
  if (end && endInclusive) options.inclusiveEnd = true;
  return options;
}

/** Number of rows in the range of a plain table, up to `cap`. */
export function countRows(
  table: LmdbTable,
  range: KeyRange,
  cap: number,
  transaction: Transaction | undefined,
  maxKey: number,
): number {
  const options = rangeOptions(range, undefined, false, transaction, maxKey);
  if (!options || cap <= 0) return 0;
  options.limit = cap;
  let count = 0;
  for (const _ of table.rows.getKeys(options)) count++;
  return count;
}
