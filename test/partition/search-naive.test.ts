import { expect } from 'chai';
import type { Filter } from '../../src/ldap/types.js';
import { ENGINES, type Fixture, OTHER, openFixture, Random, SUFFIX } from './fixture.js';
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
    if (random.chance(0.1)) values.seeAlso = [random.pick(parents), `cn=n${random.int(count)},o=nowhere`];
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
  /** Each takes HBase some twenty times as long. */
  const filters = engine === 'hbase' && !process.env.ROWAN_SOAK ? 120 : 400;
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

      it('finds the same with the default indexes', () => compareAll(filters, 'default'));

      it('finds the same with indexes on everything, for substrings too', async () => {
        for (const name of ['cn', 'sn', 'givenName', 'mail', 'description', 'employeeNumber'])
          await fixture.partition.addIndex(name, { substring: true });
        for (const name of ['seeAlso', 'title']) await fixture.partition.addIndex(name, {});
        await fixture.partition.buildIndexes();
        await fixture.expectClean();
        await compareAll(filters, 'all indexes');
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
        await compareAll(filters, 'no indexes');
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
