import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import { UNRESTRICTED, type Viewer } from '../../src/partition/model/viewer.js';
import { counted } from '../store/counted.js';
import { Fixture, hiding, openFixture, refused, SUFFIX, testSchema, viewedDn } from './fixture.js';
import { NEAR_ENGINES } from './near-engines.js';

const PEOPLE = `ou=people,${SUFFIX}`;
const GROUPS = `ou=groups,${SUFFIX}`;

for (const engine of NEAR_ENGINES) {
  describe(`memberOf (${engine})`, () => {
    let fixture: Fixture;
    const ann = `cn=ann,${PEOPLE}`;
    const bob = `cn=bob,${PEOPLE}`;
    const inner = `cn=inner,${GROUPS}`;
    const outer = `cn=Outer,${GROUPS}`;
    const bosses = `cn=bosses,${GROUPS}`;
    before(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      await fixture.unit('groups');
      await fixture.person('ann', PEOPLE, { title: 'boss' });
      await fixture.person('bob', PEOPLE);
      await fixture.add(inner, { objectClass: 'groupOfNames', cn: 'inner', member: ann });
      await fixture.add(outer, { objectClass: 'groupOfUniqueNames', cn: 'Outer', uniqueMember: inner });
      const memberURL = `ldap:///${PEOPLE}??one?(title=boss)`;
      await fixture.add(bosses, { objectClass: 'groupOfURLs', cn: 'bosses', memberURL });
    });
    after(() => fixture.close());

    /** What a search by the viewer shows of the entry. */
    const shown = async (dn: string, viewer: Viewer = UNRESTRICTED): Promise<string[]> => {
      const found: string[] = [];
      const params = fixture.params({ base: dn, scope: 'base', viewer });
      await fixture.partition.search(params, {
        entry: async (hit) => void found.push(...(await hit.memberOf()).map(String)),
        reference: () => undefined,
      });
      return found.sort();
    };
    const compare = async (dn: string, group: string, viewer: Viewer = UNRESTRICTED) =>
      fixture.partition.compare(fixture.dn(dn), 'memberOf', Buffer.from(group), viewer);
    /** In each way that a viewer may ask. */
    const seen = async (group: string, viewer: Viewer) => ({
      shown: (await shown(ann, viewer)).includes(group),
      found: (await fixture.find(`(&(cn=ann)(memberOf=${group}))`, { viewer })).length > 0,
      indexed: (await fixture.find(`(memberOf=${group})`, { viewer })).includes(ann),
      compared: await compare(ann, group, viewer).catch(({ result }) => result),
    });
    const NOT = { shown: false, found: false, indexed: false, compared: false };

    it('memberOf contains the DNs of the groups as written', async () => {
      expect(await shown(ann)).to.deep.equal([outer, bosses, inner].sort());
      expect(await shown(inner)).to.deep.equal([outer]);
      expect(await shown(bob)).to.deep.equal([]);
    });

    it('memberOf is compared as DNs are', async () => {
      expect(await compare(ann, outer.toUpperCase().replace(',', ' , '))).to.equal(true);
      expect(await compare(ann, bosses)).to.equal(true);
      expect(await compare(ann, GROUPS)).to.equal(false);
      await refused('noSuchAttribute', compare(bob, inner));
      await refused('invalidAttributeSyntax', compare(ann, 'no DN'));
    });

    it('memberOf works in every kind of filter', async () => {
      expect(await fixture.find(`(memberOf=${outer})`)).to.deep.equal([ann, inner].sort());
      expect(await fixture.find(`(memberOf:dnSubtreeMatch:=${GROUPS})`)).to.deep.equal([ann, inner].sort());
      expect(await fixture.find('(isMemberOf=*)')).to.deep.equal([ann, inner].sort());
      expect(await fixture.find(`(&(objectClass=person)(!(memberOf=${outer})))`)).to.deep.equal([bob]);
      expect(await fixture.find('(memberOf=no DN)')).to.deep.equal([]);
      expect(await fixture.find('(!(memberOf=no DN))'), 'Undefined').to.deep.equal([]);
      expect(await fixture.find(`(memberOf=cn=nobody,${GROUPS})`)).to.deep.equal([]);
    });

    it('memberOf of a group that is not dynamic is searched by the members of the group', async () => {
      const explain = async (filter: string) => fixture.partition.explain(fixture.params({ filter }));
      const plan = await explain(`(memberOf=${outer})`);
      expect(plan).to.include({ plan: 'index', candidates: 2, rowsExamined: 2, entries: 2 });
      expect((await explain(`(&(objectClass=top)(memberOf=${bosses}))`)).entries).to.equal(1);
    });

    it('memberOf is evaluated for few candidates without reading all members', async () => {
      const member = Array.from({ length: 2000 }, (_, n) => `cn=m${n},${PEOPLE}`);
      const wide = `cn=wide,${GROUPS}`;
      await fixture.add(wide, { objectClass: 'groupOfNames', cn: 'wide', member: [ann, ...member] });
      const { store, work } = counted(fixture.store);
      const front = new Fixture(store, await Partition.open(store, testSchema()), undefined);
      work.rows = 0;
      expect(await front.find(`(&(cn=ann)(memberOf=${wide}))`)).to.deep.equal([ann]);
      expect(work.rows).to.be.lessThan(60);
      await fixture.delete(wide);
    });

    it('asks a group itself about one candidate, and for all groups of it where that does not tell', async () => {
      const { store, work } = counted(fixture.store);
      const front = new Fixture(store, await Partition.open(store, testSchema()), undefined);
      const rows = async (filter: string, ...expected: string[]) => {
        await front.find(filter);
        // In a turn of its own it reads what all searches of a turn share.
        await new Promise((resolve) => setImmediate(resolve));
        work.rows = 0;
        expect(await front.find(filter), filter).to.deep.equal(expected);
        return work.rows;
      };
      const plain = await rows('(cn=ann)', ann);
      expect(await rows(`(&(cn=ann)(memberOf=${inner}))`, ann)).to.equal(plain + 1);
      // A row for each group and attribute that names members.
      expect(await rows(`(&(cn=ann)(|(memberOf=${outer})(memberOf=${inner})))`, ann)).to.be.at.most(plain + 4);
      for (const [filter, ...expected] of [
        [`(&(cn=ann)(memberOf=${outer}))`, ann],
        [`(&(cn=ann)(memberOf=${bosses}))`, ann],
        [`(&(cn=ann)(!(memberOf=${inner})))`],
        [`(&(cn=ann)(memberOf=${inner})(!(memberOf=${outer})))`],
        [`(&(cn=ann)(memberOf=${inner})(!(memberOf=cn=nobody,${GROUPS})))`, ann],
        [`(&(cn=ann)(memberOf=${inner})(memberOf:dnSubtreeMatch:=${PEOPLE}))`],
        [`(&(cn=ann)(memberOf=${inner})(isMemberOf=*))`, ann],
        [`(&(cn=bob)(!(memberOf=${inner})))`, bob],
        [`(&(cn=bob)(memberOf=${inner}))`],
        [`(&(cn=ann)(memberOf=${SUFFIX}))`],
      ] as const)
        expect(await rows(filter, ...expected)).to.be.greaterThan(plain);
    });

    it('asks a group itself for who may use its values whatever they are, too, and else looks at its row', async () => {
      const { store, work } = counted(fixture.store);
      const front = new Fixture(store, await Partition.open(store, testSchema()), undefined);
      const rows = async (viewer: Viewer, filter = `(&(cn=ann)(memberOf=${inner}))`) => {
        await front.find(filter, { viewer });
        await new Promise((resolve) => setImmediate(resolve));
        work.rows = 0;
        expect(await front.find(filter, { viewer })).to.deep.equal([ann]);
        return work.rows;
      };
      const all = { sightOf: () => ({ all: () => true, allows: () => true }) };
      const uses = new Set<string>();
      const mayUse: Viewer['mayUse'] = (node, use, { name }) => uses.add(`${use} ${name} of ${node.dn}`).size > 0;
      const plain = await rows(all, '(cn=ann)');
      expect(await rows({ ...all, mayUse })).to.equal(plain + 1);
      expect([...uses]).to.deep.equal([`search member of ${inner}`]);
      expect(await rows({ ...all, mayUse: () => false })).to.equal(plain + 2);
    });

    it('memberOf finds an entry synchronously where the store does', async () => {
      const { attributes } = await fixture.read(bosses);
      await fixture.delete(bosses);
      for (const group of [`(memberOf=${inner})`, `(memberOf=${outer})`, `(!(memberOf=${GROUPS}))`]) {
        const params = fixture.params({ filter: `(&(cn=ann)${group})` });
        let isAtOnce: boolean;
        do {
          // A search reads first whether there are dynamic groups, after each change of the directory: the deletion and
          // the search for late references to the deleted entry.
          await fixture.find(`(&(cn=ann)${group})`);
          const found: string[] = [];
          const entry = ({ dn }: { dn: Buffer }) => void found.push(dn.toString());
          const outcome = fixture.partition.search(params, { entry, reference: () => undefined });
          isAtOnce = found.length > 0;
          await outcome;
          expect(found, group).to.deep.equal([ann]);
        } while (!isAtOnce && (engine === 'memory' || engine === 'lmdb'));
      }
      const stored = attributes.filter(({ description }) => /^(objectClass|cn|memberURL)$/.test(description));
      await fixture.add(bosses, Object.fromEntries(stored.map(({ description, values }) => [description, values])));
    });

    it('memberOf hides groups that the viewer does not see, and groups reached through these', async () => {
      const viewer: Viewer = {
        sightOf: (entry) => (viewedDn(entry) === inner ? undefined : { all: () => true, allows: () => true }),
      };
      expect(await seen(inner, viewer)).to.deep.equal(NOT);
      expect(await seen(outer, viewer)).to.deep.equal(NOT);
      expect(await seen(bosses, viewer)).to.deep.equal({ shown: true, found: true, indexed: true, compared: true });
    });

    it('memberOf needs the same right on the attribute that names the member in the group', async () => {
      const without = (what: string, ...uses: string[]) =>
        hiding(({ name }, _, use) => name === what && uses.includes(use));
      expect(await seen(inner, without('member', 'read', 'search', 'compare'))).to.deep.equal(NOT);
      const yes = { shown: true, found: true, indexed: true, compared: true };
      expect(await seen(inner, without('member', 'read'))).to.deep.equal({ ...yes, shown: false });
      expect(await seen(inner, without('member', 'search'))).to.deep.equal({ ...yes, found: false, indexed: false });
      expect(await seen(inner, without('member', 'compare'))).to.deep.equal({ ...yes, compared: false });
      expect(await seen(outer, without('member', 'read'))).to.deep.equal({ ...yes, shown: false });
      expect(await seen(inner, without('uniqueMember', 'read'))).to.deep.equal(yes);
      expect(await seen(bosses, without('memberURL', 'read'))).to.deep.equal({ ...yes, shown: false });
    });

    it('memberOf reveals nothing by a dynamic group that a search would not', async () => {
      const viewer = hiding(({ name }, _, use) => name === 'title' && use === 'search');
      expect(await seen(bosses, viewer)).to.deep.equal(NOT);
      const others = `cn=others,${GROUPS}`;
      const urls = [`ldap:///${PEOPLE}??one?(!(title=x))`, `ldap:///${PEOPLE}??one?(name=ann)`];
      for (const memberURL of urls) {
        await fixture.add(others, { objectClass: 'groupOfURLs', cn: 'others', memberURL });
        expect(await shown(ann), memberURL).to.include(others);
        const blind = hiding(({ name }, _, use) => ['title', 'cn', 'sn'].includes(name) && use === 'search');
        expect(await shown(ann, blind), memberURL).not.to.include(others);
        await fixture.delete(others);
      }
    });

    it('memberOf needs a right on memberOf itself', async () => {
      const viewer = hiding(({ name }, entry, use) => name === 'memberOf' && use !== 'read' && viewedDn(entry) === ann);
      expect(await fixture.find(`(memberOf=${inner})`, { viewer })).to.deep.equal([]);
      expect(await fixture.find(`(&(cn=ann)(!(memberOf=${inner})))`, { viewer }), 'Undefined').to.deep.equal([]);
      await refused('insufficientAccessRights', compare(ann, inner, viewer));
    });
  });
}
