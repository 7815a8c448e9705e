import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../store-error.js';
import { MessageWriter } from '../rpc/protobuf.js';
import type { ExistingRegion, Gateway, LiveServer } from './gateway.js';

/** Calls a method of the active master's MasterService. Request and answer are encoded messages. */
export type MasterCall = (method: string, request: Buffer) => Promise<Buffer>;

const MAX_WAIT_MS = 30_000;
const POLL_MS = 50;

/**
 * Splits a new empty table at `keys`, which are in order. The gateway creates tables with a single region only.
 * Existing splits stay. The middle key is first, so that both halves are split concurrently.
 */
export async function splitTable(
  gateway: Gateway,
  call: MasterCall,
  table: string,
  keys: readonly Buffer[],
): Promise<void> {
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
export async function splitRegion(gateway: Gateway, call: MasterCall, table: string, key: Buffer): Promise<void> {
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
export async function spreadRegions(gateway: Gateway, call: MasterCall, table: string): Promise<void> {
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
