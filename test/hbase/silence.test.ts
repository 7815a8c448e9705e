import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import { COUNT, PARENT, plan, ROWS, SPECS, seed, seedShared, state } from './journal-plan.js';
import { isUnavailable, patiently } from './load.js';
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
