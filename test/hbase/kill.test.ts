import { expect } from 'chai';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { type Fixture, seeded } from '../partition/fixture.js';
import { Front, Ledger, openOver, prepare } from '../partition/kill.js';
import { WRITERS } from '../partition/kill-model.js';
import { rounds } from '../rounds.js';
import { borrowTables, returnTables } from './recycled.js';
import { type HBaseServer, hbase } from './server.js';
import { swept } from './swept.js';
import { type Still, standStill, Watcher } from './watcher.js';

/** In pairs: both front ends of a round are killed, each at a time of its own. */
const KILLS = rounds(2, 15);
const LEASE_MS = 4000;

describe('front ends killed with -9 over HBase', function () {
  this.timeout(120_000 * KILLS);
  let server: HBaseServer;
  let settings: HBaseSettings;
  let store: HBaseStore;
  let fixture: Fixture;
  let still: Still;
  let fronts: Front[] = [];

  before(async function () {
    server = await hbase(this);
    settings = await borrowTables(this);
    await prepare(await openHBaseStore(settings));
    store = await openHBaseStore(settings, { leaseMs: LEASE_MS });
    fixture = await openOver(store);
    still = await standStill(fixture);
  });
  after(async () => {
    for (const front of fronts) front.end();
    await fixture?.close();
    returnTables(settings);
  });

  const fresh = (): void => {
    fronts = [new Front(), new Front()];
  };

  it(`${KILLS} times, two at once under eight writers: nothing acknowledged is lost, nothing is half done, and a reader never sees what was not`, () =>
    seeded(async (random) => {
      const ledger = new Ledger();
      fresh();
      for (let round = 0; round < KILLS / 2; round++) {
        const watcher = new Watcher(fixture, still);
        const half = WRITERS / 2;
        // One of the two may live on, and meet what the other has left.
        const longer = random.int(6);
        const [one, other] = await Promise.all(
          fronts.map((front, k) => {
            // Of the prefix in an URL the last character is not part.
            const place = [server.url(settings.prefix.slice(0, -1)), String(random.int(2 ** 31))];
            const after = random.int(1000) + (longer === k ? 2 * LEASE_MS : 0);
            return front.killed([...place, String(k * half), String(half), String(LEASE_MS)], after, true);
          }),
        );
        fresh();
        await swept(store, settings, 1);
        await watcher.stop();
        await fixture.expectClean();
        await ledger.settle(fixture, {
          acknowledged: [...one!.acknowledged, ...other!.acknowledged],
          open: new Map([...one!.open, ...other!.open]),
        });
        watcher.expectKnown(ledger.states);
      }
      expect(ledger.acknowledged, 'the writers were let work').to.be.at.least(KILLS);
    }));
});
