import type { Transaction } from 'lmdb';
import type { Batch, KeyRange } from '../../contract.js';
import type { RowTest } from '../../row-filter.js';
import { proveBoundary } from '../file/absent.js';
import type { LmdbTable, RangeSink, RowRange } from '../file/lmdb-table.js';
import type { Records } from '../file/records.js';
import type { RecordTest } from '../record/record-filter.js';
import { allocate } from '../record/room.js';
import { isSplitRowHead, type Segments, splitRowLength } from './segments.js';

/** Maximum number of rows examined for one batch of a scan. */
export const BATCH_ROWS = 2000;
/** Maximum number of bytes copied for one batch. */
export const BATCH_BYTES = 256 * 1024;
/** Maximum duration of one batch, in milliseconds, so that a long scan yields to other work. */
export const BATCH_MS = 1;

/** The options of a scan, prepared for reading its batches. */
export interface ScanShape {
  /** The filter, compiled for records and for the packed rows of split rows. */
  readonly recordTest: RecordTest | undefined;
  readonly splitRowTest: RowTest | undefined;
  readonly reverse: boolean;
  readonly keysOnly: boolean;
  readonly skipBoundaryCheck: boolean;
}

/** Collects one batch of rows: tests records in LMDB's buffer and decodes the records that match. */
export class Collector implements RangeSink {
  readonly keys: Buffer[] = [];
  readonly rows: (Buffer | undefined)[] = [];
  scannedCount = 0;
  readonly #records: Records;
  readonly #recordTest: RecordTest | undefined;
  readonly #splitRowTest: RowTest | undefined;
  readonly #keysOnly: boolean;
  readonly #limit: number;
  readonly #deadline = performance.now() + BATCH_MS;
  #byteCount = 0;
  #endsWithHead = false;

  constructor(records: Records, shape: ScanShape, limit: number) {
    this.#records = records;
    this.#recordTest = shape.recordTest;
    this.#splitRowTest = shape.splitRowTest;
    this.#keysOnly = shape.keysOnly;
    this.#limit = limit;
  }

  addRow(keys: Buffer, keyStart: number, keyEnd: number, record: Buffer, length: number): void {
    this.scannedCount++;
    const records = this.#records;
    const view = records.view(keys, keyStart, keyEnd, record, length);
    // The record of a split row is only a head. The batch ends here, and `completeSplitRow` reads the segments.
    this.#endsWithHead = isSplitRowHead(record) && (!this.#keysOnly || this.#recordTest !== undefined);
    if (!this.#endsWithHead && this.#recordTest && !records.matches(this.#recordTest, view)) return;
    const key = allocate(keyEnd - keyStart);
    keys.copy(key, 0, keyStart, keyEnd);
    this.#byteCount += key.length;
    let row: Buffer | undefined;
    if (this.#endsWithHead) row = Buffer.from(record.subarray(0, length));
    else if (!this.#keysOnly) row = records.decode(view);
    this.keys.push(key);
    this.rows.push(row);
    this.#byteCount += row?.length ?? 0;
  }

  /**
   * Replaces the head of a split row by the row, or drops it if the row does not match. Reads from LMDB, so it must not
   * be called during a scan.
   */
  completeSplitRow(segmentsOf: (key: Buffer) => Segments): void {
    if (!this.#endsWithHead) return;
    const row = segmentsOf(this.keys.at(-1)!).readRow(splitRowLength(this.rows.pop()!));
    if (!this.#splitRowTest || this.#splitRowTest(row)) this.rows.push(this.#keysOnly ? undefined : row);
    else this.keys.pop();
  }

  /** Adds a row without a test. The batch keeps `key` without copying it. */
  addUntested(key: Buffer, row: Buffer): void {
    this.scannedCount++;
    this.keys.push(key);
    this.rows.push(this.#keysOnly ? undefined : row);
    this.#byteCount += key.length + row.length;
  }

  get isFull(): boolean {
    return (
      this.#endsWithHead ||
      this.scannedCount >= BATCH_ROWS ||
      this.#byteCount >= BATCH_BYTES ||
      this.keys.length >= this.#limit ||
      ((this.scannedCount & 15) === 0 && performance.now() > this.#deadline)
    );
  }

  toBatch(): Batch {
    return { keys: this.keys, rows: this.rows, scannedCount: this.scannedCount };
  }
}

/** Reads one batch of a table without `suffixBytes`. Returns the key to resume after; undefined at the end. */
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
  if (!shape.skipBoundaryCheck) proveStart(table, rows, transaction);
  const { scanner } = table;
  return scanner.scan(rows, collector, transaction) ? undefined : scanner.lastKey;
}

/** Proves that LMDB finds the right start of the range: a damaged key could make LMDB skip rows. */
function proveStart(table: LmdbTable, { start, reverse }: RowRange, transaction: Transaction | undefined): void {
  if (start) proveBoundary(table, start, !reverse, transaction);
}

/** Converts the range for `Scanner.scan`; `after` replaces the bound at which the scan starts. */
function rowRange(range: KeyRange, after: Buffer | undefined, reverse: boolean, maxKey: number): RowRange | undefined {
  const bounds = toKeyBounds(range, maxKey);
  if (!bounds) return undefined;
  return {
    start: after ?? (reverse ? bounds.to : bounds.from),
    end: reverse ? bounds.from : bounds.to,
    exclusiveStart: after !== undefined || (reverse ? !bounds.isToInclusive : bounds.isFromExclusive),
    inclusiveEnd: reverse ? !bounds.isFromExclusive : bounds.isToInclusive,
    reverse,
  };
}

/** Counts the rows in a range of a table without `suffixBytes`, up to `cap`. */
export function countRows(
  table: LmdbTable,
  range: KeyRange,
  cap: number,
  transaction: Transaction | undefined,
  maxKey: number,
): number {
  const rows = rowRange(range, undefined, false, maxKey);
  if (!rows || cap <= 0) return 0;
  proveStart(table, rows, transaction);
  const counter = new RowCounter(cap);
  table.scanner.scan(rows, counter, transaction);
  return counter.count;
}

class RowCounter implements RangeSink {
  count = 0;
  readonly #cap: number;

  constructor(cap: number) {
    this.#cap = cap;
  }

  addRow(): void {
    this.count++;
  }

  get isFull(): boolean {
    return this.count >= this.#cap;
  }
}

/** A key range for LMDB: bounds are at most as long as the longest key, and empty bounds are absent. */
interface KeyBounds {
  readonly from: Buffer | undefined;
  readonly isFromExclusive: boolean;
  readonly to: Buffer | undefined;
  readonly isToInclusive: boolean;
}

/**
 * Converts a range; undefined for an empty range. A bound longer than any key is truncated, which makes a lower bound
 * exclusive and an upper bound inclusive.
 */
export function toKeyBounds(range: KeyRange, maxKey: number): KeyBounds | undefined {
  const { from, to } = range;
  if (to && (to.length === 0 || (from && Buffer.compare(from, to) >= 0))) return undefined;
  const isFromCut = from !== undefined && from.length > maxKey;
  const isToCut = to !== undefined && to.length > maxKey;
  return {
    from: isFromCut ? from.subarray(0, maxKey) : from?.length ? from : undefined,
    isFromExclusive: isFromCut,
    to: isToCut ? to.subarray(0, maxKey) : to,
    isToInclusive: isToCut,
  };
}
