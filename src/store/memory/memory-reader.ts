import { startsWith } from '../../bytes/compare.js';
import type { Batch, Cell, ColumnRange, KeyRange, Reader, Scan, ScanOptions, TableSpec } from '../contract.js';
import { EMPTY, packSorted, selectColumns } from '../row.js';
import { compileFilter, type RowTest } from '../row-filter.js';
import { cellKey, checkRanges, checkScan, checkSeparate, keyAfter, noTable, rowKeyOf, suffixOf } from '../tables.js';
import type { Tree } from './tree.js';

/** Maximum number of rows examined for one batch of a scan. */
const BATCH_ROWS = 1000;
/** Maximum duration of one batch, in milliseconds, so that a long scan yields to other work. */
const BATCH_MS = 1;

export interface MemoryTable {
  readonly spec: TableSpec;
  readonly rows: Tree;
  /** The separate families by number. Each tree holds values by `cellKey`. */
  readonly families: ReadonlyMap<number, Tree>;
  lastRowNumber: bigint;
  isDropped: boolean;
}

/** Reads the tables of the store or of a snapshot. Returns copies, so that the caller may change the buffers. */
export abstract class MemoryReader implements Reader {
  /** Returns the table. Throws `noTable` or `closed`. */
  protected abstract table(name: string): MemoryTable;

  get(name: string, key: Buffer): Buffer | undefined {
    const row = this.table(name).rows.get(key);
    return row && Buffer.from(row);
  }

  getHead(name: string, key: Buffer): Buffer | undefined {
    return this.get(name, key);
  }

  getColumns(name: string, key: Buffer, ranges: readonly ColumnRange[]): Buffer | undefined {
    const table = this.table(name);
    checkRanges(ranges, table.spec);
    const row = table.rows.get(key);
    return row && selectColumns(row, row.length, ranges);
  }

  getMany(name: string, keys: readonly Buffer[]): (Buffer | undefined)[] {
    return keys.map((key) => this.get(name, key));
  }

  getCells(name: string, key: Buffer, family: number, prefix: Buffer): Buffer | undefined {
    const tree = separateTree(this.table(name), family);
    const cells: Cell[] = [];
    const start = cellKey(key, prefix);
    tree.forward(start, false, (storedKey, value) => {
      if (!startsWith(storedKey, start)) return false;
      cells.push({ family, qualifier: storedKey.subarray(2 + key.length), value });
      return true;
    });
    return cells.length ? packSorted(cells) : undefined;
  }

  keysOfCells(name: string, family: number, limit: number, after?: Buffer): Buffer[] {
    const tree = separateTree(this.table(name), family);
    const keys: Buffer[] = [];
    let lastKey = after;
    if (limit <= 0) return keys;
    tree.forward(after && cellKey(after, EMPTY), false, (storedKey) => {
      const key = rowKeyOf(storedKey);
      if (lastKey?.equals(key)) return true;
      lastKey = Buffer.from(key);
      keys.push(lastKey);
      return keys.length < limit;
    });
    return keys;
  }

  namesOfCells(name: string, key: Buffer, family: number): Buffer[] {
    const tree = separateTree(this.table(name), family);
    const qualifiers: Buffer[] = [];
    const start = cellKey(key, EMPTY);
    tree.forward(start, false, (storedKey) => {
      if (!startsWith(storedKey, start)) return false;
      qualifiers.push(Buffer.from(storedKey.subarray(start.length)));
      return true;
    });
    return qualifiers;
  }

  scan(name: string, range: KeyRange, options: ScanOptions = {}): Scan {
    const table = this.table(name);
    return new MemoryScan(() => this.table(name) === table && !table.isDropped, table, range, options);
  }

