import { setTimeout as sleep } from 'node:timers/promises';
import { Connection } from '../../src/store/hbase/rpc/connection.js';
import { Failure } from '../../src/store/hbase/rpc/failure.js';
import { MessageWriter } from '../../src/store/hbase/rpc/protobuf.js';
import type { RpcSettings } from '../../src/store/hbase/rpc/rpc-types.js';
import { noStatistics } from '../store/hbase/rpc/settings.js';
import type { HBaseServer } from './server.js';

/** A region as hbase:meta has it. */
export interface Place {
  readonly table: string;
  /** Time it was made, part of its name. */
  readonly id: number;
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

const NEVER = new AbortController().signal;
const META = { table: 'hbase:meta', id: 1, name: Buffer.from('hbase:meta,,1'), encoded: '1588230740' } as const;
const REGION_NAME = 1;
const ENCODED_REGION_NAME = 2;
const FIRST = Buffer.alloc(1);
/** However slow the machine is. */
const WAIT_MS = 300_000;
/** Between two attempts of the probe, and of looks at the gateway. */
const PAUSE_MS = 20;
const CALL_MS = 20_000;
/** What the master has begun and has not come about by then was given up: it tells nobody. */
const GIVEN_UP_MS = 60_000;
/** Before it is asked again for what it has refused. */
const REFUSED_MS = 500;

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
  return { table, id, name: Buffer.concat(parts), encoded, start, end, server };
}

/** The regions of a cluster, asked of its gateway and of its region servers themselves, past Rowan's own retries. */
export class ClusterRegions {
  readonly #server: HBaseServer;
  readonly #settings: RpcSettings;
  readonly #connections = new Map<string, Promise<Connection>>();
  /** Nobody asks for them. */
  readonly #statistics = noStatistics();

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
   * Splits a region at a key; resolves when the halves are there. What a split or merge has made is not changed again
   * before it has files of its own.
   */
  async split({ table, id, encoded, start, end }: Place, at: Buffer): Promise<void> {
    const name = new MessageWriter().string(1, 'default').string(2, table);
    const region = new MessageWriter().uint(1, id).message(2, name).bytes(3, start).bytes(4, end);
    const request = new MessageWriter().message(1, region).bytes(2, at);
    return this.#change('SplitRegion', request.finish(), table, [encoded]);
  }

  /** Merges two neighbours; resolves as `split`. */
  async merge(one: Place, other: Place): Promise<void> {
    const request = new MessageWriter();
    for (const { encoded } of [one, other])
      request.message(1, new MessageWriter().uint(1, ENCODED_REGION_NAME).string(2, encoded));
    return this.#change('MergeTableRegions', request.finish(), one.table, [one.encoded, other.encoded]);
  }

  /** Asks the master for it until it takes it on, and waits until regions of these names are gone. */
  async #change(method: string, request: Buffer, table: string, gone: readonly string[]): Promise<void> {
    let again = 0;
    await eventually(`${method} of ${gone.join(', ')}`, async () => {
      const now = await this.of(table);
      if (!now.some(({ encoded }) => gone.includes(encoded))) return true;
      if (performance.now() < again) return undefined;
      const taken = await this.#call(this.#server.master, 'MasterService', method, request);
      again = performance.now() + (taken ? GIVEN_UP_MS : REFUSED_MS);
      return undefined;
    });
  }

  /**
   * Resolves when each region answers a get, at any region server but `except`: each is asked again at once.
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
  #get(address: string, { name, start }: Place): Promise<boolean> {
    const region = new MessageWriter().uint(1, REGION_NAME).bytes(2, name);
    const get = new MessageWriter().bytes(1, start.length > 0 ? start : FIRST).bool(10, true);
    return this.#call(address, 'ClientService', 'Get', new MessageWriter().message(1, region).message(2, get).finish());
  }

  /** False when the server refuses, or cannot be reached. */
  async #call(address: string, service: string, method: string, request: Buffer): Promise<boolean> {
    try {
      const connection = await this.#connection(address, service);
      await connection.call(method, request, [], CALL_MS);
      return true;
    } catch (error) {
      if (error instanceof Failure) return false;
      throw error;
    }
  }

  #connection(address: string, service: string): Promise<Connection> {
    const id = `${service}@${address}`;
    const known = this.#connections.get(id);
    if (known) return known;
    const forget = (): void => {
      if (this.#connections.get(id) === connection) this.#connections.delete(id);
    };
    const connection = Connection.open(address, service, this.#settings, this.#statistics, forget, NEVER);
    connection.catch(forget);
    this.#connections.set(id, connection);
    return connection;
  }

  async close(): Promise<void> {
    for (const connection of await Promise.allSettled(this.#connections.values()))
      if (connection.status === 'fulfilled') connection.value.close();
  }
}
