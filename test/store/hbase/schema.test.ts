import { expect } from 'chai';
import type { TableSpec } from '../../../src/store/contract.js';
import { openHBaseStore } from '../../../src/store/hbase/index.js';
import { HBaseClient } from '../../../src/store/hbase/rpc/client.js';
import { TableAdmin } from '../../../src/store/hbase/schema/admin.js';
import { Gateway } from '../../../src/store/hbase/schema/gateway.js';
import { CATALOG, createCommand, describeTable, TableRegistry } from '../../../src/store/hbase/schema/index.js';
import type { HBaseSettings } from '../../../src/store/hbase/settings.js';
import { MARK } from '../../../src/store/row.js';
import { StoreError } from '../../../src/store/store-error.js';
import { freshPrefix, type HBaseServer, hbase } from '../../hbase/server.js';

const MASTER: TableSpec = { name: 'master', families: [{ name: 'info' }, { name: 'large', separate: true }] };
const INDEX: TableSpec = { name: 'index_2.5.4.3', families: [{ name: 'mark' }], suffixBytes: 16 };
const KEYS = [Buffer.from([0x40]), Buffer.from([0x80, 0x00]), Buffer.from([0xc3, 0xff])];

let last = 0n;
/** As the store draws them, in steps of 2. */
function ticket(): bigint {
  last += 2n;
  return BigInt(Date.now()) * 1000n + last;
}

const never = () => Promise.reject(new Error('not called'));

