import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import type { LdapError } from '../../src/ldap/ldap-error.js';
import { Partition } from '../../src/partition/index.js';
import { META_TABLE } from '../../src/partition/model/tables.js';
import { Schema } from '../../src/schema/schema.js';
import { counted, type StoreWork } from '../store/counted.js';
import { ENGINES, Fixture, openFixture, type Random, refused, SUFFIX, seeded, testSchema } from './fixture.js';
import { nearTests } from './near-engines.js';

const PEOPLE = `ou=people,${SUFFIX}`;

for (const engine of ENGINES) {
  describe(`search (${engine})`, () => {
    const near = nearTests(engine);
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
        for (let n = 0; n < (engine === 'hbase' ? 24 : 60); n++) {
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

      /** Units within one another, each with some people; gives the DNs of the units and of the people. */
      async function grow(root: string, random: Random): Promise<{ units: string[]; people: string[] }> {
        await fixture.add(root, { objectClass: 'organizationalUnit' });
        const units = [root];
        const people: string[] = [];
        for (let n = 0; n < 8; n++) {
          const unit = `ou=u${random.int(100)}${n},${random.pick(units)}`;
          await fixture.add(unit, { objectClass: 'organizationalUnit' });
          units.push(unit);
          for (let i = 0; i < 3; i++) {
            await fixture.person(`p${i}`, unit, { description: 'here' });
            people.push(`cn=p${i},${unit}`);
          }
        }
        return { units, people };
      }

      it('leave out nothing that stays where it is when a subtree is moved between them, or end with 53', async () => {
        await seeded(async (random) => {
          for (let round = 0; round < (engine === 'hbase' ? 3 : 12); round++) {
            const { units, people } = await grow(`ou=moves${round},${SUFFIX}`, random);
            const moved = random.pick(units.slice(1));
            const target = random.pick(units.filter((unit) => unit !== moved && !unit.endsWith(`,${moved}`)));
            const movesAfter = random.int(5);
            const given = { base: units[0]!, filter: '(description=here)', pageSize: 4 };
            const found: string[] = [];
            let resume: Buffer | undefined;
            let pages = 0;
            try {
              do {
                const page = await fixture.search({ ...given, ...(resume && { resume }) });
                found.push(...page.dns);
                resume = page.outcome.resume;
                if (pages++ === movesAfter) await fixture.rename(moved, 'ou=moved', { newSuperior: target });
              } while (resume);
            } catch (error) {
              expect((error as LdapError).message).to.match(/moved or renamed; start the search again/);
              continue;
            }
            const stayed = people.filter((dn) => !dn.endsWith(`,${moved}`));
            expect(found.filter((dn) => stayed.includes(dn)).sort()).to.deep.equal(stayed.sort());
          }
        });
      });

      it('end with 53 when the unit in which a page ended was moved', async () => {
        const root = `ou=three,${SUFFIX}`;
        await fixture.unit('three');
        for (const name of ['a', 'b', 'c']) {
          await fixture.unit(name, root);
          for (let n = 0; n < 5; n++)
            await fixture.person(`${name}${n}`, `ou=${name},${root}`, { description: 'here' });
        }
        const given = { base: root, filter: '(description=here)', pageSize: 3 };
        const { dns, outcome } = await fixture.search(given);
        expect(dns.every((dn) => dn.endsWith(`,ou=a,${root}`))).to.equal(true);
        await fixture.rename(`ou=b,${root}`, 'ou=b', { newSuperior: `ou=c,${root}` });
        const second = await fixture.search({ ...given, resume: outcome.resume! });
        expect(second.dns).to.deep.equal([3, 4].map((n) => `cn=a${n},ou=a,${root}`).concat(`cn=c0,ou=c,${root}`));
        await fixture.rename(`ou=c,${root}`, 'ou=other');
        const third = fixture.search({ ...given, resume: second.outcome.resume! });
        await refused('unwillingToPerform', third, /moved or renamed; start the search again/);
      });

      near('say so when the place to go on at is gone', async () => {
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

    it('pages of a range of octets that hold zero bytes: each entry exactly once at every size', async () => {
      const extra = mkdtempSync(join(tmpdir(), 'rowan-schema-'));
      let octets: Fixture | undefined;
      try {
        writeFileSync(
          join(extra, 'octets.ldif'),
          "dn: cn=schema\nattributeTypes: ( 1.3.6.1.4.1.99999.7.1 NAME 'octets' EQUALITY octetStringMatch" +
            ' ORDERING octetStringOrderingMatch SYNTAX 1.3.6.1.4.1.1466.115.121.1.40 )\n' +
            "objectClasses: ( 1.3.6.1.4.1.99999.7.2 NAME 'withOctets' AUXILIARY MUST octets )\n",
        );
        octets = await openFixture(engine, { schema: Schema.load({ extra: [extra] }) });
        await octets.partition.addIndex('octets', {});
        await octets.partition.buildIndexes();
        // What follows the zero byte stands below, between and above the ids, which begin with the time.
        const values = [[5], [5, 0, 0], [5, 0, 1], [5, 0, 1, 0x9b], [5, 0, 0x80], [5, 0, 0xff, 0], [6]];
        for (let n = 0; n < 28; n++) {
          await octets.add(`cn=o${n},${SUFFIX}`, {
            objectClass: ['person', 'withOctets'],
            sn: 'x',
            octets: values.slice(n % 7, (n % 7) + 1 + (n % 3)).map((value) => Buffer.from(value)),
          });
        }
        const from = { type: 'greaterOrEqual', attribute: 'octets', value: Buffer.from([5]) } as const;
        for (const pageSize of [1, 2, 3, 7, 27]) {
          const found: string[] = [];
          let resume: Buffer | undefined;
          do {
            const page = await octets.search({ filter: from, pageSize, ...(resume ? { resume } : {}) });
            found.push(...page.dns);
            resume = page.outcome.resume;
            expect(found.length).to.be.at.most(28);
          } while (resume);
          expect(new Set(found).size, `${pageSize}`).to.equal(28);
        }
      } finally {
        await octets?.close();
        rmSync(extra, { recursive: true });
      }
    });

    describe('limits', () => {
      let fixture: Fixture;
      before(async () => {
        fixture = await openFixture(engine);
        for (let n = 0; n < 30; n++) await fixture.person(`p${n}`);
      });
      after(() => fixture.close());

      near('of size: so many entries, then the error', async () => {
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
  /** … of lists 512 ids in all, and before it some of both by which it is told which lists are short. */
  const IDS = 512 + 2 * 64 + PAGE + 1;
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

  it('of lists some of which end before others hold every entry once', async () => {
    const few = Array.from({ length: 40 }, (_, n) => `(uid=u${n * 197 + 1})`).join('');
    const filter = `(|(sn=Many 0)${few})`;
    const wanted = await front.find(filter, {});
    for (const pageSize of [100, 300, 2000]) {
      const found: string[] = [];
      let resume: Buffer | undefined;
      do {
        const page = await front.search({ filter, pageSize, ...(resume && { resume }) });
        found.push(...page.dns);
        resume = page.outcome.resume;
      } while (resume);
      expect(found.sort()).to.deep.equal(wanted);
    }
  });
});
