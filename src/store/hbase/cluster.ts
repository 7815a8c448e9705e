import type { CellName, KeyRange, Maybe, TableSpec } from '../contract.js';
import { EMPTY } from '../row.js';
import { isMissing, StoreError } from '../store-error.js';
import { afterPrefix, noTable } from '../tables.js';
import { GATES_TABLE, JOURNAL_TABLE, MAX_TIME, MAX_TIME_ROW, NUMBERS_TABLE } from './journal/journal-tables.js';
import type { HBaseClient } from './rpc/client.js';
import { MAX_KEY } from './rpc/mutations.js';
import type { OptionalTimestamp, ReadOptions, RowMutation, TableHandle } from './rpc/rpc-types.js';
import type { TableRegistry } from './schema/index.js';

export interface OpenTable {
  readonly spec: TableSpec;
  readonly handle: TableHandle;
  /** Numbers of the families that make up a row: without separate families and `lock`. */
  readonly rowFamilies: readonly number[];
  /**
   * The lock cell. All its changes have the same timestamp, so the order of arrival counts, whatever the clocks say. A
   * read of the cell does not pass earlier puts: in a family with NEW_VERSION_BEHAVIOR and for an empty qualifier,
   * HBase skips all puts of a timestamp in a single step.
   */
  readonly lock: CellName & Required<OptionalTimestamp>;
  /**
   * Options for reading rows, their first families, rows with locks, and locks. Every read uses the same objects,
   * because the client caches the encoding of each options object.
   */
  readonly rowReads: ReadOptions;
  readonly headReads: ReadOptions;
  readonly rowAndLockReads: ReadOptions;
  readonly lockReads: ReadOptions;
  readonly familyReads: Map<string, ReadOptions>;
}

/** Returns the options for reading the families, at least one. The same families always have the same object. */
export function familyReads({ familyReads }: OpenTable, families: ReadonlySet<number>): ReadOptions {
  const sortedFamilies = [...families].sort((a, b) => a - b);
  const cacheKey = sortedFamilies.join();
  let options = familyReads.get(cacheKey);
  if (!options) {
    options = { families: sortedFamilies };
    familyReads.set(cacheKey, options);
  }
  return options;
}

function makeOpenTable(spec: TableSpec, handle: TableHandle, rowFamilies: readonly number[]): OpenTable {
  const lock = { family: handle.families.length - 1, qualifier: EMPTY, timestamp: MAX_TIME };
  return {
    spec,
    handle,
    rowFamilies,
    lock,
    rowReads: { families: rowFamilies },
    headReads: { families: rowFamilies.slice(0, 1) },
    rowAndLockReads: { families: [...rowFamilies, lock.family] },
    lockReads: { columns: [lock] },
    familyReads: new Map(),
  };
}

/** The operations on rows that reads and plans use. Each changes a single row atomically. */
export type RowClient = Pick<
  HBaseClient,
  'get' | 'getMany' | 'scan' | 'lookup' | 'mutate' | 'putMany' | 'putRows' | 'increment'
>;

export type TableLookup = Pick<TableRegistry, 'internal' | 'find' | 'handle' | 'list'>;

/** The row operations of the client, with a cache of the known tables. */
export class Cluster {
  readonly client: RowClient;
  readonly #registry: TableLookup;
  readonly journal: TableHandle;
  readonly numbers: TableHandle;
  readonly #tables = new Map<string, OpenTable>();
  readonly #tableLookups = new Map<string, Promise<OpenTable>>();

  constructor(client: RowClient, registry: TableLookup) {
    this.client = client;
    this.#registry = registry;
    this.journal = registry.internal(JOURNAL_TABLE);
    this.numbers = registry.internal(NUMBERS_TABLE);
    const gates = registry.internal(GATES_TABLE);
    const spec = { name: GATES, families: [] };
    this.#tables.set(GATES, makeOpenTable(spec, gates, []));
  }

  /** Returns the table, and looks it up if it is not cached. Rejects with `noTable`. */
  table(name: string): Maybe<OpenTable> {
    return this.#tables.get(name) ?? this.#loadOnce(name);
  }