async function failure(work: Promise<unknown>): Promise<StoreError> {
  try {
    await work;
  } catch (error) {
    if (error instanceof StoreError) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('HBase tables', () => {
  let server: HBaseServer;
  const clients: HBaseClient[] = [];

  before(async function () {
    server = await hbase(this);
  });
  after(async () => {
    for (const client of clients) await client.close();
  });

  function adminOf(settings: HBaseSettings): TableAdmin {
    const client = new HBaseClient(settings);
    clients.push(client);
    return new TableAdmin(settings, (method, request) => client.callMaster(method, request));
  }

  function registryOf(settings: HBaseSettings): TableRegistry {
    const client = new HBaseClient(settings);
    clients.push(client);
    return new TableRegistry(client, settings);
  }

  it('are made as they are described, pre-split, once, and dropped', async () => {
    const settings = { ...server.settings(freshPrefix(), { regions: 4 }), splitKeys: () => KEYS };
    const registry = registryOf(settings);
    const gateway = new Gateway(settings.restUrl!, false);
    expect((await failure(registry.verify([]))).message).to.equal(
      `there is no directory in the HBase tables default:${settings.prefix}*; "rowan init" makes one`,
    );
    await registry.ensure([{ name: 'journal', families: [{ name: 'plan', isOrdered: true }] }]);
    await registry.requireExists();
    expect(await registry.list()).to.deep.equal([]);

    await Promise.all([
      registry.create(MASTER, async () => ticket()),
      registryOf(settings).create(MASTER, async () => ticket()),
    ]);
    await registry.create(MASTER, async () => ticket());
    expect(await registry.list()).to.deep.equal([MASTER]);
    const { name } = registry.handle(MASTER);
    const made = await gateway.describe(name);
    expect([...made!.families.keys()]).to.deep.equal(['0', '1', 'lock']);
    expect(made!.families.get('0')).to.include({ BLOOMFILTER: 'ROW', VERSIONS: '1', DATA_BLOCK_ENCODING: 'FAST_DIFF' });
    expect(made!.families.get('1')).to.include({ BLOCKCACHE: 'false', DATA_BLOCK_ENCODING: 'NONE' });
    expect(made!.families.get('lock')).to.include({ NEW_VERSION_BEHAVIOR: 'true' });
    const regions = await clients[0]!.regions(registry.handle(MASTER));
    expect(regions.map(({ start }) => start)).to.deep.equal([Buffer.alloc(0), ...KEYS]);
    expect([...(await registry.verify([]))!]).to.deep.equal([]);
    // Two on each of the two servers.
    expect([...(await registry.countRegions([])).get(name)!].sort()).to.deep.equal(
      server.regionServers.map((at) => [at, 2]),
    );

    const other = await failure(registry.create({ ...MASTER, families: [{ name: 'other' }] }, async () => ticket()));
    expect(other.code).to.equal('conflict');
    await registry.drop('master', async () => ticket());
    await registry.drop('master', async () => ticket());
    expect(await registry.list()).to.deep.equal([]);
    expect(await gateway.describe(name)).to.equal(undefined);
  });

  it('dropped and made again are there, and dropped once more are not, whatever the clocks of servers say', async () => {
    const prefix = freshPrefix();
    const store = await openHBaseStore(server.settings(prefix));
    try {
      const key = Buffer.from(INDEX.name);
      const catalog = registryOf(server.settings(prefix)).internal(CATALOG);
      const hourAhead = (): bigint => BigInt(Date.now() + 3_600_000);
      await store.createTable(INDEX);
      await store.dropTable(INDEX.name);
      // As a server whose clock is ahead would have stamped the end of the table.
      await store.client.mutate(catalog, { key, deleteRow: true, timestamp: hourAhead() });
      await store.createTable(INDEX);
      expect((await store.tables()).map(({ name }) => name)).to.deep.equal([INDEX.name]);
      const spec = { family: 0, qualifier: Buffer.from('spec'), value: Buffer.from(JSON.stringify(INDEX)) };
      await store.client.mutate(catalog, { key, put: [spec], timestamp: hourAhead() });
      await store.dropTable(INDEX.name);
      expect(await store.tables()).to.deep.equal([]);
    } finally {
      await store.close();
    }
  });

  it('are opened without the gateway once they are there', async () => {
    const settings = server.settings(freshPrefix());
    const without = { ...settings, restUrl: 'http://127.0.0.1:1' };
    expect((await failure(openHBaseStore(without))).message).to.match(
      /127\.0\.0\.1:1 does not answer \(ECONNREFUSED\)/,
    );
    const first = await openHBaseStore(settings);
    await first.createTable(INDEX);
    await first.close();
    const store = await openHBaseStore(without);
    try {
      expect(await store.tables()).to.deep.equal([INDEX]);
      expect((await failure(store.createTable(MASTER))).message).to.include('does not answer');
    } finally {
      await store.close();
    }
  });

  it('whose drop or making was broken off are gone, and made again without what they held', async () => {
    const settings = server.settings(freshPrefix());
    const store = await openHBaseStore(settings);
    const cutOff = await openHBaseStore({ ...settings, restUrl: 'http://127.0.0.1:1' });
    const withoutGateway = await openHBaseStore({ ...settings, restUrl: undefined });
    const registry = registryOf(settings);
    const gateway = new Gateway(settings.restUrl!, false);
    const { name } = registry.handle(INDEX);
    const wrong = async (): Promise<string | undefined> => (await registry.verify([]))!.get(name)?.join();
    const key = Buffer.alloc(20, 0xaa);
    try {
      await store.createTable(INDEX);
      await store.commit({ steps: [{ table: INDEX.name, key, put: [MARK] }], decisive: 0 });
      await failure(cutOff.dropTable(INDEX.name));
      expect(await store.tables()).to.deep.equal([]);
      expect(await wrong()).to.match(/dropping it is under way, or was broken off\. .* by a server that reaches/);
      expect(await wrong()).to.include(`give HBase's shell: disable '${name}'; drop '${name}'`);
      await store.createTable(INDEX);
      expect(await store.tables()).to.deep.equal([INDEX]);
      expect(await store.get(INDEX.name, key)).to.equal(undefined);
      expect((await failure(withoutGateway.dropTable(INDEX.name))).message).to.include(`disable '${name}'`);
      await store.dropTable(INDEX.name);
      expect(await gateway.describe(name)).to.equal(undefined);

      await failure(cutOff.createTable(INDEX));
      expect(await store.tables()).to.deep.equal([]);
      expect(await wrong()).to.match(/making it is under way, or was broken off/);
      await store.createTable(INDEX);
      expect(await store.tables()).to.deep.equal([INDEX]);
      await store.dropTable(INDEX.name);
      await failure(cutOff.createTable(INDEX));
      await store.dropTable(INDEX.name);
      expect(await wrong()).to.equal(undefined);

      expect((await failure(withoutGateway.createTable(INDEX))).message).to.include(`create '${name}'`);
      expect(await wrong()).to.equal(undefined);
      await adminOf(settings).create(describeTable(settings, INDEX), never);
      await withoutGateway.createTable(INDEX);
      expect(await store.tables()).to.deep.equal([INDEX]);
    } finally {
      for (const one of [cutOff, withoutGateway, store]) await one.close();
    }
  });

  it('made and dropped by several at once are there or not at last, as the catalog says', async () => {
    const settings = server.settings(freshPrefix());
    const stores = await Promise.all([1, 2, 3].map(() => openHBaseStore(settings)));
    const gateway = new Gateway(settings.restUrl!, false);
    const { name } = registryOf(settings).handle(INDEX);
    try {
      for (let round = 0; round < 3; round++) {
        const outcomes = await Promise.allSettled(
          stores.map((store, i) => ((i + round) % 3 === 0 ? store.dropTable(INDEX.name) : store.createTable(INDEX))),
        );
        // One is refused when another has dropped the table that it has just made.
        for (const outcome of outcomes)
          if (outcome.status === 'rejected') expect(outcome.reason).to.be.instanceOf(StoreError);
        const isListed = (await stores[0]!.tables()).length === 1;
        expect((await gateway.describe(name)) !== undefined, `round ${round}`).to.equal(isListed);
      }
      await stores[1]!.createTable(INDEX);
      expect(await stores[2]!.tables()).to.deep.equal([INDEX]);
      expect([...(await registryOf(settings).verify([]))!]).to.deep.equal([]);
    } finally {
      for (const store of stores) await store.close();
    }
  });

  it('get the families they lack, and are refused where they would lose data', async () => {
    const settings = server.settings(freshPrefix(), { durability: 'fsync' });
    const gateway = new Gateway(settings.restUrl!, false);
    const admin = adminOf(settings);
    const table = describeTable(settings, MASTER);
    await admin.create({ ...table, families: table.families.slice(0, 1) }, never);
    expect((await admin.verify(table))!.join()).to.match(/families are missing: alter '.*_master', \{NAME => '1'/);
    await admin.create(table, never);
    expect(await admin.verify(table)).to.deep.equal([]);
    expect((await gateway.describe(table.name))!.attributes.DURABILITY).to.equal('FSYNC_WAL');

    const weak = { ...describeTable(settings, INDEX), attributes: { DURABILITY: 'ASYNC_WAL' } };
    const [first, ...rest] = weak.families;
    const shortLived = { ...first!, attributes: { ...first!.attributes, TTL: '60' } };
    await admin.create({ ...weak, families: [shortLived, ...rest] }, never);
    const error = await failure(admin.create(describeTable(settings, INDEX), never));
    expect(error.code).to.equal('conflict');
    expect(error.message)
      .to.include('DURABILITY is ASYNC_WAL, not FSYNC_WAL: alter')
      .and.include('TTL is 60, not FOREVER');
  });

  it('are left to the operator where there is no gateway', async () => {
    const settings = server.settings(freshPrefix());
    const alone = registryOf({ ...settings, restUrl: undefined });
    const error = await failure(alone.ensure([]));
    expect([error.code, error.applied]).to.deep.equal(['unavailable', 'no']);
    expect(error.message).to.include(`create '${settings.prefix}tables', DURABILITY => 'USE_DEFAULT', {NAME => 'spec'`);
    await registryOf(settings).ensure([]);
    await alone.ensure([]);
    await adminOf(settings).create(describeTable(settings, INDEX), never);
    await alone.create(INDEX, async () => ticket());
    expect(await alone.list()).to.deep.equal([INDEX]);
    const dropped = await failure(alone.drop(INDEX.name, async () => ticket()));
    expect(dropped.message).to.include(`disable '${settings.prefix}${INDEX.name}'`);
    expect(await alone.list()).to.deep.equal([]);
  });

  it('name the namespace that is not there', async () => {
    const settings = server.settings(freshPrefix());
    const elsewhere = await failure(registryOf({ ...settings, namespace: 'nowhere' }).ensure([]));
    const making = `curl -X POST ${settings.restUrl}/namespaces/nowhere`;
    expect(elsewhere.message).to.equal(
      `HBase has no namespace nowhere: give HBase's shell create_namespace 'nowhere', or ${making}`,
    );
  });

  it('have commands for the shell that make the same table', () => {
    const settings = { namespace: 'ldap', prefix: '', durability: 'fsync' } as const;
    const splits = [Buffer.from("=a'#"), Buffer.from([0x5c, 0x00, 0xff])];
    expect(createCommand(describeTable(settings, INDEX, splits))).to.equal(
      "create 'ldap:index_2.5.4.3', DURABILITY => 'FSYNC_WAL', " +
        "{NAME => '0', VERSIONS => '1', DATA_BLOCK_ENCODING => 'FAST_DIFF', BLOOMFILTER => 'NONE', BLOCKSIZE => '4096'}, " +
        "{NAME => 'lock', VERSIONS => '1', DATA_BLOCK_ENCODING => 'FAST_DIFF', BLOOMFILTER => 'ROW', NEW_VERSION_BEHAVIOR => 'true'}, " +
        "{SPLITS => ['=a\\x27#', '\\x5C\\x00\\xFF']}",
    );
  });
});
