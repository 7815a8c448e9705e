import { expect } from 'chai';
import { Cluster } from '../../src/store/hbase/cluster.js';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import { randomId } from '../../src/store/hbase/journal/codec.js';
import { JOURNAL, MAX_TIME, MAX_TIME_ROW } from '../../src/store/hbase/journal/journal-tables.js';
import { readLock } from '../../src/store/hbase/journal/locks.js';
import { PACE } from '../../src/store/hbase/journal/pace.js';
import { runPlan } from '../../src/store/hbase/journal/run.js';
import { Session } from '../../src/store/hbase/journal/session.js';
import { CLOCK, Tickets } from '../../src/store/hbase/journal/tickets.js';
import { pieceKey } from '../../src/store/hbase/journal/writer.js';
import { TableRegistry } from '../../src/store/hbase/schema/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { cellCounter } from '../../src/store/row.js';
import { rounds } from '../rounds.js';
import { COUNT, PARENT, ROWS, SPECS, seedShared } from './journal-plan.js';
import { freshPrefix, hbase } from './server.js';
import { swept } from './swept.js';

const KILLS = rounds(30, 500);
const TOGETHER = 10;
const SOON = 500;
/** A lease that nobody's ends. */
const FOR_EVER = 3_600_000;

describe('front ends that died', function () {
  this.timeout(1_200_000);
  let settings: HBaseSettings;
  let store: HBaseStore;
  let cluster: Cluster;
  let tickets: Tickets;

  before(async function () {
    settings = (await hbase(this)).settings(freshPrefix());
    store = await openHBaseStore(settings);
    for (const spec of SPECS) await store.createTable(spec);
    await seedShared(store);
    await store.close();
  });
  beforeEach(async () => {
    store = await openHBaseStore(settings, { leaseMs: FOR_EVER });
    cluster = new Cluster(store.client, new TableRegistry(store.client, settings));
    tickets = new Tickets(cluster, CLOCK);
  });
  afterEach(() => store?.close());

  /** A writer that adds to the row that all add to, and is heard of no more, as one that was killed. */
  async function dies(n: number): Promise<Buffer> {
    const session = new Session(cluster, tickets, { clock: CLOCK, pace: PACE, createId: randomId }, () => undefined);
    await session.open();
    const put = [{ family: 0, qualifier: Buffer.from('id'), value: Buffer.from('x') }];
    const steps = [
      { table: ROWS.name, key: Buffer.from(`${n}`), put },
      { table: ROWS.name, key: PARENT, add: [{ ...COUNT, by: 1n }] },
    ];
    await runPlan(session, { steps, decisive: 0 }, session.createContext());
    session.abandon();
    return session.writer.id;
  }

  async function die(count: number): Promise<Buffer[]> {
    const ids: Buffer[] = [];
    let left = count;
    const one = async (): Promise<void> => {
      while (left-- > 0) ids.push(await dies(left));
    };
    await Promise.all(Array.from({ length: TOGETHER }, one));
    return ids;
  }

  async function hotLocks(): Promise<(Buffer | undefined)[]> {
    const rows = [
      { table: await cluster.table(ROWS.name), key: PARENT },
      { table: cluster.cachedTable('/gates'), key: Buffer.from(ROWS.name) },
    ];
    return Promise.all(rows.map((row) => readLock(cluster, row)));
  }

  it('leave nothing in rows that everybody uses, once they are given up', async () => {
    await die(KILLS);
    expect((await hotLocks()).every((lock) => lock!.length > KILLS)).to.equal(true);
    await store.close();
    store = await openHBaseStore(settings, { leaseMs: SOON });
    cluster = new Cluster(store.client, new TableRegistry(store.client, settings));
    await swept(store, settings, 1);
    expect(await hotLocks()).to.deep.equal([undefined, undefined]);
    const row = await store.get(ROWS.name, PARENT);
    expect(cellCounter(row, COUNT.family, COUNT.qualifier)).to.equal(BigInt(KILLS));
  });

  it('and were given up by who did not look at all rows are counted, and taken away when it is asked for', async () => {
    const ids = await die(3);
    await die(2);
    expect(await store.countDeadLocks(false)).to.equal(0);
    await store.client.putMany(
      cluster.journal,
      ids.map((key) => ({ key, deleteRow: true, timestamp: MAX_TIME_ROW })),
    );
    const before = await hotLocks();
    expect(await store.countDeadLocks(false)).to.equal(2);
    expect(await hotLocks()).to.deep.equal(before);
    expect(await store.countDeadLocks(true)).to.equal(2);
    expect(await store.countDeadLocks(false)).to.equal(0);
    const after = await hotLocks();
    expect(after.map((lock) => lock!.length)).to.deep.equal(before.map((lock) => lock!.length - 3 * 16));
  });

  it('and whose pieces of a record arrive later leave them until it is asked for; those of the living stay', async () => {
    const [dead, living] = [randomId(), await dies(0)];
    const put = [{ family: JOURNAL.plan, qualifier: Buffer.from('piece'), value: Buffer.alloc(1000) }];
    const pieces = [dead, living].flatMap((id) => [0, 1].map((n) => pieceKey(id, 1n, n)));
    await store.client.putMany(
      cluster.journal,
      pieces.map((key) => ({ key, put, timestamp: MAX_TIME })),
    );
    const there = async (): Promise<boolean[]> =>
      (await store.client.getMany(cluster.journal, pieces)).map((row) => row !== undefined);
    await store.countDeadLocks(false);
    expect(await there()).to.deep.equal([true, true, true, true]);
    await store.countDeadLocks(true);
    expect(await there()).to.deep.equal([false, false, true, true]);
  });
});
