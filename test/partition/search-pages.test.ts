import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import { META_TABLE } from '../../src/partition/model/tables.js';
import { counted, type StoreWork } from '../store/counted.js';
import { ENGINES, Fixture, openFixture, type Random, refused, SUFFIX, seeded, testSchema } from './fixture.js';

const PEOPLE = `ou=people,${SUFFIX}`;

for (const engine of ENGINES) {
  describe(`search (${engine})`, () => {
    describe('pages', () => {
      let fixture: Fixture;
      before(async () => {
        fixture = await openFixture(engine);
        await fixture.unit('people');
        await seeded((random) => populateSmall(fixture, random));
      });
      after(() => fixture.close());

      async function populateSmall(to: Fixture, random: Random): Promise<void> {
        const parents = [PEOPLE];
        for (let n = 0; n < 60; n++) {
          const parent = random.pick(parents);
          const dn = `cn=p${String(n).padStart(2, '0')},${parent}`;
          await to.add(dn, {
            objectClass: 'inetOrgPerson',
            sn: 'same',
            mail: [`a${n % 3}@x`, `b${n % 5}@x`],
            description: n % 2 ? 'odd' : 'even',
          });
          if (random.chance(0.2)) parents.push(dn);
        }
      }

      const cases: [string, string, { base?: string; scope?: 'one' | 'sub' | 'subordinate' }][] = [
        ['an index prefix', '(mail=a1@x)', {}],
        ['gathered from several prefixes', '(|(mail=a1@x)(mail=b2@x)(mail=a0@x))', {}],
        ['gathered from a range', '(mail=a*)', {}],
        ['the table', '(description=odd)', {}],
        ['everything', '(objectClass=*)', {}],
        ['a parent', '(description=*)', { base: PEOPLE, scope: 'one' }],
        ['a subtree', '(description=*)', { base: PEOPLE, scope: 'sub' }],
        ['below a base', '(description=even)', { base: PEOPLE, scope: 'subordinate' }],
        ['the root', '(description=even)', { base: '' }],
      ];
      for (const [name, filter, where] of cases) {
        it(`${name}: each entry exactly once at every size`, async () => {
          const wanted = await fixture.find(filter, where);
          for (const pageSize of [1, 2, 3, 7, wanted.length - 1, wanted.length, wanted.length + 1]) {
            const found: string[] = [];
            let resume: Buffer | undefined;
            let pages = 0;
            do {
              const page = await fixture.search({ ...where, filter, pageSize, ...(resume ? { resume } : {}) });
              found.push(...page.dns);
              expect(page.dns.length).to.be.at.most(pageSize);
              resume = page.outcome.resume;
              expect(++pages).to.be.at.most(wanted.length + 1);
            } while (resume);
            expect(found.length, `${pageSize}`).to.equal(wanted.length);
            expect(found.sort(), `${pageSize}`).to.deep.equal(wanted);
          }
        });
      }

      it('say so when the place to go on at is gone', async () => {
        await fixture.unit('brief', PEOPLE);
        for (let n = 0; n < 3; n++) await fixture.person(`z${n}`, `ou=brief,${PEOPLE}`, { title: 'brief' });
        const given = { base: PEOPLE, filter: '(title=brief)', pageSize: 1 };
        const { outcome } = await fixture.search(given);
        for (let n = 0; n < 3; n++) await fixture.delete(`cn=z${n},ou=brief,${PEOPLE}`);
        expect((await fixture.search({ ...given, resume: outcome.resume! })).dns).to.deep.equal([]);
        await fixture.delete(`ou=brief,${PEOPLE}`);
        // A front end that has never seen the parent cannot tell where it stood.
        const other = await Partition.open(fixture.store, fixture.partition.schema);
        const sink = { entry: () => undefined, reference: () => undefined };
        const more = async () => other.search(fixture.params({ ...given, resume: outcome.resume! }), sink);
        await refused('unwillingToPerform', more(), /start the search again/);
      });

      it('go on after entries came and went, without repeating or losing those that stayed', async () => {
        for (const filter of ['(mail=a1@x)', '(description=*)', '(|(mail=a1@x)(mail=b2@x))']) {
          for (const where of [{}, { base: PEOPLE, scope: 'sub' as const }]) {
            const wanted = await fixture.find(filter, where);
            const found: string[] = [];
            let resume: Buffer | undefined;
            let n = 0;
            do {
              const page = await fixture.search({ ...where, filter, pageSize: 4, ...(resume ? { resume } : {}) });
              found.push(...page.dns);
              resume = page.outcome.resume;
              await fixture.add(`cn=new${n},${PEOPLE}`, {
                objectClass: 'inetOrgPerson',
                sn: 'new',
                mail: 'a1@x',
                description: 'new',
              });
              if (n > 0) await fixture.delete(`cn=new${n - 1},${PEOPLE}`);
              n++;
            } while (resume);
            await fixture.delete(`cn=new${n - 1},${PEOPLE}`);
            expect(found.filter((dn) => !dn.startsWith('cn=new')).sort()).to.deep.equal(wanted);
          }
        }
      });
    });

    describe('limits', () => {
      let fixture: Fixture;
      before(async () => {
        fixture = await openFixture(engine);
        for (let n = 0; n < 30; n++) await fixture.person(`p${n}`);
      });
      after(() => fixture.close());

      it('of size: so many entries, then the error', async () => {
        for (const filter of ['(objectClass=person)', '(cn=p*)', '(sn=*)']) {
          const dns: string[] = [];
          const sink = { entry: (hit: { dn: Buffer }) => void dns.push(hit.dn.toString()), reference: () => undefined };
          await refused(
            'sizeLimitExceeded',
            (async () => fixture.partition.search(fixture.params({ filter, sizeLimit: 10 }), sink))(),
          );
          expect(dns).to.have.length(10);
          expect((await fixture.search({ filter, sizeLimit: 30 })).dns).to.have.length(30);
        }
      });

      it('of time, of rows looked at, and by cancel', async () => {
        await refused(
          'timeLimitExceeded',
          fixture.search({ filter: '(description=x)', deadline: performance.now() - 1 }),
        );
        await refused('adminLimitExceeded', fixture.search({ filter: '(description=x)', lookLimit: 10 }));
        await refused('canceled', fixture.search({ filter: '(description=x)', signal: { aborted: true } }));
        expect((await fixture.search({ filter: '(cn=p3)', lookLimit: 10 })).dns).to.have.length(1);
      });

      it('a sink that is slow holds the search back', async () => {
        let open = 0;
        let seen = 0;
        await fixture.partition.search(fixture.params({ filter: '(cn=p*)' }), {
          entry: async () => {
            expect(++open).to.equal(1);
            await new Promise((resolve) => setImmediate(resolve));
            open--;
            seen++;
          },
          reference: () => undefined,
        });
        expect(seen).to.equal(30);
      });
    });
  });
}

