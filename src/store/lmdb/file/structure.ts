import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as turn } from 'node:timers/promises';
import type { TableSpec } from '../../contract.js';
import { DATA_FILE } from './data-file.js';
import { MAX_KEY, openRoot } from './environment.js';
import { RECORD_BYTES } from './meta-layout.js';
import { type DatabaseRecord, type Meta, readNewest, readRecord } from './meta-pages.js';
import { BIG, SUBDATA, type TreeRules } from './page-check.js';
import { PageFile, Unreadable } from './page-file.js';
import { PageTree, type Walk } from './page-tree.js';

/** So many findings are enough. */
const MOST = 40;
/** How long others wait for their turn, ms. */
const TURN_MS = 20;
/** Names of Rowan's databases, with the number of the table. */
const NAME = /^(?:catalog|words|t(\d+)(?::(?:long|blocks|\d+))?)$/;

export type OnPages = (pages: number, of: number) => void;

/**
 * Reads every page in use of the data file in `folder` without LMDB, which trusts what stands there: it answers wrongly
 * from a page that is not what it should be, crashes, or never ends. Resolves with what is wrong, one line each; none
 * where LMDB may read the file. May run beside writers: LMDB is asked to keep the pages of one state meanwhile, for
 * which it reads none. Values are not looked at, they have checks of their own. Throws only when the file cannot be
 * opened; one that is absent or empty is sound.
 */
export async function verifyStructure(folder: string, onPages?: OnPages): Promise<string[]> {
  const path = join(folder, DATA_FILE);
  if (!existsSync(path)) return [];
  const file = new PageFile(path);
  try {
    if (file.size === 0) return [];
    const before = readNewest(file);
    if (Array.isArray(before)) return before;
    return await whileKept(folder, async () => {
      // A state that begins while the pages are kept is kept, too.
      const meta = readNewest(file);
      return Array.isArray(meta) ? meta : await new Structure(file, meta, onPages).verify();
    });
  } catch (error) {
    if (error instanceof Unreadable) return [error.message];
    throw error;
  } finally {
    file.close();
  }
}

/** Does the work while no page that is in use now is used for anything else. */
async function whileKept<T>(folder: string, work: () => Promise<T>): Promise<T> {
  const root = openRoot(folder, { readOnly: true, inOrder: true });
  try {
    root.resetReadTxn();
    const held = root.useReadTransaction();
    try {
      return await work();
    } finally {
      held.done();
    }
  } finally {
    await root.close();
  }
}

/** A bit for each page. */
class Pages {
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

/** One state of the file. */
class Structure implements Walk {
  readonly file: PageFile;
  readonly #meta: Meta;
  readonly #onPages: OnPages | undefined;
  readonly #used: Pages;
  readonly #free: Pages;
  readonly #findings: string[] = [];
  readonly #databases = new Map<string, DatabaseRecord>();
  /** Names of tables by their numbers. */
  readonly #tables = new Map<string, string>();
  #more = 0;
  #looked = 0;

  constructor(file: PageFile, meta: Meta, onPages: OnPages | undefined) {
    this.file = file;
    this.#meta = meta;
    this.#onPages = onPages;
    this.#used = new Pages(meta.lastPage + 1);
    this.#free = new Pages(meta.lastPage + 1);
  }

  async verify(): Promise<string[]> {
    let turned = performance.now();
    for (const _ of this.#trees()) {
      if (performance.now() - turned < TURN_MS) continue;
      await turn();
      turned = performance.now();
    }
    if (this.#more > 0) this.#findings.push('there is more; it was not looked at any further');
    return this.#findings;
  }

  *#trees(): Generator<void> {
    const { free, main } = this.#meta;
    yield* new PageTree(this, 'the free list', free, this.#rules([0, BIG], 8), (key, value) =>
      this.#freed(key, value),
    ).run();
    if (main.flags !== 0) this.find(`the list of databases: has flags ${main.flags}`);
    yield* new PageTree(this, 'the list of databases', main, this.#rules([SUBDATA]), (key, value) =>
      this.#database(key, value),
    ).run();
    if (this.#databases.size > 0 && !this.#databases.has('catalog')) this.find('the list of databases: has no catalog');
    yield* this.#tree('catalog', (key, value) => this.#table(key.toString('latin1'), value));
    for (const name of this.#databases.keys()) if (name !== 'catalog') yield* this.#tree(name);
  }

  *#tree(name: string, onRow?: (key: Buffer, value: Buffer) => void): Generator<void> {
    const record = this.#databases.get(name);
    if (record) yield* new PageTree(this, this.#title(name), record, this.#rules([0, BIG]), onRow).run();
  }

  #rules(leafFlags: readonly number[], integerBytes?: number): TreeRules {
    return {
      integers: integerBytes !== undefined,
      longestKey: integerBytes ?? MAX_KEY,
      // LMDB leaves a branch of the free list with one node.
      branchNodes: integerBytes === undefined ? 2 : 1,
      leafFlags,
      transaction: this.#meta.transaction,
    };
  }

  #title(name: string): string {
    const table = this.#tables.get(NAME.exec(name)?.[1] ?? '');
    return table === undefined ? `database ${name}` : `table ${table} (${name})`;
  }

