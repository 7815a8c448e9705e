import { statSync } from 'node:fs';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import { open, type RootDatabase, type Transaction } from 'lmdb';
import type { Store, TableSpec } from '../../contract.js';
import { counterBytes } from '../../row.js';
import { parseStoredJson, StoreError } from '../../store-error.js';
import { noTable } from '../../tables.js';
import type { LmdbOptions } from '../lmdb-options.js';
import { DecodedLayout } from '../record/words.js';
import { DATA_FILE, PAGE_BYTES } from './data-file.js';
import { endLineOfLmdb, freeBytes, isLmdbError, isNearlyFull, toStoreError } from './lmdb-errors.js';
import { type LmdbTable, openTable } from './lmdb-table.js';
import { type Db, Dictionary, openDb, Records } from './records.js';

/** LMDB's longest key with 8 KiB pages, bytes. */
export const MAX_KEY = 4026;

/**
 * Minimum time between two checks for tables dropped by other processes, in ms. Until then such a table looks empty.
 */
const CATALOG_CHECK_MS = 50;

/** Minimum time between two reports of a full device, in ms. With a quota, small writes succeed between large ones. */
const FULL_REPORT_MS = 60_000;

/**
 * The LMDB environment of one folder, with its open tables. Other processes create and drop tables, too. So an unknown
 * table name is looked up in the catalog, and a reader that finds nothing calls `checkNotDropped`.
 *
 * The databases of a dropped table are emptied but never deleted, and the table's id is not reused, because LMDB
 * crashes when a handle outlives its database.
 */
export class Environment {
  readonly folder: string;
  readonly root: RootDatabase;
  readonly maxKey: number;
  readonly catalog: Catalog;
  readonly dictionary: Dictionary;
  readonly tables = new Map<string, LmdbTable>();
  /** Implements `Store.rowLayout`. */
  readonly rowLayout = new DecodedLayout();
  isClosed = false;
  onRoomChange: Store['onRoomChange'];
  /** Number of write transactions begun. Code that begins a transaction adds 1. */
  writeCount = 0;
  #generation = -1;
  #checkedAt = 0;
  #isFull = false;
  #fullAt = Number.NEGATIVE_INFINITY;

  constructor(folder: string, root: RootDatabase) {
    this.folder = folder;
    this.root = root;
    this.maxKey = maxKeyOf(root);
    this.catalog = new Catalog(root);
    this.dictionary = new Dictionary(root);
    this.reloadTables();
  }

  /** Returns the open table. Throws `noTable` if the table does not exist. */
  table(name: string): LmdbTable {
    return this.tables.get(name) ?? this.#findTable(name);
  }