describe('pages of many candidates (lmdb)', () => {
  const ENTRIES = 8000;
  const PAGE = 10;
  let fixture: Fixture;
  let front: Fixture;
  let work: StoreWork;

  before(async () => {
    fixture = await openFixture('lmdb');
    const one = (n: number) => ({
      objectClass: ['inetOrgPerson', 'posixAccount'],
      uid: `u${n}`,
      uidNumber: `${n}`,
      gidNumber: '5',
      homeDirectory: '/',
      cn: n % 5 === 0 ? `Many ${n}` : `Other ${n}`,
      sn: n % 5 === 0 ? `Many ${n % 2}` : 'Other',
    });
    await fixture.load(Array.from({ length: ENTRIES }, (_, n) => ({ dn: `uid=u${n},${SUFFIX}`, values: one(n) })));
    const { store, work: done } = counted(fixture.store);
    work = done;
    front = new Fixture(store, await Partition.open(store, testSchema()), undefined);
  });
  after(() => fixture.close());

  /** Of keys a page reads one more than it wants, and their entries, … */
  const KEYS = 2 * (PAGE + 1);
  /** … of lists 512 ids in all, and before it some by which it is told which lists are short. */
  const IDS = 512 + 64 + PAGE + 1;
  const cases: [name: string, filter: string, most: number][] = [
    ['a prefix', '(cn=many *)', KEYS],
    ['a range', `(uidNumber>=${ENTRIES - 1500})`, KEYS],
    ['an OR of prefixes', '(|(cn=many 1*)(cn=many 2*)(cn=many 3*)(cn=many 4*))', KEYS],
    ['an OR of a prefix and a list', '(|(cn=many 1*)(cn=many 2*)(sn=Many 0))', KEYS],
    ['an OR of lists', '(|(sn=Many 0)(sn=Many 1))', IDS],
    ['a prefix and a list', '(&(objectClass=person)(cn=many *))', KEYS],
  ];
  for (const [name, filter, most] of cases)
    it(`one of ${name} reads what it gives, wherever it is`, async () => {
      const page = async (pageSize: number, resume?: Buffer) => {
        const before = work.rows - (work.rowsOf.get(META_TABLE.name) ?? 0);
        const { dns, outcome } = await front.search({ filter, pageSize, ...(resume && { resume }) });
        expect(dns).to.have.length(pageSize);
        const rows = work.rows - (work.rowsOf.get(META_TABLE.name) ?? 0) - before;
        return { rows, resume: outcome.resume! };
      };
      // The first one plans: it counts up to 2,000 keys of each range.
      const second = await page(PAGE, (await page(PAGE)).resume);
      const far = await page(PAGE, (await page(600, second.resume)).resume);
      // Hundreds of entries are behind it and before it. Some keys may be met twice, and parents' rows are among them.
      for (const { rows } of [second, far]) expect(rows).to.be.at.most(most + 5);
    });
});
