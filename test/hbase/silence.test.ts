import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { Client } from 'ldapts';
import { healthRoutes } from '../../src/cli/http/health.js';
import { Partition } from '../../src/partition/index.js';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { ADMIN, emptyPartition, fill, personDn, start, testSchema } from '../server/directory.js';
import { COUNT, PARENT, plan, ROWS, SPECS, seed, seedShared, state } from './journal-plan.js';
import { isUnavailable, patiently } from './load.js';
import { borrowTables, returnTables } from './recycled.js';
import { freshPrefix, type HBaseServer, hbase } from './server.js';

/** How long an operation may take, ms. */
const OPERATION = 1500;
/** Those who wait for each other one by one wait so many operations, those who do not wait one. */
const TOGETHER = 24;
/** No sooner is somebody late, in operations: the machine may be slow. */
const LATE = 12;
/** So long that nobody lives to see it. */
const FOR_EVER = 3_600_000;

describe('an HBase that stands still', () => {
  let server: HBaseServer;
  let store: HBaseStore;

  async function open(operationTimeoutMs: number): Promise<void> {
    const settings = server.settings(freshPrefix());
    store = await openHBaseStore(settings);
    for (const spec of SPECS) await store.createTable(spec);
    await seedShared(store);
    await store.commit(seed('0'));
    await store.close();
    const hasty = { ...settings, operationTimeoutMs, rpcTimeoutMs: operationTimeoutMs };
    store = await patiently(() => openHBaseStore(hasty));
    await patiently(() => state(store, '0'));
  }

  before(async function () {
    server = await hbase(this);
  });
  afterEach(async () => {
    server.resume();
    await store.close();
  });

  it('keeps no plan for longer than an operation may take, however many wait for each other', async () => {
    await open(OPERATION);
    await server.suspend();
    const add = {
      steps: [{ table: ROWS.name, key: PARENT, put: [{ ...COUNT, value: Buffer.alloc(8) }] }],
      decisive: 0,
    };
    const over = sleep(LATE * OPERATION, 'nobody', { ref: false });
    const told = await Promise.all(
      Array.from({ length: TOGETHER }, (_, n) =>
        Promise.race([over, store.commit(n % 2 === 0 ? plan('0') : add).catch(isUnavailable)]),
      ),
    );
    expect(told).to.deep.equal(Array(TOGETHER).fill(true));
  });

  it('keeps no front end from ending that has nothing under way', async () => {
    await open(FOR_EVER);
    await server.suspend();
    await store.close();
  });
});

describe('a server over an HBase that stands still', () => {
  let server: HBaseServer;
  let settings: HBaseSettings;

  before(async function () {
    server = await hbase(this);
    settings = await borrowTables(this);
    const partition = await emptyPartition(await openHBaseStore(settings));
    await fill(partition, 1);
    await partition.close();
  });
  after(() => returnTables(settings));

  async function serve(
    operationTimeoutMs: number,
    work: (client: Client, asked: (base: string) => Promise<number | string>, partition: Partition) => Promise<void>,
  ): Promise<void> {
    const hasty = { ...settings, operationTimeoutMs, rpcTimeoutMs: operationTimeoutMs };
    const partition = await patiently(async () => Partition.open(await openHBaseStore(hasty), testSchema()));
    const running = await start({}, 0, partition);
    const client = new Client({ url: running.url });
    const asked = (base: string): Promise<number | string> =>
      client.search(base, { scope: 'base' }).then(
        ({ searchEntries }) => searchEntries.length,
        ({ message }: Error) => message,
      );
    try {
      await client.bind(ADMIN.dn, ADMIN.password);
      await work(client, asked, partition);
    } finally {
      server.resume();
      await client.unbind();
      await running.stop();
      await partition.close();
    }
  }

  it('answers what it knows itself, and whether it is ready', () =>
    serve(FOR_EVER, async (client, asked, partition) => {
      const currentPhase = () => 'serving' as const;
      const ask = async () => [{ isServing: true }];
      const [live, ready] = healthRoutes({ currentPhase, partition, ask, roleFault: () => undefined });
      const request = { query: new URLSearchParams(), signal: new AbortController().signal };
      expect((await ready!.handle(request)).status).to.equal(undefined);
      await server.suspend();
      expect([await asked(''), await asked('cn=Monitor'), await asked('cn=Jobs,cn=Monitor')]).to.deep.equal([1, 1, 1]);
      await client.bind('', '');
      expect(await asked('')).to.equal(1);
      expect((await live!.handle(request)).body).to.equal('live\n');
      expect((await ready!.handle(request)).status).to.equal(503);
    }));

  it('lets no request wait after the first that did in vain, and serves as soon as HBase answers', () =>
    serve(OPERATION, async (_client, asked) => {
      expect(await asked(personDn('p0'))).to.equal(1);
      await server.suspend();
      const since = /^the store has not answered since 20[-\d]+T[\d:.]+Z; try again later/;
      expect(await asked(personDn('p0'))).to.match(/^the store (does not answer|has not answered)/);
      while (!since.test(String(await asked(personDn('p0')))));
      server.resume();
      while ((await asked(personDn('p0'))) !== 1) await sleep(20);
    }));
});
