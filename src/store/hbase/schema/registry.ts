import type { TableSpec } from '../../contract.js';
import { cellValue } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { checkSpec, noTable, sameSpec } from '../../tables.js';
import type { HBaseClient } from '../rpc/client.js';
import type { TableHandle } from '../rpc/rpc-types.js';
import type { HBaseSettings } from '../settings.js';
import { TableAdmin } from './admin.js';
import { describeInternal, describeTable, type InternalTable, internalHandle, tableHandle } from './descriptor.js';

/**
 * Which tables there are: one row a table, key = its name, cell `spec` = its spec as JSON. One with a cell `dropping`
 * (the ticket of who drops it) counts as gone; the row goes when its HBase table has.
 */
export const CATALOG: InternalTable = { name: 'tables', families: [{ name: 'spec' }] };
/** Regions of a large table where the servers cannot be counted. */
export const UNKNOWN_SERVERS = 8;
const SPEC = Buffer.from('spec');
const DROPPING = Buffer.from('dropping');

type Client = Pick<HBaseClient, 'get' | 'scan' | 'mutate' | 'regions' | 'callMaster'>;

/**
 * The tables of one store in HBase: made and dropped through `TableAdmin`, and listed in the catalog table, because
 * HBase keeps no specs and a client without the gateway cannot see its descriptors. A table counts as there when the
 * catalog has it: it is made before it is listed, and marked before it is dropped, so that what a drop left undone is
 * done by the next, or before a table of that name is made.
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

  /**
   * Makes the catalog and the engine's own tables where they are not there. Those that are there are verified, unless
   * the gateway does not answer: nothing else of opening a store needs it.
   */
  async ensure(tables: readonly InternalTable[]): Promise<void> {
    for (const table of [CATALOG, ...tables]) {
      const exists = (): Promise<boolean> => this.#exists(this.internal(table));
      try {
        await this.#admin.create(describeInternal(this.#settings, table), exists);
      } catch (error) {
        if (!(error instanceof StoreError && error.code === 'unavailable' && (await exists()))) throw error;
      }
    }
  }

  /** Whether `ensure` has been here: what is asked before a store is opened that should be there. */
  isThere(): Promise<boolean> {
    return this.#exists(this.#catalog);
  }

  /**
   * As `Store.createTable`. `ticket` is the time of what is written into the catalog, drawn after what made it wanted:
   * whatever the servers' clocks say, a table that is made after another of its name was dropped is there.
   */
  async create(wanted: TableSpec, ticket: bigint): Promise<void> {
    const spec = checkSpec(wanted);
    const listed = await this.#row(spec.name);
    if (listed?.dropping) await this.#finishDrop(listed, ticket);
    else if (listed) {
      if (!sameSpec(listed.spec, spec)) throw new StoreError('conflict', `table ${spec.name} exists with another spec`);
      return;
    }
    const splits = await this.#splitKeys(spec);
    await this.#admin.create(describeTable(this.#settings, spec, splits), () => this.#exists(this.handle(spec)));
    await this.#list(spec, ticket);
  }

  async #splitKeys(spec: TableSpec): Promise<readonly Buffer[]> {
    const { regions, splitKeys } = this.#settings;
    if (!splitKeys) return [];
    return splitKeys(spec, regions > 0 ? regions : await this.#admin.servers(UNKNOWN_SERVERS));
  }

  async #list(spec: TableSpec, ticket: bigint): Promise<void> {
    const cell = { family: 0, qualifier: SPEC };
    const listed = await this.#client.mutate(this.#catalog, {
      key: Buffer.from(spec.name),
      guards: [{ op: 'absent', ...cell }],
      put: [{ ...cell, value: Buffer.from(JSON.stringify(spec)) }],
      timestamp: ticket,
    });
    if (listed) return;
    // Another front end was faster; with the same spec all is well.
    const known = await this.find(spec.name);
    if (known && !sameSpec(known, spec))
      throw new StoreError('conflict', `table ${spec.name} exists with another spec`);
  }

  /** As `Store.dropTable`; `ticket` as for `create`. */
  async drop(name: string, ticket: bigint): Promise<void> {
    const listed = await this.#row(name);
    if (!listed) return;
    const dropping = Buffer.from(ticket.toString());
    const put = [{ family: 0, qualifier: DROPPING, value: dropping }];
    await this.#client.mutate(this.#catalog, { key: Buffer.from(name), put, timestamp: ticket, repeatable: true });
    // Tickets have two numbers each: the row's end comes after the mark.
    await this.#finishDrop({ spec: listed.spec, dropping }, ticket + 1n);
  }

  /** Drops the HBase table of a marked row, then the row: all that is older than `timestamp`. */
  async #finishDrop({ spec, dropping }: Listed, timestamp: bigint): Promise<void> {
    const handle = this.handle(spec);
    if (await this.#exists(handle)) await this.#admin.drop(handle.name);
    const guards = [{ op: 'equals' as const, family: 0, qualifier: DROPPING, value: dropping! }];
    const key = Buffer.from(spec.name);
    // Another front end may have done it.
    const change = { key, guards, deleteRow: true, timestamp, repeatable: true, doubtIsFalse: true };
    await this.#client.mutate(this.#catalog, change);
  }

  async #row(name: string): Promise<Listed | undefined> {
    const row = await this.#client.get(this.#catalog, Buffer.from(name));
    return row && readRow(name, row);
  }

  async find(name: string): Promise<TableSpec | undefined> {
    const listed = await this.#row(name);
    return listed?.dropping ? undefined : listed?.spec;
  }

  async #rows(): Promise<Listed[]> {
    const rows: Listed[] = [];
    const scan = this.#client.scan(this.#catalog, {});
    try {
      for (let batch = await scan.next(); batch; batch = await scan.next()) {
        batch.keys.forEach((key, i) => {
          rows.push(readRow(key.toString(), batch.rows[i]!));
        });
      }
    } finally {
      scan.close();
    }
    return rows;
  }

  /** By name. */
  async list(): Promise<TableSpec[]> {
    return (await this.#rows()).filter(({ dropping }) => !dropping).map(({ spec }) => spec);
  }

  /** What is wrong with the HBase tables, by their names; undefined where no gateway may be asked. */
  async verify(internal: readonly InternalTable[]): Promise<Map<string, string[]> | undefined> {
    const found = new Map<string, string[]>();
    const rows = await this.#rows();
    const descriptors = [
      ...[CATALOG, ...internal].map((table) => describeInternal(this.#settings, table)),
      ...rows.filter(({ dropping }) => !dropping).map(({ spec }) => describeTable(this.#settings, spec)),
    ];
    for (const { spec } of rows.filter(({ dropping }) => dropping))
      found.set(this.handle(spec).name, ['it is no longer used; dropping it was broken off']);
    for (const descriptor of descriptors) {
      const wrong = await this.#admin.verify(descriptor);
      if (!wrong) return undefined;
      if (wrong.length > 0) found.set(descriptor.name, wrong);
    }
    return found;
  }

  /** Of each HBase table how many regions each server holds, by `host:port`. */
  async places(internal: readonly InternalTable[]): Promise<Map<string, Map<string, number>>> {
    const places = new Map<string, Map<string, number>>();
    const specs = (await this.list()).map((spec) => this.handle(spec));
    for (const handle of [...[CATALOG, ...internal].map((table) => this.internal(table)), ...specs]) {
      const counts = new Map<string, number>();
      for (const { server } of await this.#client.regions(handle)) counts.set(server, (counts.get(server) ?? 0) + 1);
      places.set(handle.name, counts);
    }
    return places;
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

/** A row of the catalog. */
interface Listed {
  readonly spec: TableSpec;
  /** Undefined for a table that is there. */
  readonly dropping: Buffer | undefined;
}

function readRow(name: string, row: Buffer): Listed {
  const text = cellValue(row, 0, SPEC);
  if (!text) throw noTable(name);
  try {
    return { spec: checkSpec(JSON.parse(text.toString()) as TableSpec), dropping: cellValue(row, 0, DROPPING) };
  } catch (error) {
    throw new StoreError('corrupt', `the catalog of tables holds no spec for ${name}`, { cause: error });
  }
}
