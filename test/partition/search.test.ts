import { expect } from 'chai';
import { parseFilter } from '../../src/ldap/filter-text.js';
import type { Filter } from '../../src/ldap/types.js';
import { change, ENGINES, type Fixture, OTHER, openFixture, Random, refused, SUFFIX, seeded } from './fixture.js';
import { naive, type PlainEntry } from './naive.js';

const PEOPLE = `ou=people,${SUFFIX}`;
const WORDS = [
  'ann',
  'bob',
  'Ann Lee',
  'O’Neil',
  'x',
  '',
  'aaa',
  'Zoë',
  'a*b',
  'naïve',
  '10',
  '9',
  '-5',
  'ba nana',
  'BANANA',
];

/** Some entries of every shape below ou=people and o=other. */
async function populate(fixture: Fixture, random: Random, count: number): Promise<void> {
  await fixture.unit('people');
  await fixture.unit('groups');
  await fixture.add(OTHER, { objectClass: 'organization', o: 'other' });
  const parents = [PEOPLE, `ou=groups,${SUFFIX}`, OTHER, SUFFIX];
  for (let n = 0; n < count; n++) {
    const parent = random.pick(parents);
    const word = () => random.pick(WORDS) || 'empty';
    const values: Record<string, string[]> = { objectClass: ['inetOrgPerson'], sn: [word()], cn: [`n${n}`] };
    const maybe = (p: number, name: string, make: () => string[]) => {
      if (random.chance(p)) values[name] = [...new Set(make().map((v) => v.toLowerCase()))];
    };
    maybe(0.5, 'mail', () => [`${n % 7}@example.com`, `m${n}@x.org`]);
    maybe(0.4, 'givenName', () => [word(), word()]);
    maybe(0.3, 'description', () => [word(), `${word()} ${word()}`]);
    maybe(0.2, 'cn;lang-de', () => [`de ${word()}`]);
    maybe(0.2, 'employeeNumber', () => [String(random.int(30))]);
    if (random.chance(0.3)) {
      values.objectClass!.push('posixAccount');
      Object.assign(values, {
        uid: [`u${n}`],
        uidNumber: [String(random.int(40) - 10)],
        gidNumber: ['5'],
        homeDirectory: ['/'],
      });
    }
    if (random.chance(0.1)) values.seeAlso = [random.pick(parents), `cn=n${random.int(count)},${PEOPLE}`];
    if (random.chance(0.05)) values.description = ['long '.repeat(200 + random.int(3)) + word()];
    const dn = `cn=n${n},${parent}`;
    await fixture.add(dn, values);
    if (random.chance(0.1)) parents.push(dn);
  }
}

function randomFilter(random: Random, depth: number): Filter {
  const kind = depth > 0 ? random.int(10) : 3 + random.int(7);
  const value = () => Buffer.from(random.pick(WORDS) || 'empty');
  const attribute = random.pick([
    'cn',
    'sn',
    'mail',
    'givenName',
    'description',
    'employeeNumber',
    'uidNumber',
    'name',
    'cn;lang-de',
    'seeAlso',
    'objectClass',
    'nosuch',
    'title',
    'jpegPhoto',
  ]);
  switch (kind) {
    case 0:
    case 1:
      return {
        type: kind ? 'and' : 'or',
        filters: Array.from({ length: random.int(4) }, () => randomFilter(random, depth - 1)),
      };
    case 2:
      return { type: 'not', filter: randomFilter(random, depth - 1) };
    case 3:
      return { type: 'present', attribute };
    case 4:
      return { type: 'approx', attribute, value: value() };
    case 5:
    case 6:
      return {
        type: random.pick(['greaterOrEqual', 'lessOrEqual']),
        attribute,
        value: random.chance(0.5) ? Buffer.from(String(random.int(40) - 10)) : value(),
      };
    case 7: {
      const part = () => Buffer.from(random.pick(['a', 'an', 'ann', 'ana', 'long', 'e', '1', '@ex', 'nan', 'm']));
      return {
        type: 'substring',
        attribute,
        initial: random.chance(0.4) ? part() : undefined,
        any: random.chance(0.5) ? [part()] : [],
        final: random.chance(0.3) ? part() : undefined,
      };
    }
    case 8:
      return {
        type: 'equal',
        attribute: random.pick(['mail', 'objectClass', 'uidNumber', 'employeeNumber']),
        value: Buffer.from(random.pick(['3@example.com', 'person', 'posixAccount', '7', '12', 'bad value'])),
      };
    default:
      return { type: 'equal', attribute, value: value() };
  }
}

