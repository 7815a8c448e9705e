import { expect } from 'chai';
import type { TableSpec } from '../../../src/store/contract.js';
import { type HBaseStore, openHBaseStore } from '../../../src/store/hbase/index.js';
import { freshPrefix, hbase } from '../../hbase/server.js';

const SPEC: TableSpec = { name: 'rows', families: [{ name: 'a' }, { name: 'b' }] };
const ROWS = 40;
const LIMIT = 16;
const qualifier = Buffer.from('q');
const key = (n: number): Buffer => Buffer.from(`${n}`.padStart(4, '0'));

describe('scans over HBase', () => {
  let store: HBaseStore;

  before(async function () {
    store = await openHBaseStore((await hbase(this)).settings(freshPrefix()));
    await store.createTable(SPEC);
    const steps = Array.from({ length: ROWS }, (_, n) => {
      const put = [0, 1].map((family) => ({ family, qualifier, value: Buffer.from('x') }));
      return { table: SPEC.name, key: key(n), put };
    });
    await store.commit({ steps, decisive: 0 });
  });
  after(() => store?.close());

  it('with a limit give as many rows as there are, although one goes between its filter and its reading', async () => {
    const { client } = store;
    const { getMany } = client;
    // The filter looks at one family, and the row is read when it has matched.
    client.getMany = async (...given) => {
      client.getMany = getMany;
      await store.commit({ steps: [{ table: SPEC.name, key: key(3), deleteRow: true }], decisive: 0 });
      return getMany.apply(client, given);
    };
    const filter = { op: 'anyColumn', family: 1, match: { prefix: qualifier } } as const;
    const scan = store.scan(SPEC.name, {}, { filter, limit: LIMIT });
    const found: string[] = [];
    try {
      for (let batch = await scan.next(); batch; batch = await scan.next())
        found.push(...batch.keys.map((one) => one.toString()));
    } finally {
      client.getMany = getMany;
      scan.close();
    }
    const all = Array.from({ length: LIMIT + 1 }, (_, n) => key(n).toString());
    expect(found).to.deep.equal(all.filter((one) => one !== key(3).toString()));
  });
});