  /** Returns the table, or undefined if it does not exist. */
  findTable(name: string): Maybe<OpenTable | undefined> {
    return this.#tables.get(name) ?? this.#loadOnce(name).catch(undefinedIfNoTable);
  }

  /** Returns a table that has been looked up. Throws `noTable` otherwise. */
  cachedTable(name: string): OpenTable {
    const table = this.#tables.get(name);
    if (!table) throw noTable(name);
    return table;
  }

  async lockedTables(): Promise<string[]> {
    const specs = await this.#registry.list();
    return [GATES, ...specs.map(({ name }) => name)];
  }

  #loadOnce(name: string): Promise<OpenTable> {
    let lookup = this.#tableLookups.get(name);
    if (!lookup) {
      lookup = this.#load(name).finally(() => this.#tableLookups.delete(name));
      this.#tableLookups.set(name, lookup);
    }
    return lookup;
  }

  async #load(name: string): Promise<OpenTable> {
    const spec = await this.#registry.find(name);
    if (!spec) throw noTable(name);
    const handle = this.#registry.handle(spec);
    const rowFamilies = spec.families.flatMap((family, number) => (family.separate ? [] : [number]));
    const table = makeOpenTable(spec, handle, rowFamilies);
    this.#tables.set(name, table);
    return table;
  }

  /** Removes a dropped table from the cache. The next use looks it up again. */
  forgetTable(name: string): void {
    if (name !== GATES) this.#tables.delete(name);
  }

  /**
   * Executes a conditional mutation, and repeats it until its outcome is known or its deadline passes. False means that
   * the guard did not hold at the last try. An earlier try may have succeeded, so the caller has to read the row.
   */
  mutateGuarded(table: TableHandle, mutation: RowMutation): Promise<boolean> {
    return this.client.mutate(table, { ...mutation, isRepeatable: true, isFalseWhenUnknown: true });
  }

  deleteJournalRows(keys: readonly Buffer[]): Promise<void> {
    return this.client.putMany(
      this.journal,
      keys.map((key) => ({ key, deleteRow: true, timestamp: MAX_TIME_ROW })),
    );
  }

  /** Throws the error. If HBase does not know one of the tables, says which one was dropped, or is missing. */
  async rethrow(error: unknown, ...names: readonly string[]): Promise<never> {
    if (!isNoTable(error)) throw error;
    for (const name of names) this.forgetTable(name);
    for (const name of names) await this.table(name);
    throw error;
  }
}

/** Runs the work on the table, or does nothing if the table does not exist. */
export async function unlessDropped(
  cluster: Cluster,
  name: string,
  work: (table: OpenTable) => Promise<void>,
): Promise<void> {
  try {
    await work(await cluster.table(name));
  } catch (error) {
    if (!isNoTable(error) && !isMissing(error)) throw error;
    cluster.forgetTable(name);
  }
}

function undefinedIfNoTable(error: unknown): undefined {
  if (!isNoTable(error)) throw error;
  return undefined;
}

function isNoTable(error: unknown): boolean {
  return error instanceof StoreError && error.code === 'noTable';
}

/** Name in lock requests of the table of gates (locks of whole tables). Tables of a store cannot have this name. */
export const GATES = '/gates';

/** Returns the range with bounds of at most `MAX_KEY` bytes, HBase's limit, or undefined for an empty range. */
export function hbaseRange({ from, to }: KeyRange): KeyRange | undefined {
  if (to?.length === 0) return undefined;
  const lowBound = from && shortenBound(from);
  const highBound = to && shortenBound(to);
  if (lowBound === 'end' || (lowBound && highBound && highBound !== 'end' && Buffer.compare(lowBound, highBound) >= 0))
    return undefined;
  return { from: lowBound?.length ? lowBound : undefined, to: highBound === 'end' ? undefined : highBound };
}

/** Returns the smallest key at or above a bound, or `end` if there is none. */
function shortenBound(bound: Buffer): Buffer | 'end' {
  if (bound.length <= MAX_KEY) return bound;
  return afterPrefix(bound.subarray(0, MAX_KEY)) ?? 'end';
}
