import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import type { LoadEntry } from '../../src/partition/model/directory-types.js';
import { CHANGES_TABLE, MASTER, MASTER_TABLE, TREE_TABLE } from '../../src/partition/model/tables.js';
import type { Store } from '../../src/store/contract.js';
import { isPromise } from '../../src/store/maybe.js';
import { unpackRow } from '../../src/store/row.js';
import {
  attributes,
  Fixture,
  openFixture,
  Random,
  SUFFIX,
  SYSTEM,
  seeded,
  testSchema,
  type Values,
} from './fixture.js';

const STAMP = '20260101000000Z';

/** What the server would make of its own is given, so that a load and adds can leave the same. */
function operational(random: Random, n: number): Values {
  const id = `${random.int(2) === 0 ? '0' : 'f'}${String(n).padStart(7, '0')}-0000-7000-8000-000000000000`;
  return {
    entryUUID: id,
    entryCSN: `20260101000000.${String(n).padStart(6, '0')}Z#000000#000#000000`,
    createTimestamp: STAMP,
    modifyTimestamp: STAMP,
    creatorsName: SYSTEM.dn,
    modifiersName: random.int(8) === 0 ? 'cn=Other, DC=Example,dc=com' : SYSTEM.dn,
  };
}

const WORDS = ['Ann', 'bo B', '  Čeněk ', 'x'.repeat(600), `${'x'.repeat(600)}y`, 'a,b+c', 'Ann', '\u{1f600}'];

function someValues(random: Random): string[] {
  const values = new Set<string>();
  for (let i = 1 + random.int(3); i > 0; i--) values.add(random.pick(WORDS));
  return [...values].filter((v, i, all) => all.findIndex((w) => w.trim() === v.trim()) === i);
}

function person(random: Random, n: number, parent: string): { dn: string; values: Values } {
  const name = random.int(6) === 0 ? `${WORDS[random.int(3)]!.trim()} ${n}` : `person ${n}`;
  const values: Record<string, Values[string]> = {
    objectClass: random.int(3) === 0 ? 'inetOrgPerson' : ['top', 'person', 'organizationalPerson', 'inetOrgPerson'],
    [random.int(5) === 0 ? 'SN' : 'sn']: someValues(random),
  };
  if (random.int(2) === 0) values.cn = name;
  if (random.int(2) === 0) values.mail = `${n}@Example.com`;
  if (random.int(3) === 0) values.description = someValues(random);
  if (random.int(4) === 0) values['description;lang-de'] = 'Ann';
  if (random.int(4) === 0) values.userPassword = 'secret';
  if (random.int(20) === 0) values.jpegPhoto = Buffer.alloc(70_000 + n, n);
  if (random.int(20) === 0) values.telephoneNumber = Array.from({ length: 300 }, (_, i) => `+1 ${n} ${i}`);
  return { dn: `cn=${name},${parent}`, values: { ...values, ...operational(random, n) } };
}

function someEntries(random: Random, count: number): { dn: string; values: Values }[] {
  const units = [SUFFIX];
  return Array.from({ length: count }, (_, n) => {
    const parent = random.pick(units);
    if (random.int(10) > 0) return person(random, n, parent);
    const dn = `ou=Unit ${n},${parent}`;
    units.push(dn);
    return { dn, values: { objectClass: 'organizationalUnit', ou: `unit ${n}`, ...operational(random, n) } };
  });
}

/** Every row of a table as text, without the cells named. */
async function rowsOf({ store }: Fixture, table: string, skip: ReadonlySet<string>): Promise<string[]> {
  const rows: string[] = [];
  const scan = store.scan(table, {});
  for (;;) {
    const next = scan.next();
    const batch = isPromise(next) ? await next : next;
    if (!batch) return rows;
    for (const [i, key] of batch.keys.entries()) {
      const cells = unpackRow(batch.rows[i]!).filter(({ qualifier }) => !skip.has(qualifier.toString('latin1')));
      rows.push(
        [
          key.toString('hex'),
          ...cells.map((c) => [c.family, c.qualifier.toString('latin1'), c.value.toString('hex')].join(' ')),
        ].join('\n'),
      );
    }
  }
}

