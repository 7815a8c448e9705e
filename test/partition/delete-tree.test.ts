import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import { changeRecord } from '../../src/partition/model/change-record.js';
import { CHANGES_TABLE } from '../../src/partition/model/tables.js';
import { batchesOf } from '../../src/store/maybe.js';
import { StoreError } from '../../src/store/store-error.js';
import { soakTest } from '../rounds.js';
import { ACTOR, change, ENGINES, Fixture, openFixture, refused, SUFFIX, SYSTEM, seeded, uuidText } from './fixture.js';
import { nearTests } from './near-engines.js';

const PEOPLE = `ou=people,${SUFFIX}`;
const STAFF = `ou=staff,${PEOPLE}`;
const GROUP = `cn=all,${SUFFIX}`;
/** More than one plan deletes. */
const MANY = 1100;

for (const engine of ENGINES) {
  describe(`tree delete (${engine})`, () => {
    const near = nearTests(engine);
    const nearMany = engine === 'delayed' ? soakTest : near;
    let fixture: Fixture;

    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      await fixture.unit('staff', PEOPLE);
      await fixture.person('ann', PEOPLE);
      await fixture.person('bob', STAFF, { description: 'x'.repeat(100_000) });
      await fixture.person('eve', STAFF, { description: 'y'.repeat(100_000) });
      await fixture.add(GROUP, { objectClass: 'groupOfNames', cn: 'all', member: [`cn=ann,${PEOPLE}`, SUFFIX] });
      await fixture.add(`cn=in,${STAFF}`, { objectClass: 'groupOfNames', cn: 'in', member: `cn=bob,${STAFF}` });
    });
    afterEach(async () => {
      await fixture.expectClean();
      await fixture.close();
    });

    const deleteTree = (dn: string): Promise<void> => fixture.partition.delete(fixture.dn(dn), ACTOR, { tree: true });

    async function deletions(): Promise<string[]> {
      const dns: string[] = [];
      for await (const { rows } of batchesOf(fixture.store.scan(CHANGES_TABLE.name, {})))
        for (const row of rows) {
          const { op, dn } = changeRecord(row!);
          if (op === 'delete') dns.push(dn.toString());
        }
      return dns;
    }

    async function restore(dn: string): Promise<string[]> {
      const restored: string[] = [];
      for await (const entry of fixture.partition.deletedEntries())
        if (entry.dn === dn)
          await fixture.partition.restoreSubtree(entry.id, SYSTEM, {
            onRestored: (one) => void restored.push(one),
            onNotRestored: ({ dn: one }, error) => expect.fail(`${one}: ${error.message}`),
          });
      return restored.sort();
    }

    /** Opens the directory of the fixture anew, as another process would. */
    async function reopen(): Promise<void> {
      const { store, folder } = fixture;
      fixture = new Fixture(store, await Partition.open(store, fixture.partition.schema), folder);
    }

    async function addMany(): Promise<void> {
      const entries = Array.from({ length: MANY }, (_, n) => ({
        dn: `uid=u${n},${STAFF}`,
        values: { objectClass: 'inetOrgPerson', uid: `u${n}`, cn: `u${n}`, sn: 'x', mail: `u${n}@x` },
      }));
      await fixture.load(entries);
    }

    it('deletes all entries below, each with its change record, below before above', async () => {
      await deleteTree(PEOPLE);
      expect(await fixture.find('(objectClass=*)')).to.deep.equal([GROUP, SUFFIX]);
      expect(await fixture.counts(SUFFIX)).to.deep.equal([1, 1]);
      const dns = await deletions();
      expect(dns.slice(-2)[1]).to.equal(PEOPLE);
      expect([...dns].sort()).to.deep.equal(
        [PEOPLE, STAFF, `cn=ann,${PEOPLE}`, `cn=bob,${STAFF}`, `cn=eve,${STAFF}`, `cn=in,${STAFF}`].sort(),
      );
      expect(dns.indexOf(STAFF)).to.be.greaterThan(dns.indexOf(`cn=bob,${STAFF}`));
      await fixture.partition.settleReferences();
      expect(await fixture.values(GROUP, 'member')).to.deep.equal([SUFFIX]);
    });

    near('deletes an entry without entries below, and a suffix', async () => {
      await deleteTree(`cn=ann,${PEOPLE}`);
      expect(await fixture.counts(PEOPLE)).to.deep.equal([1, 4]);
      await refused('noSuchObject', deleteTree(`cn=ann,${PEOPLE}`));
      await deleteTree(SUFFIX);
      await refused('noSuchObject', fixture.search());
      expect(await restore(SUFFIX)).to.have.length(8);
    });

    it('is restored as a whole, with references inside and outside, where its parent is now', async () => {
      await fixture.unit('there');
      await fixture.rename(PEOPLE, 'ou=people', { newSuperior: `ou=there,${SUFFIX}` });
      await deleteTree(`ou=people,ou=there,${SUFFIX}`);
      await fixture.rename(`ou=there,${SUFFIX}`, 'ou=here');
      const top = `ou=people,ou=here,${SUFFIX}`;
      const restored = await restore(`ou=people,ou=there,${SUFFIX}`);
      expect(restored).to.have.length(6).and.to.include(top);
      await fixture.partition.settleReferences();
      expect((await fixture.values(GROUP, 'member')).sort()).to.deep.equal([`cn=ann,${top}`, SUFFIX].sort());
      expect(await fixture.values(`cn=in,ou=staff,${top}`, 'member')).to.deep.equal([`cn=bob,ou=staff,${top}`]);
      const { attributes } = await fixture.read(`cn=bob,ou=staff,${top}`, true);
      const value = attributes.find(({ description }) => description === 'description')!.values[0];
      expect(value!.length).to.equal(100_000);
    });

    near('a group that is restored alone has no member, and gets it back with the member', async () => {
      const { id } = await fixture.read(`cn=in,${STAFF}`);
      const [people, staff, bob] = [PEOPLE, STAFF, `cn=bob,${STAFF}`].map((dn) => fixture.read(dn));
      const ids = [(await people!).id, (await staff!).id, id, (await bob!).id];
      await deleteTree(PEOPLE);
      for (const one of ids.slice(0, 3)) await fixture.partition.restore(one, SYSTEM);
      expect(await fixture.values(`cn=in,${STAFF}`, 'member')).to.deep.equal(['']);
      await fixture.partition.restore(ids[3]!, SYSTEM);
      await fixture.partition.settleReferences();
      expect(await fixture.values(`cn=in,${STAFF}`, 'member')).to.deep.equal([`cn=bob,${STAFF}`]);
    });

    nearMany('of many entries no reader sees one after the answer, and a restart goes on', async () => {
      await addMany();
      const { commit } = fixture.store;
      let left = 3;
      fixture.store.commit = (plan) =>
        left-- > 0 ? commit.call(fixture.store, plan) : Promise.reject(new StoreError('unavailable', 'gone'));
      await refused('unavailable', deleteTree(PEOPLE));
      expect(await fixture.find('(objectClass=*)')).to.deep.equal([GROUP, SUFFIX]);
      expect(await fixture.find('(mail=u1@x)')).to.deep.equal([]);
      await refused('noSuchObject', fixture.modify(`uid=u2,${STAFF}`, change('replace', 'sn', 'y')));
      await refused('unavailable', fixture.partition.settleReferences());
      fixture.store.commit = commit;
      await reopen();
      await fixture.expectClean();
      expect(await fixture.find('(mail=u*)')).to.deep.equal([]);
      expect((await deletions()).length).to.be.lessThan(MANY);
      await fixture.partition.settleReferences();
      expect(await deletions()).to.have.length(MANY + 6);
    });

    nearMany('values of the entries are free, and the deleted entries are told once all are deleted', async () => {
      await fixture.partition.addUnique({ attributes: ['mail'] });
      await fixture.partition.finishUnique();
      await addMany();
      const { id } = await fixture.read(`uid=u999,${STAFF}`);
      await deleteTree(PEOPLE);
      await fixture.person('new', SUFFIX, { mail: 'u999@x' });
      expect(await fixture.partition.readById(id)).to.equal(undefined);
      const ids: string[] = [];
      for await (const { id: one } of fixture.partition.deletedEntries()) ids.push(uuidText(one));
      expect(ids)
        .to.have.length(MANY + 6)
        .and.to.include(uuidText(id));
    });

    nearMany('an entry that takes a name after the answer has nothing of the deleted one', async () => {
      await addMany();
      await fixture.modify(GROUP, change('add', 'member', `uid=u1,${STAFF}`, `uid=u999,${STAFF}`));
      await deleteTree(PEOPLE);
      await fixture.unit('people');
      await fixture.unit('staff', PEOPLE);
      for (const uid of ['u1', 'u999'])
        await fixture.add(`uid=${uid},${STAFF}`, { objectClass: 'inetOrgPerson', uid, cn: uid, sn: uid });
      await fixture.modify(GROUP, change('add', 'member', `uid=u999,${STAFF}`));
      await fixture.partition.settleReferences();
      expect((await fixture.values(GROUP, 'member')).sort()).to.deep.equal([SUFFIX, `uid=u999,${STAFF}`].sort());
    });

    nearMany('two trees of the same RDN', async () => {
      await addMany();
      await fixture.unit('people', GROUP);
      await Promise.all([deleteTree(PEOPLE), deleteTree(`ou=people,${GROUP}`)]);
      expect(await fixture.find('(ou=people)')).to.deep.equal([]);
      await fixture.partition.settleReferences();
      expect(await deletions()).to.have.length(MANY + 7);
    });

    it('what others write below meanwhile is refused, or is deleted, too', () =>
      seeded(async (random) => {
        const writes: Promise<unknown>[] = [];
        for (let n = 0; n < 30; n++) {
          if (n === 12) writes.push(deleteTree(PEOPLE));
          const parent = random.pick([PEOPLE, STAFF, `ou=o${random.int(4)},${STAFF}`]);
          const kind = random.int(3);
          if (kind === 0) writes.push(fixture.unit(`o${random.int(4)}`, parent));
          else if (kind === 1) writes.push(fixture.modify(`cn=ann,${PEOPLE}`, change('replace', 'sn', `s${n}`)));
          else writes.push(fixture.rename(parent, `ou=r${n}`, { newSuperior: random.pick([SUFFIX, PEOPLE]) }));
        }
        await Promise.allSettled(writes);
        await fixture.partition.settleReferences();
        const unseen = ['noSuchObject', undefined];
        const found = await fixture.search({ base: PEOPLE }).catch(({ result }) => result);
        if (!unseen.includes(found)) expect.fail('the tree is still there');
      }));
  });
}
