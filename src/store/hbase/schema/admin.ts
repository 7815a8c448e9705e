import { randomBytes } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../store-error.js';
import { MessageReader, MessageWriter } from '../rpc/protobuf.js';
import type { HBaseSettings } from '../settings.js';
import type { TableDescriptor } from './descriptor.js';
import { type ExistingTable, Gateway } from './gateway.js';

/** Attributes whose unsafe values would lose data. The operator may change all other attributes. */
const SAFE_ATTRIBUTES: readonly {
  readonly name: string;
  readonly isSafe: (value: string) => boolean;
  readonly safeValue: string;
}[] = [
  { name: 'TTL', isSafe: (value) => value === '2147483647' || value === 'FOREVER', safeValue: 'FOREVER' },
  { name: 'KEEP_DELETED_CELLS', isSafe: (value) => value === 'FALSE', safeValue: 'FALSE' },
  { name: 'VERSIONS', isSafe: (value) => value === '1', safeValue: '1' },
];

/** Maximum wait for another front end that creates the same table, ms. */
const RACE_MS = 60_000;
/** Interval between the checks during this wait, ms. */
const RACE_PAUSE_MS = 100;

/** Whether another request to create the table interfered. */
function isRace(error: unknown): boolean {
  return error instanceof StoreError && /Table(NotEnabled|NotDisabled|Exists)Exception/.test(error.message);
}

/** Returns the differences that make an existing table unusable, with the commands that remove them. */
export function findDifferences(descriptor: TableDescriptor, existingTable: ExistingTable): string[] {
  const defects: string[] = [];
  for (const [name, value] of Object.entries(descriptor.attributes)) {
    // FSYNC_WAL is stronger than any durability that Rowan requests.
    if (name === 'DURABILITY' && existingTable.attributes[name] === 'FSYNC_WAL') continue;
    const actual = existingTable.attributes[name] ?? 'USE_DEFAULT';
    if (actual !== value && !(name === 'DURABILITY' && value === 'USE_DEFAULT' && actual === 'SYNC_WAL'))
      defects.push(`${name} is ${actual}, not ${value}: alter '${descriptor.name}', ${name} => '${value}'`);
  }
  for (const family of descriptor.families) {
    const actual = existingTable.families.get(family.name);
    if (!actual) continue;
    const alter = (name: string, value: string): string =>
      `alter '${descriptor.name}', {NAME => '${family.name}', ${name} => '${value}'}`;
    for (const { name, isSafe, safeValue: value } of SAFE_ATTRIBUTES) {
      const attribute = actual[name];
      if (attribute !== undefined && !isSafe(attribute))
        defects.push(`family ${family.name}: ${name} is ${attribute}, not ${value}: ${alter(name, value)}`);
    }
    const behavior = family.attributes.NEW_VERSION_BEHAVIOR;
    if (behavior !== undefined && actual.NEW_VERSION_BEHAVIOR !== behavior)
      defects.push(`family ${family.name}: NEW_VERSION_BEHAVIOR is not true: ${alter('NEW_VERSION_BEHAVIOR', 'true')}`);
  }
  return defects;
}

/** Creates, verifies and drops HBase tables. All errors are `StoreError`. */
export class TableAdmin {
  readonly #gateway: Gateway | undefined;
  readonly #call: MasterCall;
  #serverCount: Promise<number> | undefined;

  /** `call` sends a request to the active master, for operations that the gateway does not offer. */
  constructor({ restUrl, isRestUrlGuessed }: Pick<HBaseSettings, 'restUrl' | 'isRestUrlGuessed'>, call: MasterCall) {
    this.#gateway = restUrl === undefined ? undefined : new Gateway(restUrl, isRestUrlGuessed);
    this.#call = call;
  }

  get hasGateway(): boolean {
    return this.#gateway !== undefined;
  }

  /** Whether the gateway answers. True without a gateway. */
  async isReachable(): Promise<boolean> {
    try {
      await this.#gateway?.tables();
      return true;
    } catch (error) {
      if (error instanceof StoreError && error.code === 'unavailable') return false;
      throw error;
    }
  }

