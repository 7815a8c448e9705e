import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { Reader } from '../../src/store/contract.js';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import { cellCounter } from '../../src/store/row.js';
import { COUNT, PARENT, ROWS, SPECS, seedShared } from './journal-plan.js';
import { freshPrefix, hbase } from './server.js';

const ENOUGH = { reads: 200, writes: 40 };
const OTHER_KEY = Buffer.from('q');

type Read = (reader: Reader) => Promise<Buffer | undefined>;

const READS: Readonly<Record<string, Read>> = {
  get: async (reader) => reader.get(ROWS.name, PARENT),
  getHead: async (reader) => reader.getHead(ROWS.name, PARENT, true),
  getMany: async (reader) => (await reader.getMany(ROWS.name, [OTHER_KEY, PARENT]))[1],
  scan: async (reader) => {
    const scan = reader.scan(ROWS.name, { from: PARENT, to: OTHER_KEY });
    let row: Buffer | undefined;
    for (let batch = await scan.next(); batch; batch = await scan.next()) row = batch.rows[0] ?? row;
    return row;
  },
};

describe('counters that are folded while they are read', () => {
  let store: HBaseStore;

  before(async function () {
    const server = await hbase(this);
    store = await openHBaseStore(server.settings(freshPrefix()));
    for (const spec of SPECS) await store.createTable(spec);
    await seedShared(store);
  });
  after(() => store?.close());

  it('have in every read what was acknowledged before it, once', async () => {
    let begun = 0;
    let acknowledged = 0;
    let over = false;
    const add = async (): Promise<void> => {
      begun++;
      const put = [{ family: 0, qualifier: Buffer.from('id'), value: Buffer.from('x') }];
      const steps = [
        { table: ROWS.name, key: Buffer.from(`added/${begun}`), put },
        { table: ROWS.name, key: PARENT, add: [{ ...COUNT, by: 1n }] },
      ];
      await store.commit({ steps, decisive: 0 });
      acknowledged++;
    };
    /** Takes the row for itself, so that what is pending is folded and the row let go of. */
    const change = (): Promise<void> => {
      const put = [{ family: 1, qualifier: Buffer.from('n'), value: Buffer.from(String(begun)) }];
      return store.commit({ steps: [{ table: ROWS.name, key: PARENT, put }], decisive: 0 });
    };
    const write = async (): Promise<void> => {
      while (!over) {
        await add();
        if (begun % 7 === 0) await change();
      }
    };
    let reads = 0;
    const read = async (name: string): Promise<void> => {
      while (!over) {
        const least = acknowledged;
        const row = await READS[name]!(store);
        const most = begun;
        const found = Number(cellCounter(row, COUNT.family, COUNT.qualifier));
        expect(found, `${name}, after ${least} were acknowledged`).to.be.within(least, most);
        reads++;
      }
    };
    const work = [write(), ...Object.keys(READS).flatMap((name) => [read(name), read(name)])];
    const enough = async (): Promise<void> => {
      while (!over && (begun <= ENOUGH.writes || reads <= ENOUGH.reads)) await sleep(50);
    };
    try {
      await Promise.race([enough(), Promise.all(work)]);
    } finally {
      over = true;
    }
    await Promise.all(work);
  });
});
