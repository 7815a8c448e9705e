import type { RootDatabase, Transaction } from 'lmdb';
import { checkSeparate } from '../../checks.js';
import type { TableSpec } from '../../contract.js';
import { type Db, openDb } from './database.js';
import { shorten, viewOf } from './read-buffer.js';
import type { Records } from './records.js';
import { Scanner } from './scanner.js';

/** An open table with its LMDB handles. */
export interface LmdbTable {
  readonly spec: TableSpec;
  readonly id: number;
  /** Verifies, decodes and encodes the records of the table. */
  readonly records: Records;
  /** Records by row key; for a table with `suffixBytes`, lists by prefix (`lists.ts`). */
  readonly rows: Db;
  /** Range reads of `rows`. */
  readonly scanner: Scanner;
  /** The separate families by number: values with a check, by `cellKey`. */
  readonly cells: ReadonlyMap<number, Db>;
  /** Segments of split rows (`segments.ts`); undefined for a table with `suffixBytes`. */
  readonly segments: Db | undefined;
  /** Blocks of long lists (`lists.ts`); undefined for a table without `suffixBytes`. */
  readonly blocks: { readonly rows: Db; readonly scanner: Scanner } | undefined;
  dropped: boolean;
}

/** The handle of a separate family. */
export function separateOf({ spec, cells }: LmdbTable, family: number): Db {
  checkSeparate(spec, family);
  return cells.get(family)!;
}

/** Opens the handles of a table. Creates absent databases unless the store is read-only. */
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
 * Reads the value under the key from one of the table's databases, verified and without the check; undefined if the key
 * is absent. The value lies in LMDB's read buffer, see `read-buffer.ts`.
 */
export function getVerified(
  { records }: LmdbTable,
  db: Db,
  key: Buffer,
  transaction?: Transaction,
): Buffer | undefined {
  const bytes = (db as unknown as FastGet).getBinaryFast(key, transaction && { transaction });
  return bytes && shorten(bytes, records.verify(key, 0, key.length, viewOf(bytes), bytes.length));
}
