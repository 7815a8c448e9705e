import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as yieldNow } from 'node:timers/promises';
import type { TableSpec } from '../../contract.js';
import { DATA_FILE } from './data-file.js';
import { MAX_KEY, openRoot } from './environment.js';
import { RECORD_BYTES } from './meta-layout.js';
import { type DatabaseRecord, type Meta, readDatabaseRecord, readNewestMeta } from './meta-pages.js';
import { BIG_FLAG, SUBDATA_FLAG, type TreeRules } from './page-check.js';
import { PageFile, UnreadablePage } from './page-file.js';
import { type FileCheck, PageTree } from './page-tree.js';

const MAX_FINDINGS = 40;
/** Maximum time between two yields to the event loop, in ms. */
const YIELD_MS = 20;
/** The names of Rowan's databases; the group captures the table id. */
const DATABASE_NAME = /^(?:catalog|words|t(\d+)(?::(?:long|blocks|\d+))?)$/;

/** Receives the number of pages checked so far, and the number of all pages. */
export type OnPages = (pages: number, total: number) => void;

/**
 * Checks every used page of the data file in `folder` without LMDB, because LMDB trusts all pages: on a damaged page it
 * returns wrong results, crashes or loops. Resolves with the findings, one line each; empty if LMDB may read the file.
 * May run beside writers: a read transaction makes LMDB keep the pages of the checked state, without reading any page.
 * Values are not checked here, since every read verifies their checksums. Rejects only if the file cannot be opened. An
 * absent or empty file has no findings.
 */
export async function verifyStructure(folder: string, onPages?: OnPages): Promise<string[]> {
  const path = join(folder, DATA_FILE);
  if (!existsSync(path)) return [];
  const file = new PageFile(path);
  try {
    if (file.size === 0) return [];
    const firstMeta = readNewestMeta(file);
    if (Array.isArray(firstMeta)) return firstMeta;
    return await withPagesKept(folder, async () => {
      // LMDB also keeps the pages of states that are committed after the read transaction began.
      const meta = readNewestMeta(file);
      return Array.isArray(meta) ? meta : await new StructureCheck(file, meta, onPages).verify();
    });
  } catch (error) {
    if (error instanceof UnreadablePage) return [error.message];
    throw error;
  } finally {
    file.close();
  }
}

/** Runs the work while a read transaction keeps LMDB from reusing the pages of the present state. */
async function withPagesKept<T>(folder: string, work: () => Promise<T>): Promise<T> {
  const root = openRoot(folder, { readOnly: true, inOrder: true });
  try {
    root.resetReadTxn();
    const transaction = root.useReadTransaction();
    try {
      return await work();
    } finally {
      transaction.done();
    }
  } finally {
    await root.close();
  }
}

/** A set of pages, one bit per page. */
class PageSet {
  readonly #bits: Uint8Array;

  constructor(count: number) {
    this.#bits = new Uint8Array(Math.ceil(count / 8));
  }

  has(page: number): boolean {
    return (this.#bits[page >>> 3]! & (1 << (page & 7))) !== 0;
  }

  add(page: number): void {
    this.#bits[page >>> 3]! |= 1 << (page & 7);
  }
}

/** The check of one state of the file. */
class StructureCheck implements FileCheck {
  readonly file: PageFile;
  readonly #meta: Meta;
  readonly #onPages: OnPages | undefined;
  readonly #usedPages: PageSet;
  readonly #freePages: PageSet;
  readonly #findings: string[] = [];
  readonly #databases = new Map<string, DatabaseRecord>();
  /** Names of tables by table id. */
  readonly #tableNames = new Map<string, string>();
  #omittedCount = 0;
  #checkedPageCount = 0;

  constructor(file: PageFile, meta: Meta, onPages: OnPages | undefined) {
    this.file = file;
    this.#meta = meta;
    this.#onPages = onPages;
    this.#usedPages = new PageSet(meta.lastPage + 1);
    this.#freePages = new PageSet(meta.lastPage + 1);
  }

  async verify(): Promise<string[]> {
    let yieldedAt = performance.now();
    for (const _ of this.#checkTrees()) {
      if (performance.now() - yieldedAt < YIELD_MS) continue;
      await yieldNow();
      yieldedAt = performance.now();
    }
    if (this.#omittedCount > 0) this.#findings.push('there is more; it was not looked at any further');
    return this.#findings;
  }

  *#checkTrees(): Generator<void> {
    const { freeList, databaseList } = this.#meta;
    yield* new PageTree(this, 'the free list', freeList, this.#treeRules([0, BIG_FLAG], 8), (key, value) =>
      this.#checkFreeListRow(key, value),
    ).run();
    if (databaseList.flags !== 0) this.report(`the list of databases: has flags ${databaseList.flags}`);
    yield* new PageTree(this, 'the list of databases', databaseList, this.#treeRules([SUBDATA_FLAG]), (key, value) =>
      this.#checkDatabase(key, value),
    ).run();
    if (this.#databases.size > 0 && !this.#databases.has('catalog'))
      this.report('the list of databases: has no catalog');
    yield* this.#checkTree('catalog', (key, value) => this.#checkTable(key.toString('latin1'), value));
    for (const name of this.#databases.keys()) if (name !== 'catalog') yield* this.#checkTree(name);
  }

  *#checkTree(name: string, onRow?: (key: Buffer, value: Buffer) => void): Generator<void> {
    const record = this.#databases.get(name);
    if (record) yield* new PageTree(this, this.#describeDb(name), record, this.#treeRules([0, BIG_FLAG]), onRow).run();
  }

  #treeRules(leafFlags: readonly number[], integerBytes?: number): TreeRules {
    return {
      integerKeys: integerBytes !== undefined,
      maxKey: integerBytes ?? MAX_KEY,
      // LMDB may leave a branch page of the free list with one node.
      minBranchNodes: integerBytes === undefined ? 2 : 1,
      leafFlags,
      newestTransaction: this.#meta.transaction,
    };
  }

  #describeDb(name: string): string {
    const table = this.#tableNames.get(DATABASE_NAME.exec(name)?.[1] ?? '');
    return table === undefined ? `database ${name}` : `table ${table} (${name})`;
  }

