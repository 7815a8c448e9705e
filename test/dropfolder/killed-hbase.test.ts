import { expect } from 'chai';
import { openHBaseStore } from '../../src/store/hbase/index.js';
import { freshPrefix, hbase } from '../hbase/server.js';
import { seeded } from '../partition/fixture.js';
import { openOver, prepare } from '../partition/kill.js';
import { rounds, soakTest } from '../rounds.js';
import { Claimants, dropFiles, expectOnce, isDone, makeCounters } from './claimants.js';
import { Drop } from './drop.js';

const FILES = rounds(0, 200);

describe('eight claimants of a drop folder at four front ends over HBase, killed with -9', () => {
  const drop = new Drop();
  after(() => drop.remove());

  soakTest(`apply each record of ${FILES} files exactly once, and their receipts add up`, async function () {
    const server = await hbase(this);
    this.timeout(FILES * 30_000);
    await seeded(async (random) => {
      const settings = server.settings(freshPrefix());
      await prepare(await openHBaseStore(settings));
      const fixture = await openOver(await openHBaseStore(settings));
      await makeCounters(fixture);
      const expected = dropFiles(drop, FILES, random);
      const claimants = new Claimants({ folder: drop.folder, hbase: settings, lease: 1 }, random, 20);
      await claimants.work(4, () => isDone(drop));
      expect(claimants.kills, 'how many were killed').to.be.at.least(1);
      await expectOnce(fixture, drop, expected);
      await fixture.close();
    });
  });
});
