import type { Database, RootDatabase, Transaction } from 'lmdb';
import * as lmdb from 'lmdb';
import type { TableSpec } from '../contract.js';
import { viewOf } from './bytes.js';

export type Db = Database<Buffer, Buffer>;

const BINARY = { encoding: 'binary', keyEncoding: 'binary' } as const;

/** Receives the rows of a running scan while they lie in LMDB's read buffer. */
export interface RowSink {
  /** The key is `keys[from..to)`, the row `row[0..length)`; both good only during the call. */
  row(keys: Buffer, from: number, to: number, row: Buffer, length: number): void;
}

/** An open table: LMDB handles by use. */
export interface LmdbTable {
  readonly spec: TableSpec;
  readonly id: number;
  /** Packed row by key; of a table with `suffixBytes`, suffixes by prefix (dupSort). */
  readonly rows: Db;
  /** The same table, read by handing each row to `scanner.sink` instead of building it. */
  readonly scanner: Scanner;
  /** By family number, the separate ones: value by `cellKey`. */
  readonly cells: ReadonlyMap<number, Db>;
  /** Segments of long rows (`segments.ts`); undefined with `suffixBytes`, and where a store of format 1 is only read. */
  readonly longRows: Db | undefined;
  dropped: boolean;
}

/** A handle whose decoder passes rows on unbuilt: half the time a row of a scan takes is its copy. */
export interface Scanner {
  readonly db: Db;
  sink: RowSink | undefined;
  /** Where the last key lies. */
  keys: Buffer;
  from: number;
  to: number;
}

/** Opens the handles of a table, creating its databases when they are absent and the store may write. */
export function openTable(root: RootDatabase, spec: TableSpec, id: number): LmdbTable {
  const dup = spec.suffixBytes === undefined ? {} : { dupSort: true, dupFixed: true };
  const name = `t${id}`;
  const rows = openDb(root, name, { ...BINARY, ...dup });
  const cells = new Map<number, Db>();
  for (const [family, { separate }] of spec.families.entries()) {
    if (separate) cells.set(family, openDb(root, `${name}:${family}`, BINARY));
  }
  const longRows = spec.suffixBytes === undefined ? root.openDB<Buffer, Buffer>(`${name}:long`, BINARY) : undefined;
  return { spec, id, rows, scanner: openScanner(root, name, dup), cells, longRows, dropped: false };
}

function openDb(root: RootDatabase, name: string, options: object): Db {
  const db: Db | undefined = root.openDB<Buffer, Buffer>(name, options);
  if (!db) throw new Error(`database ${name} is missing`);
  return db;
}

function openScanner(root: RootDatabase, name: string, dup: object): Scanner {
  const scanner = { sink: undefined, keys: Buffer.alloc(0), from: 0, to: 0 } as Omit<Scanner, 'db'> & { db?: Db };
  scanner.db = openDb(root, name, {
    ...dup,
    keyEncoder: {
      writeKey(key: Buffer, target: Buffer, start: number): number {
        target.set(key, start);
        return start + key.length;
      },
      readKey(source: Buffer, start: number, end: number): undefined {
        scanner.keys = source;
        scanner.from = start;
        scanner.to = end;
      },
    },
    encoder: {
      encode: (bytes: Buffer) => bytes,
      writeKey(key: Buffer, target: Buffer, start: number): number {
        target.set(key, start);
        return start + key.length;
      },
      decode(bytes: Buffer, end: number): undefined {
        scanner.sink!.row(scanner.keys, scanner.from, scanner.to, viewOf(bytes), end);
      },
    },
  });
  return scanner as Scanner;
}

interface FastGet {
  getBinaryFast(key: Buffer, options?: { transaction: Transaction }): Buffer | undefined;
}

/** The value (of a dupSort database the first) in LMDB's read buffer, or undefined; `bytes.ts` says how to take it out. */
export function getFast(db: Db, key: Buffer, transaction?: Transaction): Buffer | undefined {
  return (db as unknown as FastGet).getBinaryFast(key, transaction && { transaction });
}

/** lmdb's own functions, which its iterators call. */
interface Native {
  position(cursor: number, flags: number, offset: number, keySize: number, end: number): number;
}
const { nativeAddon } = lmdb as unknown as { nativeAddon?: Native };

/** What an iterator of lmdb passes for a count of one key's values, with a cursor that was used before. */
const COUNT_VALUES = 0x100 | 0x800 | 0x1000 | 0x2000;

interface Counting {
  getValuesCount(key: Buffer, options?: object): number;
  /** The handle's native side keeps the cursor of the last iterator that is done. */
  readonly db: { readonly availableCursor?: { readonly address: number } | null };
}

/** Number of values of a key in a dupSort database. */
export function countValues(db: Db, key: Buffer, transaction?: Transaction): number {
  const rows = db as unknown as Counting;
  return transaction ? rows.getValuesCount(key, { transaction }) : rows.getValuesCount(key);
}

/**
 * As `countValues`, of the key that `getFast` has just found, outside of transactions. That key is still in lmdb's key
 * buffer and its read transaction current, so that the iterator which `getValuesCount` builds, five times the cost of
 * the count itself, is not needed.
 */
export function countFound(db: Db, key: Buffer): number {
  const cursor = (db as unknown as Counting).db.availableCursor;
  const count = cursor && nativeAddon ? nativeAddon.position(cursor.address, COUNT_VALUES, 0, key.length, 0) : 0;
  return count > 0 ? count : countValues(db, key);
}
