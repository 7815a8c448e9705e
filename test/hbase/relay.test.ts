import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { type Fixture, type Random, seeded } from '../partition/fixture.js';
import { Ledger, openOver, prepare } from '../partition/kill.js';
import { WRITERS } from '../partition/kill-model.js';
import { rounds } from '../rounds.js';
import { Relay } from '../store/hbase/rpc/relay.js';
import { Load } from './load.js';
import { borrowTables, returnTables } from './recycled.js';
import { type HBaseServer, hbase } from './server.js';
import { swept } from './swept.js';
import { type Still, standStill, Watcher } from './watcher.js';

const ROUNDS = rounds(1, 3);
/** Operations acknowledged in a round, unless all writers were told `unavailable` before. */
const OPERATIONS = 50;
const LEASE_MS = 10_000;
/** Something happens to a connection each time that at most so many bytes have passed. */
const BYTES = 20_000;

describe('two front ends whose connections to HBase are cut and delayed', () => {
  let server: HBaseServer;
  let settings: HBaseSettings;
  let relays: Relay[] = [];
  /** Whose connections nobody touches. */
  let store: HBaseStore;
  let reader: Fixture;
  let still: Still;
  let fronts: Fixture[] = [];

  before(async function () {
    server = await hbase(this);
    settings = await borrowTables(this);
    await prepare(await openHBaseStore(settings));
    store = await openHBaseStore(settings, { leaseMs: LEASE_MS });
    reader = await openOver(store);
    still = await standStill(reader);
    relays = await Promise.all(server.regionServers.map((address) => Relay.before(address)));
  });
  after(async () => {
    await Promise.all([...fronts, ...(reader ? [reader] : [])].map((front) => front.close()));
    for (const relay of relays) relay.close();
    returnTables(settings);
  });

  async function open(): Promise<Fixture> {
    const route = (address: string): string => relays[server.regionServers.indexOf(address)]?.address ?? address;
    return openOver(await openHBaseStore({ ...settings, route }, { leaseMs: LEASE_MS }));
  }

  /** Cuts and holds back, until enough is acknowledged or no writer is left; then lets go. */
  async function disturb(random: Random, load: Load): Promise<void> {
    while (!load.over && load.acknowledged < OPERATIONS) {
      const relay = random.pick(relays);
      const next = relay.passed + random.int(BYTES);
      while (!load.over && load.acknowledged < OPERATIONS && relay.passed < next) await sleep(5);
      if (random.chance(0.5)) relay.cut();
      else relay.delay = random.pick([0, 2, 20]);
    }
    for (const relay of relays) relay.delay = 0;
  }

  it('under eight writers: nothing acknowledged is lost, nothing is half done, and a reader never sees what was not', () =>
    seeded(async (random) => {
      const ledger = new Ledger();
      for (let round = 0; round < ROUNDS; round++) {
        fronts = [await open(), await open()];
        const watcher = new Watcher(reader, still);
        const load = new Load(fronts, random);
        await disturb(random, load);
        const heard = await load.stop();
        // Closed, they have written the counters that they still summed up.
        await Promise.all(fronts.map((front) => front.close()));
        await swept(store, settings, 1);
        await watcher.stop();
        await reader.expectClean();
        await ledger.settle(reader, heard);
        watcher.expectKnown(ledger.states);
      }
      expect(ledger.acknowledged, 'the writers were let work').to.be.greaterThan(ROUNDS * WRITERS);
    }));
});
