import { expect } from 'chai';
import { Cluster } from '../../src/store/hbase/cluster.js';
import { openHBaseStore } from '../../src/store/hbase/index.js';
import { randomId } from '../../src/store/hbase/journal/codec.js';
import { EmptyLockCells } from '../../src/store/hbase/journal/empty-lock-cells.js';
import { PACE } from '../../src/store/hbase/journal/pace.js';
import { runPlan } from '../../src/store/hbase/journal/run.js';
import { Session } from '../../src/store/hbase/journal/session.js';
import { CLOCK, Tickets } from '../../src/store/hbase/journal/tickets.js';
import { TableRegistry } from '../../src/store/hbase/schema/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import type { HBaseStore } from '../../src/store/hbase/store.js';
import { cellValue } from '../../src/store/row.js';
import { ROWS } from './journal-plan.js';
import { residue } from './residue.js';
import { freshPrefix, hbase } from './server.js';
import { swept } from './swept.js';

const KEY = Buffer.from('often');
const SOON = 1000;
const FOR_EVER = 600_000;

/** Changes the row alone. */
const plan = (value: string) => ({
  steps: [
    { table: ROWS.name, key: KEY, put: [{ family: 0, qualifier: Buffer.from('id'), value: Buffer.from(value) }] },
  ],
  decisive: 0,
});

describe('the lock cell of a row that is changed again and again', () => {
  let settings: HBaseSettings;
  let store: HBaseStore;
  let cluster: Cluster;

  before(async function () {
    settings = (await hbase(this)).settings(freshPrefix());
  });
  beforeEach(async () => {
    store = await openHBaseStore(settings, { leaseMs: FOR_EVER });
    await store.createTable(ROWS);
    cluster = new Cluster(store.client, new TableRegistry(store.client, settings));
  });
  afterEach(() => store?.close());

  /** What is in the cell; undefined where there is none. */
  async function cell(): Promise<string | undefined> {
    const { handle, lock, lockReads } = await cluster.table(ROWS.name);
    const row = await store.client.get(handle, KEY, lockReads);
    return row && cellValue(row, lock.family, lock.qualifier)?.toString('hex');
  }

  it('goes the first time and stays from then on, empty; others take the row; who ends takes it away', async () => {
    await store.commit(plan('1'));
    expect(await cell()).to.equal(undefined);
    await store.commit(plan('2'));
    expect(await cell()).to.equal('');
    const other = await openHBaseStore(settings, { leaseMs: FOR_EVER });
    try {
      await other.commit(plan('3'));
      expect(await cell()).to.equal(undefined);
      await store.commit(plan('4'));
      await other.commit(plan('5'));
      expect(await cell()).to.equal('');
      expect(await store.countDeadLocks(false)).to.equal(0);
      const row = await store.get(ROWS.name, KEY);
      expect(cellValue(row!, 0, Buffer.from('id'))?.toString()).to.equal('5');
    } finally {
      await other.close();
    }
    await store.commit(plan('6'));
    expect(await cell()).to.equal('');
    await store.close();
    expect(await residue(settings)).to.deep.equal([]);
  });

  it('goes with the row', async () => {
    for (const value of ['1', '2', '3']) await store.commit(plan(value));
    await store.commit({ steps: [{ table: ROWS.name, key: KEY, deleteRow: true }], decisive: 0 });
    expect(await cell()).to.equal(undefined);
    expect(await store.get(ROWS.name, KEY)).to.equal(undefined);
  });

  it('is taken away when its front end was given up', async () => {
    const tickets = new Tickets(cluster, CLOCK);
    const session = new Session(cluster, tickets, { clock: CLOCK, pace: PACE, createId: randomId }, () => undefined);
    await session.open();
    for (const value of ['1', '2']) await runPlan(session, plan(value), session.createContext());
    session.abandon();
    expect(await cell()).to.equal('');
    await store.close();
    store = await openHBaseStore(settings, { leaseMs: SOON });
    await swept(store, settings, 1);
    expect(await cell()).to.equal(undefined);
  });

  it('stays while the row is freed within the time, for as many rows as there may be', async () => {
    const table = await cluster.table(ROWS.name);
    let now = 0;
    const vacant = new EmptyLockCells(cluster, { ...CLOCK, now: () => now }, 100);
    const frees = (key: string): boolean => vacant.recordUnlock({ table, key: Buffer.from(key) });
    expect([frees('a'), frees('a')]).to.deep.equal([false, true]);
    now = 99;
    expect(frees('a')).to.equal(true);
    now = 199;
    expect(frees('a')).to.equal(false);
    for (let n = 0; n < 1024; n++) frees(`${n}`);
    expect([frees('a'), frees('1023')]).to.deep.equal([false, true]);
  });

  it('is taken away when the row was left alone', async () => {
    const table = await cluster.table(ROWS.name);
    let now = 0;
    const vacant = new EmptyLockCells(cluster, { ...CLOCK, now: () => now }, 100);
    await store.client.mutate(table.handle, { key: KEY, put: [{ ...table.lock, value: Buffer.alloc(0) }] });
    for (const row of [KEY, KEY]) vacant.recordUnlock({ table, key: row });
    await vacant.removeIdle();
    expect(await cell()).to.equal('');
    now = 100;
    await vacant.removeIdle();
    expect(await cell()).to.equal(undefined);
    await store.client.mutate(table.handle, { key: KEY, put: [{ ...table.lock, value: Buffer.from('others') }] });
    for (const row of [KEY, KEY]) vacant.recordUnlock({ table, key: row });
    await vacant.close();
    expect(await cell()).to.equal(Buffer.from('others').toString('hex'));
    await store.client.mutate(table.handle, { key: KEY, delete: [table.lock] });
  });
});
