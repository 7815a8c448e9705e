import type { Transaction } from 'lmdb';
import { checkRanges, selectColumns } from '../columns.js';
import type { Batch, Cell, ColumnRange, KeyRange, Reader, Scan, ScanOptions } from '../contract.js';
import { compileFilter } from '../filter.js';
import { cellFamily, EMPTY, nextCell, packSorted } from '../row.js';
import { afterPrefix, cellKey, MARK_ROW, noTable, rowKeyOf } from '../tables.js';
import { copyOf, viewOf } from './bytes.js';
import type { Environment } from './environment.js';
import { scanLists } from './list-scan.js';
import { Lists } from './lists.js';
import { Prefixes } from './prefixes.js';
import { Collector, countRows, type ScanShape, scanRows } from './rows.js';
import { isLong, lengthIn, Segments } from './segments.js';
import { getFast, type LmdbTable, separateOf } from './table.js';

const FIRST_FAMILY: readonly ColumnRange[] = [{ family: 0 }];

/** Where the first family of a packed row ends. */
function headEnd(row: Buffer): number {
  let at = 0;
  while (at < row.length && cellFamily(row, at) === 0) at = nextCell(row, at);
  return at;
}

/** Reads at once, from the state of this tick or, with a transaction, from that of its snapshot. */
export class LmdbReader implements Reader {
  protected readonly env: Environment;
  readonly #transaction: Transaction | undefined;
  readonly #options: { transaction: Transaction } | undefined;

  constructor(env: Environment, transaction?: Transaction) {
    this.env = env;
    this.#transaction = transaction;
    this.#options = transaction && { transaction };
  }

  /** Throws `closed` when reading is over. */
  protected checkOpen(): void {
    this.env.checkOpen();
  }

  get(name: string, key: Buffer): Buffer | undefined {
    const table = this.env.table(name);
    try {
      return this.#get(table, key);
    } catch (error) {
      throw this.env.failure(error);
    }
  }

  #get(table: LmdbTable, key: Buffer): Buffer | undefined {
    if (key.length > this.env.maxKey || key.length === 0) return undefined;
    const suffix = table.spec.suffixBytes;
    if (suffix !== undefined) return this.#mark(table, key, suffix);
    const bytes = getFast(table.rows, key, this.#transaction);
    if (bytes && isLong(bytes)) return this.#segments(table, key).row(lengthIn(bytes));
    if (bytes) return copyOf(bytes, bytes.length);
    this.env.recheck(table);
    return undefined;
  }

  #segments(table: LmdbTable, key: Buffer): Segments {
    return new Segments(table, key, this.env.maxKey, this.#transaction);
  }

  getHead(name: string, key: Buffer, only = false): Buffer | undefined {
    return this.#some(this.env.table(name), key, undefined, only);
  }

  getColumns(name: string, key: Buffer, ranges: readonly ColumnRange[]): Buffer | undefined {
    const table = this.env.table(name);
    checkRanges(ranges, table.spec);
    return this.#some(table, key, ranges, false);
  }

  /** Without ranges the row, or its first family: of a long one, and where `only` that is wanted. */
  #some(table: LmdbTable, key: Buffer, ranges: readonly ColumnRange[] | undefined, only: boolean): Buffer | undefined {
    try {
      if (table.spec.suffixBytes !== undefined || key.length > this.env.maxKey || key.length === 0) {
        const row = this.#get(table, key);
        return row && ranges ? selectColumns(row, row.length, ranges) : row;
      }
      const bytes = getFast(table.rows, key, this.#transaction);
      if (bytes && isLong(bytes)) return this.#segments(table, key).columns(ranges ?? FIRST_FAMILY);
      if (bytes && ranges) return selectColumns(viewOf(bytes), bytes.length, ranges);
      if (bytes) {
        const end = only ? headEnd(bytes) : bytes.length;
        return end > 0 ? copyOf(bytes, end) : undefined;
      }
      this.env.recheck(table);
      return undefined;
    } catch (error) {
      throw this.env.failure(error);
    }
  }