  /**
   * Checks a row of the free list, the pages that one transaction freed: a count, then page numbers. A negative number
   * -n means that the next page number begins n adjacent pages; zeros are ignored.
   */
  #checkFreeListRow(key: Buffer, value: Buffer): void {
    const location = `the free list of transaction ${key.readBigUInt64LE()}`;
    const count = value.length < 8 ? -1 : Number(value.readBigInt64LE());
    if (value.length % 8 !== 0 || count < 0 || (count + 1) * 8 > value.length) {
      this.report(`${location}: has ${count} numbers in ${value.length} bytes`);
      return;
    }
    let pageCount = 1;
    for (let i = 1; i <= count && !this.isFull; i++) {
      const number = Number(value.readBigInt64LE(i * 8));
      if (number < 0) {
        pageCount = -number;
        continue;
      }
      if (number > 0) this.#addFreePages(location, number, pageCount);
      pageCount = 1;
    }
  }

  #addFreePages(location: string, firstPage: number, pageCount: number): void {
    if (firstPage + pageCount - 1 > this.#meta.lastPage || firstPage < 2) {
      this.report(
        `${location}: has ${pageCount} pages from page ${firstPage} on, the file has pages 2 to ${this.#meta.lastPage}`,
      );
      return;
    }
    for (let page = firstPage; page < firstPage + pageCount; page++) {
      const conflict = this.#usedPages.has(page)
        ? 'is in use'
        : this.#freePages.has(page)
          ? 'is free already'
          : undefined;
      if (conflict !== undefined) {
        this.report(`${location}: has page ${page}, which ${conflict}`);
        return;
      }
      this.#freePages.add(page);
    }
  }

  #checkDatabase(key: Buffer, value: Buffer): void {
    // Names end with a zero byte.
    const name = key.toString('latin1', 0, key.length - 1);
    if (key.at(-1) !== 0 || !DATABASE_NAME.test(name)) {
      this.report(
        `the list of databases: has a name that is none of Rowan's, ${JSON.stringify(key.toString('latin1'))}`,
      );
    } else if (value.length !== RECORD_BYTES) {
      this.report(`the list of databases: has ${value.length} bytes for database ${name}`);
    } else {
      const record = readDatabaseRecord(value, 0);
      if (record.flags !== 0) this.report(`database ${name}: has flags ${record.flags}`);
      else this.#databases.set(name, record);
    }
  }

  #checkTable(key: string, value: Buffer): void {
    if (!key.startsWith('table:')) return;
    const name = key.slice('table:'.length);
    const entry = parseCatalogEntry(value);
    if (entry === undefined) this.report(`database catalog: tells nothing that can be read of table ${name}`);
    else if (!this.#hasDatabases(entry))
      this.report(`the list of databases: lacks a part of table ${name} (t${entry.id})`);
    else this.#tableNames.set(String(entry.id), name);
  }

  #hasDatabases({ id, separateFamilies }: CatalogTable): boolean {
    const hasDatabase = (suffix: string | number): boolean => this.#databases.has(`t${id}:${suffix}`);
    return (
      this.#databases.has(`t${id}`) &&
      ['long', 'blocks'].filter(hasDatabase).length === 1 &&
      separateFamilies.every(hasDatabase)
    );
  }

  claimPage(page: number): string {
    const { lastWrittenPage } = this.#meta;
    if (page < 2 || page > lastWrittenPage) return `is none of the file, which has pages 2 to ${lastWrittenPage}`;
    if (this.#freePages.has(page)) return 'is among the free pages, and in use here';
    if (this.#usedPages.has(page)) return 'is in use here and elsewhere';
    this.#usedPages.add(page);
    return '';
  }

  report(finding: string): void {
    if (this.#findings.length < MAX_FINDINGS) this.#findings.push(finding);
    else this.#omittedCount++;
  }

  get isFull(): boolean {
    return this.#findings.length >= MAX_FINDINGS;
  }

  addProgress(pages: number): void {
    this.#checkedPageCount += pages;
    this.#onPages?.(this.#checkedPageCount, this.#meta.lastPage + 1);
  }
}

/** The fields of a table's catalog entry that the check needs. */
interface CatalogTable {
  readonly id: number;
  /** Numbers of the separate families, which have databases of their own. */
  readonly separateFamilies: readonly number[];
}

/** Parses a catalog entry; undefined if malformed. */
function parseCatalogEntry(value: Buffer): CatalogTable | undefined {
  try {
    const { id, spec } = JSON.parse(value.toString()) as { id?: unknown; spec: TableSpec };
    if (typeof id !== 'number') return undefined;
    return { id, separateFamilies: [...spec.families.keys()].filter((family) => spec.families[family]!.separate) };
  } catch {
    // No JSON, or no table: the caller reports the entry.
    return undefined;
  }
}
