import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import { ENGINES, type Fixture, openFixture, type Random, refused, SUFFIX, seeded } from './fixture.js';

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
