import { setTimeout as sleep } from 'node:timers/promises';
import { HBaseClient } from '../../../../src/store/hbase/rpc/client.js';
import { MessageWriter } from '../../../../src/store/hbase/rpc/protobuf.js';
import type { RpcSettings, TableHandle } from '../../../../src/store/hbase/rpc/rpc-types.js';
import { TableRegions } from '../../../hbase/regions.js';
import { freshPrefix, type HBaseServer } from '../../../hbase/server.js';
import { rpcSettings } from './settings.js';

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
    const client = new HBaseClient(
      rpcSettings({
        masters: [this.server.master],
        user: 'rowan',
        maxInFlightPerServer: 64,
        maxQueuedBytes: 64 * 1024 * 1024,
        ...changes,
      }),
    );
    this.#clients.push(client);
    return client;
  }

  /** A new table, of a name of its own unless told one. `attributes` as HBase names them, of the table. */
  async table(
    families: readonly string[],
    attributes: Record<string, string> = {},
    name = `${freshPrefix()}_rpc`,
  ): Promise<TableHandle> {
    const schema = { name, ...attributes, ColumnSchema: families.map((family) => ({ name: family })) };
    await this.#rest('PUT', `${name}/schema`, schema);
    this.#tables.push(name);
    return { name, families };
  }

  /** As `table`, with regions that begin at these keys, too: the gateway makes one region. */
  async regionsAt(keys: readonly Buffer[], family: string, attributes: Record<string, string>): Promise<TableHandle> {
    const name = `${freshPrefix()}_rpc`;
    const schema = new MessageWriter().message(1, new MessageWriter().string(1, 'default').string(2, name));
    for (const [attribute, value] of Object.entries(attributes))
      schema.message(2, new MessageWriter().string(1, attribute).string(2, value));
    const request = new MessageWriter().message(1, schema.message(3, new MessageWriter().string(1, family)));
    for (const key of keys) request.bytes(2, key);
    this.#tables.push(name);
    await this.#admin.callMaster('CreateTable', request.finish());
    const table = { name, families: [family] };
    while ((await this.regions(table).open()).length <= keys.length) await sleep(50);
    return table;
  }

  get #admin(): HBaseClient {
    this.#own ??= this.client();
    return this.#own;
  }

  async dropTable(table: TableHandle): Promise<void> {
    await this.#rest('DELETE', `${table.name}/schema`);
  }

  /** The table's regions, to be looked at and moved about. */
  regions(table: TableHandle): TableRegions {
    return new TableRegions(this.#admin, table.name);
  }

  /** Closes the clients and drops the tables. */
  async end(): Promise<void> {
    for (const client of this.#clients) await client.close();
    for (const name of this.#tables) await fetch(`${this.server.rest}/${name}/schema`, { method: 'DELETE' });
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
}
