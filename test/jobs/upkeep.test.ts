import { expect } from 'chai';
import { LdapError } from '../../src/ldap/ldap-error.js';
import { Q, TREE, TREE_TABLE } from '../../src/partition/model/tables.js';
import { counterBytes } from '../../src/store/row.js';
import { change, ENGINES, type Fixture, openFixture, SUFFIX } from '../partition/fixture.js';

const PEOPLE = `ou=people,${SUFFIX}`;
const COUNT = 30;
/** A sample of so many has all entries of these directories. */
const ALL = 50;

for (const engine of ENGINES) {
  describe(`upkeep by jobs (${engine})`, () => {
    let fixture: Fixture;
    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      await fixture.unit('empty');
      await fixture.load(
        Array.from({ length: COUNT }, (_, n) => ({
          dn: `cn=p${n},${PEOPLE}`,
          values: { objectClass: 'inetOrgPerson', cn: `p${n}`, sn: 's' },
        })),
      );
    });
    afterEach(() => fixture.close());

    /** Keys of tree rows, and their rows, in key order. */
    async function treeRows(): Promise<{ key: Buffer; row: Buffer }[]> {
      const found: { key: Buffer; row: Buffer }[] = [];
      const scan = fixture.store.scan(TREE_TABLE.name, {});
      for (let batch = await scan.next(); batch; batch = await scan.next())
        for (const [i, key] of batch.keys.entries()) found.push({ key, row: batch.rows[i]! });
      scan.close();
      return found;
    }

    async function setCounters(rdn: string, one: bigint, sub: bigint): Promise<void> {
      const found = (await treeRows()).find(({ key }) => key.toString('latin1').endsWith(rdn))!;
      const put = [
        { family: TREE.treeInfo, qualifier: Q.oneLevelCount, value: counterBytes(one) },
        { family: TREE.treeInfo, qualifier: Q.subLevelCount, value: counterBytes(sub) },
      ];
      await fixture.store.commit({ steps: [{ table: TREE_TABLE.name, key: found.key, put }], decisive: 0 });
    }

    it('a recount sets wrong counters, and leaves right ones', async () => {
      expect(await fixture.partition.recount()).to.equal(0);
      await setCounters('=people', 7n, 9n);
      await setCounters('=empty', -1n, 3n);
      expect(await fixture.partition.recount()).to.equal(2);
      await fixture.expectClean();
      expect(await fixture.partition.recount()).to.equal(0);
    });

    it('a recount beside writers leaves counters that are right when they are done', async () => {
      await setCounters('=empty', 5n, 5n);
      let stop = false;
      let writes = 0;
      const writer = async (k: number): Promise<void> => {
        for (let n = k; !stop; n += 2) {
          await fixture.person(`w${n}`, PEOPLE);
          if (n % 3 === 0) await fixture.delete(`cn=w${n},${PEOPLE}`);
          if (n % 4 === 0) await fixture.rename(`cn=p${n % COUNT},${PEOPLE}`, `cn=p${n % COUNT}`).catch(known);
          writes++;
          // A memory store answers at once: the recount gets its turn here.
          await new Promise((resolve) => setImmediate(resolve));
        }
      };
      const writers = [0, 1].map(writer);
      let set = 0;
      for (let pass = 0; pass < 3; pass++) set += await fixture.partition.recount();
      stop = true;
      await Promise.all(writers);
      expect(writes).to.be.greaterThan(0);
      expect(set).to.be.greaterThan(0);
      await fixture.expectClean();
    });

    it('a sample of a sound directory has no breach, and one of a damaged directory names it', async () => {
      const sound = await fixture.partition.sampleCheck(ALL);
      expect(sound.breaches).to.deep.equal([]);
      expect(sound.entryCount).to.equal(COUNT + 3);
      await fixture.modify(`cn=p1,${PEOPLE}`, change('replace', 'sn', 'other'));
      expect((await fixture.partition.sampleCheck(ALL)).breaches).to.deep.equal([]);
      const { key } = (await treeRows()).find((one) => one.key.toString('latin1').endsWith('=p5'))!;
      await fixture.store.commit({ steps: [{ table: TREE_TABLE.name, key, deleteRow: true }], decisive: 0 });
      const { breaches } = await fixture.partition.sampleCheck(ALL);
      expect(new Set(breaches.map(({ invariant }) => invariant))).to.deep.equal(new Set(['treeRow']));
    });

    it('a sample finds an index row that is missing', async () => {
      const { partition, store } = fixture;
      const index = partition.context.shared.indexes.ofType(partition.schema.attribute('sn')!)!;
      const scan = store.scan(index.table, {}, { keysOnly: true });
      const keys = (await scan.next())!.keys;
      scan.close();
      const steps = [{ table: index.table, key: Buffer.from(keys[0]!), deleteRow: true }];
      await store.commit({ steps, decisive: 0 });
      const { breaches } = await partition.sampleCheck(ALL);
      expect(breaches[0]!.message).to.match(/^row .* of the index of sn is missing; repair puts it$/);
      expect(new Set(breaches.map(({ message }) => message)).size).to.equal(1);
      await partition.repair();
      expect((await partition.sampleCheck(ALL)).breaches).to.deep.equal([]);
    });
  });
}

/** Another writer was faster. */
function known(error: unknown): void {
  if (!(error instanceof LdapError)) throw error;
}
