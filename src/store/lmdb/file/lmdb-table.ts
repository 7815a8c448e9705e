import type { RangeOptions, RootDatabase, Transaction } from 'lmdb';
import { compareRuns } from '../../../bytes/compare.js';
import type { TableSpec } from '../../contract.js';
import { damaged } from '../../store-error.js';
import { checkSeparate } from '../../tables.js';
import { type Db, openDb, plainView, type Records, shortenValue } from './records.js';

/** An open table with its LMDB handles. */
export interface LmdbTable {
  readonly spec: TableSpec;
  readonly id: number;
  readonly records: Records;
  /** Records by row key; for a table with `suffixBytes`, lists by prefix (`lists.ts`). */
  readonly rows: Db;
  readonly scanner: Scanner;
  /** The separate families by number: values with a checksum, by `cellKey`. */
  readonly separateFamilies: ReadonlyMap<number, Db>;
  /** Segments of split rows, in the database `t<id>:long` (`segments.ts`); undefined with `suffixBytes`. */
  readonly segments: Db | undefined;
  /** Blocks of long lists (`lists.ts`); undefined for a table without `suffixBytes`. */
  readonly blocks: { readonly rows: Db; readonly scanner: Scanner } | undefined;
  isDropped: boolean;
}

/** The handle of a separate family. */
export function separateFamilyDb({ spec, separateFamilies }: LmdbTable, family: number): Db {
  checkSeparate(spec, family);
  return separateFamilies.get(family)!;
}

/** Opens the handles of a table. Creates absent databases unless the store is read-only. */
export function openTable(root: RootDatabase, spec: TableSpec, id: number, records: Records): LmdbTable {
  const dbName = `t${id}`;
  const rows = openDb(root, dbName);
  const separateFamilies = new Map<number, Db>();
  for (const [family, { separate }] of spec.families.entries()) {
    if (separate) separateFamilies.set(family, openDb(root, `${dbName}:${family}`));
  }
  const hasLists = spec.suffixBytes !== undefined;
  const segments = hasLists ? undefined : openDb(root, `${dbName}:long`);
  const blocks = hasLists
    ? { rows: openDb(root, `${dbName}:blocks`), scanner: new Scanner(root, `${dbName}:blocks`, records, spec.name) }
    : undefined;
  return {
    spec,
    id,
    records,
    rows,
    scanner: new Scanner(root, dbName, records, spec.name),
    separateFamilies,
    segments,
    blocks,
    isDropped: false,
  };
}

interface FastGet {
  getBinaryFast(key: Buffer, options?: { transaction: Transaction }): Buffer | undefined;
}

/**
 * Reads the value of the key in one of the table's databases and verifies its checksum; undefined if the key is absent.
 * The result is the value without the checksum, in LMDB's read buffer (`records.ts`).
 */
export function getVerified(
  { records }: LmdbTable,
  db: Db,
  key: Buffer,
  transaction?: Transaction,
): Buffer | undefined {
  const bytes = (db as unknown as FastGet).getBinaryFast(key, transaction && { transaction });
  return bytes && shortenValue(bytes, records.verify(key, 0, key.length, plainView(bytes), bytes.length));
}

/** Receives the rows of a scan while they lie in LMDB's read buffer. */
export interface RangeSink {
  /** Receives a row, valid only during the call: key `keys[keyStart..keyEnd)` and verified value `row[0..length)`. */
  addRow(keys: Buffer, keyStart: number, keyEnd: number, row: Buffer, length: number): void;
  /** True stops the scan. */
  readonly isFull: boolean;
}

/** The rows from `start` on and before `end`; with `reverse` in descending order. An undefined bound is open. */
export interface RowRange {
  readonly start: Buffer | undefined;
  readonly end: Buffer | undefined;
  readonly exclusiveStart?: boolean | undefined;
  readonly inclusiveEnd?: boolean | undefined;
  readonly reverse?: boolean | undefined;
}

/** The state of one walk through a range. */
interface Walk {
  readonly range: RowRange;
  readonly sink: RangeSink;
  hasRows: boolean;
  /** Whether a row beyond the end was found. */
  isPastEnd: boolean;
}

/** Returns whether the first row that LMDB found lies before the range, as can happen with a damaged key. */
function liesBefore({ start, reverse = false }: RowRange, keys: Buffer, keyStart: number, keyEnd: number): boolean {
  if (!start) return false;
  const order = compareRuns(keys, keyStart, keyEnd, start);
  return order !== 0 && order > 0 === reverse;
}

function isBeyond(range: RowRange, keys: Buffer, keyStart: number, keyEnd: number): boolean {
  const { end, reverse = false, inclusiveEnd } = range;
  if (!end) return false;
  const order = compareRuns(keys, keyStart, keyEnd, end);
  return order === 0 ? !inclusiveEnd : order > 0 !== reverse;
}

/** Offset of the 64-bit field `md_entries` in LMDB's record of a database. */
const ENTRY_COUNT_AT = 32;

/** Takes one row and compares its key with a given key. */
class KeyComparison implements RangeSink {
  isFull = false;
  order = 0;
  readonly #key: Buffer | undefined;

  constructor(key: Buffer | undefined) {
    this.#key = key;
  }

