import type {
  ColumnRange,
  KeyRange,
  LoadTable,
  Maybe,
  Plan,
  Scan,
  ScanOptions,
  Snapshot,
  Store,
  TableSpec,
} from '../../src/store/contract.js';
import { Cluster } from '../../src/store/hbase/cluster.js';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import { CLOCK, Tickets } from '../../src/store/hbase/journal/tickets.js';
import { TableRegistry, tableHandle } from '../../src/store/hbase/schema/index.js';
import { type HBaseSettings, hbaseSettings } from '../../src/store/hbase/settings.js';
import { checkSpec, noTable, sameSpec } from '../../src/store/tables.js';
import { freshPrefix, hbase, runningHBase } from './server.js';
import { swept } from './swept.js';

/** A table in which more rows would be deleted is made anew: a scan of it costs more than that. */
const WORN_ROWS = 300;
/** Rows that were deleted, or were too many for that, by HBase's name of the table. */
const deleted = new Map<string, number>();

/** Tables that may have rows, by HBase's name. */
const written = new Set<string>();

/** Prefixes whose tables nobody uses now. */
const free: HBaseSettings[] = [];

/**
 * An empty store in HBase. Making a table takes HBase half a second, so tables that an earlier test has left are used
 * again: they are emptied when they are created, and count as not there before; those that hold too much that was
 * deleted are made anew. `ROWAN_HBASE_URL` names a running HBase to be used (its tables `PREFIX…` stay behind).
 */
export async function openRecycled(): Promise<Store> {
  const settings = free.pop() ?? (await newSettings());
  return new RecycledStore(await openHBaseStore(settings), settings);
}

/** As `free`, of those who borrow. */
const returned: HBaseSettings[] = [];
/** The suites of those who borrow. */
const borrowers = new Map<HBaseSettings, Mocha.Suite | undefined>();

/**
 * Where a test that opens stores itself makes a directory, in a hook or test: in tables of an earlier one, emptied. It
 * returns them when its stores are closed.
 */
export async function borrowTables(context: Mocha.Context): Promise<HBaseSettings> {
  const server = await hbase(context);
  const leftOver = returned.pop();
  const settings = leftOver ?? server.settings(freshPrefix());
  borrowers.set(settings, context.test?.parent);
  if (!leftOver) return settings;
  const store = await openHBaseStore(settings);
  await swept(store, settings, 1);
  const emptied = new RecycledStore(store, settings);
  const specs = await store.tables();
  for (const spec of specs) written.add(tableHandle(settings, spec).name);
  for (const spec of specs) await emptied.createTable(spec);
  await store.close();
  return settings;
}

/**
 * `settings`: undefined when nothing was borrowed. Tables of a suite with a failed test are not used again, since what
 * it did may go on.
 */
export function returnTables(settings: HBaseSettings | undefined): void {
  const hasFailed = settings && borrowers.get(settings)?.tests.some((test) => test.state === 'failed');
  if (settings && !hasFailed) returned.push(settings);
}

async function newSettings(): Promise<HBaseSettings> {
  const url = process.env.ROWAN_HBASE_URL;
  if (url) return hbaseSettings({ url: url.replace(/(\?|$)/, `/${freshPrefix()}r${process.pid}$1`), regions: 1 });
  return (await runningHBase()).settings(freshPrefix());
}

interface Left {
  readonly spec: TableSpec;
  readonly isEmpty: boolean;
}

class RecycledStore implements Store {
  readonly supports: Store['supports'];
  readonly #store: HBaseStore;
  readonly #settings: HBaseSettings;
  /** Tables that this store has created: HBase's names of them. */
  readonly #there = new Map<string, string>();

  /** Tables of earlier stores, by name. */
  #left: Promise<Map<string, Left>> | undefined;
  #closed = false;

  constructor(store: HBaseStore, settings: HBaseSettings) {
    this.#store = store;
    this.#settings = settings;
    this.supports = store.supports;
  }

