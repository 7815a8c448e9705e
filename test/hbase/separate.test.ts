import { expect } from 'chai';
import { HBaseClient } from '../../src/store/hbase/rpc/client.js';
import { TableRegistry } from '../../src/store/hbase/schema/index.js';
import { freshPrefix, type SeparateServers, separateHBase } from './server.js';

describe('HBase with region servers in processes of their own', function () {
  this.timeout(300_000);
  let server: SeparateServers;

  before(async function () {
    server = await separateHBase(this);
  });
  after(() => server?.end());

  it('goes on without one that is killed or stopped, and takes it back', async () => {
    const settings = server.settings(freshPrefix(), { operationTimeoutMs: 120_000 });
    const client = new HBaseClient(settings);
    const registry = new TableRegistry(client, settings);
    const table = registry.internal({ name: 'tables', families: [{ name: 'spec' }] });
    const key = Buffer.from('k');
    const cell = { family: 0, qualifier: Buffer.from('q') };
    const place = async (): Promise<string> => (await client.regions(table))[0]!.server;
    try {
      await registry.ensure([]);
      for (const end of ['kill', 'stop'] as const) {
        const put = { ...cell, value: Buffer.from(end) };
        await client.mutate(table, { key, put: [put] });
        const address = await place();
        if (end === 'kill') server.killServer(address);
        else await server.stopServer(address);
        const row = await client.get(table, key);
        expect(row?.includes(put.value), `what was put before the ${end}`).to.equal(true);
        expect(await place()).to.not.equal(address);
        await server.startServer(address);
        // The master chooses where it goes.
        await server.withRegions(table.name, async (regions) => {
          while ((await regions.move(key)) !== address);
        });
        expect(await place()).to.equal(address);
        expect(await client.get(table, key)).to.deep.equal(row);
      }
    } finally {
      await client.close();
    }
  });
});
