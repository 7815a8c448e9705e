import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { makeBackup, updateBackup } from '../../src/cli/backup/backup.js';
import { verifyBackup } from '../../src/cli/backup/manifest.js';
import { Partition } from '../../src/partition/index.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { change, ENGINES, Fixture, openFixture, SUFFIX, testSchema } from '../partition/fixture.js';
import { inSoak } from '../rounds.js';

for (const engine of ENGINES.filter((name) => name !== 'delayed' && (inSoak || name !== 'hbase')))
  describe(`backup (${engine})`, () => {
    const folder = mkdtempSync(join(tmpdir(), 'rowan-backup-'));
    let fixture: Fixture;

    before(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
    });
    after(async () => {
      await fixture.close();
      rmSync(folder, { recursive: true });
    });

    const people = `ou=people,${SUFFIX}`;

    /** Changes entries until the work is done: entry N is there before the description is N. */
    async function whileWriting(work: () => Promise<unknown>): Promise<void> {
      let isOver = false;
      let count = 0;
      const write = async (): Promise<void> => {
        for (; !isOver; count++) {
          // The memory engine answers without I/O: the work needs its turns of the event loop.
          await new Promise(setImmediate);
          // A directory in HBase needs a moment in which nobody writes.
          if (engine === 'hbase' && count % 5 === 4) await sleep(500);
          await fixture.person(`n${count}`, people, { jpegPhoto: Buffer.alloc(count % 5 === 0 ? 200_000 : 10, count) });
          await fixture.modify(people, change('replace', 'description', String(count)));
          if (count % 3 === 0) await fixture.delete(`cn=n${count},${people}`);
          else if (count % 7 === 1) await fixture.rename(`cn=n${count},${people}`, `cn=renamed${count}`);
        }
      };
      const writing = write();
      while (count < 5) await new Promise(setImmediate);
      await work().finally(() => {
        isOver = true;
        return writing;
      });
      for (const dn of await fixture.find('(cn=*)')) await fixture.delete(dn);
    }

    /** Opens a backup, and expects it to be a state of the directory, sound in all tables. */
    async function expectOneMoment(backup: string): Promise<void> {
      const store = await openLmdbStore(backup);
      const restored = new Fixture(store, await Partition.open(store, testSchema()), undefined);
      try {
        await restored.expectClean();
        const last = Number((await restored.values(people, 'description'))[0]);
        const numbers = (await restored.find('(cn=*)')).map((dn) => Number(/\d+/.exec(dn)![0]));
        for (let n = 0; n < last; n++) expect(numbers.includes(n), `n${n} of ${last}`).to.equal(n % 3 !== 0);
        expect(Math.max(...numbers)).to.be.within(last - 1, last + 1);
      } finally {
        await restored.close();
      }
    }

    it('is of one moment while the directory is written to, and is sound', async () => {
      const backup = join(folder, 'one');
      const source = { store: fixture.store, address: engine, settingsFile: undefined };
      await whileWriting(() => makeBackup(source, backup, false));
      expect(await verifyBackup(backup)).to.deep.equal([]);
      await expectOneMoment(backup);
    });

    if (engine !== 'memory')
      it('takes up what has changed since, while the directory is written to', async () => {
        const backup = join(folder, 'two');
        const source = { store: fixture.store, address: engine, settingsFile: undefined };
        await whileWriting(async () => {
          await makeBackup(source, backup, true);
          await updateBackup(source, backup);
        });
        expect(await verifyBackup(backup)).to.deep.equal([]);
        await expectOneMoment(backup);
      });
  });
