import type { Database, RangeOptions, RootDatabase, Transaction } from 'lmdb';
import { StoreError } from '../../store-error.js';

/** One of the named databases of an LMDB environment. */
export type Db = Database<Buffer, Buffer>;

const BINARY = { encoding: 'binary', keyEncoding: 'binary' } as const;

/** Opens a named database. Creates the database if it is absent and the environment is not read-only. */
export function openDb(root: RootDatabase, name: string, coding: object = BINARY): Db {
  const db: Db | undefined = root.openDB<Buffer, Buffer>(name, coding);
  if (!db) throw new StoreError('damaged', `LMDB's list of databases is damaged: database ${name} is not in it`);
  return db;
}

/** Returns the first key of the range; undefined if the range is empty. */
export function firstKeyIn(db: Db, range: object, transaction: Transaction | undefined): Buffer | undefined {
  const options = { ...range, limit: 1, ...(transaction && { transaction }) } as RangeOptions;
  for (const key of db.getKeys(options)) return key;
  return undefined;
}