async function filled(engine: 'memory' | 'lmdb'): Promise<Fixture> {
  const fixture = await openFixture(engine);
  await fixture.partition.addIndex('cn', { substring: true });
  await fixture.partition.buildIndexes();
  // The suffix too is to be the same in both.
  await fixture.delete(SUFFIX);
  const values = { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' };
  await fixture.add(SUFFIX, { ...values, ...operational(new Random(1), 999_999) }, SYSTEM);
  return fixture;
}

for (const engine of ['memory', 'lmdb'] as const) {
  describe(`bulk load (${engine})`, () => {
    it('leaves the same bytes in every table as adds do', () => seeded(leavesTheSame(engine)));

    for (const goesOn of [true, false])
      it(`gives the store no batch below an entry that is refused, ${goesOn ? 'and goes on' : 'and ends'}`, async () => {
        const fixture = await openFixture(engine);
        const { store, ingested } = ingests(fixture.store);
        const given = [unit('there'), ...devices(`ou=there,${SUFFIX}`)];
        expect(await load(fixture, given)).to.deep.equal([]);
        const again = new Fixture(store, await Partition.open(store, testSchema()), undefined);
        const rejects = await load(again, given, goesOn);
        expect(rejects[0]).to.equal('1: entryAlreadyExists: there is an entry with this name already');
        expect(rejects).to.have.length(goesOn ? given.length : 1);
        expect(ingested()).to.equal(1);
        await fixture.close();
      });

    it('refuses an entry that brings the entryUUID of another one, however close behind it', async () => {
      const fixture = await openFixture(engine);
      const id = '0000abcd-0000-7000-8000-000000000000';
      const same = (cn: string, entryUUID: string): Given => ({
        dn: `cn=${cn},${SUFFIX}`,
        values: { objectClass: 'device', entryUUID },
      });
      const given = [same('a', id), same('b', id.toUpperCase()), ...devices(SUFFIX), same('c', id)];
      expect(await load(fixture, given)).to.deep.equal([
        '2: entryAlreadyExists: an entry with this entryUUID came before',
        `${given.length}: entryAlreadyExists: there is an entry with this entryUUID already`,
      ]);
      expect(await fixture.find('(|(cn=a)(cn=b)(cn=c)(cn=2099))')).to.have.length(2);
      await fixture.expectClean();
      await fixture.close();
    });

    it('stores nothing that comes behind the entry at which it ends, however many batches are on their way', async () => {
      const fixture = await openFixture(engine);
      await load(fixture, [unit('there')]);
      expect(await load(fixture, [unit('there'), ...devices(SUFFIX, 4500)], false)).to.have.length(1);
      expect(await fixture.find('(objectClass=device)')).to.deep.equal([]);
      await fixture.close();
    });
  });
}

function leavesTheSame(engine: 'memory' | 'lmdb') {
  return async (random: Random): Promise<void> => {
    const given = someEntries(random, 120);
    const [added, loaded] = [await filled(engine), await filled(engine)];
    for (const { dn, values } of given) await added.add(dn, values, SYSTEM);
    expect(await load(loaded, given)).to.deep.equal([]);
    for (const table of [MASTER_TABLE.name, TREE_TABLE.name, CHANGES_TABLE.name, ...(await indexTables(added))]) {
      const skip = new Set(table === CHANGES_TABLE.name ? ['time', 'id', 'csn'] : []);
      expect(await rowsOf(loaded, table, skip), table).to.deep.equal(await rowsOf(added, table, skip));
    }
    for (const { values } of given) {
      const key = Buffer.from(String(values.entryUUID).replaceAll('-', ''), 'hex');
      const cells = [added, loaded].map(({ store }) =>
        store.getCells(MASTER_TABLE.name, key, MASTER.largeValues, Buffer.alloc(0)),
      );
      const [a, b] = await Promise.all(cells);
      expect(a?.toString('hex') === b?.toString('hex'), String(values.entryUUID)).to.equal(true);
    }
    await loaded.expectClean();
    await added.close();
    await loaded.close();
  };
}

interface Given {
  readonly dn: string;
  readonly values: Values;
}

function unit(ou: string): Given {
  return { dn: `ou=${ou},${SUFFIX}`, values: { objectClass: 'organizationalUnit', ou } };
}

/** More than one batch. */
function devices(parent: string, length = 2100): Given[] {
  return Array.from({ length }, (_, n) => ({ dn: `cn=${n},${parent}`, values: { objectClass: 'device' } }));
}

/** The store, and how many batches it was given. */
function ingests(inner: Store): { readonly store: Store; ingested(): number } {
  let count = 0;
  const store = new Proxy(inner, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown;
      if (typeof member !== 'function') return member;
      return (...args: unknown[]) => {
        if (name === 'ingest') count++;
        return Reflect.apply(member, target, args) as unknown;
      };
    },
  });
  return { store, ingested: () => count };
}

/** Loads the entries, a few at a time; gives what was refused. */
async function load({ partition }: Fixture, given: readonly Given[], goesOn = true): Promise<string[]> {
  async function* chunks() {
    for (let at = 0; at < given.length; at += 40) {
      const part = given.slice(at, at + 40);
      yield part.map(({ dn, values }, i): LoadEntry => ({ line: at + i + 1, dn, attributes: attributes(values) }));
    }
  }
  const rejects: string[] = [];
  await partition.load(chunks(), SYSTEM, {
    continue: goesOn,
    onReject: ({ entry, reason }) => rejects.push(`${entry.line}: ${reason}`),
  });
  return rejects;
}

async function indexTables({ store }: Fixture): Promise<string[]> {
  const names = (await store.tables()).map(({ name }) => name).filter((name) => name.startsWith('index_'));
  expect(names.length).to.be.greaterThan(10);
  return names;
}
