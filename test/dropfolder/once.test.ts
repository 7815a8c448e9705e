import { expect } from 'chai';
import { pino } from 'pino';
import { DropFolder } from '../../src/dropfolder/drop-folder.js';
import { Partition } from '../../src/partition/index.js';
import { attachedRecord, beginDrop, RecordDone, readDrop } from '../../src/partition/model/drop-rows.js';
import type { Store } from '../../src/store/contract.js';
import { StoreError } from '../../src/store/store-error.js';
import { change, ENGINES, type Fixture, openFixture, refused, SUFFIX, testSchema } from '../partition/fixture.js';
import { nearTests } from '../partition/near-engines.js';
import { faulty } from '../store/faulty.js';
import { Drop, dropRows, dropSettings, unit } from './drop.js';

const COUNTER = `uid=c,${SUFFIX}`;
const silent = pino({ enabled: false });
/** Seconds after which the other one is taken for dead, which says nothing for longer than that. */
const [SHORT, LONG] = [0.05, 600];

const increment = `dn: ${COUNTER}\nchangetype: modify\nincrement: uidNumber\nuidNumber: 1\n-\n\n`;
const refusedRecord = `dn: ou=nobody,${SUFFIX}\nchangetype: delete\n\n`;
const FILE = increment + unit('one') + refusedRecord + increment;

