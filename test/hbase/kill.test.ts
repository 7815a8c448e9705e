import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import { JOURNAL_TABLE } from '../../src/store/hbase/journal/tables.js';
import { internalHandle } from '../../src/store/hbase/schema/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { type Fixture, seeded } from '../partition/fixture.js';
import { type Heard, killed, Ledger, openOver, prepare } from '../partition/kill.js';
import { WRITERS } from '../partition/kill-model.js';
import { freshPrefix, type HBaseServer, hbase } from './server.js';

const ROUNDS = Number(process.env.ROWAN_HBASE_KILLS ?? 30);
const LEASE_MS = 1000;

describe('front ends killed with -9 over HBase', function () {
  this.timeout(600_000);
  let server: HBaseServer;
  let prefix: string;
  let settings: HBaseSettings;
  let store: HBaseStore;
  let fixture: Fixture;

  before(async function () {
    server = await hbase(this);
    prefix = freshPrefix();
    settings = server.settings(prefix);
    await prepare(await openHBaseStore(settings));
    store = await openHBaseStore(settings, { leaseMs: LEASE_MS });
    fixture = await openOver(store);
  });
  after(() => fixture?.close());

  /** Resolves when nothing of other front ends is left in the journal. */
  async function swept(): Promise<void> {
    const journal = internalHandle(settings, JOURNAL_TABLE);
    for (;;) {
      const scan = store.client.scan(journal, {}, { keysOnly: true });
      let writers = 0;
      for (let batch = await scan.next(); batch; batch = await scan.next()) writers += batch.keys.length;
      if (writers === 1) return;
      await sleep(50);
    }
  }

  it(`${ROUNDS} times under eight writers on two of them: nothing acknowledged is lost, nothing is half done`, () =>
    seeded(async (random) => {
      const ledger = new Ledger();
      for (let round = 1; round <= ROUNDS; round++) {
        const half = WRITERS / 2;
        const front = (first: number): Promise<Heard> => {
          const args = [server.url(prefix), String(random.int(2 ** 31)), String(first), String(half), String(LEASE_MS)];
          return killed(args, random.int(1000));
        };
        const [one, other] = await Promise.all([front(0), front(half)]);
        await swept();
        await fixture.expectClean();
        const heard: Heard = {
          acknowledged: [...one.acknowledged, ...other.acknowledged],
          open: new Map([...one.open, ...other.open]),
        };
        await ledger.settle(fixture, heard);
      }
      expect(ledger.acknowledged, 'the writers were let work').to.be.greaterThan(ROUNDS);
    }));
});