  /** Returns the number of region servers at the first call, or `fallback` without a gateway. */
  async countServers(fallback: number): Promise<number> {
    const serverCount = this.#serverCount ?? this.#gateway?.countServers();
    this.#serverCount = serverCount;
    try {
      return (await serverCount) ?? fallback;
    } catch (error) {
      if (this.#serverCount === serverCount) this.#serverCount = undefined;
      throw error;
    }
  }

  /** Creates the table, split into regions on all servers. Verifies an existing table, and adds missing families. */
  async create(table: TableDescriptor, exists: () => Promise<boolean>): Promise<void> {
    const gateway = this.#gateway;
    if (!gateway) {
      if (await exists()) return;
      throw noGatewayError(`table ${table.name} is not there`, [createCommand(table)]);
    }
    for (const end = performance.now() + RACE_MS; ; await sleep(RACE_PAUSE_MS)) {
      const existingTable = await gateway.describe(table.name);
      if (existingTable) return this.#addMissingFamilies(gateway, table, existingTable);
      try {
        return await this.#createNew(table, gateway.address);
      } catch (error) {
        if (!isRace(error) || performance.now() > end) throw error;
      }
      // Another front end has created the table, or is creating it.
    }
  }

  /** Creates a table whose regions HBase assigns to the servers in turn, and waits until they are open. */
  async #createNew(table: TableDescriptor, gatewayAddress: string): Promise<void> {
    const answer = await this.#call('CreateTable', encodeCreateRequest(table)).catch((error: unknown) =>
      throwNamespaceError(error, gatewayAddress),
    );
    const created = new MessageReader(answer);
    const procedure = new MessageWriter().uint(1, created.nextField(1) ? created.uint64() : 0n).finish();
    for (const end = Date.now() + MAX_WAIT_MS; Date.now() < end; await sleep(POLL_MS)) {
      const result = new MessageReader(await this.#call('getProcedureResult', procedure));
      if (result.nextField(1) && result.uint() === RUNNING) continue;
      if (!result.nextField(5)) return;
      // Field 5 is the exception of a procedure that has failed. Its class name stands in it as text.
      const exception = /\w+Exception/.exec(result.string())?.[0] ?? 'for an unknown reason';
      const message = `table ${table.name} was not made (${exception}): the log of HBase's master says more`;
      throw new StoreError('unavailable', message);
    }
    throw new StoreError('unavailable', `table ${table.name}: its regions were not open in ${MAX_WAIT_MS / 1000} s`);
  }

