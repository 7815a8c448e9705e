import type { RangeOptions, RootDatabase, Transaction } from 'lmdb';
import { compareRuns } from '../../../bytes/compare.js';
import { damaged } from '../../store-error.js';
import { type Db, openDb } from './database.js';
import { viewOf } from './read-buffer.js';
import type { Records } from './records.js';

/** Receives the rows of a running scan while they lie in LMDB's read buffer. */
export interface RangeSink {
  /**
   * The key is `keys[from..to)`, the value, verified and without its check, `row[0..length)`; both good only during the
   * call.
   */
  row(keys: Buffer, from: number, to: number, row: Buffer, length: number): void;
  /** It wants no more. */
  readonly full: boolean;
}

/** Rows from `start` to before `end`, or with `reverse` the other way; a bound that is undefined bounds nothing. */
export interface RowRange {
  readonly start: Buffer | undefined;
  readonly end: Buffer | undefined;
  readonly exclusiveStart?: boolean | undefined;
  readonly inclusiveEnd?: boolean | undefined;
  readonly reverse?: boolean | undefined;
}

/** One run through a range. */
interface Run {
  readonly range: RowRange;
  readonly sink: RangeSink;
  started: boolean;
  /** A row beyond the end was met. */
  ended: boolean;
}

/** Whether the first row that LMDB found for a range lies outside it: a damaged key has led it astray. */
function liesBefore({ start, reverse = false }: RowRange, keys: Buffer, from: number, to: number): boolean {
  if (!start) return false;
  const order = compareRuns(keys, from, to, start);
  return order !== 0 && order > 0 === reverse;
}

function isBeyond({ end, reverse = false, inclusiveEnd }: RowRange, keys: Buffer, from: number, to: number): boolean {
  if (!end) return false;
  const order = compareRuns(keys, from, to, end);
  return order === 0 ? !inclusiveEnd : order > 0 !== reverse;
}

/** `md_entries` of a database's record: LMDB keeps a 64-bit count 32 bytes in. */
const ENTRIES_AT = 32;

/** Undefined where there is no record. */
function entriesIn(record: Buffer | undefined): number | undefined {
  return record && Number(record.readBigUInt64LE(ENTRIES_AT));
}

/** Compares the key of one row with another. */
class Comparison implements RangeSink {
  full = false;
  order = 0;
  readonly #key: Buffer | undefined;

  constructor(key: Buffer | undefined) {
    this.#key = key;
  }

  row(keys: Buffer, from: number, to: number): void {
    this.full = true;
    if (this.#key) this.order = compareRuns(keys, from, to, this.#key);
  }
}

/** Reads ranges of a database by handing each row on unbuilt: half the time a row of a scan takes is its copy. */
export class Scanner {
  readonly #root: RootDatabase;
  /** The key of the database's record in LMDB's list of databases. */
  readonly #record: Buffer;
  readonly #db: Db;
  readonly #table: string;
  #run: Run | undefined;
  /** Where the last key lies. */
  #keys: Buffer = Buffer.alloc(0);
  #from = 0;
  #to = 0;

  constructor(root: RootDatabase, name: string, records: Records, table: string) {
    this.#root = root;
    this.#record = Buffer.from(`${name}\0`);
    this.#table = table;
    const writeKey = (key: Buffer, target: Buffer, start: number): number => {
      target.set(key, start);
      return start + key.length;
    };
    this.#db = openDb(root, name, {
      keyEncoder: {
        writeKey,
        readKey: (source: Buffer, start: number, end: number): undefined => {
          this.#keys = source;
          this.#from = start;
          this.#to = end;
        },
      },
      encoder: {
        encode: (bytes: Buffer) => bytes,
        writeKey,
        decode: (bytes: Buffer, end: number): undefined => {
          const keys = this.#keys;
          const from = this.#from;
          const to = this.#to;
          const row = viewOf(bytes);
          const length = records.verify(keys, from, to, row, end);
          const run = this.#run!;
          if (!run.started && liesBefore(run.range, keys, from, to))
            throw damaged(this.#table, Buffer.from(keys.subarray(from, to)), 'it does not stand where its key belongs');
          run.ended = isBeyond(run.range, keys, from, to);
          if (run.ended) return;
          run.started = true;
          run.sink.row(keys, from, to, row, length);
        },
      },
    });
  }

  /**
   * Hands the rows of a range, one at least, to the sink until it is full; true when the range has no more. The range
   * ends at a sound row beyond it, or behind the table's last row: LMDB takes a damaged key for one beyond the end, or
   * for none.
   */
  handOut(range: RowRange, sink: RangeSink, transaction: Transaction | undefined): boolean {
    const run = { range, sink, started: false, ended: false };
    if (!this.#walk(run, transaction)) return false;
    if (!run.ended) this.#requireLast(run, transaction);
    return true;
  }

  /** The key that was handed out last. */
  get lastKey(): Buffer {
    return Buffer.from(this.#keys.subarray(this.#from, this.#to));
  }

  /** How the key of the first row of the range compares with `key`; undefined: none was found. */
  orderOfFirst(range: RowRange, key: Buffer | undefined, transaction: Transaction | undefined): number | undefined {
    const sink = new Comparison(key);
    this.#walk({ range, sink, started: false, ended: false }, transaction);
    return sink.full ? sink.order : undefined;
  }

  /** By LMDB's own count, which lies apart from the pages of the rows. */
  isEmpty(transaction: Transaction | undefined): boolean {
    return (transaction ? entriesIn(this.#root.get(this.#record, { transaction })) : this.#entries()) === 0;
  }

  /** In the transaction of this tick, or in the one that writes. */
  #entries(): number {
    return (this.#db as unknown as { db: { stat(): { entryCount: number } } }).db.stat().entryCount;
  }

  /** False when the sink is full. */
  #walk(run: Run, transaction: Transaction | undefined): boolean {
    const outer = this.#run;
    this.#run = run;
    // Without a name LMDB would take an end of its own.
    const options = { ...run.range, end: undefined, ...(transaction && { transaction }) } as object;
    const rows = this.#db.getRange(options as RangeOptions)[Symbol.iterator]();
    try {
      do {
        if (rows.next().done || run.ended) return true;
      } while (!run.sink.full);
      return false;
    } finally {
      rows.return?.();
      this.#run = outer;
    }
  }

  /**
   * LMDB found none behind the last row, or none at all: so that one is the table's last, or the last lies before the
   * start.
   */
  #requireLast({ range, started }: Run, transaction: Transaction | undefined): void {
    const { start, reverse = false } = range;
    const known = started ? this.lastKey : start;
    const last = { start: undefined, end: undefined, reverse: !reverse };
    const order = this.orderOfFirst(last, known, transaction);
    if (order === undefined ? !started && this.isEmpty(transaction) : this.#isLast(order, range, started)) return;
    throw damaged(this.#table, known, 'the rows behind it are lost');
  }

  #isLast(order: number, { start, reverse, exclusiveStart }: RowRange, started: boolean): boolean {
    if (started) return order === 0;
    return start !== undefined && (order === 0 ? exclusiveStart === true : order < 0 !== (reverse === true));
  }
}
