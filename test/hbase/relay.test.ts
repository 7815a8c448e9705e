import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { LdapError } from '../../src/ldap/error.js';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { type Fixture, Random, SUFFIX, seeded } from '../partition/fixture.js';
import { heardOf, Ledger, openOver, prepare } from '../partition/kill.js';
import { SHARED, type Told, WRITERS } from '../partition/kill-model.js';
import { write } from '../partition/kill-writer.js';
import { Relay } from '../store/hbase/rpc/relay.js';
import { freshPrefix, type HBaseServer, hbase } from './server.js';
import { swept } from './swept.js';
import { Watcher } from './watcher.js';

const ROUNDS = process.env.ROWAN_SOAK ? 50 : 2;
/** Operations acknowledged in a round, unless all writers were told `unavailable` before. */
const OPERATIONS = 50;
const LEASE_MS = 2000;

const SEARCHES = [
  { base: SUFFIX, scope: 'sub', filter: '(cn=w*)' },
  { base: SHARED, scope: 'one', filter: '(sn=w*)' },
  { base: SUFFIX, scope: 'sub', filter: '(&(description=*)(sn=w*))' },
] as const;

describe('two front ends whose connections to HBase are cut and delayed', function () {
  this.timeout(300_000);
  let server: HBaseServer;
  let settings: HBaseSettings;
  let relays: Relay[] = [];
  /** Whose connections nobody touches. */
  let store: HBaseStore;
  let reader: Fixture;
  let fronts: Fixture[] = [];

  before(async function () {
    server = await hbase(this);
    settings = server.settings(freshPrefix());
    await prepare(await openHBaseStore(settings));
    store = await openHBaseStore(settings, { leaseMs: LEASE_MS });
    reader = await openOver(store);
    relays = await Promise.all(server.regionServers.map((address) => Relay.before(address)));
  });
  after(async () => {
    await Promise.all([...fronts, ...(reader ? [reader] : [])].map((front) => front.close()));
    for (const relay of relays) relay.close();
  });

  async function open(): Promise<Fixture> {
    const route = (address: string): string => relays[server.regionServers.indexOf(address)]?.address ?? address;
    return openOver(await openHBaseStore({ ...settings, route }, { leaseMs: LEASE_MS }));
  }

  /** Cuts, holds back, and lets go, until it is `over`. */
  async function disturb(random: Random, over: () => boolean): Promise<void> {
    while (!over()) {
      await sleep(random.int(200));
      const relay = random.pick(relays);
      if (random.chance(0.5)) relay.cut();
      else relay.delay = random.pick([0, 2, 20]);
    }
    for (const relay of relays) relay.delay = 0;
  }

  /** Until told to stop, or told `unavailable`: what it had begun may have been done or not. */
  async function writeOn(writer: number, random: Random, told: Told[], stopped: () => boolean): Promise<void> {
    const front = fronts[writer % fronts.length]!;
    try {
      await write(front, writer, random, (one) => told.push(one), stopped);
    } catch (error) {
      if (!(error instanceof LdapError && error.result === 'unavailable')) throw error;
    }
  }

  it('under eight writers: nothing acknowledged is lost, nothing is half done, and a reader never sees what was not', () =>
    seeded(async (random) => {
      const ledger = new Ledger();
      for (let round = 0; round < ROUNDS; round++) {
        fronts = [await open(), await open()];
        const told: Told[] = [];
        let writing = WRITERS;
        const stopped = () => writing === 0 || told.filter(({ begins }) => !begins).length >= OPERATIONS;
        const watcher = new Watcher(reader, SEARCHES);
        const writers = Array.from({ length: WRITERS }, (_, k) =>
          writeOn(k, new Random(random.int(2 ** 31)), told, stopped).finally(() => writing--),
        );
        await Promise.all([disturb(random, stopped), ...writers]);
        // Closed, they have written the counters that they still summed up.
        await Promise.all(fronts.map((front) => front.close()));
        await swept(store, settings, 1);
        await watcher.stop();
        await reader.expectClean();
        await ledger.settle(reader, heardOf(told));
        watcher.expectKnown(ledger.states);
      }
      expect(ledger.acknowledged, 'the writers were let work').to.be.greaterThan(ROUNDS * WRITERS);
    }));
});
