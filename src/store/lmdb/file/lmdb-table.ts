import type { RootDatabase, Transaction } from 'lmdb';
import { checkSeparate } from '../../checks.js';
import type { TableSpec } from '../../contract.js';
import { type Db, openDb } from './database.js';
import { plainView, shortenValue } from './read-buffer.js';
import type { Records } from './records.js';
import { Scanner } from './scanner.js';

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
 * The result is the value without the checksum, in LMDB's read buffer (`read-buffer.ts`).
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