  async #addMissingFamilies(gateway: Gateway, table: TableDescriptor, existingTable: ExistingTable): Promise<void> {
    const defects = findDifferences(table, existingTable);
    if (defects.length > 0) throw new StoreError('conflict', `HBase table ${table.name}: ${defects.join('; ')}`);
    const missingFamilies = table.families.map(({ name }) => name).filter((name) => !existingTable.families.has(name));
    if (missingFamilies.length > 0) await gateway.addFamilies(table, missingFamilies);
  }

  /** Returns the defects of the table as texts for the operator, or undefined without a gateway. */
  async verify(table: TableDescriptor): Promise<string[] | undefined> {
    if (!this.#gateway) return undefined;
    const existingTable = await this.#gateway.describe(table.name);
    if (!existingTable) return [`it is not there: ${createCommand(table)}`];
    const missingFamilies = table.families.map(({ name }) => name).filter((name) => !existingTable.families.has(name));
    const additions =
      missingFamilies.length === 0 ? [] : [`families are missing: ${alterCommand(table, missingFamilies)}`];
    return [...additions, ...findDifferences(table, existingTable)];
  }

  /** A missing table is no error. */
  async drop(name: string): Promise<void> {
    if (!this.#gateway) throw noGatewayError(`table ${name} is no longer used and can be dropped`, dropCommands(name));
    try {
      await this.#gateway.drop(name);
    } catch (error) {
      if (!(error instanceof StoreError)) throw error;
      const message = `${error.message}; HBase's shell drops the table, too:\n${dropCommands(name).join('\n')}`;
      throw new StoreError(error.code, message, { cause: error });
    }
  }
}

function noGatewayError(defect: string, commands: readonly string[]): StoreError {
  return new StoreError('unavailable', `${defect}; without a REST gateway give HBase's shell:\n${commands.join('\n')}`);
}

function throwNamespaceError(error: unknown, gatewayAddress: string): never {
  const name = error instanceof StoreError && /NamespaceNotFoundException: (\w+)/.exec(error.message)?.[1];
  if (!name) throw error;
  const shell = `create_namespace '${name}'`;
  const message = `HBase has no namespace ${name}: give HBase's shell ${shell}, or curl -X POST ${gatewayAddress}/namespaces/${name}`;
  throw new StoreError('unavailable', message, { cause: error });
}

/** Calls a method of the active master's MasterService. Request and answer are encoded messages. */
type MasterCall = (method: string, request: Buffer) => Promise<Buffer>;

/** Maximum wait for the regions of a new table, ms, and interval between the checks. */
const MAX_WAIT_MS = 60_000;
const POLL_MS = 50;
/** GetProcedureResultResponse.State */
const RUNNING = 1;

/**
 * CreateTableRequest: table_schema 1 of TableSchema { table_name 1, attributes 2, column_families 3 of { name 1,
 * attributes 2 } }, split_keys 2, nonce_group 3, nonce 4. HBase answers a repeated nonce as it did before.
 */
function encodeCreateRequest({ name, attributes, families, splitKeys }: TableDescriptor): Buffer {
  const schema = new MessageWriter().message(1, encodeTableName(name));
  writeAttributes(schema, attributes);
  for (const family of families) {
    const column = new MessageWriter().string(1, family.name);
    writeAttributes(column, family.attributes);
    schema.message(3, column);
  }
  const request = new MessageWriter().message(1, schema);
  for (const key of splitKeys) request.bytes(2, key);
  const nonce = randomBytes(16);
  return request.uint(3, nonce.readBigUInt64BE(0)).uint(4, nonce.readBigUInt64BE(8)).finish();
}

/** Field 2 of a schema: BytesBytesPair { first 1, second 2 }. */
function writeAttributes(schema: MessageWriter, attributes: Readonly<Record<string, string>>): void {
  for (const [name, value] of Object.entries(attributes))
    schema.message(2, new MessageWriter().string(1, name).string(2, value));
}

/** hbase.pb.TableName */
function encodeTableName(table: string): MessageWriter {
  const colon = table.indexOf(':');
  return new MessageWriter().string(1, colon < 0 ? 'default' : table.slice(0, colon)).string(2, table.slice(colon + 1));
}

/** Quotes a key. In single quotes the shell passes `\xHH` on unchanged, and HBase decodes it. */
function quoteKey(bytes: Buffer): string {
  let text = '';
  for (const byte of bytes) {
    const isPlain = byte >= 0x20 && byte < 0x7f && byte !== 0x27 && byte !== 0x5c;
    text += isPlain ? String.fromCharCode(byte) : `\\x${byte.toString(16).padStart(2, '0').toUpperCase()}`;
  }
  return `'${text}'`;
}

function formatAttributes(attributes: Readonly<Record<string, string>>): string {
  return Object.entries(attributes)
    .map(([name, value]) => `, ${name} => '${value}'`)
    .join('');
}

/** Returns the `create` command of HBase's shell for the table, with split keys. */
export function createCommand({ name, attributes, families, splitKeys }: TableDescriptor): string {
  const clauses = families.map((family) => `{NAME => '${family.name}'${formatAttributes(family.attributes)}}`);
  if (splitKeys.length > 0) clauses.push(`{SPLITS => [${splitKeys.map(quoteKey).join(', ')}]}`);
  return `create '${name}'${formatAttributes(attributes)}, ${clauses.join(', ')}`;
}

/** Returns the `alter` command that adds missing families. */
function alterCommand({ name, families }: TableDescriptor, missingFamilies: readonly string[]): string {
  const clauses = families
    .filter((family) => missingFamilies.includes(family.name))
    .map((family) => `{NAME => '${family.name}'${formatAttributes(family.attributes)}}`);
  return `alter '${name}', ${clauses.join(', ')}`;
}

export function dropCommands(name: string): string[] {
  return [`disable '${name}'`, `drop '${name}'`];
}
