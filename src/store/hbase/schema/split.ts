import { setTimeout as sleep } from 'node:timers/promises';
import { StoreError } from '../../errors.js';
import { Writer } from '../rpc/protobuf.js';
import type { ExistingRegion, Gateway } from './gateway.js';

/** Calls a method of HBase's MasterService at the active master: the message's fields, and the answer's. */
export type MasterCall = (method: string, request: Buffer) => Promise<Buffer>;

const WAIT_MS = 30_000;
const POLL_MS = 50;

/**
 * Splits an empty new table at `keys` (rising): the gateway makes tables of one region only. What is split there
 * already stays. The middle key first, so that the halves are split side by side.
 */
export async function splitAt(
  gateway: Gateway,
  call: MasterCall,
  table: string,
  keys: readonly Buffer[],
): Promise<void> {
  if (keys.length === 0) return;
  const middle = keys.length >> 1;
  await splitRegion(gateway, call, table, keys[middle]!);
  await Promise.all([
    splitAt(gateway, call, table, keys.slice(0, middle)),
    splitAt(gateway, call, table, keys.slice(middle + 1)),
  ]);
}

function holds(region: ExistingRegion, key: Buffer): boolean {
  return key.compare(region.start) >= 0 && (region.end.length === 0 || key.compare(region.end) < 0);
}

/** Splits the region that `key` is in at `key`, and waits until the halves are there. */
export async function splitRegion(gateway: Gateway, call: MasterCall, table: string, key: Buffer): Promise<void> {
  let asked = false;
  for (const end = Date.now() + WAIT_MS; Date.now() < end; await sleep(POLL_MS)) {
    const regions = await gateway.regions(table);
    if (regions?.some(({ start }) => start.equals(key))) return;
    const region = regions?.find((one) => holds(one, key));
    if (!region || asked) continue;
    await call('SplitRegion', new Writer().message(1, regionInfo(table, region)).bytes(2, key).finish());
    asked = true;
  }
  throw new StoreError('unavailable', `table ${table}: a region was not split in ${WAIT_MS / 1000} s`);
}

/** hbase.pb.RegionInfo */
function regionInfo(table: string, { id, start, end }: ExistingRegion): Writer {
  return new Writer().uint(1, id).message(2, tableNameMessage(table)).bytes(3, start).bytes(4, end);
}

/** hbase.pb.TableName */
function tableNameMessage(table: string): Writer {
  const colon = table.indexOf(':');
  return new Writer().string(1, colon < 0 ? 'default' : table.slice(0, colon)).string(2, table.slice(colon + 1));
}