  addRow(keys: Buffer, keyStart: number, keyEnd: number): void {
    this.isFull = true;
    if (this.#key) this.order = compareRuns(keys, keyStart, keyEnd, this.#key);
  }
}

/**
 * Reads ranges of a database and passes each row to a sink in LMDB's buffer. Copying rows would double a scan's cost.
 */
class Scanner {
  readonly #root: RootDatabase;
  /** The key of the database's record in LMDB's list of databases. */
  readonly #recordKey: Buffer;
  readonly #db: Db;
  readonly #tableName: string;
  #activeWalk: Walk | undefined;
  /** LMDB has read the key `#keyBytes[#keyStart, #keyEnd)` last. */
  #keyBytes: Buffer = Buffer.alloc(0);
  #keyStart = 0;
  #keyEnd = 0;

  constructor(root: RootDatabase, dbName: string, records: Records, table: string) {
    this.#root = root;
    this.#recordKey = Buffer.from(`${dbName}\0`);
    this.#tableName = table;
    const writeKey = (key: Buffer, target: Buffer, start: number): number => {
      target.set(key, start);
      return start + key.length;
    };
    this.#db = openDb(root, dbName, {
      keyEncoder: {
        writeKey,
        readKey: (source: Buffer, start: number, end: number): undefined => {
          this.#keyBytes = source;
          this.#keyStart = start;
          this.#keyEnd = end;
        },
      },
      encoder: {
        encode: (bytes: Buffer) => bytes,
        writeKey,
        decode: (bytes: Buffer, end: number): undefined => {
          const keys = this.#keyBytes;
          const keyStart = this.#keyStart;
          const keyEnd = this.#keyEnd;
          const row = plainView(bytes);
          const length = records.verify(keys, keyStart, keyEnd, row, end);
          const walk = this.#activeWalk!;
          if (!walk.hasRows && liesBefore(walk.range, keys, keyStart, keyEnd))
            throw damaged(
              this.#tableName,
              Buffer.from(keys.subarray(keyStart, keyEnd)),
              'it does not stand where its key belongs',
            );
          walk.isPastEnd = isBeyond(walk.range, keys, keyStart, keyEnd);
          if (walk.isPastEnd) return;
          walk.hasRows = true;
          walk.sink.addRow(keys, keyStart, keyEnd, row, length);
        },
      },
    });
  }

  /**
   * Passes rows of the range to the sink, at least one, until the sink is full. Returns true at the end of the range.
   * Since LMDB may mistake a damaged key for the end, the end is proved: either by an undamaged row beyond the range,
   * or by comparing the last row with the last row of the table.
   */
  scan(range: RowRange, sink: RangeSink, transaction: Transaction | undefined): boolean {
    const walk = { range, sink, hasRows: false, isPastEnd: false };
    if (!this.#walk(walk, transaction)) return false;
    if (!walk.isPastEnd) this.#proveEnd(walk, transaction);
    return true;
  }

  /** A copy of the key of the last row. */
  get lastKey(): Buffer {
    return Buffer.from(this.#keyBytes.subarray(this.#keyStart, this.#keyEnd));
  }

  /** Compares the key of the first row of the range with `key`; undefined if LMDB finds no row. */
  compareFirstKey(range: RowRange, key: Buffer | undefined, transaction: Transaction | undefined): number | undefined {
    const sink = new KeyComparison(key);
    this.#walk({ range, sink, hasRows: false, isPastEnd: false }, transaction);
    return sink.isFull ? sink.order : undefined;
  }

  /** Returns whether the table is empty by LMDB's own entry count, which is independent of the pages of the rows. */
  isEmpty(transaction: Transaction | undefined): boolean {
    if (!transaction)
      return (this.#db as unknown as { db: { stat(): { entryCount: number } } }).db.stat().entryCount === 0;
    const record: Buffer | undefined = this.#root.get(this.#recordKey, { transaction });
    return record?.readBigUInt64LE(ENTRY_COUNT_AT) === 0n;
  }

  /** Returns false when the sink is full. */
  #walk(walk: Walk, transaction: Transaction | undefined): boolean {
    const outerWalk = this.#activeWalk;
    this.#activeWalk = walk;
    // With `end` left out, LMDB would use an end of its own.
    const options = { ...walk.range, end: undefined, ...(transaction && { transaction }) } as object;
    const rows = this.#db.getRange(options as RangeOptions)[Symbol.iterator]();
    try {
      do {
        if (rows.next().done || walk.isPastEnd) return true;
      } while (!walk.sink.isFull);
      return false;
    } finally {
      rows.return?.();
      this.#activeWalk = outerWalk;
    }
  }

  /**
   * Proves the end of a walk for which LMDB found no row beyond the range: the last row of the walk must be the
   * outermost row of the table. If the walk had no row, the outermost row must lie before the start. Throws `damaged`
   * otherwise.
   */
  #proveEnd({ range, hasRows }: Walk, transaction: Transaction | undefined): void {
    const { start, reverse = false } = range;
    const edgeKey = hasRows ? this.lastKey : start;
    const outermostRow = { start: undefined, end: undefined, reverse: !reverse };
    const order = this.compareFirstKey(outermostRow, edgeKey, transaction);
    if (order === undefined ? !hasRows && this.isEmpty(transaction) : this.#isOutermost(order, range, hasRows)) return;
    throw damaged(this.#tableName, edgeKey, 'the rows behind it are lost');
  }

  #isOutermost(order: number, { start, reverse, exclusiveStart }: RowRange, hasRows: boolean): boolean {
    if (hasRows) return order === 0;
    return start !== undefined && (order === 0 ? exclusiveStart === true : order < 0 !== (reverse === true));
  }
}
