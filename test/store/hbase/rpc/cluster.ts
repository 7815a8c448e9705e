import { setTimeout as sleep } from 'node:timers/promises';
import { HBaseClient } from '../../../../src/store/hbase/rpc/client.js';
import { Reader, Writer } from '../../../../src/store/hbase/rpc/protobuf.js';
import type { RpcSettings, TableHandle } from '../../../../src/store/hbase/rpc/rpc-types.js';
import { cellValue, EMPTY } from '../../../../src/store/row.js';
import { freshPrefix, type HBaseServer } from '../../../hbase/server.js';

interface KnownRegion {
  /** Row of hbase:meta. */
  readonly name: Buffer;
  readonly id: number;
  readonly start: Buffer;
  readonly end: Buffer;
  readonly server: string;
}

const META: TableHandle = { name: 'hbase:meta', families: ['info', 'ns', 'rep_barrier', 'table'] };

/** Longest wait for the master to do what it was asked, ms. */
const WAIT_MS = 30_000;

/**
 * The run's HBase as these tests use it: tables made through the REST gateway, regions moved about by the master's RPC.
 */
export class Cluster {
  readonly server: HBaseServer;
  readonly #clients: HBaseClient[] = [];
  #own: HBaseClient | undefined;
  readonly #tables: string[] = [];

  constructor(server: HBaseServer) {
    this.server = server;
  }

  client(changes: Partial<RpcSettings> = {}): HBaseClient {
    const client = new HBaseClient({
      masters: [this.server.master],
      operationTimeoutMs: 30_000,
      rpcTimeoutMs: 10_000,
      scannerTimeoutMs: 60_000,
      retryPauseMs: 20,
      user: 'rowan',
      maxInFlightPerServer: 64,
      maxQueuedBytes: 64 * 1024 * 1024,
      ...changes,
    });
    this.#clients.push(client);
    return client;
  }

  /** A new table of its own name. `attributes` as HBase names them, of the table. */
  async table(families: readonly string[], attributes: Record<string, string> = {}): Promise<TableHandle> {
    const name = `${freshPrefix()}_rpc`;
    const schema = { name, ...attributes, ColumnSchema: families.map((family) => ({ name: family })) };
    await this.#rest('PUT', `${name}/schema`, schema);
    this.#tables.push(name);
    return { name, families };
  }

  get #admin(): HBaseClient {
    this.#own ??= this.client();
    return this.#own;
  }

  async dropTable(table: TableHandle): Promise<void> {
    await this.#rest('DELETE', `${table.name}/schema`);
  }

  /** Splits the region of `key` at it. */
  async split(table: TableHandle, key: Buffer): Promise<void> {
    const region = await this.#regionOf(table, key);
    const message = new Writer().message(1, regionInfo(table, region)).bytes(2, key).finish();
    await this.#admin.callMaster('SplitRegion', message);
    await this.#until(async () => (await this.#regionOf(table, key)).start.equals(key));
  }

  /** Moves the region of `key` to the other region server; gives the server's name. */
  async move(table: TableHandle, key: Buffer): Promise<string> {
    const { name, server } = await this.#regionOf(table, key);
    await this.#admin.callMaster('MoveRegion', new Writer().message(1, byName(name)).finish());
    let now = server;
    await this.#until(async () => {
      now = (await this.#regionOf(table, key)).server;
      return now !== server;
    });
    return now;
  }

  /** Merges the regions of two keys that lie in neighbouring regions. */
  async merge(table: TableHandle, key: Buffer, next: Buffer): Promise<void> {
    const [a, b] = [await this.#regionOf(table, key), await this.#regionOf(table, next)];
    const message = new Writer().message(1, byName(a.name)).message(1, byName(b.name)).bool(3, true).finish();
    await this.#admin.callMaster('MergeTableRegions', message);
    await this.#until(async () => (await this.#regionOf(table, key)).end.equals(b.end));
  }

  /** How many rows hbase:meta has for regions of the table that were split. */
  async splitParents(table: TableHandle): Promise<number> {
    return (await this.#rowsOf(table)).filter(({ row }) => readInfo(row).gone).length;
  }

  /** Closes the clients and drops the tables. */
  async end(): Promise<void> {
    for (const client of this.#clients) await client.close();
    for (const name of this.#tables) await fetch(`${this.server.rest}/${name}/schema`, { method: 'DELETE' });
  }

  /** The open region of the key, as hbase:meta has it. */
  async #regionOf(table: TableHandle, key: Buffer): Promise<KnownRegion> {
    const found = (await this.#rowsOf(table)).flatMap(({ name, row }) => openRegion(name, row));
    const region = found.find(
      ({ start, end }) => start.compare(key) <= 0 && (end.length === 0 || key.compare(end) < 0),
    );
    if (!region) throw new Error(`table ${table.name} has no open region of the key`);
    return region;
  }

  async #rowsOf(table: TableHandle): Promise<{ name: Buffer; row: Buffer }[]> {
    const scan = this.#admin.scan(META, {}, { families: [0] });
    const found: { name: Buffer; row: Buffer }[] = [];
    for (let batch = await scan.next(); batch; batch = await scan.next()) {
      for (const [i, name] of batch.keys.entries()) {
        if (name.toString('latin1').startsWith(`${table.name},`)) found.push({ name, row: batch.rows[i]! });
      }
    }
    return found;
  }

  async #rest(method: string, path: string, body?: unknown): Promise<unknown> {
    const answer = await fetch(`${this.server.rest}/${path}`, {
      method,
      headers: { accept: 'application/json', 'content-type': 'application/json' },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text.slice(0, 300)}`);
    return text && JSON.parse(text);
  }

  async #until(done: () => Promise<boolean>): Promise<void> {
    for (const end = Date.now() + WAIT_MS; Date.now() < end; await sleep(50)) {
      if (await done().catch(() => false)) return;
    }
    throw new Error(`the master did not do it in ${WAIT_MS} ms`);
  }
}

interface Info {
  readonly id: number;
  readonly start: Buffer;
  readonly end: Buffer;
  /** It was split. */
  readonly gone: boolean;
}

const valueIn = (row: Buffer, qualifier: string) => cellValue(row, 0, Buffer.from(qualifier));

function readInfo(row: Buffer): Info {
  const reader = new Reader(valueIn(row, 'regioninfo')!, 4);
  let [id, gone] = [0, false];
  let start: Buffer = EMPTY;
  let end: Buffer = EMPTY;
  while (reader.next()) {
    if (reader.field === 1) id = reader.uint();
    else if (reader.field === 3) start = reader.bytes();
    else if (reader.field === 4) end = reader.bytes();
    else if (reader.field === 5 || reader.field === 6) gone = reader.bool() || gone;
    else reader.skip();
  }
  return { id, start, end, gone };
}

/** Empty for a region that was split or merged away. */
function openRegion(name: Buffer, row: Buffer): KnownRegion[] {
  const { id, start, end, gone } = readInfo(row);
  const server = valueIn(row, 'server')?.toString();
  const open = valueIn(row, 'state')?.toString() === 'OPEN';
  return gone || !server || !open ? [] : [{ name, id, start, end, server }];
}

function regionInfo(table: TableHandle, region: KnownRegion): Writer {
  return new Writer()
    .uint(1, region.id)
    .message(2, new Writer().string(1, 'default').string(2, table.name))
    .bytes(3, region.start)
    .bytes(4, region.end);
}

/** RegionSpecifier by the encoded name, which ends the region's name: `table,start,id.ENCODED.` */
function byName(region: Buffer): Writer {
  return new Writer().uint(1, 2).bytes(2, region.subarray(-33, -1));
}