  #mark(table: LmdbTable, key: Buffer, suffix: number): Buffer | undefined {
    const cut = key.length - suffix;
    if (cut < 1) return undefined;
    if (new Lists(table, this.#transaction).has(key.subarray(0, cut), key.subarray(cut))) return Buffer.from(MARK_ROW);
    this.env.recheck(table);
    return undefined;
  }

  getMany(name: string, keys: readonly Buffer[]): (Buffer | undefined)[] {
    const table = this.env.table(name);
    const rows = new Array<Buffer | undefined>(keys.length);
    try {
      for (let i = 0; i < keys.length; i++) rows[i] = this.#get(table, keys[i]!);
    } catch (error) {
      throw this.env.failure(error);
    }
    return rows;
  }

  getCells(name: string, key: Buffer, family: number, prefix: Buffer): Buffer | undefined {
    const table = this.env.table(name);
    const db = separateOf(table, family);
    const start = cellKey(key, prefix);
    if (start.length > this.env.maxKey) return undefined;
    const cells: Cell[] = [];
    try {
      const end = afterPrefix(start)!;
      for (const { key: found, value } of db.getRange({ start, end, ...this.#options })) {
        cells.push({ family, qualifier: found.subarray(2 + key.length), value });
      }
      if (cells.length === 0) this.env.recheck(table);
    } catch (error) {
      throw this.env.failure(error);
    }
    return cells.length ? packSorted(cells) : undefined;
  }

  namesOfCells(name: string, key: Buffer, family: number): Buffer[] {
    const table = this.env.table(name);
    const db = separateOf(table, family);
    const start = cellKey(key, EMPTY);
    try {
      const names: Buffer[] = [];
      for (const found of db.getKeys({ start, end: afterPrefix(start)!, ...this.#options }))
        names.push(Buffer.from(found.subarray(start.length)));
      if (names.length === 0) this.env.recheck(table);
      return names;
    } catch (error) {
      throw this.env.failure(error);
    }
  }

  keysOfCells(name: string, family: number, limit: number, after?: Buffer): Buffer[] {
    const table = this.env.table(name);
    const db = separateOf(table, family);
    const keys: Buffer[] = [];
    let last = after;
    try {
      // One seek a row: it may have thousands of cells.
      while (keys.length < limit) {
        const start = last && afterPrefix(cellKey(last, EMPTY));
        const [found] = db.getKeys({ ...(start && { start }), limit: 1, ...this.#options });
        if (!found) break;
        last = Buffer.from(rowKeyOf(found));
        keys.push(last);
      }
      if (keys.length === 0) this.env.recheck(table);
    } catch (error) {
      throw this.env.failure(error);
    }
    return keys;
  }

  scan(name: string, range: KeyRange, options: ScanOptions = {}): Scan {
    return new LmdbScan(this.env, () => this.checkOpen(), this.env.table(name), range, options, this.#transaction);
  }

  postings(name: string, prefix: Buffer, limit: number, after?: Buffer, into?: Buffer): Buffer {
    const table = this.env.table(name);
    const lists = new Lists(table, this.#transaction);
    if (prefix.length === 0 || prefix.length > this.env.maxKey) return EMPTY;
    try {
      const found = lists.postings(prefix, limit, after, into);
      if (found.length === 0) this.env.recheck(table);
      return found;
    } catch (error) {
      throw this.env.failure(error);
    }
  }

  rangePostings(name: string, range: KeyRange, limit: number): Buffer {
    const table = this.env.table(name);
    const prefixes = new Prefixes(table, this.#transaction);
    try {
      const found = prefixes.collect(range, limit);
      if (found.length === 0) this.env.recheck(table);
      return found;
    } catch (error) {
      throw this.env.failure(error);
    }
  }

  postingCount(name: string, prefix: Buffer, cap: number): number {
    const table = this.env.table(name);
    const lists = new Lists(table, this.#transaction);
    if (prefix.length === 0 || prefix.length > this.env.maxKey) return 0;
    try {
      const size = lists.size(prefix);
      if (size === 0) this.env.recheck(table);
      return Math.min(size, cap);
    } catch (error) {
      throw this.env.failure(error);
    }
  }

  count(name: string, range: KeyRange, cap: number): number {
    const table = this.env.table(name);
    try {
      const count =
        table.spec.suffixBytes === undefined
          ? countRows(table, range, cap, this.#transaction, this.env.maxKey)
          : new Prefixes(table, this.#transaction).count(range, cap);
      if (count === 0) this.env.recheck(table);
      return count;
    } catch (error) {
      throw this.env.failure(error);
    }
  }
}

/** Holds no LMDB cursor between batches: each goes on after the last key looked at. */
class LmdbScan implements Scan {
  readonly #env: Environment;
  readonly #checkOpen: () => void;
  readonly #table: LmdbTable;
  readonly #range: KeyRange;
  readonly #shape: ScanShape;
  readonly #transaction: Transaction | undefined;
  #after: Buffer | undefined;
  #left: number;
  #done = false;

  constructor(
    env: Environment,
    checkOpen: () => void,
    table: LmdbTable,
    range: KeyRange,
    options: ScanOptions,
    transaction: Transaction | undefined,
  ) {
    this.#env = env;
    this.#checkOpen = checkOpen;
    this.#table = table;
    this.#range = range;
    this.#transaction = transaction;
    this.#left = options.limit ?? Number.POSITIVE_INFINITY;
    const test = options.filter && compileFilter(options.filter);
    this.#shape = { test, reverse: options.reverse ?? false, keysOnly: options.keysOnly ?? false };
    if (this.#left <= 0 || (table.spec.suffixBytes !== undefined && test && !test(MARK_ROW))) this.#done = true;
  }

  next(): Batch | undefined {
    if (this.#done) return undefined;
    this.#checkOpen();
    try {
      if (!this.#transaction && !this.#env.isCurrent()) this.#env.refresh();
      if (this.#table.dropped) throw noTable(this.#table.spec.name);
      return this.#batch();
    } catch (error) {
      this.#done = true;
      throw this.#env.failure(error);
    }
  }

  #batch(): Batch {
    let collector: Collector;
    if (this.#table.spec.suffixBytes === undefined) {
      collector = new Collector(this.#shape, this.#left);
      this.#after = scanRows(
        this.#table,
        this.#range,
        this.#after,
        this.#shape,
        collector,
        this.#transaction,
        this.#env.maxKey,
      );
      collector.complete((key) => new Segments(this.#table, key, this.#env.maxKey, this.#transaction));
    } else {
      const found = scanLists(
        this.#table,
        this.#range,
        this.#after,
        this.#shape,
        this.#left,
        this.#transaction,
        this.#env.maxKey,
      );
      collector = found.collector;
      this.#after = found.resume;
    }
    this.#left -= collector.keys.length;
    if (!this.#after || this.#left <= 0) this.#done = true;
    return collector.batch();
  }

  close(): void {
    this.#done = true;
  }
}
