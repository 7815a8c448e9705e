import { expect } from 'chai';
import { Partition, UNRESTRICTED } from '../../src/partition/index.js';
import { MEMBER_URLS } from '../../src/partition/model/thresholds.js';
import type { Viewer } from '../../src/partition/model/viewer.js';
import { rounds } from '../rounds.js';
import { counted } from '../store/counted.js';
import {
  ACTOR,
  attributes,
  change,
  Fixture,
  hiding,
  openFixture,
  refused,
  type SearchGiven,
  SUFFIX,
  seeded,
  testSchema,
  viewedDn,
} from './fixture.js';
import { NEAR_ENGINES } from './near-engines.js';

const PEOPLE = `ou=people,${SUFFIX}`;
const GROUPS = `ou=groups,${SUFFIX}`;
const BOSSES = `ldap:///${PEOPLE}??one?(title=boss)`;

for (const engine of NEAR_ENGINES) {
  describe(`members of dynamic groups (${engine})`, () => {
    let fixture: Fixture;
    const ann = `cn=ann,${PEOPLE}`;
    const bob = `cn=bob,${PEOPLE}`;
    const carl = `cn=carl,${PEOPLE}`;
    const bosses = `cn=bosses,${GROUPS}`;
    const both = `cn=both,${GROUPS}`;
    const plain = `cn=plain,${GROUPS}`;
    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      await fixture.unit('groups');
      await fixture.person('ann', PEOPLE, { title: 'boss' });
      await fixture.person('bob', PEOPLE, { title: 'boss' });
      await fixture.person('carl', PEOPLE);
      await fixture.add(bosses, { objectClass: 'groupOfURLs', cn: 'bosses', memberURL: BOSSES });
      const objectClass = ['groupOfURLs', 'extensibleObject'];
      await fixture.add(both, { objectClass, cn: 'both', member: [carl, ann], memberURL: BOSSES });
      await fixture.add(plain, { objectClass: 'groupOfNames', cn: 'plain', member: ann });
    });
    afterEach(() => fixture.close());

    /** Members as a search by the viewer hands them out. */
    const members = async (dn: string, given: SearchGiven & { most?: number } = {}) => {
      const found: string[] = [];
      let more = false;
      await fixture.partition.search(fixture.params({ base: dn, scope: 'base', ...given }), {
        entry: async (hit) => {
          const whole = await hit.withMembers(given.most ?? 1000);
          more = whole.hasMore;
          const { descriptions, context } = fixture.partition;
          expect(descriptions).to.equal(context.descriptions);
          const reader = context.reader.read(whole.row);
          for (let i = 0; i < reader.attributeCount; i++)
            if (reader.descriptions[i]!.text === 'member')
              for (let v = reader.firstValues[i]!; v < reader.firstValues[i + 1]!; v++)
                found.push(reader.value(v).toString());
        },
        reference: () => undefined,
      });
      return more ? [...found, 'more'] : found;
    };
    const compare = async (dn: string, value: string, viewer: Viewer = UNRESTRICTED, attribute = 'member') =>
      fixture.partition.compare(fixture.dn(dn), attribute, Buffer.from(value), viewer);

    it('members of a dynamic group are the entries found by its URLs, after the members it names', async () => {
      expect(await members(bosses)).to.have.members([ann, bob]);
      expect(await members(both)).to.deep.equal([carl, ann, bob]);
      expect(await members(plain)).to.deep.equal([ann]);
      await fixture.modify(
        bosses,
        change('add', 'memberURL', `ldap:///${SUFFIX}??sub?(cn=*)`, 'ldap:///ou=no,o=x??sub'),
      );
      const all = await members(bosses);
      expect(all).to.have.length(new Set(all).size).and.include.members([ann, bob, carl, bosses, both, plain]);
    });

    it('dynamic members are not returned to a client that asks for entries as stored', async () => {
      expect(await members(bosses, { manageDsaIT: true })).to.deep.equal([]);
      expect(await members(both, { manageDsaIT: true })).to.deep.equal([carl, ann]);
    });

    it('dynamic members are returned up to the limit, with a note that there are more', async () => {
      expect(await members(both, { most: 3 })).to.deep.equal([carl, ann, bob]);
      expect(await members(both, { most: 2 })).to.deep.equal([carl, ann, 'more']);
      expect(await members(both, { most: 1 })).to.deep.equal([carl, ann]);
      expect(await members(bosses, { most: 1 }))
        .to.have.length(2)
        .and.include('more');
      await fixture.load(
        Array.from({ length: 50 }, (_, n) => ({
          dn: `cn=x${n},${PEOPLE}`,
          values: { objectClass: 'inetOrgPerson', cn: `x${n}`, sn: 'x', title: 'boss' },
        })),
      );
      const first = await members(bosses, { most: 20 });
      expect(first).to.have.length(21);
      expect(await members(bosses, { most: 40 }), 'in the same order').to.include.ordered.members(first.slice(0, 20));
      expect(await members(bosses, { most: 52 }))
        .to.have.length(52)
        .and.not.include('more');
    });

    it('dynamic members are tested by filters', async () => {
      expect(await fixture.find(`(member=${ann})`)).to.deep.equal([both, bosses, plain].sort());
      expect(await fixture.find(`(member=${bob.toUpperCase()})`)).to.deep.equal([both, bosses].sort());
      expect(await fixture.find(`(member=${carl})`)).to.deep.equal([both]);
      expect(await fixture.find(`(&(objectClass=groupOfURLs)(member=${bob})(cn=bosses))`)).to.deep.equal([bosses]);
      expect(await fixture.find(`(&(cn=b*)(!(member=${carl})))`)).to.deep.equal([bob, bosses].sort());
      expect(await fixture.find(`(|(member=${carl})(member=${bob})(member=cn=nobody))`)).to.deep.equal(
        [both, bosses].sort(),
      );
      expect(await fixture.find(`(member:distinguishedNameMatch:=${bob})`)).to.deep.equal([both, bosses].sort());
      expect(await fixture.find(`(member=cn=nobody,${PEOPLE})`)).to.deep.equal([]);
      expect(await fixture.find(`(member;x-a=${bob})`)).to.deep.equal([]);
      await fixture.modify(bob, change('delete', 'title'));
      expect(await fixture.find(`(member=${bob})`)).to.deep.equal([]);
    });

    it('dynamic members are tested by filters in pages and without an index', async () => {
      const inPages = async (filter: string): Promise<string[]> => {
        const dns: string[] = [];
        for (let resume: Buffer | undefined; ; ) {
          const page = await fixture.search({ filter, pageSize: 1, ...(resume && { resume }) });
          dns.push(...page.dns);
          resume = page.outcome.resume;
          if (!resume) return dns.sort();
        }
      };
      for (const indexed of [true, false]) {
        if (!indexed) await fixture.partition.dropIndex('member');
        expect(await inPages(`(member=${ann})`)).to.deep.equal([both, bosses, plain].sort());
        expect(await inPages(`(|(member=${ann})(cn=c*))`)).to.deep.equal([both, bosses, carl, plain].sort());
        expect(await fixture.find(`(member=${ann})`)).to.deep.equal([both, bosses, plain].sort());
        expect(await fixture.find(`(&(cn=b*)(!(member=${carl})))`)).to.deep.equal([bob, bosses].sort());
      }
    });

    it('dynamic members are tested by the index without reading other entries', async () => {
      await fixture.load(
        Array.from({ length: 300 }, (_, n) => ({
          dn: `cn=x${n},${PEOPLE}`,
          values: { objectClass: 'inetOrgPerson', cn: `x${n}`, sn: 'x', title: 'boss' },
        })),
      );
      const explained = await fixture.partition.explain(fixture.params({ filter: `(member=${bob})` }));
      expect(explained).to.include({ plan: 'index', candidates: 2, entries: 2 });
      const { store, work } = counted(fixture.store);
      const front = new Fixture(store, await Partition.open(store, testSchema()), undefined);
      for (const warm of [true, false]) {
        work.rows = 0;
        expect(await front.find(`(member=${bob})`)).to.deep.equal([both, bosses].sort());
        expect(await front.partition.compare(front.dn(bosses), 'member', Buffer.from(bob), UNRESTRICTED)).to.equal(
          true,
        );
        if (!warm) expect(work.rows).to.be.lessThan(60);
      }
    });

    it('a filter on members costs one index row where there are no dynamic groups', async () => {
      await fixture.delete(bosses);
      await fixture.delete(both);
      const { store, work } = counted(fixture.store);
      const front = new Fixture(store, await Partition.open(store, testSchema()), undefined);
      await front.find(`(member=${ann})`);
      const rows = async (filter: string) => {
        work.rows = 0;
        expect(await front.find(filter)).to.have.length(1);
        return work.rows;
      };
      expect(await rows(`(member=${ann})`)).to.equal(await rows('(cn=plain)'));
    });

    it('dynamic members are compared', async () => {
      expect(await compare(bosses, ann)).to.equal(true);
      expect(await compare(bosses, carl)).to.equal(false);
      expect(await compare(both, carl)).to.equal(true);
      expect(await compare(both, bob.toUpperCase())).to.equal(true);
      expect(await compare(bosses, `cn=nobody,${PEOPLE}`)).to.equal(false);
      expect(await compare(plain, bob)).to.equal(false);
      await refused('invalidAttributeSyntax', compare(bosses, 'no DN'));
      await refused('noSuchAttribute', compare(bosses, ann, UNRESTRICTED, 'uniqueMember'));
      await refused('noSuchAttribute', compare(ann, bob));
    });

    it('dynamic groups beyond the limits of URLs, bytes and filter items are refused', async () => {
      const dn = `cn=limits,${GROUPS}`;
      /** Base and scope are there; `length` bytes. */
      const url = (filter: string, length = 0) => `ldap:///${PEOPLE}?${'x'.repeat(length)}?one?${filter}`;
      const padded = (filter: string, bytes: number) => url(filter, bytes - url(filter).length);
      const list = (items: number) => `(|(cn=b*)${'(cn=n)'.repeat(items - 3)})`;
      const urls = Array.from({ length: MEMBER_URLS.values - 1 }, (_, n) => url(`(cn=n${n})`));
      const rest = MEMBER_URLS.bytes - urls.join('').length;
      const full = [...urls, padded(list(MEMBER_URLS.items), rest)];
      const values = (...memberURL: string[]) => ({ objectClass: 'groupOfURLs', cn: 'limits', memberURL });
      const wrong: [RegExp, string[]][] = [
        [/an entry has 100 at most/, [...urls, url('(cn=a)'), url('(cn=b)')]],
        [/65536 bytes at most/, [...urls, padded('(cn=b)', rest + 1)]],
        [/100 items at most/, [url(list(MEMBER_URLS.items + 1))]],
      ];
      for (const [message, memberURL] of wrong) {
        await refused('constraintViolation', fixture.add(dn, values(...memberURL)), message);
        await refused(
          'constraintViolation',
          fixture.modify(bosses, change('replace', 'memberURL', ...memberURL)),
          message,
        );
        let rejected = '';
        async function* entries() {
          yield [{ dn, line: 1, attributes: attributes(values(...memberURL)) }];
        }
        const onReject = ({ reason }: { readonly reason: string }) => {
          rejected = reason;
        };
        await fixture.partition.load(entries(), ACTOR, { onReject, continue: true });
        expect(rejected).to.match(message);
      }
      await fixture.add(dn, values(...full));
      expect(await members(dn)).to.deep.equal([bob]);
      expect(await compare(dn, bob)).to.equal(true);
      expect(await compare(dn, ann)).to.equal(false);
      expect(await fixture.find(`(memberOf=${dn})`)).to.deep.equal([bob]);
      await refused('constraintViolation', fixture.modify(dn, change('add', 'memberURL', url('(cn=ann)'))));
    });

    it('URLs beyond the limits from older versions find no members and can be deleted', async () => {
      const url = (name: string) => `ldap:///${PEOPLE}??one?(cn=${name})`;
      const urls = Array.from({ length: MEMBER_URLS.values }, (_, n) => url(`n${n}`));
      const long = `ldap:///${PEOPLE}??one?(|${'(cn=bob)'.repeat(MEMBER_URLS.items)})`;
      await fixture.put(bosses, 'memberURL', url('ann'), long, ...urls, url('carl'));
      expect(await members(bosses)).to.deep.equal([ann]);
      expect(await compare(bosses, bob)).to.equal(false);
      expect(await fixture.find(`(memberOf=${bosses})`)).to.deep.equal([ann]);
      await fixture.modify(bosses, change('delete', 'memberURL', long));
      await refused('constraintViolation', fixture.modify(bosses, change('add', 'memberURL', url('x'))));
      await fixture.modify(bosses, change('delete', 'memberURL', ...urls));
      expect(await members(bosses)).to.have.members([ann, carl]);
    });

    it('dynamic members are compared in a group of many values, too', async () => {
      const many = Array.from({ length: 3000 }, (_, n) => `cn=m${n},${PEOPLE}`);
      await fixture.modify(both, change('add', 'member', ...many));
      expect(await compare(both, bob)).to.equal(true);
      expect(await compare(both, many[7]!)).to.equal(true);
      expect(await compare(both, `cn=nobody,${PEOPLE}`)).to.equal(false);
      expect(await fixture.find(`(member=${bob})`)).to.deep.equal([both, bosses].sort());
      expect(await members(both, { most: 4000 })).to.have.length(3003);
    });

    it('dynamic members need rights on memberURL, on member and on the attributes of the filter', async () => {
      const blindTo = (what: string, ...uses: string[]) =>
        hiding(({ name }, _, use) => name === what && uses.includes(use));
      const seen = async (viewer: Viewer) => ({
        read: (await members(bosses, { viewer })).length,
        found: (await fixture.find(`(member=${bob})`, { viewer })).includes(bosses),
        compared: await compare(bosses, bob, viewer).catch(({ result }) => result),
      });
      const yes = { read: 2, found: true, compared: true };
      expect(await seen(blindTo('sn', 'read', 'search', 'compare'))).to.deep.equal(yes);
      expect(await seen(blindTo('memberURL', 'read'))).to.deep.equal({ ...yes, read: 0 });
      expect(await seen(blindTo('memberURL', 'search'))).to.deep.equal({ ...yes, found: false });
      expect(await seen(blindTo('memberURL', 'compare'))).to.deep.equal({ ...yes, compared: 'noSuchAttribute' });
      expect(await seen(blindTo('member', 'read'))).to.deep.equal({ ...yes, read: 0 });
      expect(await seen(blindTo('member', 'search'))).to.deep.equal({ ...yes, found: false });
      expect(await seen(blindTo('member', 'compare'))).to.deep.equal({ ...yes, compared: 'insufficientAccessRights' });
      expect(await seen(blindTo('title', 'search'))).to.deep.equal({ read: 0, found: false, compared: false });
      const unseen: Viewer = {
        sightOf: (entry) => (viewedDn(entry) === bob ? undefined : { all: () => true, allows: () => true }),
      };
      expect(await seen(unseen)).to.deep.equal({ read: 1, found: false, compared: false });
      const noBase: Viewer = {
        sightOf: (entry) => (viewedDn(entry) === PEOPLE ? undefined : { all: () => true, allows: () => true }),
      };
      expect(await seen(noBase), 'the base need not be seen').to.deep.equal(yes);
    });

    it('dynamic members are the entries whose memberOf contains the group', () =>
      seeded(async (random) => {
        const people = Array.from({ length: 12 }, (_, n) => `cn=r${n},${PEOPLE}`);
        for (let n = 0; n < people.length; n++)
          await fixture.person(`r${n}`, PEOPLE, { title: random.pick(['a', 'b', 'c']), sn: random.pick(['s', 't']) });
        const terms = ['(title=a)', '(title=b)', '(sn=s)', '(cn=r1*)', `(memberOf=${plain})`, `(member=${ann})`];
        const term = (): string =>
          random.chance(0.3)
            ? `(!${random.pick(terms)})`
            : random.chance(0.3)
              ? `(|${term()}${term()})`
              : random.pick(terms);
        const times = engine === 'hbase' ? rounds(3, 6) : rounds(12, 40);
        for (let round = 0; round < times; round++) {
          const base = random.pick([PEOPLE, GROUPS, SUFFIX, random.pick(people)]);
          const url = `ldap:///${base}??${random.pick(['base', 'one', 'sub'])}?${term()}`;
          const dn = `cn=u${round},${GROUPS}`;
          await fixture.add(dn, { objectClass: 'groupOfURLs', cn: `u${round}`, memberURL: url });
          const hidden = new Set(people.filter(() => random.chance(0.2)));
          const blind = hiding(
            (type, entry, use) => use === 'search' && type.name === 'title' && viewedDn(entry).startsWith('cn=r3'),
          );
          const seeing: Viewer = {
            sightOf: (entry) => (hidden.has(viewedDn(entry)) ? undefined : blind.sightOf!(entry)),
          };
          for (const viewer of [UNRESTRICTED, seeing]) {
            const expected = await fixture.find(`(memberOf=${dn})`, { viewer });
            const what = `${url} for ${viewer === seeing ? 'some' : 'all'}`;
            expect((await members(dn, { viewer })).sort(), what).to.deep.equal(expected);
            for (const person of people) {
              const found = (await fixture.find(`(member=${person})`, { viewer })).includes(dn);
              expect(found, `${person} of ${what}`).to.equal(expected.includes(person));
              expect(await compare(dn, person, viewer), `${person} of ${what}`).to.equal(found);
            }
          }
          await fixture.delete(dn);
        }
      })).timeout(600_000);
  });
}
