import type { Database, RangeOptions, RootDatabase, Transaction } from 'lmdb';
import type { TableSpec } from '../contract.js';
import { viewOf } from './bytes.js';

export type Db = Database<Buffer, Buffer>;

const BINARY = { encoding: 'binary', keyEncoding: 'binary' } as const;

/** Receives the rows of a running scan while they lie in LMDB's read buffer. */
export interface RowSink {
  /** The key is `keys[from..to)`, the row `row[0..length)`; both good only during the call. */
  row(keys: Buffer, from: number, to: number, row: Buffer, length: number): void;
}

export interface RangeSink extends RowSink {
  /** It wants no more. */
  readonly full: boolean;
}

/** An open table: LMDB handles by use. */
export interface LmdbTable {
  readonly spec: TableSpec;
  readonly id: number;
  /** Packed row by key; of a table with `suffixBytes`, list by prefix (`lists.ts`). */
  readonly rows: Db;
  /** The same table, read by handing each row to `scanner.sink` instead of building it. */
  readonly scanner: Scanner;
  /** By family number, the separate ones: value by `cellKey`. */
  readonly cells: ReadonlyMap<number, Db>;
  /** Segments of long rows (`segments.ts`); undefined with `suffixBytes`. */
  readonly longRows: Db | undefined;
  /** Blocks of long lists (`lists.ts`); undefined without `suffixBytes`. */
  readonly blocks: { readonly rows: Db; readonly scanner: Scanner } | undefined;
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

/** The handle of a separate family. */
export function separateOf({ spec, cells }: LmdbTable, family: number): Db {
  const db = cells.get(family);
  if (!db) throw new TypeError(`family ${family} of table ${spec.name} is not separate`);
  return db;
}

/** Opens the handles of a table, creating its databases when they are absent and the store may write. */
export function openTable(root: RootDatabase, spec: TableSpec, id: number): LmdbTable {
  const name = `t${id}`;
  const rows = openDb(root, name, BINARY);
  const cells = new Map<number, Db>();
  for (const [family, { separate }] of spec.families.entries()) {
    if (separate) cells.set(family, openDb(root, `${name}:${family}`, BINARY));
  }
  const listed = spec.suffixBytes !== undefined;
  const longRows = listed ? undefined : openDb(root, `${name}:long`, BINARY);
  const blocks = listed
    ? { rows: openDb(root, `${name}:blocks`, BINARY), scanner: openScanner(root, `${name}:blocks`) }
    : undefined;
  return { spec, id, rows, scanner: openScanner(root, name), cells, longRows, blocks, dropped: false };
}

function openDb(root: RootDatabase, name: string, options: object): Db {
  const db: Db | undefined = root.openDB<Buffer, Buffer>(name, options);
  if (!db) throw new Error(`database ${name} is missing`);
  return db;
}

export function openScanner(root: RootDatabase, name: string, kind: object = {}): Scanner {
  const scanner = { sink: undefined, keys: Buffer.alloc(0), from: 0, to: 0 } as Omit<Scanner, 'db'> & { db?: Db };
  scanner.db = openDb(root, name, {
    ...kind,
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

/** The value in LMDB's read buffer, or undefined; `bytes.ts` says how to take it out. */
export function getFast(db: Db, key: Buffer, transaction?: Transaction): Buffer | undefined {
  return (db as unknown as FastGet).getBinaryFast(key, transaction && { transaction });
}

/** Hands the rows of a range to the sink until it is full. */
export function handOut(scanner: Scanner, options: RangeOptions, sink: RangeSink, transaction?: Transaction): void {
  const outer = scanner.sink;
  scanner.sink = sink;
  const rows = scanner.db.getRange(withTransaction(options, transaction))[Symbol.iterator]();
  try {
    while (!sink.full && !rows.next().done);
  } finally {
    rows.return?.();
    scanner.sink = outer;
  }
}

export function withTransaction(options: RangeOptions, transaction: Transaction | undefined): RangeOptions {
  return transaction ? { ...options, transaction } : options;
}