  #findTable(name: string): LmdbTable {
    this.checkOpen();
    this.reloadTables();
    const table = this.tables.get(name);
    if (!table) throw noTable(name);
    return table;
  }

  checkOpen(): void {
    if (this.isClosed) throw new StoreError('closed', `store in ${this.folder} is closed`);
  }

  /** Converts an error of a read into the error for the caller to throw. */
  toReadError(error: unknown): unknown {
    if (this.isClosed) return new StoreError('closed', `store in ${this.folder} is closed`);
    // After a damaged page, LMDB refuses all reads in the transaction, so later reads need a new transaction.
    if (isLmdbError(error)) this.root.resetReadTxn();
    return toStoreError(error, this.folder);
  }

  /**
   * Runs the action in a write transaction and resolves when the transaction is durable. If the action throws, nothing
   * is written, because the action runs in a nested transaction. Rejects with a StoreError.
   */
  async transact(action: () => void): Promise<void> {
    try {
      await this.root.childTransaction(() => {
        // LMDB has a second promise for this commit: its rejection must be handled, or it would end the process.
        this.root.committed.then(undefined, () => undefined);
        this.writeCount++;
        action();
      });
    } catch (error) {
      const storeError = await this.#toCommitError(error);
      if (storeError instanceof StoreError && storeError.code === 'full') this.#reportRoom(true);
      throw storeError;
    }
    // On a nearly full device, a write may have found room within the data file.
    if (this.#isFull && !isNearlyFull(this.folder)) this.#reportRoom(false);
  }

  #reportRoom(isFull: boolean): void {
    const now = performance.now();
    if (isFull && (this.#isFull || now - this.#fullAt < FULL_REPORT_MS)) return;
    if (isFull) this.#fullAt = now;
    this.#isFull = isFull;
    this.onRoomChange?.(isFull, this.folder, freeBytes(this.folder));
  }

  /** Converts an error of a commit. The commit was not applied, unless LMDB failed to write the meta page. */
  async #toCommitError(error: unknown): Promise<unknown> {
    const { commitError } = error as { commitError?: Promise<never> };
    const cause = commitError ? await commitError.catch((reason: unknown) => reason) : error;
    endLineOfLmdb(cause);
    return toStoreError(cause, this.folder, this.#canRead() ? 'no' : 'unknown');
  }

  /** Returns whether LMDB still answers. After a failed write of the meta page, LMDB refuses all calls. */
  #canRead(): boolean {
    try {
      this.root.resetReadTxn();
      void this.catalog.generation;
      return true;
    } catch {
      // The error of the commit, which is being converted, is the one to report.
      return false;
    }
  }

  /** Throws `noTable` if another process has dropped the table, whose rows then seem absent to readers. */
  checkNotDropped(table: LmdbTable): void {
    const now = performance.now();
    if (now - this.#checkedAt > CATALOG_CHECK_MS) {
      this.#checkedAt = now;
      if (!this.isCurrent()) this.reloadTables();
    }
    if (table.isDropped) throw noTable(table.spec.name);
  }

  /** Returns whether the open tables match the catalog. May be called inside a write transaction. */
  isCurrent(): boolean {
    return this.catalog.generation === this.#generation;
  }

  /** Opens new tables of the catalog and forgets dropped tables. Must not be called inside a transaction. */
  reloadTables(): void {
    // Opening a database commits LMDB's current read transaction, which a snapshot may share: take a new one first.
    this.root.resetReadTxn();
    const { generation } = this.catalog;
    const entries = this.catalog.entries();
    for (const [name, table] of this.tables) if (entries.get(name)?.id !== table.id) this.forgetTable(table);
    for (const [name, entry] of entries) {
      if (this.tables.has(name)) continue;
      this.root.resetReadTxn();
      this.tables.set(name, this.openTable(entry.spec, entry.id));
    }
    this.#generation = generation;
  }

  /** Returns a read transaction for a snapshot. The caller must call its `done()`. */
  beginSnapshot(): Transaction {
    try {
      // The transaction does not see databases that are opened later, so all tables are opened first.
      if (!this.isCurrent()) this.reloadTables();
      return this.root.useReadTransaction();
    } catch (error) {
      throw this.toReadError(error);
    }
  }

  openTable(spec: TableSpec, id: number): LmdbTable {
    return openTable(this.root, spec, id, new Records(this, id, spec.name));
  }

  forgetTable(table: LmdbTable): void {
    table.isDropped = true;
    this.tables.delete(table.spec.name);
  }

  close(): Promise<void> {
    return this.root.close();
  }
}

/** Opens LMDB in a folder that `prepareFolder` has checked. Each thread needs an environment of its own. */
export function openEnvironment(folder: string, access: LmdbOptions = {}): Environment {
  return new Environment(folder, openRoot(folder, access));
}

/** Length of the longest key that the environment accepts, in bytes. */
export function maxKeyOf(root: RootDatabase): number {
  return Math.min(MAX_KEY, (root as unknown as { maxKeySize: number }).maxKeySize);
}