  /**
   * Pages that a transaction has freed: their number, then page numbers; one below zero says how many pages begin with
   * the number behind it, a zero stands for nothing.
   */
  #freed(key: Buffer, value: Buffer): void {
    const where = `the free list of transaction ${key.readBigUInt64LE()}`;
    const count = value.length < 8 ? -1 : Number(value.readBigInt64LE());
    if (value.length % 8 !== 0 || count < 0 || (count + 1) * 8 > value.length) {
      this.find(`${where}: has ${count} numbers in ${value.length} bytes`);
      return;
    }
    let pages = 1;
    for (let i = 1; i <= count && !this.full; i++) {
      const number = Number(value.readBigInt64LE(i * 8));
      if (number < 0) {
        pages = -number;
        continue;
      }
      if (number > 0) this.#freeRun(where, number, pages);
      pages = 1;
    }
  }

  #freeRun(where: string, first: number, pages: number): void {
    if (first + pages - 1 > this.#meta.lastPage || first < 2) {
      this.find(`${where}: has ${pages} pages from page ${first} on, the file has pages 2 to ${this.#meta.lastPage}`);
      return;
    }
    for (let page = first; page < first + pages; page++) {
      const why = this.#used.has(page) ? 'is in use' : this.#free.has(page) ? 'is free already' : undefined;
      if (why !== undefined) {
        this.find(`${where}: has page ${page}, which ${why}`);
        return;
      }
      this.#free.add(page);
    }
  }

  #database(key: Buffer, value: Buffer): void {
    // The names end with a zero byte.
    const name = key.toString('latin1', 0, key.length - 1);
    if (key.at(-1) !== 0 || !NAME.test(name)) {
      this.find(`the list of databases: has a name that is none of Rowan's, ${JSON.stringify(key.toString('latin1'))}`);
    } else if (value.length !== RECORD_BYTES) {
      this.find(`the list of databases: has ${value.length} bytes for database ${name}`);
    } else {
      const record = readRecord(value, 0);
      if (record.flags !== 0) this.find(`database ${name}: has flags ${record.flags}`);
      else this.#databases.set(name, record);
    }
  }

  #table(key: string, value: Buffer): void {
    if (!key.startsWith('table:')) return;
    const name = key.slice('table:'.length);
    const listed = listedOf(value);
    if (listed === undefined) this.find(`database catalog: tells nothing that can be read of table ${name}`);
    else if (!this.#hasAll(listed)) this.find(`the list of databases: lacks a part of table ${name} (t${listed.id})`);
    else this.#tables.set(String(listed.id), name);
  }

  #hasAll({ id, separate }: Listed): boolean {
    const has = (part: string | number): boolean => this.#databases.has(`t${id}:${part}`);
    return this.#databases.has(`t${id}`) && ['long', 'blocks'].filter(has).length === 1 && separate.every(has);
  }

  claim(page: number): string {
    const { lastWritten } = this.#meta;
    if (page < 2 || page > lastWritten) return `is none of the file, which has pages 2 to ${lastWritten}`;
    if (this.#free.has(page)) return 'is among the free pages, and in use here';
    if (this.#used.has(page)) return 'is in use here and elsewhere';
    this.#used.add(page);
    return '';
  }

  find(finding: string): void {
    if (this.#findings.length < MOST) this.#findings.push(finding);
    else this.#more++;
  }

  get full(): boolean {
    return this.#findings.length >= MOST;
  }

  looked(pages: number): void {
    this.#looked += pages;
    this.#onPages?.(this.#looked, this.#meta.lastPage + 1);
  }
}

/** What the catalog tells of a table. */
interface Listed {
  readonly id: number;
  /** Numbers of its families with databases of their own. */
  readonly separate: readonly number[];
}

/** Undefined where it cannot be read. */
function listedOf(value: Buffer): Listed | undefined {
  try {
    const { id, spec } = JSON.parse(value.toString()) as { id?: unknown; spec: TableSpec };
    if (typeof id !== 'number') return undefined;
    return { id, separate: [...spec.families.keys()].filter((family) => spec.families[family]!.separate) };
  } catch {
    return undefined;
  }
}
