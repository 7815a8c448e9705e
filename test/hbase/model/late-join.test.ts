import { expect } from 'chai';
import type { Plan, TableSpec } from '../../../src/store/contract.js';
import { parseLock } from '../../../src/store/hbase/journal/codec.js';
import { readLock } from '../../../src/store/hbase/journal/locks.js';
import { rowId } from '../../../src/store/hbase/journal/plan-rows.js';
import { runPlan } from '../../../src/store/hbase/journal/run.js';
import { Sweeper } from '../../../src/store/hbase/journal/sweeper.js';
import { Tickets } from '../../../src/store/hbase/journal/tickets.js';
import type { RowMutation } from '../../../src/store/hbase/rpc/rpc-types.js';
import { cellCounter } from '../../../src/store/row.js';
import { AtOnce, openSession } from './at-once.js';
import { lost } from './rows.js';

const TABLE: TableSpec = { name: 'rows', families: [{ name: 'a' }] };
const COUNT = { family: 0, qualifier: Buffer.from('count') };
const KEY = Buffer.from('a');
const counts: Plan = {
  steps: [KEY, Buffer.from('b')].map((key) => ({ table: TABLE.name, key, add: [{ ...COUNT, by: 1n }] })),
  decisive: 0,
};

describe('a join of a shared row that arrives again when the row was given back', () => {
  for (const holds of [1, 2])
    it(`and its front end has died: what it has added is counted once (given back ${holds} times)`, async () => {
      const hbase = new AtOnce([TABLE]);
      const [front, other] = [hbase.front(), hbase.front()];
      const session = await openSession(front);
      const { mutate } = front.client;
      let late: RowMutation | undefined;
      front.client.mutate = (table, mutation) => {
        if (late || !mutation.key.equals(KEY)) return mutate(table, mutation);
        late = mutation;
        return mutation.isRepeatable ? mutate(table, mutation) : Promise.reject(lost());
      };
      for (let n = 0; n < holds; n++) {
        const running = runPlan(session, counts, session.createContext());
        await front.clock.pass(100);
        await running;
        await session.sharedRows.release(session.sharedRows.get(rowId(TABLE.name, KEY))!);
      }
      const table = await other.cluster.table(TABLE.name);
      const count = async (): Promise<bigint> =>
        cellCounter(await other.client.get(table.handle, KEY, table.rowReads), COUNT.family, COUNT.qualifier);
      expect(await count()).to.equal(BigInt(holds));
      expect(await other.client.mutate(table.handle, late!)).to.equal(true);
      expect(parseLock((await readLock(other.cluster, { table, key: KEY }))!).kind).to.equal('shared');
      const { cluster, clock, options } = other;
      const sweeper = new Sweeper(cluster, new Tickets(cluster, clock), clock, options.pace, () => false);
      await sweeper.sweep(session.writer.id);
      expect(await count()).to.equal(BigInt(holds));
    });
});