/** Opens the LMDB environment. `memory`: bytes available for the page cache. */
export function openRoot(folder: string, access: LmdbOptions = {}, memory = memoryLimit()): RootDatabase {
  return open({
    path: folder,
    // Without this option, lmdb-js takes a folder name with a dot for a file.
    noSubdir: false,
    readOnly: access.readOnly === true,
    pageSize: PAGE_BYTES,
    maxDbs: 1024,
    maxReaders: 512,
    encoding: 'binary',
    keyEncoding: 'binary',
    // Flush each commit before the next begins: then a process killed during a commit does no harm to other processes
    // (ADR 22).
    overlappingSync: false,
    ...({ permissionsMode: 0o600, noReadAhead: !access.inOrder && exceedsMemory(folder, memory) } as object),
  });
}

const GENERATION_KEY = Buffer.from('generation');
const NEXT_ID_KEY = Buffer.from('nextId');
const TABLE_PREFIX = 'table:';
/** The first key after every `table:` key. */
const TABLES_END = Buffer.from('table;');

interface CatalogEntry {
  readonly id: number;
  readonly spec: TableSpec;
}

/** The list of tables, with the counters of each (docs/formats/lmdb.md). Changes need a write transaction. */
class Catalog {
  readonly #db: Db;

  constructor(root: RootDatabase) {
    this.#db = openDb(root, 'catalog');
  }

  /** A number that rises with every change of the list of tables; inside a write transaction the newest. */
  get generation(): number {
    return this.#readNumber(GENERATION_KEY) ?? 0;
  }

  entries(): Map<string, CatalogEntry> {
    const entries = new Map<string, CatalogEntry>();
    for (const { key, value } of this.#db.getRange({ start: Buffer.from(TABLE_PREFIX), end: TABLES_END })) {
      const name = key.toString('latin1', TABLE_PREFIX.length);
      entries.set(name, parseStoredJson<CatalogEntry>(value, `the entry of table ${name} in the catalog`));
    }
    return entries;
  }

  /** Adds a table under a new id, which no table had before, and returns the id. */
  addEntry(spec: TableSpec): number {
    const id = (this.#readNumber(NEXT_ID_KEY) ?? 0) + 1;
    this.#putNumber(NEXT_ID_KEY, id);
    this.#db.putSync(Buffer.from(TABLE_PREFIX + spec.name), Buffer.from(JSON.stringify({ id, spec })));
    this.#bumpGeneration();
    return id;
  }

  removeEntry(name: string, id: number): void {
    this.#db.removeSync(Buffer.from(TABLE_PREFIX + name));
    this.#db.removeSync(rowNumberKey(id));
    this.#bumpGeneration();
  }

  #bumpGeneration(): void {
    this.#putNumber(GENERATION_KEY, this.generation + 1);
  }

  /** The last row number appended to the table; inside a write transaction the newest. */
  lastRowNumber(id: number): bigint {
    return this.#db.get(rowNumberKey(id))?.readBigUInt64BE() ?? 0n;
  }

  putRowNumber(id: number, rowNumber: bigint): void {
    this.#db.putSync(rowNumberKey(id), counterBytes(rowNumber));
  }

  #readNumber(key: Buffer): number | undefined {
    const bytes = this.#db.get(key);
    return bytes && Number(bytes.readBigUInt64BE());
  }

  #putNumber(key: Buffer, value: number): void {
    this.#db.putSync(key, counterBytes(BigInt(value)));
  }
}

function rowNumberKey(id: number): Buffer {
  return Buffer.from(`appended:${id}`);
}

/** Memory limit of the process in bytes, page cache included. */
export function memoryLimit(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

/**
 * Returns whether the data file is too large for read-ahead by the operating system. If the file fits into memory,
 * read-ahead fills the cache quickly after a start. Otherwise each random read would evict many pages for few useful
 * pages.
 */
function exceedsMemory(folder: string, memory: number): boolean {
  const { size } = statSync(join(folder, DATA_FILE), { throwIfNoEntry: false }) ?? { size: 0 };
  return size > memory / 2;
}
