import { setTimeout as sleep } from 'node:timers/promises';
import type { HBaseClient } from '../../src/store/hbase/rpc/client.js';
import { Writer } from '../../src/store/hbase/rpc/protobuf.js';

interface Region {
  readonly name: string;
  /** Base64. */
  readonly startKey: string;
  readonly endKey: string;
  /** `host:port` */
  readonly location: string;
}

interface Node {
  /** `host:port` */
  readonly name: string;
  readonly startCode: number;
}

const ENCODED_REGION_NAME = 2;
/** However slow the machine is. */
const WAIT_MS = 300_000;

/** Undefined while the gateway cannot say: regions are on their way. */
async function ask<T>(url: string): Promise<T | undefined> {
  const reply = await fetch(url, { headers: { accept: 'application/json' } });
  const text = await reply.text();
  return reply.ok ? (JSON.parse(text) as T) : undefined;
}

async function regionOf(rest: string, table: string, key: Buffer): Promise<Region | undefined> {
  const answer = await ask<{ Region: Region[] }>(`${rest}/${table}/regions`);
  return answer?.Region.find(({ startKey, endKey }) => {
    const end = Buffer.from(endKey, 'base64');
    return key.compare(Buffer.from(startKey, 'base64')) >= 0 && (end.length === 0 || key.compare(end) < 0);
  });
}

async function eventually<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  for (const end = Date.now() + WAIT_MS; Date.now() < end; await sleep(50)) {
    const found = await look();
    if (found !== undefined) return found;
  }
  throw new Error(`${what}: not in ${WAIT_MS / 1000} s`);
}

/** Moves the region of `table` that `key` is in to another region server, and waits until it is there. */
export async function moveRegion(client: HBaseClient, rest: string, table: string, key: Buffer): Promise<void> {
  const region = await eventually(`the region of ${table}`, () => regionOf(rest, table, key));
  const to = await eventually(`a region server other than ${region.location}`, async () => {
    const nodes = await ask<{ LiveNodes: Node[] }>(`${rest}/status/cluster`);
    return nodes?.LiveNodes.find(({ name }) => name !== region.location);
  });
  const [host, port] = to.name.split(':');
  const encoded = /\.([0-9a-f]{32})\.$/.exec(region.name)![1];
  const request = new Writer()
    .message(1, new Writer().uint(1, ENCODED_REGION_NAME).string(2, encoded))
    .message(2, new Writer().string(1, host).uint(2, Number(port)).uint(3, to.startCode));
  await client.callMaster('MoveRegion', request.finish());
  await eventually(`the move of ${region.name}`, async () => {
    const now = await regionOf(rest, table, key);
    return now?.location === to.name ? now : undefined;
  });
}
