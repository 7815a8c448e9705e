import type { Database, RootDatabase } from 'lmdb';
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
