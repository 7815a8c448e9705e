import type { CellName, Maybe, TableSpec } from '../contract.js';
import { EMPTY } from '../row.js';
import { StoreError } from '../store-error.js';
import { noTable } from '../tables.js';
import { ABOVE_TICKETS, GATES_TABLE, JOURNAL_TABLE, NUMBERS_TABLE } from './journal/journal-tables.js';
import type { HBaseClient } from './rpc/client.js';
import type { ReadOptions, RowMutation, TableHandle, Timed } from './rpc/rpc-types.js';
import type { TableRegistry } from './schema/index.js';

/** A table as the engine uses it. */
export interface OpenTable {
  readonly spec: TableSpec;
  readonly handle: TableHandle;
  /** Numbers of the families that rows are made of: not separate, not `lock`. */
  readonly stored: readonly number[];
  /**
   * The lock cell. Of changes that have the same timestamp the last one counts, whatever the clocks say. And whoever
   * reads it does not pass what it was before: HBase goes on behind all puts of one timestamp in a step, in families
   * with NEW_VERSION_BEHAVIOR where the qualifier is empty.
   */
  readonly lock: CellName & Required<Timed>;
  /**
   * What reads ask for: rows, their first family, rows with their locks, locks. Always the same objects: the client
   * remembers how they are sent.
   */
  readonly rows: ReadOptions;
  readonly heads: ReadOptions;
  readonly rowsAndLocks: ReadOptions;
  readonly locks: ReadOptions;
  readonly familyReads: FamilyReads;
}

/** What reads of some families ask for, the same object for the same families. */
export class FamilyReads {
  readonly #known = new Map<string, ReadOptions>();

  /** Undefined for none. */
  of(families: ReadonlySet<number>): ReadOptions | undefined {
    if (families.size === 0) return undefined;
    const sorted = [...families].sort((a, b) => a - b);
    const name = sorted.join();
    let options = this.#known.get(name);
    if (!options) {
      options = { families: sorted };
      this.#known.set(name, options);
    }
    return options;
  }
}

function openTable(spec: TableSpec, handle: TableHandle, stored: readonly number[]): OpenTable {
  const lock = { family: handle.families.length - 1, qualifier: EMPTY, timestamp: ABOVE_TICKETS };
  return {
    spec,
    handle,
    stored,
    lock,
    rows: { families: stored },
    heads: { families: stored.slice(0, 1) },
    rowsAndLocks: { families: [...stored, lock.family] },
    locks: { columns: [lock] },
    familyReads: new FamilyReads(),
  };
}

/** What reads and plans ask of HBase: rows, each of which changes by itself. */
export type Rows = Pick<
  HBaseClient,
  'get' | 'getMany' | 'scan' | 'lookup' | 'mutate' | 'putMany' | 'putRows' | 'increment'
>;

/** What they ask about tables. */
export type Tables = Pick<TableRegistry, 'internal' | 'find' | 'handle' | 'list'>;

/** The rows, and the tables that are known. */
export class Cluster {
  readonly client: Rows;
  readonly #registry: Tables;
  readonly journal: TableHandle;
  readonly numbers: TableHandle;
  readonly #tables = new Map<string, OpenTable>();
  readonly #finding = new Map<string, Promise<OpenTable>>();

  constructor(client: Rows, registry: Tables) {
    this.client = client;
    this.#registry = registry;
    this.journal = registry.internal(JOURNAL_TABLE);
    this.numbers = registry.internal(NUMBERS_TABLE);
    const gates = registry.internal(GATES_TABLE);
    const spec = { name: GATES, families: [] };
    this.#tables.set(GATES, openTable(spec, gates, []));
  }

  /** Looks it up where it is not known yet; rejects with `noTable`. */
  table(name: string): Maybe<OpenTable> {
    return this.#tables.get(name) ?? this.#find(name);
  }

  /** The same for a table that may not be there; at once where it is known. */
  find(name: string): Maybe<OpenTable | undefined> {
    return this.#tables.get(name) ?? this.#find(name).catch(ifGone);
  }

  /** One that was looked up; throws `noTable`. */
  known(name: string): OpenTable {
    const table = this.#tables.get(name);
    if (!table) throw noTable(name);
    return table;
  }

  /** Of all tables whose rows are locked. */
  async names(): Promise<string[]> {
    const specs = await this.#registry.list();
    return [GATES, ...specs.map(({ name }) => name)];
  }

  #find(name: string): Promise<OpenTable> {
    let finding = this.#finding.get(name);
    if (!finding) {
      finding = this.#load(name).finally(() => this.#finding.delete(name));
      this.#finding.set(name, finding);
    }
    return finding;
  }

  async #load(name: string): Promise<OpenTable> {
    const spec = await this.#registry.find(name);
    if (!spec) throw noTable(name);
    const handle = this.#registry.handle(spec);
    const stored = spec.families.flatMap((family, number) => (family.separate ? [] : [number]));
    const table = openTable(spec, handle, stored);
    this.#tables.set(name, table);
    return table;
  }

  /** It was dropped, here or elsewhere; the next use looks it up. */
  forget(name: string): void {
    if (name !== GATES) this.#tables.delete(name);
  }

  /**
   * A conditional mutation that is repeated until its outcome is known, or its time is over. False: its guard did not
   * hold when it was tried last; it may have been done before, which the caller reads.
   */
  swap(table: TableHandle, mutation: RowMutation): Promise<boolean> {
    return this.client.mutate(table, { ...mutation, repeatable: true, doubtIsFalse: true });
  }

  /** Passes an error on; of a table that is gone nothing is remembered, and it gets the store's own name. */
  failed(name: string, error: unknown): never {
    if (error instanceof StoreError && error.code === 'noTable') {
      this.forget(name);
      throw noTable(name);
    }
    throw error;
  }
}

/** Does the work; nothing where the table is gone. */
export async function unlessDropped(
  cluster: Cluster,
  name: string,
  work: (table: OpenTable) => Promise<void>,
): Promise<void> {
  try {
    await work(await cluster.table(name));
  } catch (error) {
    if (!(error instanceof StoreError && error.code === 'noTable')) throw error;
    cluster.forget(name);
  }
}

function ifGone(error: unknown): undefined {
  if (!(error instanceof StoreError && error.code === 'noTable')) throw error;
  return undefined;
}

/** Name under which plans lock the rows of the gates table; no table of a store can have it. */
export const GATES = '/gates';
