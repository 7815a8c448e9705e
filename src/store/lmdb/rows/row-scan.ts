import type { Transaction } from 'lmdb';
import type { Batch, KeyRange } from '../../contract.js';
import type { RowTest } from '../../row-filter.js';
import { requireBeyond } from '../file/absent.js';
import type { LmdbTable } from '../file/lmdb-table.js';
import type { Records } from '../file/records.js';
import type { RangeSink, RowRange } from '../file/scanner.js';
import type { RecordTest } from '../record/record-filter.js';
import { allocate } from '../record/room.js';
import { boundsOf } from './key-bounds.js';
import { isHead, lengthIn, type Segments } from './segments.js';

/** A batch ends after so many rows looked at, … */
export const BATCH_ROWS = 2000;
/** … so many bytes copied out, … */
export const BATCH_BYTES = 256 * 1024;
/** … or so many milliseconds, so that a long scan lets others in. */
export const BATCH_MS = 1;

export interface ScanShape {
  /** Of records, and of rows that are kept in segments. */
  readonly test: RecordTest | undefined;
  readonly splitTest: RowTest | undefined;
  readonly reverse: boolean;
  readonly keysOnly: boolean;
  readonly besideDamage: boolean;
}

/** Collects one batch; looks at records in place and decodes those that match. */
export class Collector implements RangeSink {
  readonly keys: Buffer[] = [];
  readonly rows: (Buffer | undefined)[] = [];
  scanned = 0;
  readonly #records: Records;
  readonly #test: RecordTest | undefined;
  readonly #splitTest: RowTest | undefined;
  readonly #keysOnly: boolean;
  readonly #limit: number;
  readonly #deadline = performance.now() + BATCH_MS;
  #bytes = 0;
  #split = false;

  constructor(records: Records, shape: ScanShape, limit: number) {
    this.#records = records;
    this.#test = shape.test;
    this.#splitTest = shape.splitTest;
    this.#keysOnly = shape.keysOnly;
    this.#limit = limit;
  }

  row(keys: Buffer, from: number, to: number, record: Buffer, length: number): void {
    this.scanned++;
    const records = this.#records;
    const at = records.at(keys, from, to, record, length);
    // Of a split row only the head is here: the batch ends with it, and `complete` reads the rest.
    this.#split = isHead(record) && (!this.#keysOnly || this.#test !== undefined);
    if (!this.#split && this.#test && !records.matches(this.#test, at)) return;
    const key = allocate(to - from);
    keys.copy(key, 0, from, to);
    this.#bytes += key.length;
    let row: Buffer | undefined;
    if (this.#split) row = Buffer.from(record.subarray(0, length));
    else if (!this.#keysOnly) row = records.row(at);
    this.keys.push(key);
    this.rows.push(row);
    this.#bytes += row?.length ?? 0;
  }

  /**
   * To be called when the cursor is closed: puts a split row in the place of its head, or takes it out when it does not
   * match.
   */
  complete(segmentsOf: (key: Buffer) => Segments): void {
    if (!this.#split) return;
    const row = segmentsOf(this.keys.at(-1)!).row(lengthIn(this.rows.pop()!));
    if (!this.#splitTest || this.#splitTest(row)) this.rows.push(this.#keysOnly ? undefined : row);
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
      this.#split ||
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
  const rows = rowRange(range, after, shape.reverse, maxKey);
  if (!rows) return undefined;
  if (!shape.besideDamage) requireStart(table, rows, transaction);
  const { scanner } = table;
  return scanner.handOut(rows, collector, transaction) ? undefined : scanner.lastKey;
}

/** LMDB finds the start by comparing it with other keys: where one of them is damaged, rows would be left out. */
function requireStart(table: LmdbTable, { start, reverse }: RowRange, transaction: Transaction | undefined): void {
  if (start) requireBeyond(table, start, !reverse, transaction);
}

/** The range as a scanner takes it; `after` replaces the bound the scan starts from. */
function rowRange(range: KeyRange, after: Buffer | undefined, reverse: boolean, maxKey: number): RowRange | undefined {
  const bounds = boundsOf(range, maxKey);
  if (!bounds) return undefined;
  return {
    start: after ?? (reverse ? bounds.to : bounds.from),
    end: reverse ? bounds.from : bounds.to,
    exclusiveStart: after !== undefined || (reverse ? !bounds.toInclusive : bounds.fromExclusive),
    inclusiveEnd: reverse ? !bounds.fromExclusive : bounds.toInclusive,
    reverse,
  };
}

/** Number of rows in the range of a plain table, up to `cap`. */
export function countRows(
  table: LmdbTable,
  range: KeyRange,
  cap: number,
  transaction: Transaction | undefined,
  maxKey: number,
): number {
  const rows = rowRange(range, undefined, false, maxKey);
  if (!rows || cap <= 0) return 0;
  requireStart(table, rows, transaction);
  const counter = new Counter(cap);
  table.scanner.handOut(rows, counter, transaction);
  return counter.count;
}

class Counter implements RangeSink {
  count = 0;
  readonly #cap: number;

  constructor(cap: number) {
    this.#cap = cap;
  }

  row(): void {
    this.count++;
  }

  get full(): boolean {
    return this.count >= this.#cap;
  }
}
