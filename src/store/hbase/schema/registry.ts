import { batchesOf } from '../../batches.js';
import type { Cell, Guard, TableSpec } from '../../contract.js';
import { cellValue } from '../../row.js';
import { StoreError } from '../../store-error.js';
import { checkSpec, sameSpec } from '../../tables.js';
import type { HBaseClient } from '../rpc/client.js';
import type { RowMutation, TableHandle } from '../rpc/rpc-types.js';
import type { HBaseSettings } from '../settings.js';
import { TableAdmin } from './admin.js';
import { describeInternal, describeTable, type InternalTable, internalHandle, tableHandle } from './descriptor.js';
import { dropCommands } from './shell.js';

/**
 * Which tables there are: one row a table, key = its name, cell `spec` = its spec as JSON, cell `state` while it is
 * `making` or `dropping`, with the ticket of who began it. Such a table counts as not there.
 */
export const CATALOG: InternalTable = { name: 'tables', families: [{ name: 'spec' }] };
/** Regions of a large table where the servers cannot be counted. */
export const UNKNOWN_SERVERS = 8;
const SPEC = Buffer.from('spec');
const STATE = Buffer.from('state');
const DROPPING = 'dropping ';
const MAKING = 'making ';

/** A row of the catalog. */
interface Listed {
  readonly spec: TableSpec;
  readonly text: Buffer;
  /** Undefined for a table that is there. */
  readonly state: Buffer | undefined;
}

/** Draws a ticket: the time of what is written into the catalog, later than all that was read before. */
export type Draw = () => Promise<bigint>;

type Client = Pick<HBaseClient, 'get' | 'scan' | 'mutate' | 'regions' | 'callMaster'>;

