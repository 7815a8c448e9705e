import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { seeded } from '../partition/fixture.js';
import { openOver, prepare } from '../partition/kill.js';
import { rounds } from '../rounds.js';
import { Claimants, dropFiles, expectOnce, isDone, LEAST_KILLS, makeCounters } from './claimants.js';
import { Drop } from './drop.js';

const FILES = rounds(12, 2000);

describe('eight claimants of a drop folder on one LMDB folder, in four processes killed with -9', () => {
  const drop = new Drop();
  const lmdb = mkdtempSync(join(tmpdir(), 'rowan-drop-lmdb-'));
  after(() => {
    drop.remove();
    rmSync(lmdb, { recursive: true, force: true });
  });

  it(`apply each record of ${FILES} files exactly once, and their receipts add up`, function () {
    this.timeout(FILES * 3000);
    return seeded(async (random) => {
      await prepare(await openLmdbStore(lmdb));
      const fixture = await openOver(await openLmdbStore(lmdb));
      await makeCounters(fixture);
      const expected = dropFiles(drop, FILES, random);
      const claimants = new Claimants({ folder: drop.folder, lmdb, lease: 1 }, random, 120);
      await claimants.work(4, () => isDone(drop));
      expect(claimants.kills, 'how many were killed').to.be.at.least(LEAST_KILLS);
      fixture.partition.renewReads();
      await expectOnce(fixture, drop, expected);
      await fixture.close();
    });
  });
});
