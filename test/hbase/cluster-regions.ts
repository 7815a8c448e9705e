import { setTimeout as sleep } from 'node:timers/promises';
import { HBaseClient } from '../../src/store/hbase/rpc/client.js';
import { Connection } from '../../src/store/hbase/rpc/connection.js';
import { Failure } from '../../src/store/hbase/rpc/failure.js';
import { Writer } from '../../src/store/hbase/rpc/protobuf.js';
import type { RpcSettings, RpcStatistics } from '../../src/store/hbase/rpc/rpc-types.js';
import type { HBaseServer } from './server.js';

/** A region as hbase:meta has it. */
export interface Place {
  readonly table: string;
  /** As region servers know it. */
  readonly name: Buffer;
  /** As the master does: the digits that its name ends with. */
  readonly encoded: string;
  readonly start: Buffer;
  /** Empty: open. */
  readonly end: Buffer;
  /** `host:port` */
  readonly server: string;
}

const META = { table: 'hbase:meta', name: Buffer.from('hbase:meta,,1'), encoded: '1588230740' } as const;
const REGION_NAME = 1;
const ENCODED_REGION_NAME = 2;
const FIRST = Buffer.alloc(1);
/** However slow the machine is. */
const WAIT_MS = 300_000;
/** Between two attempts of the probe, and of looks at the gateway. */
const PAUSE_MS = 20;
const CALL_MS = 5_000;
/** A merge that has not come about by then was given up by the master, which tells nobody. */
const MERGE_MS = 15_000;

/** Asks until there is an answer: the gateway has none while regions are on their way. */
async function eventually<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
  for (const end = Date.now() + WAIT_MS; Date.now() < end; await sleep(PAUSE_MS)) {
    const found = await look();
    if (found !== undefined) return found;
  }
  throw new Error(`${what}: not in ${WAIT_MS / 1000} s`);
}

/** As the gateway tells of it; keys are base64. */
interface Listed {
  readonly id: number;
  readonly name: string;
  readonly startKey: string;
  readonly endKey: string;
  readonly location: string;
}

function placeOf(table: string, { id, name, startKey, endKey, location: server }: Listed): Place {
  const [start, end] = [Buffer.from(startKey, 'base64'), Buffer.from(endKey, 'base64')];
  if (table === META.table) return { ...META, start, end, server };
  const encoded = /\.([0-9a-f]{32})\.$/.exec(name)![1]!;
  const parts = [`${table},`, start, `,${id}.${encoded}.`].map((part) => Buffer.from(part as string));
  return { table, name: Buffer.concat(parts), encoded, start, end, server };
}

/** The regions of a cluster, asked of its gateway and of its region servers themselves, past Rowan's own retries. */
export class ClusterRegions {
  readonly #server: HBaseServer;
  readonly #settings: RpcSettings;
  readonly #connections = new Map<string, Promise<Connection>>();
  /** Nobody asks for them. */
  readonly #statistics: RpcStatistics = {
    ...{ calls: {}, actions: 0, retries: 0, connects: 0 },
    ...{ cellsReceived: 0, bytesReceived: 0, bytesSent: 0 },
  };

  constructor(server: HBaseServer) {
    this.#server = server;
    this.#settings = server.settings('none');
  }

  /** Of one table, in key order. */
  async of(table: string): Promise<Place[]> {
    const url = `${this.#server.rest}/${table}/regions`;
    const { Region: regions } = await eventually(`the regions of ${table}`, async () => {
      const reply = await fetch(url, { headers: { accept: 'application/json' } });
      const text = await reply.text();
      return reply.ok ? (JSON.parse(text) as { Region: Listed[] }) : undefined;
    });
    return regions.map((region) => placeOf(table, region));
  }

  /** Of hbase:meta and of all tables that begin so. */
  async ofAll(prefix: string): Promise<Place[]> {
    const reply = await fetch(this.#server.rest, { headers: { accept: 'application/json' } });
    const { table: tables } = (await reply.json()) as { table: { name: string }[] };
    const wanted = tables.map(({ name }) => name).filter((name) => name.startsWith(`${prefix}_`));
    return (await Promise.all([META.table, ...wanted].map((table) => this.of(table)))).flat();
  }

  /** Where hbase:meta is. */
  async metaServer(): Promise<string> {
    return (await this.of(META.table))[0]!.server;
  }

  /**
   * Merges two neighbours; resolves, when they are one, with the time (monotonic ms) at which HBase was asked for the
   * merge that came about: halves of a split are not merged before they have files of their own.
   */
  async merge(one: Place, other: Place): Promise<number> {
    const client = new HBaseClient(this.#settings);
    const request = new Writer();
    for (const { encoded } of [one, other])
      request.message(1, new Writer().uint(1, ENCODED_REGION_NAME).string(2, encoded));
    const both = request.finish();
    let asked = Number.NEGATIVE_INFINITY;
    try {
      await eventually(`the merge of ${one.encoded} and ${other.encoded}`, async () => {
        const now = await this.of(one.table);
        if (!now.some(({ encoded }) => encoded === one.encoded || encoded === other.encoded)) return true;
        if (performance.now() < asked + MERGE_MS) return undefined;
        asked = performance.now();
        await client.callMaster('MergeTableRegions', both);
        return undefined;
      });
    } finally {
      await client.close();
    }
    return asked;
  }

  /**
   * Resolves when each region answers a get, at any region server but `except`: each is asked again at once. So long
   * takes HBase itself.
   */
  async answer(places: readonly Place[], except?: string): Promise<void> {
    const servers = this.#server.regionServers.filter((address) => address !== except);
    await Promise.all(
      places.map((place) =>
        eventually(`region ${place.encoded} of ${place.table}`, async () => {
          const gets = servers.map((address) => this.#get(address, place));
          return (await Promise.all(gets)).includes(true) || undefined;
        }),
      ),
    );
  }

  /** Whether the region is open there. */
  async #get(address: string, { name, start }: Place): Promise<boolean> {
    const region = new Writer().uint(1, REGION_NAME).bytes(2, name);
    const get = new Writer().bytes(1, start.length > 0 ? start : FIRST).bool(10, true);
    const request = new Writer().message(1, region).message(2, get);
    try {
      const connection = await this.#connection(address);
      await connection.call('Get', request.finish(), [], CALL_MS);
      return true;
    } catch (error) {
      if (error instanceof Failure) return false;
      throw error;
    }
  }

  #connection(address: string): Promise<Connection> {
    const known = this.#connections.get(address);
    if (known) return known;
    const forget = (): void => {
      if (this.#connections.get(address) === connection) this.#connections.delete(address);
    };
    const connection = Connection.open(address, 'ClientService', this.#settings, this.#statistics, forget);
    connection.catch(forget);
    this.#connections.set(address, connection);
    return connection;
  }

  async close(): Promise<void> {
    for (const connection of await Promise.allSettled(this.#connections.values()))
      if (connection.status === 'fulfilled') connection.value.close();
  }
}
