import type { RootDatabase, Transaction } from 'lmdb';
import { checkSeparate } from '../../checks.js';
import type { TableSpec } from '../../contract.js';
import { type Db, openDb } from './database.js';
import { shortened, viewOf } from './read-buffer.js';
import type { Records } from './records.js';
import { Scanner } from './scanner.js';

/** An open table: LMDB handles by use. */
export interface LmdbTable {
  readonly spec: TableSpec;
  readonly id: number;
  /** Verifies what is read and makes what is written. */
  readonly records: Records;
  /** Record by row key; of a table with `suffixBytes`, list by prefix (`lists.ts`). */
  readonly rows: Db;
  /** The same table, read without building rows. */
  readonly scanner: Scanner;
  /** By family number, the separate ones: value by `cellKey`, with a check as all values here. */
  readonly cells: ReadonlyMap<number, Db>;
  /** Segments of split rows (`segments.ts`); undefined with `suffixBytes`. */
  readonly segments: Db | undefined;
  /** Blocks of long lists (`lists.ts`); undefined without `suffixBytes`. */
  readonly blocks: { readonly rows: Db; readonly scanner: Scanner } | undefined;
  dropped: boolean;
}

/** The handle of a separate family. */
export function separateOf({ spec, cells }: LmdbTable, family: number): Db {
  checkSeparate(spec, family);
  return cells.get(family)!;
}

/** Opens the handles of a table, creating its databases when they are absent and the store may write. */
export function openTable(root: RootDatabase, spec: TableSpec, id: number, records: Records): LmdbTable {
  const name = `t${id}`;
  const rows = openDb(root, name);
  const cells = new Map<number, Db>();
  for (const [family, { separate }] of spec.families.entries()) {
    if (separate) cells.set(family, openDb(root, `${name}:${family}`));
  }
  const listed = spec.suffixBytes !== undefined;
  const segments = listed ? undefined : openDb(root, `${name}:long`);
  const blocks = listed
    ? { rows: openDb(root, `${name}:blocks`), scanner: new Scanner(root, `${name}:blocks`, records, spec.name) }
    : undefined;
  return {
    spec,
    id,
    records,
    rows,
    scanner: new Scanner(root, name, records, spec.name),
    cells,
    segments,
    blocks,
    dropped: false,
  };
}

interface FastGet {
  getBinaryFast(key: Buffer, options?: { transaction: Transaction }): Buffer | undefined;
}

/**
 * The value under the key in one of the table's databases, verified and without its check, or undefined. It lies in
 * LMDB's read buffer; `read-buffer.ts` says how to take it out.
 */
export function getSound({ records }: LmdbTable, db: Db, key: Buffer, transaction?: Transaction): Buffer | undefined {
  const bytes = (db as unknown as FastGet).getBinaryFast(key, transaction && { transaction });
  return bytes && shortened(bytes, records.verify(key, 0, key.length, viewOf(bytes), bytes.length));
}
