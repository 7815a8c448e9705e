import { open, type RootDatabase, type Transaction } from 'lmdb';
import type { TableSpec } from '../../contract.js';
import { StoreError } from '../../store-error.js';
import { noTable } from '../../tables.js';
import type { LmdbOptions } from '../lmdb-options.js';
import { Catalog } from './catalog.js';
import { Dictionary } from './dictionary.js';
import { isLmdbError, toStoreError } from './lmdb-errors.js';
import { type LmdbTable, openTable } from './lmdb-table.js';
import { PAGE } from './pages.js';
import { memoryLimit, outgrows } from './read-ahead.js';
import { Records } from './records.js';

/** LMDB's longest key with 8 KiB pages, bytes. */
export const MAX_KEY = 4026;

/** How long a table that another process dropped may look empty here before it is missed, ms. */
const CATALOG_AGE_MS = 50;

/**
 * The LMDB environment of one folder, and its open tables. Other processes create and drop tables too: a name that is
 * not known here is looked up, and readers that find nothing ask `recheck`.
 *
 * A dropped table's databases are emptied, never deleted, and its number is not used again: LMDB crashes when a
 * handle outlives its database.
 */
export class Environment {
  readonly folder: string;
  readonly root: RootDatabase;
  readonly maxKey: number;
  readonly catalog: Catalog;
  readonly dictionary: Dictionary;
  readonly tables = new Map<string, LmdbTable>();
  closed = false;
  /** Write transactions begun; whoever begins one adds one. */
  writes = 0;
  #generation = -1;
  #checked = 0;

  constructor(folder: string, root: RootDatabase) {
    this.folder = folder;
    this.root = root;
    this.maxKey = maxKeyOf(root);
    this.catalog = new Catalog(root);
    this.dictionary = new Dictionary(root);
    this.refresh();
  }

  /** The open table; `noTable` when there is none. */
  table(name: string): LmdbTable {
    return this.tables.get(name) ?? this.#find(name);
  }

  #find(name: string): LmdbTable {
    this.checkOpen();
    this.refresh();
    const table = this.tables.get(name);
    if (!table) throw noTable(name);
    return table;
  }

  checkOpen(): void {
    if (this.closed) throw new StoreError('closed', `store in ${this.folder} is closed`);
  }

  /** What went wrong in a read, for the caller to throw. */
  failure(error: unknown): unknown {
    if (this.closed) return new StoreError('closed', `store in ${this.folder} is closed`);
    // LMDB answers nothing more in a transaction that met a damaged page: those who read next take another.
    if (isLmdbError(error)) this.root.resetReadTxn();
    return toStoreError(error, this.folder);
  }

  /**
   * Runs the action in a write transaction and resolves when it is durable. What throws in it has written nothing: the
   * action's is a transaction within the one that is committed. Rejects with what a StoreError says of it.
   */
  async transact(action: () => void): Promise<void> {
    try {
      await this.root.childTransaction(() => {
        // LMDB's promise of this commit is not the one above; rejected and unheard it would end the process.
        this.root.committed.then(undefined, () => undefined);
        this.writes++;
        action();
      });
    } catch (error) {
      throw await this.#commitFailure(error);
    }
  }

  /** What went wrong in a commit. It has not happened, unless it was the meta page that LMDB could not write. */
  async #commitFailure(error: unknown): Promise<unknown> {
    const { commitError } = error as { commitError?: Promise<never> };
    const cause = commitError ? await commitError.catch((reason: unknown) => reason) : error;
    return toStoreError(cause, this.folder, this.#canRead() ? 'no' : 'unknown');
  }

  /** LMDB refuses everything after a meta page that it could not write. */
  #canRead(): boolean {
    try {
      this.root.resetReadTxn();
      void this.catalog.generation;
      return true;
    } catch {
      return false;
    }
  }

  /** Throws `noTable` when the table, in which nothing was found, has gone meanwhile. */
  recheck(table: LmdbTable): void {
    const now = performance.now();
    if (now - this.#checked > CATALOG_AGE_MS) {
      this.#checked = now;
      if (!this.isCurrent()) this.refresh();
    }
    if (table.dropped) throw noTable(table.spec.name);
  }

  /** Whether the catalog is the one whose tables are open; also inside a write transaction. */
  isCurrent(): boolean {
    return this.catalog.generation === this.#generation;
  }

  /**
   * Opens the tables that the catalog has and drops the handles of those it no longer has. Not inside a transaction.
   */
  refresh(): void {
    // Opening a database commits LMDB's current read transaction: a snapshot that shares it must not be hit.
    this.root.resetReadTxn();
    const { generation } = this.catalog;
    const entries = this.catalog.entries();
    for (const [name, table] of this.tables) if (entries.get(name)?.id !== table.id) this.forget(table);
    for (const [name, entry] of entries) {
      if (this.tables.has(name)) continue;
      this.root.resetReadTxn();
      this.tables.set(name, this.openTable(entry.spec, entry.id));
    }
    this.#generation = generation;
  }

  /** The read transaction of this tick, held until `done()` is called on it. */
  held(): Transaction {
    try {
      // A database that is opened later is unknown to the transaction, so all are opened before.
      if (!this.isCurrent()) this.refresh();
      return this.root.useReadTransaction();
    } catch (error) {
      throw this.failure(error);
    }
  }

  openTable(spec: TableSpec, id: number): LmdbTable {
    return openTable(this.root, spec, id, new Records(this.dictionary, this, id, spec.name));
  }

  forget(table: LmdbTable): void {
    table.dropped = true;
    this.tables.delete(table.spec.name);
  }

  close(): Promise<void> {
    return this.root.close();
  }
}

/** Opens LMDB in a folder that `prepareFolder` has made ready; each thread has an environment of its own. */
export function openEnvironment(folder: string, access: LmdbOptions = {}): Environment {
  return new Environment(folder, openRoot(folder, access));
}

/** The longest key, bytes. */
export function maxKeyOf(root: RootDatabase): number {
  return Math.min(MAX_KEY, (root as unknown as { maxKeySize: number }).maxKeySize);
}

/** `memory`: bytes. */
export function openRoot(folder: string, access: LmdbOptions = {}, memory = memoryLimit()): RootDatabase {
  return open({
    path: folder,
    // A folder whose name has a dot in it is a folder all the same.
    noSubdir: false,
    readOnly: access.readOnly === true,
    pageSize: PAGE,
    maxDbs: 1024,
    maxReaders: 512,
    encoding: 'binary',
    keyEncoding: 'binary',
    // A commit is flushed before it ends: a process that is killed in the midst of it harms no other (ADR 22).
    overlappingSync: false,
    ...({ permissionsMode: 0o600, noReadAhead: !access.inOrder && outgrows(folder, memory) } as object),
  });
}
