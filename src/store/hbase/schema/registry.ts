import type { Cell, Guard, TableSpec } from '../../contract.js';
import { batchesOf } from '../../maybe.js';
import { cellValue } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { checkSpec, sameSpec } from '../../tables.js';
import type { HBaseClient } from '../rpc/client.js';
import type { RowMutation, TableHandle } from '../rpc/rpc-types.js';
import type { HBaseSettings } from '../settings.js';
import { dropCommands, TableAdmin } from './admin.js';
import { describeInternal, describeTable, type InternalTable, internalHandle, tableHandle } from './descriptor.js';

/**
 * The catalog: a row per table, with the table's name as key. Cell `spec` contains the spec as JSON. Cell `state`
 * exists while the table is being created (`making`) or dropped (`dropping`), and contains the ticket of this
 * operation. A table with a state counts as missing.
 */
export const CATALOG: InternalTable = { name: 'tables', families: [{ name: 'spec' }] };
/** Number of regions of a large table when the number of servers is unknown. */
export const DEFAULT_REGIONS = 8;
const SPEC_QUALIFIER = Buffer.from('spec');
const STATE_QUALIFIER = Buffer.from('state');
const DROPPING_PREFIX = 'dropping ';
const CREATING_PREFIX = 'making ';

interface CatalogRow {
  readonly spec: TableSpec;
  readonly specBytes: Buffer;
  /** The value of cell `state`; undefined for an existing table. */
  readonly state: Buffer | undefined;
}

/** Draws a ticket: the timestamp of a change of the catalog, above those of all cells read before. */
export type DrawTicket = () => Promise<bigint>;

type Client = Pick<HBaseClient, 'get' | 'scan' | 'mutate' | 'regions' | 'callMaster'>;

/**
 * The tables of a store in HBase. `TableAdmin` creates and drops the tables. They are listed in the catalog, because
 * HBase stores no specs and clients without a gateway cannot read table descriptors. Each operation is first recorded
 * in the catalog, so that the next user of the table completes an interrupted operation.
 */
export class TableRegistry {
  readonly #client: Client;
  readonly #settings: HBaseSettings;
  readonly #admin: TableAdmin;
  readonly #catalog: TableHandle;

  constructor(client: Client, settings: HBaseSettings) {
    this.#client = client;
    this.#settings = settings;
    this.#admin = new TableAdmin(settings, (method, request) => client.callMaster(method, request));
    this.#catalog = internalHandle(settings, CATALOG);
  }

