import type { Database, RootDatabase } from 'lmdb';
import { StoreError } from '../../store-error.js';

/** One of the named databases of an LMDB environment. */
export type Db = Database<Buffer, Buffer>;

const BINARY = { encoding: 'binary', keyEncoding: 'binary' } as const;

/** Creates the database when it is absent and the store may write. */
export function openDb(root: RootDatabase, name: string, coding: object = BINARY): Db {
  const db: Db | undefined = root.openDB<Buffer, Buffer>(name, coding);
  if (!db) throw new StoreError('damaged', `LMDB's list of databases is damaged: database ${name} is not in it`);
  return db;
}
