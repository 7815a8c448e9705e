import { expect } from 'chai';
import { HBaseClient } from '../../src/store/hbase/rpc/client.js';
import { TableRegistry } from '../../src/store/hbase/schema/index.js';
import { freshPrefix, hbase } from './server.js';

describe('the HBase of the tests', () => {
  it('splits and moves regions', async function () {
    const server = await hbase(this);
    const settings = server.settings(freshPrefix());
    const client = new HBaseClient(settings);
    const registry = new TableRegistry(client, settings);
    const table = registry.internal({ name: 'tables', families: [{ name: 'spec' }] });
    const place = async () =>
      (await client.regions(table)).map(({ start, server: at }) => `${start}@${at.split(':')[1]}`);
    try {
      await registry.ensure([]);
      await server.withRegions(table.name, (regions) => regions.split(Buffer.from('m')));
      const before = await place();
      expect(before.map((at) => at.replace(/@.*/, ''))).to.deep.equal(['', 'm']);
      await server.withRegions(table.name, (regions) => regions.move(Buffer.from('x')));
      const cell = { family: 0, qualifier: Buffer.from('q'), value: Buffer.from('v') };
      for (const key of ['a', 'x']) await client.mutate(table, { key: Buffer.from(key), put: [cell] });
      const after = await place();
      expect(after[1]).to.not.equal(before[1]);
      for (const key of ['a', 'x']) expect(await client.get(table, Buffer.from(key)), key).to.not.equal(undefined);
    } finally {
      await client.close();
    }
  });
});
