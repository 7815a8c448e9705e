import type { Transaction } from 'lmdb';
import { checkScan } from '../../checks.js';
import type { Batch, KeyRange, Scan, ScanOptions } from '../../contract.js';
import { compileFilter } from '../../row-filter.js';
import { keyAfter, MARK_ROW, noTable } from '../../tables.js';
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
    checkScan(table.spec, options);
    this.#env = env;
    this.#checkOpen = checkOpen;
    this.#table = table;
    this.#range = range;
    this.#transaction = transaction;
    this.#after = options.after;
    this.#left = options.limit ?? Number.POSITIVE_INFINITY;
    const test = options.filter && compileFilter(options.filter);
    const listed = table.spec.suffixBytes !== undefined;
    const records = listed ? undefined : options.filter && compileRecordFilter(options.filter);
    this.#shape = {
      test: records,
      splitTest: test,
      reverse: options.reverse ?? false,
      keysOnly: options.keysOnly ?? false,
      skipBoundaryCheck: options.skipBoundaryCheck ?? false,
    };
    if (this.#left <= 0 || (listed && test && !test(MARK_ROW))) this.#done = true;
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
      throw this.#env.readError(error);
    }
  }

  #batch(): Batch {
    const collector = this.#table.spec.suffixBytes === undefined ? this.#rows() : this.#listRows();
    this.#left -= collector.keys.length;
    if (!this.#after || this.#left <= 0) this.#done = true;
    return { ...collector.batch(), until: this.#after ? keyAfter(this.#after) : 'end' };
  }

  #rows(): Collector {
    const { maxKey } = this.#env;
    for (;;) {
      const collector = new Collector(this.#table.records, this.#shape, this.#left);
      try {
        this.#after = scanRows(
          this.#table,
          this.#range,
          this.#after,
          this.#shape,
          collector,
          this.#transaction,
          maxKey,
        );
        collector.complete((key) => new Segments(this.#table, key, maxKey, this.#transaction));
        return collector;
      } catch (error) {
        if (!(error instanceof UnknownWord)) throw error;
        this.#table.records.loadWords(this.#transaction);
      }
    }
  }

  #listRows(): Collector {
    const { collector, resume } = scanLists(
      this.#table,
      this.#range,
      this.#after,
      this.#shape,
      this.#left,
      this.#transaction,
      this.#env.maxKey,
    );
    this.#after = resume;
    return collector;
  }

  close(): void {
    this.#done = true;
  }
}
