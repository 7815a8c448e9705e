import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../store-error.js';
import { MessageWriter } from '../rpc/protobuf.js';
import type { HBaseSettings } from '../settings.js';
import type { TableDescriptor } from './descriptor.js';
import { type ExistingRegion, type ExistingTable, Gateway, type LiveServer } from './gateway.js';
import { alterCommand, createCommand, dropCommands } from './shell.js';

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

/** Whether another request to create the table interfered: the gateway disables and enables an existing table. */
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
    const serverCount = this.#serverCount ?? this.#gateway?.servers().then((servers) => servers.length);
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
        if (await gateway.create(table)) {
          await splitTable(gateway, this.#call, table.name, table.splitKeys);
          return await spreadRegions(gateway, this.#call, table.name);
        }
      } catch (error) {
        if (!isRace(error) || performance.now() > end) throw error;
      }
      // Another front end has created the table, or is creating it.
    }
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

/** Calls a method of the active master's MasterService. Request and answer are encoded messages. */
type MasterCall = (method: string, request: Buffer) => Promise<Buffer>;

const MAX_WAIT_MS = 30_000;
const POLL_MS = 50;

/**
 * Splits a new empty table at `keys`, which are in order. The gateway creates tables with a single region only.
 * Existing splits stay. The middle key is first, so that both halves are split concurrently.
 */
async function splitTable(gateway: Gateway, call: MasterCall, table: string, keys: readonly Buffer[]): Promise<void> {
  if (keys.length === 0) return;
  const middle = keys.length >> 1;
  await splitRegion(gateway, call, table, keys[middle]!);
  await Promise.all([
    splitTable(gateway, call, table, keys.slice(0, middle)),
    splitTable(gateway, call, table, keys.slice(middle + 1)),
  ]);
}

function containsKey(region: ExistingRegion, key: Buffer): boolean {
  return key.compare(region.start) >= 0 && (region.end.length === 0 || key.compare(region.end) < 0);
}

/** Splits the region of `key` at `key`, and waits until both halves are open. */
async function splitRegion(gateway: Gateway, call: MasterCall, table: string, key: Buffer): Promise<void> {
  let isSplitRequested = false;
  for (const end = Date.now() + MAX_WAIT_MS; Date.now() < end; await sleep(POLL_MS)) {
    const regions = await gateway.regions(table);
    if (regions?.some(({ start }) => start.equals(key))) return;
    const region = regions?.find((candidate) => containsKey(candidate, key));
    if (region && !isSplitRequested) isSplitRequested = await requestSplit(call, table, region, key);
  }
  throw new StoreError('unavailable', `table ${table}: a region was not split in ${MAX_WAIT_MS / 1000} s`);
}

/** Returns false while the region is being opened or moved, when HBase refuses to split the region. */
async function requestSplit(call: MasterCall, table: string, region: ExistingRegion, key: Buffer): Promise<boolean> {
  try {
    await call('SplitRegion', new MessageWriter().message(1, encodeRegionInfo(table, region)).bytes(2, key).finish());
    return true;
  } catch (error) {
    if (error instanceof StoreError && /is not OPEN; state=(?:OPENING|CLOSING)/.test(error.message)) return false;
    throw error;
  }
}

/** RegionSpecifierType */
const ENCODED_REGION_NAME = 2;

/** Spreads the regions of a new table over the servers. HBase's balancer would leave them on one server for a time. */
async function spreadRegions(gateway: Gateway, call: MasterCall, table: string): Promise<void> {
  const regions = await openRegions(gateway, table);
  const servers = await gateway.servers();
  if (regions.length < 2 || servers.length < 2) return;
  regions.sort((a, b) => a.start.compare(b.start));
  servers.sort((a, b) => (a.name < b.name ? -1 : 1));
  const firstServerIndex = servers.findIndex(({ name }) => name === regions[0]!.server);
  await Promise.all(
    regions.map(async (region, i) => {
      const target = servers[(Math.max(firstServerIndex, 0) + i) % servers.length]!;
      if (target.name !== region.server) await call('MoveRegion', encodeMoveRequest(table, region, target));
    }),
  );
}

async function openRegions(gateway: Gateway, table: string): Promise<ExistingRegion[]> {
  for (const end = Date.now() + MAX_WAIT_MS; Date.now() < end; await sleep(POLL_MS)) {
    const regions = await gateway.regions(table);
    if (regions) return regions;
  }
  throw new StoreError('unavailable', `table ${table}: its regions were not open in ${MAX_WAIT_MS / 1000} s`);
}

/** MoveRegionRequest: region 1, dest_server_name 2 of ServerName { host_name 1, port 2, start_code 3 }. */
function encodeMoveRequest(table: string, { name }: ExistingRegion, target: LiveServer): Buffer {
  const regionId = /\.([0-9a-f]{32})\.$/.exec(name)?.[1];
  if (regionId === undefined) throw new StoreError('unavailable', `table ${table}: region "${name}" has an odd name`);
  const colon = target.name.lastIndexOf(':');
  const port = Number(target.name.slice(colon + 1));
  return new MessageWriter()
    .message(1, new MessageWriter().uint(1, ENCODED_REGION_NAME).string(2, regionId))
    .message(2, new MessageWriter().string(1, target.name.slice(0, colon)).uint(2, port).uint(3, target.startCode))
    .finish();
}

/** hbase.pb.RegionInfo */
function encodeRegionInfo(table: string, { id, start, end }: ExistingRegion): MessageWriter {
  return new MessageWriter().uint(1, id).message(2, encodeTableName(table)).bytes(3, start).bytes(4, end);
}

/** hbase.pb.TableName */
function encodeTableName(table: string): MessageWriter {
  const colon = table.indexOf(':');
  return new MessageWriter().string(1, colon < 0 ? 'default' : table.slice(0, colon)).string(2, table.slice(colon + 1));
}