for (const engine of ENGINES) {
  describe(`records of a dropped file over ${engine}`, () => {
    const near = nearTests(engine);
    let fixture: Fixture;
    let drop: Drop;
    beforeEach(async () => {
      fixture = await openFixture(engine);
      drop = new Drop();
      const values = { uid: 'c', cn: 'c', uidNumber: '0', gidNumber: '0', homeDirectory: '/' };
      await fixture.add(COUNTER, { objectClass: ['account', 'posixAccount'], ...values });
    });
    afterEach(async () => {
      await fixture.close();
      drop.remove();
    });

    /** The file has been done `times` times, each of its records once. */
    async function expectDone(times: number): Promise<void> {
      expect(await fixture.values(COUNTER, 'uidNumber')).to.deep.equal([String(2 * times)]);
      for (const { records, applied, refused: notDone, errors } of drop.receipts()) {
        expect({ records, applied, notDone }).to.deep.equal({ records: 4, applied: 3, notDone: 1 });
        expect(errors).to.have.lengthOf(1);
      }
      expect(drop.receipts()).to.have.lengthOf(times);
      const rejects = drop.names('error').filter((name) => name.endsWith('.rejects.ldif'));
      expect(rejects).to.have.lengthOf(times);
      for (const name of rejects) expect(drop.text('error', name)).to.contain(refusedRecord.trim());
      expect(drop.names('processing')).to.deep.equal([]);
      expect(await dropRows(fixture.store)).to.deep.equal([]);
      await fixture.delete(`ou=one,${SUFFIX}`);
    }

    async function open(partition: Partition, lease: number): Promise<DropFolder> {
      return DropFolder.open(drop.folder, partition, dropSettings({ lease }), silent);
    }

    near('are applied once when the store fails before or after any commit', async () => {
      let faults = 0;
      for (const at of ['beforeCommit', 'afterCommit'] as const) {
        for (let fails = 0, failed = true; failed; fails++) {
          let left = fails;
          failed = false;
          const store = faulty(fixture.store, (point) => {
            if (point.at !== at || failed || left-- > 0) return undefined;
            failed = true;
            faults++;
            return at === 'beforeCommit' ? { do: 'fail' } : { do: 'cut' };
          });
          const failing = await open(await Partition.open(store, testSchema()), LONG);
          drop.drop('f.ldif', FILE);
          await failing.runPass().catch((error: Error & { cause?: unknown }) => {
            expect(error.cause ?? error).to.be.instanceOf(StoreError);
          });
          await failing.close();
          await drop.pass(fixture);
          await expectDone(drop.receipts().length);
        }
      }
      expect(faults, 'commits that failed').to.be.at.least(10);
    });

    /** Has somebody else do the whole file when this process is about to make a commit, or has just made it. */
    async function overtaken(store: Store, at: number, when: 'before' | 'after', other: DropFolder): Promise<boolean> {
      const commit = store.commit.bind(store);
      let left = at;
      let done = false;
      const take = async (): Promise<void> => {
        done = true;
        await other.settle();
      };
      store.commit = async (plan) => {
        const isIt = left-- === 0;
        if (isIt && when === 'before') await take();
        await commit(plan);
        if (isIt && when === 'after') await take();
      };
      try {
        const slow = await open(fixture.partition, LONG);
        drop.drop('f.ldif', FILE);
        await slow.runPass();
        await slow.close();
      } finally {
        store.commit = commit;
      }
      return done;
    }

    it('are applied once when a claimant that lives is taken for dead at any commit', async () => {
      for (const when of ['before', 'after'] as const) {
        for (let at = 0, done = true; done; at++) {
          const other = await open(fixture.partition, SHORT);
          done = await overtaken(fixture.store, at, when, other);
          await other.close();
          await expectDone(drop.receipts().length);
        }
      }
    });

    it('are not applied too late, where nothing but the row of the file tells that they were', async () => {
      const gone = `dn: ou=one,${SUFFIX}\nchangetype: delete\n\n`;
      // The other does all of the file, or its first two records.
      for (const commits of [Infinity, 3]) {
        const { store } = fixture;
        const commit = store.commit.bind(store);
        const stop = new AbortController();
        const other = await open(fixture.partition, SHORT);
        let left = commits;
        store.commit = async (plan) => {
          // The first makes the row, the second would add the entry: by then it has come and gone again.
          if (!plan.steps.some((step) => step.table === 'changes')) return commit(plan);
          store.commit = (one) => commit(one).then(() => void (--left === 1 && stop.abort()));
          await other.settle(stop.signal);
          store.commit = commit;
          return commit(plan);
        };
        const slow = await open(fixture.partition, LONG);
        drop.drop('f.ldif', unit('one') + gone + increment);
        await slow.runPass();
        store.commit = commit;
        for (const one of [slow, other]) await one.close();
        await drop.pass(fixture);
        expect(await fixture.find('(ou=one)'), 'what had gone').to.deep.equal([]);
        for (const receipt of drop.receipts()) expect(receipt).to.include({ records: 3, applied: 3, refused: 0 });
        expect(await dropRows(store)).to.deep.equal([]);
      }
      expect(await fixture.values(COUNTER, 'uidNumber')).to.deep.equal(['2']);
    });

    it('are gone on with by another process, at once, when one is told to end', async () => {
      drop.drop('f.ldif', FILE);
      const stop = new AbortController();
      const commit = fixture.store.commit.bind(fixture.store);
      let left = 3;
      fixture.store.commit = async (plan) => {
        await commit(plan);
        if (--left === 0) stop.abort();
      };
      const first = await open(fixture.partition, LONG);
      expect(await first.runPass(stop.signal)).to.include({ error: 0, processed: 0 });
      fixture.store.commit = commit;
      expect(drop.names('processing')).to.have.lengthOf(1);
      await first.close();
      await drop.pass(fixture, { lease: LONG });
      await expectDone(1);
    });

    it('count with the change, and only as the next one', async () => {
      const { partition, store } = fixture;
      await beginDrop(store, 'x', 'f.ldif', 0);
      const dn = fixture.dn(COUNTER);
      const one = [change('increment', 'uidNumber', '1')];
      const modify = (number: number) =>
        partition.modify(dn, one, { dn: '' }, { attached: attachedRecord(store, 'x', 'f.ldif', number) });
      await modify(0);
      expect(await readDrop(store, 'x')).to.include({ doneCount: 1, refusedCount: 0 });
      for (const number of [0, 2]) {
        const error = await modify(number).catch((thrown: unknown) => thrown);
        expect(error).to.be.instanceOf(RecordDone);
      }
      await refused('noSuchAttribute', partition.modify(dn, [change('delete', 'mail')], { dn: '' }));
      expect(await fixture.values(COUNTER, 'uidNumber')).to.deep.equal(['1']);
      // Others change the entry meanwhile: that is no reason to give the record up.
      await Promise.all([modify(1), ...[1, 2, 3].map(() => partition.modify(dn, one, { dn: '' }))]);
      expect(await fixture.values(COUNTER, 'uidNumber')).to.deep.equal(['5']);
      expect(await readDrop(store, 'x')).to.include({ doneCount: 2 });
    });
  });
}
