import type { Transaction } from 'lmdb';
import type { Cell, ColumnRange, KeyRange, Reader, Scan, ScanOptions } from '../../contract.js';
import { EMPTY, packSorted, selectColumns } from '../../row.js';
import { afterPrefix, cellKey, checkRanges, isKey, MARK_ROW, rowKeyOf } from '../../tables.js';
import { proveAbsent } from '../file/absent.js';
import type { Environment } from '../file/environment.js';
import { getVerified, type LmdbTable, separateFamilyDb } from '../file/lmdb-table.js';
import { firstKeyIn, plainView } from '../file/records.js';
import { Lists } from '../lists/lists.js';
import { Prefixes } from '../lists/prefixes.js';
import { UnknownWord } from '../record/decode.js';
import { detachScratch } from '../record/room.js';
import { countRows } from '../rows/row-scan.js';
import { isSplitRowHead, Segments, splitRowLength } from '../rows/segments.js';
import { LmdbScan } from './lmdb-scan.js';

const FIRST_FAMILY: readonly ColumnRange[] = [{ family: 0 }];

/** Reads synchronously from the state of this tick or, with a transaction, from the state of a snapshot. */
export class LmdbReader implements Reader {
  protected readonly env: Environment;
  readonly #transaction: Transaction | undefined;
  readonly #options: { transaction: Transaction } | undefined;

  constructor(env: Environment, transaction?: Transaction) {
    this.env = env;
    this.#transaction = transaction;
    this.#options = transaction && { transaction };
  }

  /** Throws `closed` if the store or snapshot is closed. */
  protected checkOpen(): void {
    this.env.checkOpen();
  }

  get(name: string, key: Buffer): Buffer | undefined {
    const table = this.env.table(name);
    for (;;) {
      try {
        return this.#readRow(table, key);
      } catch (error) {
        this.#loadWordsOrThrow(table, error);
      }
    }
  }

  /** After `UnknownWord`, loads the words that the dictionary has gained, so that the caller can retry. */
  #loadWordsOrThrow(table: LmdbTable, error: unknown): void {
    if (!(error instanceof UnknownWord)) throw this.env.toReadError(error);
    table.records.loadWords(this.#transaction);
  }

  #readRow(table: LmdbTable, key: Buffer): Buffer | undefined {
    if (!isKey(key, this.env.maxKey)) return undefined;
    const suffixBytes = table.spec.suffixBytes;
    if (suffixBytes !== undefined) return this.#readMark(table, key, suffixBytes);
    const bytes = getVerified(table, table.rows, key, this.#transaction);
    if (bytes && isSplitRowHead(bytes)) return this.#segments(table, key).readRow(splitRowLength(bytes));
    if (bytes) return decodeRow(table, key, bytes, false);
    return this.#proveAbsent(table, key);
  }

  #proveAbsent(table: LmdbTable, key: Buffer): undefined {
    proveAbsent(table, key, this.#transaction);
    this.env.checkNotDropped(table);
  }

  #segments(table: LmdbTable, key: Buffer): Segments {
    return new Segments(table, key, this.env.maxKey, this.#transaction);
  }

  getHead(name: string, key: Buffer, headOnly = false): Buffer | undefined {
    return this.#readCells(this.env.table(name), key, undefined, headOnly);
  }

  getScratchHead(name: string, key: Buffer): Buffer | undefined {
    return this.#readCells(this.env.table(name), key, undefined, false, true);
  }

  detachScratch(): void {
    detachScratch();
  }

  getColumns(name: string, key: Buffer, ranges: readonly ColumnRange[]): Buffer | undefined {
    const table = this.env.table(name);
    checkRanges(ranges, table.spec);
    return this.#readCells(table, key, ranges, false);
  }

