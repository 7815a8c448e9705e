import { expect } from 'chai';
import { type HBaseStore, openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { MARK } from '../../src/store/row.js';
import { type Fixture, SUFFIX } from '../partition/fixture.js';
import { openOver, prepare } from '../partition/kill.js';
import { borrowTables, returnTables } from './recycled.js';

describe('check over HBase beside a front end that stops in the midst of a plan', () => {
  let settings: HBaseSettings | undefined;
  let store: HBaseStore;
  let writer: Fixture;
  let reader: Fixture;
  /** Lets the writer go on; undefined while it does not stand. */
  let release: (() => void) | undefined;
  let stands: () => void = () => undefined;
  let stopAt: string | undefined;

  before(async function () {
    settings = await borrowTables(this);
    await prepare(await openHBaseStore(settings));
    const failpoint = async (name: string): Promise<void> => {
      if (name !== stopAt) return;
      stopAt = undefined;
      await new Promise<void>((resolve) => {
        release = resolve;
        stands();
      });
    };
    store = await openHBaseStore(settings, { failpoint });
    writer = await openOver(store);
    reader = await openOver(await openHBaseStore(settings));
  });
  after(async () => {
    await Promise.all([writer?.close(), reader?.close()]);
    returnTables(settings);
  });

  for (const point of ['row 0 before', 'row 0 after', 'go 0 before'])
    it(`at "${point}": what is half done is no breach`, async () => {
      const dn = `ou=half ${point},${SUFFIX}`;
      const changes = { objectClass: 'organizationalUnit', ou: `half ${point}` };
      const standing = new Promise<void>((resolve) => {
        stands = resolve;
      });
      if (point === 'go 0 before') await writer.add(dn, changes);
      stopAt = point;
      const writing = point === 'go 0 before' ? writer.delete(dn) : writer.add(dn, changes);
      await standing;
      const breaches: string[] = [];
      let seen = 0;
      const count = await reader.partition.check(
        ({ invariant, where, message }) => breaches.push(`${invariant} ${where}: ${message}`),
        (_done, table) => {
          // The last table of a pass: what was half done has been seen so.
          if (table !== 'changes') return;
          seen++;
          release?.();
        },
      );
      await writing;
      expect(breaches).to.deep.equal([]);
      expect([count, seen]).to.deep.equal([0, 2]);
    });

  it('a breach that stays is told, once', async () => {
    const [table] = (await store.tables()).filter(({ name }) => name === 'purge');
    await store.commit({ steps: [{ table: table!.name, key: Buffer.alloc(24, 1), put: [MARK] }], decisive: 0 });
    const breaches: string[] = [];
    expect(await reader.partition.check(({ invariant }) => void breaches.push(invariant))).to.equal(1);
    expect(breaches).to.deep.equal(['purge']);
  });
});