  postings(name: string, prefix: Buffer, limit: number, after?: Buffer): Buffer {
    const suffixBytes = this.#suffixBytes(name);
    const suffixes: Buffer[] = [];
    if (limit > 0) {
      this.#visitPostings(name, prefix, after, (key) => {
        suffixes.push(key.subarray(prefix.length));
        return suffixes.length < limit;
      });
    }
    return Buffer.concat(suffixes, suffixes.length * suffixBytes);
  }

  postingsMany(name: string, prefixes: readonly Buffer[], limit: number, after?: Buffer): Buffer[] {
    return prefixes.map((prefix) => this.postings(name, prefix, limit, after));
  }

  rangePostings(name: string, range: KeyRange, limit: number): Buffer {
    const suffixBytes = this.#suffixBytes(name);
    const suffixes: Buffer[] = [];
    this.#visitKeys(name, range, limit, (key) => suffixes.push(key.subarray(key.length - suffixBytes)));
    return Buffer.concat(suffixes, suffixes.length * suffixBytes);
  }

  postingCount(name: string, prefix: Buffer, cap: number): number {
    this.#suffixBytes(name);
    let count = 0;
    if (cap > 0) this.#visitPostings(name, prefix, undefined, () => ++count < cap);
    return count;
  }

  count(name: string, range: KeyRange, cap: number): number {
    let count = 0;
    this.#visitKeys(name, range, cap, () => count++);
    return count;
  }

  #visitKeys(name: string, { from, to }: KeyRange, limit: number, visit: (key: Buffer) => void): void {
    const { rows } = this.table(name);
    if (limit <= 0) return;
    let rowsLeft = limit;
    rows.forward(from, false, (key) => {
      if (to && Buffer.compare(key, to) >= 0) return false;
      visit(key);
      return --rowsLeft > 0;
    });
  }

  #suffixBytes(name: string, after?: Buffer): number {
    return suffixOf(this.table(name).spec, after);
  }

  /** Visits the keys of `prefix` + suffix. Skips the rows of longer prefixes, which lie between these keys. */
  #visitPostings(name: string, prefix: Buffer, after: Buffer | undefined, visit: (key: Buffer) => boolean): void {
    const suffixBytes = this.#suffixBytes(name, after);
    const from = after ? Buffer.concat([prefix, after]) : prefix;
    this.table(name).rows.forward(from, after !== undefined, (key) => {
      if (!startsWith(key, prefix)) return false;
      return key.length !== prefix.length + suffixBytes || visit(key);
    });
  }
}

class MemoryScan implements Scan {
  readonly #isThere: () => boolean;
  readonly #table: MemoryTable;
  readonly #range: KeyRange;
  readonly #test: RowTest | undefined;
  readonly #reverse: boolean;
  readonly #keysOnly: boolean;
  #rowsLeft: number;
  #afterKey: Buffer | undefined;
  #isDone = false;

  constructor(isThere: () => boolean, table: MemoryTable, range: KeyRange, options: ScanOptions) {
    checkScan(table.spec, options);
    this.#isThere = isThere;
    this.#table = table;
    this.#range = range;
    this.#test = options.filter && compileFilter(options.filter);
    this.#reverse = options.reverse ?? false;
    this.#keysOnly = options.keysOnly ?? false;
    this.#afterKey = options.after;
    this.#rowsLeft = options.limit ?? Number.POSITIVE_INFINITY;
    if (this.#rowsLeft <= 0) this.#isDone = true;
  }

  next(): Batch | undefined {
    if (this.#isDone) return undefined;
    if (!this.#isThere()) {
      this.#isDone = true;
      throw noTable(this.#table.spec.name);
    }
    const keys: Buffer[] = [];
    const rows: (Buffer | undefined)[] = [];
    let scannedCount = 0;
    const deadline = performance.now() + BATCH_MS;
    const { from, to } = this.#range;
    const visit = (key: Buffer, row: Buffer): boolean => {
      if (this.#reverse ? from && Buffer.compare(key, from) < 0 : to && Buffer.compare(key, to) >= 0) {
        this.#isDone = true;
        return false;
      }
      scannedCount++;
      this.#afterKey = key;
      if (!this.#test || this.#test(row)) {
        keys.push(Buffer.from(key));
        rows.push(this.#keysOnly ? undefined : Buffer.from(row));
        if (--this.#rowsLeft <= 0) this.#isDone = true;
      }
      if (this.#isDone || scannedCount >= BATCH_ROWS) return false;
      return (scannedCount & 15) !== 0 || performance.now() < deadline;
    };
    const isAtEnd = this.#reverse
      ? this.#table.rows.backward(this.#afterKey ?? to, visit)
      : this.#table.rows.forward(this.#afterKey ?? from, this.#afterKey !== undefined, visit);
    if (isAtEnd) this.#isDone = true;
    return { keys, rows, scannedCount, until: this.#isDone ? 'end' : keyAfter(this.#afterKey!) };
  }

  close(): void {
    this.#isDone = true;
  }
}

/** The tree of a separate family. */
export function separateTree({ spec, families }: MemoryTable, family: number): Tree {
  checkSeparate(spec, family);
  return families.get(family)!;
}
