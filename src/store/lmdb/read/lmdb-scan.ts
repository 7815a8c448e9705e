import type { Transaction } from 'lmdb';
import type { Batch, KeyRange, Scan, ScanOptions } from '../../contract.js';
import { compileFilter } from '../../row-filter.js';
import { checkScan, keyAfter, MARK_ROW, noTable } from '../../tables.js';
import type { Environment } from '../file/environment.js';
import type { LmdbTable } from '../file/lmdb-table.js';
import { scanLists } from '../lists/list-scan.js';
import { UnknownWord } from '../record/decode.js';
import { compileRecordFilter } from '../record/record-filter.js';
import { Collector, type ScanShape, scanRows } from '../rows/row-scan.js';
import { Segments } from '../rows/segments.js';

/** A scan without an LMDB cursor between batches: each batch resumes after the last examined key. */
export class LmdbScan implements Scan {
  readonly #env: Environment;
  readonly #checkOpen: () => void;
  readonly #table: LmdbTable;
  readonly #range: KeyRange;
  readonly #shape: ScanShape;
  readonly #transaction: Transaction | undefined;
  #afterKey: Buffer | undefined;
  #rowsLeft: number;
  #isDone = false;

  constructor(
    env: Environment,
    checkOpen: () => void,
    table: LmdbTable,
    range: KeyRange,
    options: ScanOptions,
    transaction: Transaction | undefined,
  ) {
    checkScan(table.spec, options);
    this.#env = env;
    this.#checkOpen = checkOpen;
    this.#table = table;
    this.#range = range;
    this.#transaction = transaction;
    this.#afterKey = options.after;
    this.#rowsLeft = options.limit ?? Number.POSITIVE_INFINITY;
    const test = options.filter && compileFilter(options.filter);
    const hasLists = table.spec.suffixBytes !== undefined;
    const recordTest = hasLists ? undefined : options.filter && compileRecordFilter(options.filter);
    this.#shape = {
      recordTest,
      splitRowTest: test,
      reverse: options.reverse ?? false,
      keysOnly: options.keysOnly ?? false,
      skipBoundaryCheck: options.skipBoundaryCheck ?? false,
    };
    if (this.#rowsLeft <= 0 || (hasLists && test && !test(MARK_ROW))) this.#isDone = true;
  }

  next(): Batch | undefined {
    if (this.#isDone) return undefined;
    this.#checkOpen();
    try {
      if (!this.#transaction && !this.#env.isCurrent()) this.#env.reloadTables();
      if (this.#table.isDropped) throw noTable(this.#table.spec.name);
      return this.#readBatch();
    } catch (error) {
      this.#isDone = true;
      throw this.#env.toReadError(error);
    }
  }

  #readBatch(): Batch {
    const collector = this.#table.spec.suffixBytes === undefined ? this.#readRows() : this.#readListRows();
    this.#rowsLeft -= collector.keys.length;
    if (!this.#afterKey || this.#rowsLeft <= 0) this.#isDone = true;
    return { ...collector.toBatch(), until: this.#afterKey ? keyAfter(this.#afterKey) : 'end' };
  }

  #readRows(): Collector {
    const { maxKey } = this.#env;
    for (;;) {
      const collector = new Collector(this.#table.records, this.#shape, this.#rowsLeft);
      try {
        this.#afterKey = scanRows(
          this.#table,
          this.#range,
          this.#afterKey,
          this.#shape,
          collector,
          this.#transaction,
          maxKey,
        );
        collector.completeSplitRow((key) => new Segments(this.#table, key, maxKey, this.#transaction));
        return collector;
      } catch (error) {
        if (!(error instanceof UnknownWord)) throw error;
        this.#table.records.loadWords(this.#transaction);
      }
    }
  }

  #readListRows(): Collector {
    const { collector, resume } = scanLists(
      this.#table,
      this.#range,
      this.#afterKey,
      this.#shape,
      this.#rowsLeft,
      this.#transaction,
      this.#env.maxKey,
    );
    this.#afterKey = resume;
    return collector;
  }

  close(): void {
    this.#isDone = true;
  }
}