/**
 * The tables of one store in HBase: made and dropped through `TableAdmin`, and listed in the catalog table, because
 * HBase keeps no specs and a client without the gateway cannot see its descriptors. What is begun is marked in the
 * catalog first, so that whoever wants the table next ends what was broken off.
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
   * Makes the catalog and the engine's own tables where they are not there. Those that are there are verified, where
   * the gateway answers: nothing else of opening a store needs it.
   */
  async ensure(tables: readonly InternalTable[]): Promise<void> {
    const all = [CATALOG, ...tables];
    const exists = (table: InternalTable): Promise<boolean> => this.#exists(this.internal(table));
    const isThere = (await Promise.all(all.map(exists))).every(Boolean);
    if (isThere && !(await this.#admin.answers())) return;
    for (const table of all) await this.#admin.create(describeInternal(this.#settings, table), () => exists(table));
  }

  /** Throws `noTable` where `ensure` has not been here. */
  async requireThere(): Promise<void> {
    if (await this.#exists(this.#catalog)) return;
    const where = `${this.#settings.namespace}:${this.#settings.prefix}`;
    throw new StoreError('noTable', `there is no directory in the HBase tables ${where}*; "rowan init" makes one`);
  }

  /** As `Store.createTable`. Whatever the servers' clocks say, what was dropped before is there afterwards. */
  async create(wanted: TableSpec, draw: Draw): Promise<void> {
    const spec = checkSpec(wanted);
    for (;;) {
      const listed = (await this.#row(spec.name)) ?? (await this.#begin(spec, draw));
      if (!listed) continue;
      const isSame = sameSpec(listed.spec, spec);
      if (!listed.state) {
        if (isSame) return;
        throw new StoreError('conflict', `table ${spec.name} exists with another spec`);
      }
      if (isDropping(listed) || !isSame) await this.#drop(listed, draw);
      else if (await this.#make(listed, draw)) return;
    }
  }

  /** Lists it as being made; undefined when another has listed one. */
  async #begin(spec: TableSpec, draw: Draw): Promise<Listed | undefined> {
    // Without a gateway people make it, and it is listed after.
    if (!this.#admin.makesTables) await this.#makeTable(spec);
    const ticket = await draw();
    const text = Buffer.from(JSON.stringify(spec));
    const state = Buffer.from(MAKING + ticket);
    const put = [specCell(text), stateCell(state)];
    const guards: Guard[] = [{ op: 'absent', family: 0, qualifier: SPEC }];
    return (await this.#write(spec.name, guards, { put, timestamp: ticket })) ? { spec, text, state } : undefined;
  }

  /** Makes a listed table; false when another has ended what it was listed for. */
  async #make(listed: Listed, draw: Draw): Promise<boolean> {
    const { spec, state } = listed;
    await this.#makeTable(spec);
    const change = { delete: [{ family: 0, qualifier: STATE }], timestamp: await draw() };
    return this.#write(spec.name, [{ op: 'equals', ...stateCell(state!) }], change);
  }

  async #makeTable(spec: TableSpec): Promise<void> {
    const splits = await this.#splitKeys(spec);
    await this.#admin.create(describeTable(this.#settings, spec, splits), () => this.#exists(this.handle(spec)));
  }

  async #splitKeys(spec: TableSpec): Promise<readonly Buffer[]> {
    const { regions, splitKeys } = this.#settings;
    if (!splitKeys) return [];
    return splitKeys(spec, regions > 0 ? regions : await this.#admin.servers(UNKNOWN_SERVERS));
  }

  /** As `Store.dropTable`. */
  async drop(name: string, draw: Draw): Promise<void> {
    for (;;) {
      const listed = await this.#row(name);
      if (!listed) return;
      if (await this.#drop(listed, draw)) return;
    }
  }

  /** False when the row is not what it was. */
  async #drop(listed: Listed, draw: Draw): Promise<boolean> {
    const marked = isDropping(listed) ? listed : await this.#mark(listed, draw);
    if (marked) await this.#end(marked, draw);
    return marked !== undefined;
  }

  /** Lists it as being dropped; undefined when the row is not what it was. */
  async #mark({ spec, text, state: before }: Listed, draw: Draw): Promise<Listed | undefined> {
    const ticket = await draw();
    const state = Buffer.from(DROPPING + ticket);
    const guards: Guard[] = [
      { op: 'equals', ...specCell(text) },
      before ? { op: 'equals', ...stateCell(before) } : { op: 'absent', family: 0, qualifier: STATE },
    ];
    const marked = await this.#write(spec.name, guards, { put: [stateCell(state)], timestamp: ticket });
    return marked ? { spec, text, state } : undefined;
  }

  /** Drops the HBase table of a marked row, then the row. */
  async #end({ spec, state }: Listed, draw: Draw): Promise<void> {
    const now = await this.#row(spec.name);
    if (!now?.state?.equals(state!)) return;
    const handle = this.handle(spec);
    if (await this.#exists(handle)) await this.#admin.drop(handle.name);
    const change = { deleteRow: true, timestamp: await draw() };
    await this.#write(spec.name, [{ op: 'equals', ...stateCell(state!) }], change);
  }

  /** False when a guard does not hold, or did not when an attempt without an answer was made again. */
  #write(name: string, guards: Guard[], change: Omit<RowMutation, 'key'>): Promise<boolean> {
    return this.#client.mutate(this.#catalog, {
      key: Buffer.from(name),
      guards,
      ...change,
      repeatable: true,
      unknownIsFalse: true,
    });
  }

  /** Undefined also for what is left of a row without its spec. */
  async #row(name: string): Promise<Listed | undefined> {
    const row = await this.#client.get(this.#catalog, Buffer.from(name));
    return row && readRow(name, row);
  }

  async find(name: string): Promise<TableSpec | undefined> {
    const listed = await this.#row(name);
    return listed?.state ? undefined : listed?.spec;
  }

  async #rows(): Promise<Listed[]> {
    const rows: Listed[] = [];
    const scan = this.#client.scan(this.#catalog, {});
    for await (const batch of batchesOf(scan)) {
      for (const [i, key] of batch.keys.entries()) {
        const listed = readRow(key.toString(), batch.rows[i]!);
        if (listed) rows.push(listed);
      }
    }
    return rows;
  }

  /** By name. */
  async list(): Promise<TableSpec[]> {
    return (await this.#rows()).filter(({ state }) => !state).map(({ spec }) => spec);
  }

  /**
   * What is wrong with the HBase tables, by their names; undefined where no gateway may be asked. Throws `noTable`
   * where there is no directory.
   */
  async verify(internal: readonly InternalTable[]): Promise<Map<string, string[]> | undefined> {
    await this.requireThere();
    const found = new Map<string, string[]>();
    const rows = await this.#rows();
    const descriptors = [
      ...[CATALOG, ...internal].map((table) => describeInternal(this.#settings, table)),
      ...rows.filter(({ state }) => !state).map(({ spec }) => describeTable(this.#settings, spec)),
    ];
    for (const listed of rows.filter(({ state }) => state)) {
      const { name } = this.handle(listed.spec);
      found.set(name, [isDropping(listed) ? beingDropped(name) : BEING_MADE]);
    }
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

const BEING_MADE = 'it is not used yet; making it is under way, or was broken off';

/** What `verify` says of a table that is listed as being dropped. */
function beingDropped(name: string): string {
  return (
    'it is no longer used; dropping it is under way, or was broken off. That of an index is dropped within two minutes ' +
    `by a server that reaches the gateway; without one give HBase's shell: ${dropCommands(name).join('; ')}`
  );
}

function isDropping({ state }: Listed): boolean {
  return state?.toString().startsWith(DROPPING) === true;
}

function specCell(value: Buffer): Cell {
  return { family: 0, qualifier: SPEC, value };
}

function stateCell(value: Buffer): Cell {
  return { family: 0, qualifier: STATE, value };
}

function readRow(name: string, row: Buffer): Listed | undefined {
  const text = cellValue(row, 0, SPEC);
  if (!text) return undefined;
  try {
    return { spec: checkSpec(JSON.parse(text.toString()) as TableSpec), text, state: cellValue(row, 0, STATE) };
  } catch (error) {
    throw new StoreError('corrupt', `the catalog of tables holds no spec for ${name}`, { cause: error });
  }
}
