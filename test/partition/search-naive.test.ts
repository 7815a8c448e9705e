import { expect } from 'chai';
import type { Filter } from '../../src/ldap/ldap-types.js';
import { UNRESTRICTED, type Viewer } from '../../src/partition/model/viewer.js';
import { rounds } from '../rounds.js';
import { change, ENGINES, type Fixture, hiding, OTHER, openFixture, Random, SUFFIX, viewedDn } from './fixture.js';
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

const PARTS = ['a', 'an', 'ann', 'ana', 'long', 'e', '1', '@ex', 'nan', 'm', 'ann ', ' lee', ' ba ', ' ', 'a n'];

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
      const part = () => Buffer.from(random.pick(PARTS));
      return {
        type: 'substring',
        attribute,
        initial: random.chance(0.4) ? part() : undefined,
        any: random.chance(0.5) ? Array.from({ length: 1 + random.int(2) }, part) : [],
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

/** An OR of many, of a few attributes, with ORs, NOTs and ANDs of such within it. */
function wideOr(random: Random, depth: number): Filter {
  const attributes = Array.from({ length: 1 + random.int(3) }, () => random.pick(WIDE));
  const item = (): Filter => {
    const attribute = random.pick(attributes);
    const value = Buffer.from(
      random.pick([
        random.pick(WORDS) || 'empty',
        `n${random.int(300)}`,
        `${random.int(40) - 10}`,
        `u${random.int(300)}`,
      ]),
    );
    if (random.chance(0.05)) return { type: 'greaterOrEqual', attribute, value };
    if (random.chance(0.1)) return { type: 'substring', attribute, initial: undefined, any: [value], final: undefined };
    return { type: random.chance(0.1) ? 'approx' : 'equal', attribute, value };
  };
  const inner = (): Filter => {
    const part = wideOr(random, depth - 1);
    return random.pick([part, part, { type: 'not', filter: part }, { type: 'and', filters: [part, item()] }]);
  };
  const filters = Array.from({ length: random.int(60) }, item);
  if (depth > 0) for (let n = random.int(3); n > 0; n--) filters.push(inner());
  const wide: Filter = { type: 'or', filters };
  // What several NOTs exclude.
  if (!random.chance(0.2)) return wide;
  return { type: 'and', filters: filters.slice(0, 20).map((filter) => ({ type: 'not', filter })) };
}

const WIDE = ['cn', 'sn', 'mail', 'uid', 'name', 'uidNumber', 'employeeNumber', 'description', 'nosuch', 'entryUUID'];

/** What pages may go through: lists, ranges, prefixes, ORs of them. */
function pagedFilter(random: Random, depth = 1): Filter {
  const number = () => Buffer.from(String(random.int(40) - 10));
  const ways: (() => Filter)[] = [
    () => ({ type: random.pick(['greaterOrEqual', 'lessOrEqual']), attribute: 'uidNumber', value: number() }),
    () => ({
      type: random.pick(['greaterOrEqual', 'lessOrEqual']),
      attribute: 'mail',
      value: Buffer.from(`m${random.int(250)}`),
    }),
    () =>
      begins(
        random.pick(['cn', 'sn', 'name', 'mail', 'givenName', 'description']),
        random.pick(['n', 'n1', 'a', 'de', 'm2', 'long']),
      ),
    () => ({ ...begins('cn', 'n'), any: [Buffer.from(random.pick(['1', '12', '123']))] }) as Filter,
    () => ({ type: 'present', attribute: random.pick(['mail', 'givenName', 'seeAlso', 'uid']) }),
    () => ({ type: 'equal', attribute: 'objectClass', value: Buffer.from(random.pick(['person', 'posixAccount'])) }),
    () => wideOr(random, 0),
    () => randomFilter(random, 1),
  ];
  const inner = () => pagedFilter(random, depth - 1);
  if (depth > 0 && random.chance(0.6)) {
    const filters = Array.from({ length: 2 + random.int(3) }, inner);
    return { type: random.pick(['or', 'or', 'and']), filters };
  }
  return random.pick(ways)();
}

function begins(attribute: string, text: string): Filter {
  return { type: 'substring', attribute, initial: Buffer.from(text), any: [], final: undefined };
}

async function plain(fixture: Fixture): Promise<PlainEntry[]> {
  const entries: PlainEntry[] = [];
  for (const base of [SUFFIX, OTHER]) {
    for (const dn of (await fixture.search({ base })).dns)
      entries.push({ dn, attributes: (await fixture.read(dn, true)).attributes });
  }
  return entries;
}

/** For attributes that take ASCII alone. */
function ascii(value: string): string {
  return value.replace(/[^ -~]/g, 'x');
}

/** Names of the attributes that a viewer may not search for in the entry with the DN. */
type Hides = (dn: string) => readonly string[];

const NOTHING: Hides = () => [];

/** Mostly nothing; now and then an attribute of all entries, or of each entry another one. */
function hiddenFrom(random: Random): Hides {
  const some = [random.pick(['sn', 'mail', 'cn'])];
  if (random.chance(0.2)) return () => some;
  const other = [random.pick(['name', 'sn', 'givenName']), random.pick(['description', 'objectClass', 'mail'])];
  return random.chance(0.2) ? (dn) => (dn.length % 3 === 0 ? some : dn.length % 3 === 1 ? other : []) : NOTHING;
}

function viewerWith(hides: Hides): Viewer {
  if (hides === NOTHING) return UNRESTRICTED;
  return hiding(({ name }, entry, use) => use === 'search' && hides(viewedDn(entry)).includes(name));
}

for (const engine of ENGINES) {
  /** Each takes HBase some twenty times as long. */
  const filters = engine === 'hbase' ? rounds(50, 400) : rounds(75, 400);
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
          const filter = random.chance(0.15) ? wideOr(random, 2) : randomFilter(random, 3);
          const base = random.pick(bases);
          const scope = random.pick(['base', 'one', 'sub', 'sub', 'sub', 'subordinate'] as const);
          const hides = hiddenFrom(random);
          const wanted = entries
            .filter(
              (e) =>
                inScope(fixture, e.dn, base, scope) && naive(fixture.partition.schema, filter, e, hides(e.dn)) === true,
            )
            .map((e) => e.dn);
          const found = await fixture.find(filter, { base, scope, viewer: viewerWith(hides) });
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

      /** Those whose values change while pages are read may come or not. */
      async function comparePages(rounds: number): Promise<void> {
        const moving = entries.filter(({ dn }) => /^cn=n\d*7,/.test(dn)).map(({ dn }) => dn);
        const write = async (): Promise<void> => {
          const dn = random.pick(moving);
          const value = random.pick(WORDS) || 'empty';
          const name = random.pick(['mail', 'givenName', 'description', 'employeeNumber']);
          await fixture.modify(dn, change('replace', name, ascii(value)));
        };
        for (let n = 0; n < rounds; n++) {
          const filter = pagedFilter(random);
          const base = random.pick([SUFFIX, SUFFIX, PEOPLE, '']);
          const scope = random.pick(['one', 'sub', 'sub', 'subordinate'] as const);
          const wanted = entries
            .filter(({ dn }) => !moving.includes(dn))
            .filter(
              (e) => inScope(fixture, e.dn, base, scope) && naive(fixture.partition.schema, filter, e, []) === true,
            )
            .map((e) => e.dn);
          const found: string[] = [];
          let resume: Buffer | undefined;
          const pageSize = random.pick([3, 7, 40, 100]);
          do {
            const page = await fixture.search({ filter, base, scope, pageSize, ...(resume && { resume }) });
            found.push(...page.dns);
            resume = page.outcome.resume;
            if (resume && random.chance(0.3)) await write();
          } while (resume);
          const context = `ROWAN_SEED=${random.seed} pages of ${pageSize} ${base} ${scope} ${JSON.stringify(filter, (_, v) => (v?.type === 'Buffer' ? Buffer.from(v.data).toString() : v))}`;
          const still = found.filter((dn) => !moving.includes(dn));
          expect(still.sort(), context).to.deep.equal(wanted.sort());
        }
        entries = await plain(fixture);
      }

      it('finds the same page by page while others write', () => comparePages(filters / 8));

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
