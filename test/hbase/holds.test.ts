import { expect } from 'chai';
import { Cluster, GATES } from '../../src/store/hbase/cluster.js';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import { parseLock, randomId } from '../../src/store/hbase/journal/codec.js';
import { holdersOf, readLock } from '../../src/store/hbase/journal/locks.js';
import { PACE } from '../../src/store/hbase/journal/pace.js';
import { rowId } from '../../src/store/hbase/journal/plan-rows.js';
import { runPlan } from '../../src/store/hbase/journal/run.js';
import { Session } from '../../src/store/hbase/journal/session.js';
import { CLOCK, Tickets } from '../../src/store/hbase/journal/tickets.js';
import type { RowMutation } from '../../src/store/hbase/rpc/rpc-types.js';
import { TableRegistry } from '../../src/store/hbase/schema/index.js';
import { ROWS } from './journal-plan.js';
import { freshPrefix, hbase } from './server.js';

describe('rows that a front end holds with others', () => {
  let store: HBaseStore;
  let cluster: Cluster;
  let session: Session;

  before(async function () {
    const settings = (await hbase(this)).settings(freshPrefix());
    store = await openHBaseStore(settings);
    await store.createTable(ROWS);
    cluster = new Cluster(store.client, new TableRegistry(store.client, settings));
    const tickets = new Tickets(cluster, CLOCK);
    session = new Session(cluster, tickets, { clock: CLOCK, pace: PACE, createId: randomId }, () => undefined);
    await session.open();
  });
  after(async () => {
    await session?.close();
    await store?.close();
  });

  it('stay held when a release that was given up arrives after they were taken again', async () => {
    const key = Buffer.from(ROWS.name);
    const gate = { table: cluster.cachedTable(GATES), key };
    const id = rowId(GATES, key);
    const change = async (value: string): Promise<void> => {
      const put = [{ family: 0, qualifier: Buffer.from('id'), value: Buffer.from(value) }];
      const steps = [{ table: ROWS.name, key: Buffer.from('row'), put }];
      await runPlan(session, { steps, decisive: 0 }, session.createContext());
    };
    await change('1');
    const { client } = store;
    const { mutate } = client;
    let release: RowMutation | undefined;
    client.mutate = (table, mutation) => {
      if (table === gate.table.handle) release = mutation;
      return mutate.call(client, table, mutation);
    };
    try {
      await session.sharedRows.release(session.sharedRows.get(id)!);
    } finally {
      client.mutate = mutate;
    }
    expect(await readLock(cluster, gate)).to.equal(undefined);
    await change('2');
    expect(await client.mutate(gate.table.handle, release!)).to.equal(false);
    const holders = holdersOf(parseLock((await readLock(cluster, gate))!));
    expect(holders.map((one) => one.toString('hex'))).to.deep.equal([session.writer.id.toString('hex')]);
  });
});