  /** Returns the cells in `ranges`; without ranges the row, or its first family if it is split or with `headOnly`. */
  #readCells(
    table: LmdbTable,
    key: Buffer,
    ranges: readonly ColumnRange[] | undefined,
    headOnly: boolean,
    inScratch = false,
  ): Buffer | undefined {
    for (;;) {
      try {
        if (table.spec.suffixBytes !== undefined || !isKey(key, this.env.maxKey)) {
          const row = this.#readRow(table, key);
          return row && ranges ? selectColumns(row, row.length, ranges) : row;
        }
        const bytes = getVerified(table, table.rows, key, this.#transaction);
        if (bytes && isSplitRowHead(bytes)) return this.#segments(table, key).readColumns(ranges ?? FIRST_FAMILY);
        if (bytes) {
          const row = decodeRow(table, key, bytes, headOnly, inScratch);
          return row && ranges ? selectColumns(row, row.length, ranges) : row;
        }
        return this.#proveAbsent(table, key);
      } catch (error) {
        this.#loadWordsOrThrow(table, error);
      }
    }
  }

  #readMark(table: LmdbTable, key: Buffer, suffixBytes: number): Buffer | undefined {
    const prefixLength = key.length - suffixBytes;
    if (prefixLength < 1) return undefined;
    if (new Lists(table, this.#transaction).hasSuffix(key.subarray(0, prefixLength), key.subarray(prefixLength)))
      return Buffer.from(MARK_ROW);
    this.env.checkNotDropped(table);
    return undefined;
  }

  getMany(name: string, keys: readonly Buffer[]): (Buffer | undefined)[] {
    const table = this.env.table(name);
    const rows = new Array<Buffer | undefined>(keys.length);
    for (let i = 0; i < keys.length; ) {
      try {
        for (; i < keys.length; i++) rows[i] = this.#readRow(table, keys[i]!);
      } catch (error) {
        this.#loadWordsOrThrow(table, error);
      }
    }
    return rows;
  }

  getCells(name: string, key: Buffer, family: number, prefix: Buffer): Buffer | undefined {
    const table = this.env.table(name);
    const db = separateFamilyDb(table, family);
    const start = cellKey(key, prefix);
    if (start.length > this.env.maxKey) return undefined;
    const cells: Cell[] = [];
    try {
      const end = afterPrefix(start)!;
      for (const { key: storedKey, value } of db.getRange({ start, end, ...this.#options })) {
        const length = table.records.verify(storedKey, 0, storedKey.length, value, value.length);
        cells.push({ family, qualifier: storedKey.subarray(2 + key.length), value: value.subarray(0, length) });
      }
      if (cells.length === 0) this.env.checkNotDropped(table);
    } catch (error) {
      throw this.env.toReadError(error);
    }
    return cells.length ? packSorted(cells) : undefined;
  }

  namesOfCells(name: string, key: Buffer, family: number): Buffer[] {
    const table = this.env.table(name);
    const db = separateFamilyDb(table, family);
    const start = cellKey(key, EMPTY);
    return this.#read(table, () => {
      const qualifiers: Buffer[] = [];
      for (const storedKey of db.getKeys({ start, end: afterPrefix(start)!, ...this.#options }))
        qualifiers.push(Buffer.from(storedKey.subarray(start.length)));
      return qualifiers;
    });
  }

  /** Runs a read and converts its errors. When the result is empty, throws `noTable` for a dropped table. */
  #read<T extends { readonly length: number } | number>(table: LmdbTable, read: () => T): T {
    try {
      const result = read();
      if ((typeof result === 'number' ? result : result.length) === 0) this.env.checkNotDropped(table);
      return result;
    } catch (error) {
      throw this.env.toReadError(error);
    }
  }

  keysOfCells(name: string, family: number, limit: number, after?: Buffer): Buffer[] {
    const table = this.env.table(name);
    const db = separateFamilyDb(table, family);
    return this.#read(table, () => {
      const keys: Buffer[] = [];
      let lastKey = after;
      // One seek per row, because a row may have thousands of cells.
      while (keys.length < limit) {
        const start = lastKey && afterPrefix(cellKey(lastKey, EMPTY));
        const storedKey = firstKeyIn(db, start ? { start } : {}, this.#transaction);
        if (!storedKey) break;
        lastKey = Buffer.from(rowKeyOf(storedKey));
        keys.push(lastKey);
      }
      return keys;
    });
  }

  scan(name: string, range: KeyRange, options: ScanOptions = {}): Scan {
    return new LmdbScan(this.env, () => this.checkOpen(), this.env.table(name), range, options, this.#transaction);
  }

  postings(name: string, prefix: Buffer, limit: number, after?: Buffer, into?: Buffer): Buffer {
    const table = this.env.table(name);
    const lists = new Lists(table, this.#transaction);
    if (!isKey(prefix, this.env.maxKey)) return EMPTY;
    try {
      const suffixes = lists.postings(prefix, limit, after, into);
      if (suffixes.length === 0) this.env.checkNotDropped(table);
      return suffixes;
    } catch (error) {
      throw this.env.toReadError(error);
    }
  }

  postingsMany(name: string, prefixes: readonly Buffer[], limit: number, after?: Buffer): Buffer[] {
    const table = this.env.table(name);
    const listReader = new Lists(table, this.#transaction);
    const keys = prefixes.map((prefix) => (isKey(prefix, this.env.maxKey) ? prefix : undefined));
    try {
      const suffixLists = listReader.postingsMany(keys, limit, after);
      if (suffixLists.some((list) => list.length === 0)) this.env.checkNotDropped(table);
      return suffixLists;
    } catch (error) {
      throw this.env.toReadError(error);
    }
  }

  rangePostings(name: string, range: KeyRange, limit: number): Buffer {
    const table = this.env.table(name);
    const prefixes = new Prefixes(table, this.env.maxKey, this.#transaction);
    return this.#read(table, () => prefixes.collect(range, limit));
  }

  postingCount(name: string, prefix: Buffer, cap: number): number {
    const table = this.env.table(name);
    const lists = new Lists(table, this.#transaction);
    if (!isKey(prefix, this.env.maxKey)) return 0;
    try {
      const size = lists.size(prefix);
      if (size === 0) this.env.checkNotDropped(table);
      return Math.min(size, cap);
    } catch (error) {
      throw this.env.toReadError(error);
    }
  }

  count(name: string, range: KeyRange, cap: number): number {
    const table = this.env.table(name);
    return this.#read(table, () =>
      table.spec.suffixBytes === undefined
        ? countRows(table, range, cap, this.#transaction, this.env.maxKey)
        : new Prefixes(table, this.env.maxKey, this.#transaction).count(range, cap),
    );
  }
}

function decodeRow(
  { records }: LmdbTable,
  key: Buffer,
  bytes: Buffer,
  headOnly: boolean,
  inScratch = false,
): Buffer | undefined {
  return records.decode(records.view(key, 0, key.length, plainView(bytes), bytes.length), headOnly, inScratch);
}