async function plain(fixture: Fixture): Promise<PlainEntry[]> {
  const entries: PlainEntry[] = [];
  for (const base of [SUFFIX, OTHER]) {
    for (const dn of (await fixture.search({ base })).dns)
      entries.push({ dn, attributes: (await fixture.read(dn, true)).attributes });
  }
  return entries;
}

for (const engine of ENGINES) {
  describe(`search (${engine})`, () => {
    describe('against a naive evaluator', () => {
      let fixture: Fixture;
      let random: Random;
      let entries: PlainEntry[];
      before(async () => {
        fixture = await openFixture(engine);
        random = new Random();
        await populate(fixture, random, 250);
        entries = await plain(fixture);
      });
      after(() => fixture.close());

      async function compareAll(rounds: number, what: string): Promise<void> {
        const bases = [SUFFIX, PEOPLE, OTHER, '', ...entries.slice(0, 5).map((e) => e.dn)];
        for (let n = 0; n < rounds; n++) {
          const filter = randomFilter(random, 3);
          const base = random.pick(bases);
          const scope = random.pick(['base', 'one', 'sub', 'sub', 'sub', 'subordinate'] as const);
          const hides = random.chance(0.2) ? [random.pick(['sn', 'mail', 'cn'])] : [];
          const wanted = entries
            .filter(
              (e) => inScope(fixture, e.dn, base, scope) && naive(fixture.partition.schema, filter, e, hides) === true,
            )
            .map((e) => e.dn);
          const found = await fixture.find(filter, { base, scope, hides });
          const context = `ROWAN_SEED=${random.seed} ${what} ${base} ${scope} ${JSON.stringify(filter, (_, v) => (v?.type === 'Buffer' ? Buffer.from(v.data).toString() : v))}`;
          expect(found, context).to.deep.equal(wanted.sort());
        }
      }

      it('finds the same with the default indexes', () => compareAll(400, 'default'));

      it('finds the same with indexes on everything, for substrings too', async () => {
        for (const name of ['cn', 'sn', 'givenName', 'mail', 'description', 'employeeNumber'])
          await fixture.partition.addIndex(name, { substring: true });
        for (const name of ['seeAlso', 'title']) await fixture.partition.addIndex(name, {});
        await fixture.partition.buildIndexes();
        await fixture.expectClean();
        await compareAll(400, 'all indexes');
      });

      it('finds the same without indexes', async () => {
        for (const { attribute } of fixture.partition.indexes()) {
          if (!['objectClass', 'entryUUID'].includes(attribute)) await fixture.partition.dropIndex(attribute);
        }
        expect(
          fixture.partition
            .indexes()
            .map((i) => i.attribute)
            .sort(),
        ).to.deep.equal(['entryUUID', 'objectClass']);
        await fixture.expectClean();
        await compareAll(400, 'no indexes');
      });
    });

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
        await refused('timeLimitExceeded', fixture.search({ filter: '(description=x)', deadline: Date.now() - 1 }));
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

    describe('scopes and bases', () => {
      let fixture: Fixture;
      beforeEach(async () => {
        fixture = await openFixture(engine);
        await fixture.unit('people');
        await fixture.person('ann', PEOPLE);
      });
      afterEach(() => fixture.close());

      it('the virtual root has the suffixes below it', async () => {
        await fixture.add(OTHER, { objectClass: 'organization', o: 'other' });
        expect(await fixture.find('(objectClass=*)', { base: '', scope: 'base' })).to.deep.equal([]);
        expect(await fixture.find('(objectClass=*)', { base: '', scope: 'one' })).to.deep.equal([SUFFIX, OTHER]);
        expect(await fixture.find('(objectClass=*)', { base: '', scope: 'sub' })).to.have.length(4);
        expect(await fixture.find('(cn=ann)', { base: '', scope: 'subordinate' })).to.deep.equal([`cn=ann,${PEOPLE}`]);
      });

      it('base, one, sub and subordinate', async () => {
        expect(await fixture.find('(objectClass=*)', { base: PEOPLE, scope: 'base' })).to.deep.equal([PEOPLE]);
        expect(await fixture.find('(cn=*)', { base: PEOPLE, scope: 'base' })).to.deep.equal([]);
        expect(await fixture.find('(objectClass=*)', { scope: 'one' })).to.deep.equal([PEOPLE]);
        expect(await fixture.find('(objectClass=*)', { scope: 'sub' })).to.deep.equal([
          `cn=ann,${PEOPLE}`,
          SUFFIX,
          PEOPLE,
        ]);
        expect(await fixture.find('(objectClass=*)', { scope: 'subordinate' })).to.deep.equal([
          `cn=ann,${PEOPLE}`,
          PEOPLE,
        ]);
      });

      it('a base that is not there says how far the name goes, whatever the plan', async () => {
        for (const scope of ['base', 'one', 'sub', 'subordinate'] as const) {
          for (const filter of ['(cn=ann)', '(objectClass=*)', '(nosuch=1)', '(description=*)']) {
            const error = await refused('noSuchObject', fixture.search({ base: `cn=x,ou=y,${PEOPLE}`, scope, filter }));
            expect(error.matchedDN).to.equal(PEOPLE);
            await refused('noSuchObject', fixture.search({ base: 'o=elsewhere', scope, filter }));
            await refused('noSuchObject', fixture.search({ base: OTHER, scope, filter }));
          }
        }
      });

      it('computed attributes can be searched', async () => {
        expect(await fixture.find(`(entryDN=${PEOPLE.toUpperCase()})`)).to.deep.equal([PEOPLE]);
        expect(await fixture.find('(hasSubordinates=FALSE)')).to.deep.equal([`cn=ann,${PEOPLE}`]);
        expect(await fixture.find('(numSubordinates=1)')).to.deep.equal([SUFFIX, PEOPLE]);
        expect(await fixture.find('(subschemaSubentry=cn=Subschema)')).to.have.length(3);
        const { id } = await fixture.read(PEOPLE);
        const uuid = id.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
        expect(await fixture.find(`(entryUUID=${uuid.toUpperCase()})`)).to.deep.equal([PEOPLE]);
        expect(await fixture.find(`(&(entryUUID=${uuid})(cn=ann))`)).to.deep.equal([]);
        expect(await fixture.find(`(|(entryUUID=${uuid})(cn=ann))`)).to.deep.equal([`cn=ann,${PEOPLE}`, PEOPLE]);
        expect(await fixture.find('(entryUUID=*)')).to.have.length(3);
        expect(await fixture.find('(!(entryUUID=nonsense))')).to.deep.equal([]);
      });

      it('extensible matches, and those that are undefined', async () => {
        await fixture.modify(
          `cn=ann,${PEOPLE}`,
          change('add', 'employeeNumber', 'X1'),
          change('add', 'seeAlso', PEOPLE),
        );
        const found = (filter: string) => fixture.find(filter);
        const ann = [`cn=ann,${PEOPLE}`];
        expect(await found('(cn:caseExactMatch:=ann)')).to.deep.equal(ann);
        expect(await found('(cn:caseExactMatch:=Ann)')).to.deep.equal([]);
        expect(await found('(cn:=ANN)')).to.deep.equal(ann);
        expect(await found('(:caseIgnoreMatch:=x1)')).to.deep.equal(ann);
        expect(await found('(ou:dn:=people)')).to.deep.equal([...ann, PEOPLE]);
        expect(await found('(ou:dn:caseIgnoreMatch:=PEOPLE)')).to.deep.equal([...ann, PEOPLE]);
        expect(await found('(:dn:caseIgnoreMatch:=people)')).to.deep.equal([...ann, PEOPLE]);
        for (const undefinedTerm of [
          '(cn:noSuchRule:=x)',
          '(:1.2.3.4.5:=x)',
          '(nosuch:=x)',
          '(userPassword=x)',
          '(userPassword=*)',
          '(jpegPhoto>=x)',
          '(uidNumber=x)',
        ]) {
          expect(await found(undefinedTerm), undefinedTerm).to.deep.equal([]);
          expect(await found(`(!${undefinedTerm})`), `not ${undefinedTerm}`).to.deep.equal([]);
          expect(await found(`(|${undefinedTerm}(cn=ann))`), `or ${undefinedTerm}`).to.deep.equal(ann);
          expect(await found(`(&${undefinedTerm}(cn=ann))`), `and ${undefinedTerm}`).to.deep.equal([]);
          expect(await found(`(!(&${undefinedTerm}(cn=bob)))`), `nand ${undefinedTerm}`).to.have.length(3);
        }
        expect(await found('(&)')).to.have.length(3);
        expect(await found('(|)')).to.deep.equal([]);
      });

      it('assertions of the wrong form match nothing and harm nothing', async () => {
        const garbage = [
          '',
          '\\00',
          '\\ff\\fe',
          '\\30\\82\\ff\\ff',
          '{ serialNumber 1 }',
          '{ serialNumber 1, issuer "',
          '\\30\\80\\00\\00',
          '*',
        ];
        for (const attribute of [
          'userCertificate',
          'cACertificate',
          'certificateRevocationList;binary',
          'entryUUID',
          'entryCSN',
          'authzFrom',
          'authzTo',
          'modifyTimestamp',
          'member',
          'uniqueMember',
          'x500UniqueIdentifier',
          'facsimileTelephoneNumber',
        ]) {
          for (const value of garbage) {
            for (const op of ['=', '>=', '<=', ':=', ':certificateExactMatch:=', ':2.5.13.35:=']) {
              const text = value === '*' && op !== '=' ? '' : value;
              if (text === '' && op === '=') continue;
              const found = await fixture.find(`(${attribute}${op}${text})`);
              expect(found.length, `${attribute}${op}${text}`).to.be.at.most(3);
            }
          }
        }
      });

      it('deep filters are evaluated', async () => {
        let filter = parseFilter('(cn=ann)');
        for (let n = 0; n < 90; n++)
          filter =
            n % 2
              ? { type: 'not', filter }
              : { type: 'and', filters: [filter, { type: 'present', attribute: 'objectClass' }] };
        expect(await fixture.find(filter)).to.have.length.at.least(1);
      });
    });

    describe('indexes dropped under a search', () => {
      it('plans again, or says so', async () => {
        const fixture = await openFixture(engine);
        await fixture.unit('people');
        for (let n = 0; n < 300; n++) await fixture.person(`p${n}`, PEOPLE, { givenName: 'same' });
        const wanted = await fixture.find('(givenName=same)');
        const first = fixture.search({ filter: '(givenName=same)' });
        await fixture.partition.dropIndex('givenName');
        expect((await first).dns.sort()).to.deep.equal(wanted);
        expect(await fixture.find('(givenName=same)')).to.deep.equal(wanted);
        await fixture.partition.addIndex('givenName', {});
        await fixture.partition.buildIndexes();
        let seen = 0;
        const slow = Promise.resolve(
          fixture.partition.search(fixture.params({ filter: '(givenName=same)' }), {
            entry: async () => {
              if (++seen === 3) await fixture.partition.dropIndex('givenName');
            },
            reference: () => undefined,
          }),
        );
        await slow.catch((error) => expect(error.result).to.equal('unavailable'));
        expect(seen).to.be.greaterThan(2);
        expect(await fixture.find('(givenName=same)')).to.deep.equal(wanted);
        await fixture.expectClean();
        await fixture.close();
      });
    });
  });
}

function inScope(fixture: Fixture, dn: string, base: string, scope: 'base' | 'one' | 'sub' | 'subordinate'): boolean {
  const entry = fixture.dn(dn);
  const depth = fixture.dn(base).rdns.length;
  const suffix = base === '' ? '' : fixture.dn(base).norm.toString('latin1');
  // The suffixes stand right below the virtual root, however long their names are.
  const own = base === '' ? (dn === SUFFIX || dn === OTHER ? 1 : 2) : entry.rdns.length - depth;
  const norm = entry.norm.toString('latin1');
  const below = base === '' || norm === suffix || norm.endsWith(`,${suffix}`);
  if (!below || own < 0) return false;
  if (scope === 'base') return own === 0;
  if (scope === 'one') return own === 1;
  return scope === 'sub' || own > 0;
}