  async createTable(spec: TableSpec): Promise<void> {
    if (this.#there.has(spec.name)) return this.#store.createTable(spec);
    this.#left ??= this.#takeOver();
    const left = (await this.#left).get(spec.name);
    const { name } = tableHandle(this.#settings, spec);
    if (!left?.isEmpty || !sameSpec(left.spec, checkSpec(spec))) {
      if (left) await this.#store.dropTable(spec.name);
      deleted.delete(name);
      await this.#store.createTable(spec);
      written.delete(name);
    }
    this.#there.set(spec.name, name);
  }

  /** Empties what earlier stores have left. */
  async #takeOver(): Promise<Map<string, Left>> {
    const left = new Map<string, Left>();
    const work = async (spec: TableSpec): Promise<void> => {
      const isEmpty = this.#there.has(spec.name) || (await this.#empty(spec));
      left.set(spec.name, { spec, isEmpty });
    };
    await Promise.all((await this.#store.tables()).map(work));
    return left;
  }

  /** False for one that is to be made anew. */
  async #empty(spec: TableSpec): Promise<boolean> {
    const { client } = this.#store;
    const registry = new TableRegistry(client, this.#settings);
    const handle = registry.handle(spec);
    if (!written.has(handle.name)) return true;
    const before = deleted.get(handle.name) ?? 0;
    if (before > WORN_ROWS) return false;
    const keys: Buffer[] = [];
    const scan = client.scan(handle, {}, { keysOnly: true });
    for (let batch = await scan.next(); batch; batch = await scan.next()) keys.push(...batch.keys);
    deleted.set(handle.name, before + keys.length);
    if (before + keys.length > WORN_ROWS) return false;
    if (keys.length > 0) {
      const timestamp = await new Tickets(new Cluster(client, registry), CLOCK).draw(1);
      await client.putMany(
        handle,
        keys.map((key) => ({ key, deleteRow: true, timestamp })),
      );
    }
    written.delete(handle.name);
    return true;
  }

  async dropTable(name: string): Promise<void> {
    this.#there.delete(name);
    this.#left = undefined;
  }

  async tables(): Promise<TableSpec[]> {
    return (await this.#store.tables()).filter(({ name }) => this.#there.has(name));
  }

  snapshot(): Snapshot {
    return this.#store.snapshot();
  }

  settled(): Promise<bigint> {
    return this.#store.settled();
  }

  get(table: string, key: Buffer): Maybe<Buffer | undefined> {
    return this.#seen(table).get(table, key);
  }
  getHead(table: string, key: Buffer): Maybe<Buffer | undefined> {
    return this.#seen(table).getHead(table, key);
  }
  getColumns(table: string, key: Buffer, ranges: readonly ColumnRange[]): Maybe<Buffer | undefined> {
    return this.#seen(table).getColumns(table, key, ranges);
  }
  getMany(table: string, keys: readonly Buffer[]): Maybe<(Buffer | undefined)[]> {
    return this.#seen(table).getMany(table, keys);
  }
  getCells(table: string, key: Buffer, family: number, prefix: Buffer): Maybe<Buffer | undefined> {
    return this.#seen(table).getCells(table, key, family, prefix);
  }
  keysOfCells(table: string, family: number, limit: number, after?: Buffer): Maybe<Buffer[]> {
    return this.#seen(table).keysOfCells(table, family, limit, after);
  }
  namesOfCells(table: string, key: Buffer, family: number): Maybe<Buffer[]> {
    return this.#seen(table).namesOfCells(table, key, family);
  }
  scan(table: string, range: KeyRange, options?: ScanOptions): Scan {
    return this.#seen(table).scan(table, range, options);
  }
  postings(table: string, prefix: Buffer, limit: number, after?: Buffer): Maybe<Buffer> {
    return this.#seen(table).postings(table, prefix, limit, after);
  }
  postingsMany(table: string, prefixes: readonly Buffer[], limit: number, after?: Buffer): Maybe<Buffer[]> {
    return this.#seen(table).postingsMany(table, prefixes, limit, after);
  }
  rangePostings(table: string, range: KeyRange, limit: number): Maybe<Buffer> {
    return this.#seen(table).rangePostings(table, range, limit);
  }
  postingCount(table: string, prefix: Buffer, cap: number): Maybe<number> {
    return this.#seen(table).postingCount(table, prefix, cap);
  }
  count(table: string, range: KeyRange, cap: number): Maybe<number> {
    return this.#seen(table).count(table, range, cap);
  }

  async commit(plan: Plan): Promise<void> {
    // The store itself says what is wrong first.
    this.#write(plan.steps);
    const steps = plan.steps.map((step) =>
      this.#there.has(step.table) ? step : { ...step, table: `no.${step.table}` },
    );
    await this.#store.commit({ ...plan, steps });
  }

  async ingest(tables: readonly LoadTable[], plan: Plan): Promise<void> {
    const all = [...tables, ...plan.steps];
    for (const { table } of all) this.#seen(table);
    this.#write(all);
    await this.#store.ingest(tables, plan);
  }

  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await this.#store.close();
    free.push(this.#settings);
  }

  #write(steps: readonly { readonly table: string }[]): void {
    for (const { table } of steps) {
      const name = this.#there.get(table);
      if (name !== undefined) written.add(name);
    }
  }

  #seen(table: string): HBaseStore {
    if (!this.#there.has(table)) throw noTable(table);
    return this.#store;
  }
}