  handle(spec: TableSpec): TableHandle {
    return tableHandle(this.#settings, spec);
  }

  internal(table: InternalTable): TableHandle {
    return internalHandle(this.#settings, table);
  }

  /** Creates the catalog and the internal tables. Verifies existing tables if the gateway answers. */
  async ensure(tables: readonly InternalTable[]): Promise<void> {
    const internalTables = [CATALOG, ...tables];
    const exists = (table: InternalTable): Promise<boolean> => this.#exists(this.internal(table));
    const allExist = (await Promise.all(internalTables.map(exists))).every(Boolean);
    if (allExist && !(await this.#admin.isReachable())) return;
    for (const table of internalTables)
      await this.#admin.create(describeInternal(this.#settings, table), () => exists(table));
  }

  /** Throws `noTable` if `ensure` was never called for this directory. */
  async requireExists(): Promise<void> {
    if (await this.#exists(this.#catalog)) return;
    const prefix = `${this.#settings.namespace}:${this.#settings.prefix}`;
    throw new StoreError('noTable', `there is no directory in the HBase tables ${prefix}*; "rowan init" makes one`);
  }

  /** As `Store.createTable`. Works for a table that was dropped before, whatever the servers' clocks say. */
  async create(requestedSpec: TableSpec, draw: DrawTicket): Promise<void> {
    const spec = checkSpec(requestedSpec);
    for (;;) {
      const catalogRow = (await this.#readRow(spec.name)) ?? (await this.#insertRow(spec, draw));
      if (!catalogRow) continue;
      const isSame = sameSpec(catalogRow.spec, spec);
      if (!catalogRow.state) {
        if (!isSame) throw new StoreError('conflict', `table ${spec.name} exists with another spec`);
        if (await this.#exists(this.handle(spec))) return;
        // The catalog is read again: another front end may have dropped the table before it was missed here.
        await this.#createHBaseTable(spec);
        continue;
      }
      if (isDropping(catalogRow) || !isSame) await this.#drop(catalogRow, draw);
      else if (await this.#finishCreate(catalogRow, draw)) return;
    }
  }

  /** Inserts a catalog row whose HBase table is to be created. Returns undefined when another front end did so. */
  async #insertRow(spec: TableSpec, draw: DrawTicket): Promise<CatalogRow | undefined> {
    // Without a gateway, this throws unless the operator has created the HBase table.
    if (!this.#admin.hasGateway) await this.#createHBaseTable(spec);
    const ticket = await draw();
    const specBytes = Buffer.from(JSON.stringify(spec));
    const state = Buffer.from(CREATING_PREFIX + ticket);
    const put = [specCell(specBytes), stateCell(state)];
    const guards: Guard[] = [{ op: 'absent', family: 0, qualifier: SPEC_QUALIFIER }];
    return (await this.#updateRow(spec.name, guards, { put, timestamp: ticket }))
      ? { spec, specBytes, state }
      : undefined;
  }

  /** Creates the HBase table of a catalog row. Returns false when another front end has completed the operation. */
  async #finishCreate(catalogRow: CatalogRow, draw: DrawTicket): Promise<boolean> {
    const { spec, state } = catalogRow;
    await this.#createHBaseTable(spec);
    const change = { delete: [{ family: 0, qualifier: STATE_QUALIFIER }], timestamp: await draw() };
    return this.#updateRow(spec.name, [{ op: 'equals', ...stateCell(state!) }], change);
  }

  async #createHBaseTable(spec: TableSpec): Promise<void> {
    const splits = await this.#splitKeys(spec);
    await this.#admin.create(describeTable(this.#settings, spec, splits), () => this.#exists(this.handle(spec)));
  }

  async #splitKeys(spec: TableSpec): Promise<readonly Buffer[]> {
    const { regions, splitKeys } = this.#settings;
    if (!splitKeys) return [];
    return splitKeys(spec, regions > 0 ? regions : await this.#admin.countServers(DEFAULT_REGIONS));
  }

  /** As `Store.dropTable`. */
  async drop(name: string, draw: DrawTicket): Promise<void> {
    for (;;) {
      const catalogRow = await this.#readRow(name);
      if (!catalogRow) return;
      if (await this.#drop(catalogRow, draw)) return;
    }
  }

  /** Returns false when the catalog row has changed. */
  async #drop(catalogRow: CatalogRow, draw: DrawTicket): Promise<boolean> {
    const markedRow = isDropping(catalogRow) ? catalogRow : await this.#markDrop(catalogRow, draw);
    if (markedRow) await this.#finishDrop(markedRow, draw);
    return markedRow !== undefined;
  }

  /** Marks the row as `dropping`. Returns undefined when the row has changed. */
  async #markDrop({ spec, specBytes, state: oldState }: CatalogRow, draw: DrawTicket): Promise<CatalogRow | undefined> {
    const ticket = await draw();
    const state = Buffer.from(DROPPING_PREFIX + ticket);
    const guards: Guard[] = [
      { op: 'equals', ...specCell(specBytes) },
      oldState ? { op: 'equals', ...stateCell(oldState) } : { op: 'absent', family: 0, qualifier: STATE_QUALIFIER },
    ];
    const isMarked = await this.#updateRow(spec.name, guards, { put: [stateCell(state)], timestamp: ticket });
    return isMarked ? { spec, specBytes, state } : undefined;
  }

  /** Drops the HBase table of a marked row, then deletes the row. */
  async #finishDrop({ spec, state }: CatalogRow, draw: DrawTicket): Promise<void> {
    const currentRow = await this.#readRow(spec.name);
    if (!currentRow?.state?.equals(state!)) return;
    const handle = this.handle(spec);
    if (await this.#exists(handle)) await this.#admin.drop(handle.name);
    const change = { deleteRow: true, timestamp: await draw() };
    await this.#updateRow(spec.name, [{ op: 'equals', ...stateCell(state!) }], change);
  }

  /**
   * Returns false when a guard does not hold. After an attempt without an answer, false may also mean that the attempt
   * was applied: the change makes the guard of its repetition fail.
   */
  #updateRow(name: string, guards: Guard[], change: Omit<RowMutation, 'key'>): Promise<boolean> {
    return this.#client.mutate(this.#catalog, {
      key: Buffer.from(name),
      guards,
      ...change,
      isRepeatable: true,
      isFalseWhenUnknown: true,
    });
  }

  /** Returns the catalog row of the table; undefined if it is missing or has no spec. */
  async #readRow(name: string): Promise<CatalogRow | undefined> {
    const row = await this.#client.get(this.#catalog, Buffer.from(name));
    return row && parseRow(name, row);
  }

  /** Returns the spec of a listed table; undefined for any other. Throws `missing` if HBase does not have the table. */
  async find(name: string): Promise<TableSpec | undefined> {
    const spec = await this.#findListed(name);
    if (!spec || (await this.#exists(this.handle(spec)))) return spec;
    // Another front end may have dropped the table since the catalog was read.
    if (!(await this.#findListed(name))) return undefined;
    throw new StoreError('missing', `table ${name} is missing: it was dropped in HBase`, { table: name });
  }

  async #findListed(name: string): Promise<TableSpec | undefined> {
    const catalogRow = await this.#readRow(name);
    return catalogRow?.state ? undefined : catalogRow?.spec;
  }

  async #readRows(): Promise<CatalogRow[]> {
    const rows: CatalogRow[] = [];
    const scan = this.#client.scan(this.#catalog, {});
    for await (const batch of batchesOf(scan)) {
      for (const [i, key] of batch.keys.entries()) {
        const catalogRow = parseRow(key.toString(), batch.rows[i]!);
        if (catalogRow) rows.push(catalogRow);
      }
    }
    return rows;
  }

  /** Returns the specs of all existing tables, by name. */
  async list(): Promise<TableSpec[]> {
    return (await this.#readRows()).filter(({ state }) => !state).map(({ spec }) => spec);
  }

  /** Returns the defects by table name, or undefined without a gateway. Throws `noTable` without a directory. */
  async verify(internal: readonly InternalTable[]): Promise<Map<string, string[]> | undefined> {
    await this.requireExists();
    const defects = new Map<string, string[]>();
    const rows = await this.#readRows();
    const descriptors = [
      ...[CATALOG, ...internal].map((table) => describeInternal(this.#settings, table)),
      ...rows.filter(({ state }) => !state).map(({ spec }) => describeTable(this.#settings, spec)),
    ];
    for (const catalogRow of rows.filter(({ state }) => state)) {
      const { name } = this.handle(catalogRow.spec);
      defects.set(name, [isDropping(catalogRow) ? droppingMessage(name) : CREATING_MESSAGE]);
    }
    for (const descriptor of descriptors) {
      const tableDefects = await this.#admin.verify(descriptor);
      if (!tableDefects) return undefined;
      if (tableDefects.length > 0) defects.set(descriptor.name, tableDefects);
    }
    return defects;
  }

  /** Returns, for each HBase table, the number of regions per server (`host:port`). */
  async countRegions(internal: readonly InternalTable[]): Promise<Map<string, Map<string, number>>> {
    const regions = new Map<string, Map<string, number>>();
    const specs = (await this.list()).map((spec) => this.handle(spec));
    for (const handle of [...[CATALOG, ...internal].map((table) => this.internal(table)), ...specs]) {
      const counts = new Map<string, number>();
      for (const { server } of await this.#client.regions(handle)) counts.set(server, (counts.get(server) ?? 0) + 1);
      regions.set(handle.name, counts);
    }
    return regions;
  }

  async #exists(handle: TableHandle): Promise<boolean> {
    try {
      return (await this.#client.regions(handle)).length > 0;
    } catch (error) {
      if (error instanceof StoreError && error.code === 'noTable') return false;
      throw error;
    }
  }
}

const CREATING_MESSAGE = 'it is not used yet; making it is under way, or was broken off';

/** Returns the message of `verify` for a table that is being dropped. */
function droppingMessage(name: string): string {
  return (
    'it is no longer used; dropping it is under way, or was broken off. That of an index is dropped within two minutes ' +
    `by a server that reaches the gateway; without one give HBase's shell: ${dropCommands(name).join('; ')}`
  );
}

function isDropping({ state }: CatalogRow): boolean {
  return state?.toString().startsWith(DROPPING_PREFIX) === true;
}

function specCell(value: Buffer): Cell {
  return { family: 0, qualifier: SPEC_QUALIFIER, value };
}

function stateCell(value: Buffer): Cell {
  return { family: 0, qualifier: STATE_QUALIFIER, value };
}

function parseRow(name: string, row: Buffer): CatalogRow | undefined {
  const specBytes = cellValue(row, 0, SPEC_QUALIFIER);
  if (!specBytes) return undefined;
  try {
    const spec = checkSpec(JSON.parse(specBytes.toString()) as TableSpec);
    return { spec, specBytes, state: cellValue(row, 0, STATE_QUALIFIER) };
  } catch (error) {
    throw new StoreError('corrupt', `the catalog of tables holds no spec for ${name}`, { cause: error });
  }
}
