import { startsWith } from '../../bytes/compare.js';
import { checkRanges, checkScan, checkSeparate, suffixOf } from '../checks.js';
import { selectColumns } from '../columns.js';
import type { Batch, Cell, ColumnRange, KeyRange, Reader, Scan, ScanOptions, TableSpec } from '../contract.js';
import { EMPTY, packSorted } from '../row.js';
import { compileFilter, type RowTest } from '../row-filter.js';
import { cellKey, keyAfter, noTable, rowKeyOf } from '../tables.js';
import type { Tree } from './tree.js';

/** A batch of a scan ends after this many examined rows, … */
const BATCH_ROWS = 1000;
/** … or this many milliseconds, so that a long scan yields to other work. */
const BATCH_MS = 1;

export interface MemoryTable {
  readonly spec: TableSpec;
  readonly rows: Tree;
  /** The separate families by number: values by `cellKey`. */
  readonly cells: ReadonlyMap<number, Tree>;
  appended: bigint;
  dropped: boolean;
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
    const tree = separateOf(this.table(name), family);
    const cells: Cell[] = [];
    const start = cellKey(key, prefix);
    tree.forward(start, false, (found, value) => {
      if (!startsWith(found, start)) return false;
      cells.push({ family, qualifier: found.subarray(2 + key.length), value });
      return true;
    });
    return cells.length ? packSorted(cells) : undefined;
  }

  keysOfCells(name: string, family: number, limit: number, after?: Buffer): Buffer[] {
    const tree = separateOf(this.table(name), family);
    const keys: Buffer[] = [];
    let last = after;
    if (limit <= 0) return keys;
    tree.forward(after && cellKey(after, EMPTY), false, (found) => {
      const key = rowKeyOf(found);
      if (last?.equals(key)) return true;
      last = Buffer.from(key);
      keys.push(last);
      return keys.length < limit;
    });
    return keys;
  }

  namesOfCells(name: string, key: Buffer, family: number): Buffer[] {
    const tree = separateOf(this.table(name), family);
    const names: Buffer[] = [];
    const start = cellKey(key, EMPTY);
    tree.forward(start, false, (found) => {
      if (!startsWith(found, start)) return false;
      names.push(Buffer.from(found.subarray(start.length)));
      return true;
    });
    return names;
  }

  scan(name: string, range: KeyRange, options: ScanOptions = {}): Scan {
    const table = this.table(name);
    return new MemoryScan(() => this.table(name) === table && !table.dropped, table, range, options);
  }

  postings(name: string, prefix: Buffer, limit: number, after?: Buffer): Buffer {
    const suffix = this.#suffix(name);
    const found: Buffer[] = [];
    if (limit > 0) {
      this.#eachPosting(name, prefix, after, (key) => {
        found.push(key.subarray(prefix.length));
        return found.length < limit;
      });
    }
    return Buffer.concat(found, found.length * suffix);
  }

  postingsMany(name: string, prefixes: readonly Buffer[], limit: number, after?: Buffer): Buffer[] {
    return prefixes.map((prefix) => this.postings(name, prefix, limit, after));
  }

  rangePostings(name: string, range: KeyRange, limit: number): Buffer {
    const suffix = this.#suffix(name);
    const found: Buffer[] = [];
    this.#eachKey(name, range, limit, (key) => found.push(key.subarray(key.length - suffix)));
    return Buffer.concat(found, found.length * suffix);
  }

  postingCount(name: string, prefix: Buffer, cap: number): number {
    this.#suffix(name);
    let count = 0;
    if (cap > 0) this.#eachPosting(name, prefix, undefined, () => ++count < cap);
    return count;
  }

  count(name: string, range: KeyRange, cap: number): number {
    let count = 0;
    this.#eachKey(name, range, cap, () => count++);
    return count;
  }

  #eachKey(name: string, { from, to }: KeyRange, limit: number, give: (key: Buffer) => void): void {
    const { rows } = this.table(name);
    if (limit <= 0) return;
    let left = limit;
    rows.forward(from, false, (key) => {
      if (to && Buffer.compare(key, to) >= 0) return false;
      give(key);
      return --left > 0;
    });
  }

  #suffix(name: string, after?: Buffer): number {
    return suffixOf(this.table(name).spec, after);
  }

  /** Visits the keys of `prefix` + suffix. Skips the rows of longer prefixes, which lie between these keys. */
  #eachPosting(name: string, prefix: Buffer, after: Buffer | undefined, visit: (key: Buffer) => boolean): void {
    const suffix = this.#suffix(name, after);
    const from = after ? Buffer.concat([prefix, after]) : prefix;
    this.table(name).rows.forward(from, after !== undefined, (key) => {
      if (!startsWith(key, prefix)) return false;
      return key.length !== prefix.length + suffix || visit(key);
    });
  }
}

class MemoryScan implements Scan {
  readonly #there: () => boolean;
  readonly #table: MemoryTable;
  readonly #range: KeyRange;
  readonly #test: RowTest | undefined;
  readonly #reverse: boolean;
  readonly #keysOnly: boolean;
  #left: number;
  #after: Buffer | undefined;
  #done = false;

  constructor(there: () => boolean, table: MemoryTable, range: KeyRange, options: ScanOptions) {
    checkScan(table.spec, options);
    this.#there = there;
    this.#table = table;
    this.#range = range;
    this.#test = options.filter && compileFilter(options.filter);
    this.#reverse = options.reverse ?? false;
    this.#keysOnly = options.keysOnly ?? false;
    this.#after = options.after;
    this.#left = options.limit ?? Number.POSITIVE_INFINITY;
    if (this.#left <= 0) this.#done = true;
  }

  next(): Batch | undefined {
    if (this.#done) return undefined;
    if (!this.#there()) {
      this.#done = true;
      throw noTable(this.#table.spec.name);
    }
    const keys: Buffer[] = [];
    const rows: (Buffer | undefined)[] = [];
    let scanned = 0;
    const deadline = performance.now() + BATCH_MS;
    const { from, to } = this.#range;
    const visit = (key: Buffer, row: Buffer): boolean => {
      if (this.#reverse ? from && Buffer.compare(key, from) < 0 : to && Buffer.compare(key, to) >= 0) {
        this.#done = true;
        return false;
      }
      scanned++;
      this.#after = key;
      if (!this.#test || this.#test(row)) {
        keys.push(Buffer.from(key));
        rows.push(this.#keysOnly ? undefined : Buffer.from(row));
        if (--this.#left <= 0) this.#done = true;
      }
      if (this.#done || scanned >= BATCH_ROWS) return false;
      return (scanned & 15) !== 0 || performance.now() < deadline;
    };
    const ended = this.#reverse
      ? this.#table.rows.backward(this.#after ?? to, visit)
      : this.#table.rows.forward(this.#after ?? from, this.#after !== undefined, visit);
    if (ended) this.#done = true;
    return { keys, rows, scanned, until: this.#done ? 'end' : keyAfter(this.#after!) };
  }

  close(): void {
    this.#done = true;
  }
}

/** The tree of a separate family. */
export function separateOf({ spec, cells }: MemoryTable, family: number): Tree {
  checkSeparate(spec, family);
  return cells.get(family)!;
}
