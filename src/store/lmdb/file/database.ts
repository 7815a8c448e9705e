import type { Database, RangeOptions, RootDatabase, Transaction } from 'lmdb';
import { StoreError } from '../../store-error.js';
import { allocate } from '../record/room.js';

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

/**
 * The shared read buffer of LMDB, passed to decoders and returned by `getBinaryFast`: a large Buffer whose `length`
 * property is set to the value's size at each read. Element access is right, but methods see the real length.
 */
interface SharedBytes extends Buffer {
  isGlobal?: boolean;
  maxLength?: number;
}

let sharedBuffer: Buffer | undefined;
let sharedView: Buffer = Buffer.alloc(0);

/** Returns a plain Buffer over the same memory, longer than the value. The value is valid until the next read. */
export function plainView(bytes: Buffer): Buffer {
  if (bytes === sharedBuffer) return sharedView;
  const { isGlobal, maxLength } = bytes as SharedBytes;
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, isGlobal ? maxLength! : bytes.byteLength);
  if (isGlobal) {
    sharedBuffer = bytes;
    sharedView = view;
  }
  return view;
}

/** Returns the first `length` bytes of the value, in the same memory. */
export function shortenValue(bytes: Buffer, length: number): Buffer {
  if (!(bytes as SharedBytes).isGlobal) return bytes.subarray(0, length);
  (bytes as { length: number }).length = length;
  return bytes;
}

/** Copies the first `length` bytes of a value into `into` if it is long enough, else into a new Buffer. */
export function copyValue(bytes: Buffer, length: number, into?: Buffer): Buffer {
  const out = into && length <= into.length ? into.subarray(0, length) : allocate(length);
  plainView(bytes).copy(out, 0, 0, length);
  return out;
}
