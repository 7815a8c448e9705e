import { expect } from 'chai';
import { ChangeReader } from '../../src/partition/feed/change-reader.js';
import { CHANGES_TABLE } from '../../src/partition/model/tables.js';
import { openHBaseStore } from '../../src/store/hbase/index.js';
import { borrowTables, returnTables } from './recycled.js';

const record = (dn: string) =>
  Object.entries({ by: '', csn: 'c', dn, id: 'i'.repeat(16), op: 'add', time: 't'.repeat(8) }).map(([name, value]) => ({
    family: 0,
    qualifier: Buffer.from(name),
    value: Buffer.from(value),
  }));
const append = (dn: string) => ({ steps: [{ table: CHANGES_TABLE.name, append: record(dn) }], decisive: 0 });

describe('change records over HBase', () => {
  it('of a front end that has a ticket and is not done hold up those behind it', async function () {
    const settings = await borrowTables(this);
    let held: (() => void) | undefined;
    const slow = await openHBaseStore(settings, {
      leaseMs: 5000,
      failpoint: (point) => (point === 'read after' ? new Promise<void>((resolve) => (held = resolve)) : undefined),
    });
    // It gives the other up after its lease, and beats five times in it.
    const quick = await openHBaseStore(settings, { leaseMs: 20_000 });
    try {
      await slow.createTable(CHANGES_TABLE);
      await quick.createTable(CHANGES_TABLE);
      const reader = new ChangeReader(quick);
      const given: string[] = [];
      const read = async (): Promise<void> => {
        for await (const batch of reader.read()) for (const { dn } of batch) given.push(dn.toString());
      };
      const first = slow.commit(append('first'));
      while (!held) await new Promise((resolve) => setTimeout(resolve, 10));
      await quick.commit(append('second'));
      await read();
      expect(given).to.deep.equal([]);
      held();
      await first;
      // The other front end tells that it is done with one of its next beats.
      while (given.length < 2) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        await read();
      }
      expect(given).to.deep.equal(['first', 'second']);
    } finally {
      held?.();
      await slow.close();
      await quick.close();
      returnTables(settings);
    }
  });
});
