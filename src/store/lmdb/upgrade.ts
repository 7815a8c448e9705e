import type { RootDatabase } from 'lmdb';
import { Catalog } from './catalog.js';
import { maxKeyOf, openRoot } from './environment.js';
import { ListWriter } from './list-writer.js';
import { handOut, openScanner, openTable, type RangeSink } from './table.js';

/** Suffixes in memory at a time, bytes, and those of one prefix more. */
const GATHERED = 4 << 20;

/**
 * Brings the tables of a store of format 1 or 2 to format 3. Until then a table with `suffixBytes` was a database of sorted
 * duplicates. Each becomes lists under a new number in a transaction of its own: a process that is killed leaves whole
 * tables of either kind, and the next one goes on. Several may try at once.
 */
export async function packDuplicates(folder: string): Promise<void> {
  const root = openRoot(folder);
  try {
    const catalog = new Catalog(root);
    let last = 0;
    root.transactionSync(() => {
      last = catalog.lastOfDuplicates ?? catalog.lastId;
      catalog.putLastOfDuplicates(last);
    });
    for (const [name, { spec, id }] of catalog.entries()) {
      if (id > last) continue;
      // Long rows came with format 2.
      if (spec.suffixBytes === undefined) openTable(root, spec, id);
      else root.transactionSync(() => packTable(root, catalog, name, id));
    }
  } finally {
    await root.close();
  }
}

function packTable(root: RootDatabase, catalog: Catalog, name: string, id: number): void {
  const entry = catalog.entries().get(name);
  if (entry?.id !== id) return;
  root.resetReadTxn();
  const duplicates = openScanner(root, `t${id}`, { dupSort: true, dupFixed: true });
  const table = openTable(root, entry.spec, catalog.addEntry(entry.spec));
  const writer = new ListWriter(table, maxKeyOf(root));
  for (let start: Buffer | undefined, more = true; more; ) {
    const gathered = new Gathered();
    handOut(duplicates, { start, end: undefined } as object, gathered);
    for (const [prefix, suffixes] of gathered.lists) writer.change(prefix, Buffer.concat(suffixes), Buffer.alloc(0));
    start = gathered.next;
    more = start !== undefined;
  }
  duplicates.db.clearSync();
}

/** Whole prefixes and their suffixes, up to some MiB. */
class Gathered implements RangeSink {
  readonly lists: [Buffer, Buffer[]][] = [];
  /** The prefix with which to go on. */
  next: Buffer | undefined;
  #bytes = 0;

  get full(): boolean {
    return this.next !== undefined;
  }

  row(keys: Buffer, from: number, to: number, suffix: Buffer, length: number): void {
    const last = this.lists.at(-1);
    let list = last?.[1];
    if (!last || last[0].length !== to - from || keys.compare(last[0], 0, to - from, from, to) !== 0) {
      const prefix = Buffer.from(keys.subarray(from, to));
      if (this.#bytes >= GATHERED) {
        this.next = prefix;
        return;
      }
      list = [];
      this.lists.push([prefix, list]);
    }
    list!.push(Buffer.from(suffix.subarray(0, length)));
    this.#bytes += length;
  }
}
