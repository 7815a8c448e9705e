import { expect } from 'chai';
import { LdapError, type ResultName } from '../../src/ldap/ldap-error.js';
import type { Scope } from '../../src/ldap/ldap-types.js';
import { parseLdapUrl } from '../../src/ldap/ldap-url.js';
import { Partition, UNRESTRICTED } from '../../src/partition/index.js';
import { GROUPS_KEY, GROUPS_STEP } from '../../src/partition/model/group-rows.js';
import { META_TABLE } from '../../src/partition/model/tables.js';
import { add } from '../../src/partition/write/add.js';
import { RULES } from '../../src/partition/write/rules/index.js';
import type { Plan, Store } from '../../src/store/contract.js';
import { cellCounter } from '../../src/store/row.js';
import { rounds } from '../rounds.js';
import { counted } from '../store/counted.js';
import {
  ACTOR,
  attributes,
  change,
  ENGINES,
  Fixture,
  openFixture,
  type Random,
  SUFFIX,
  SYSTEM,
  seeded,
  testSchema,
  type Values,
} from './fixture.js';
import { nearTests } from './near-engines.js';

const PEOPLE = `ou=people,${SUFFIX}`;
const GROUPS = `ou=groups,${SUFFIX}`;

/** DNs of groups as `groupsOf` names them. */
function names(fixture: Fixture, dns: Iterable<string>): string[] {
  return [...dns].map((dn) => fixture.dn(dn).norm.toString('latin1')).sort();
}

async function groupsOf({ partition }: Fixture, dn: string): Promise<string[]> {
  const { id } = await partition.read(partition.schema.parseDn(dn), { manageDsaIT: true });
  return [...(await partition.groupsOf({ id, dn: partition.schema.parseDn(dn) }))].sort();
}

async function group(fixture: Fixture, cn: string, ...member: string[]): Promise<string> {
  const dn = `cn=${cn},${GROUPS}`;
  await fixture.add(dn, { objectClass: 'groupOfNames', cn, member });
  return dn;
}

async function dynamic(fixture: Fixture, cn: string, ...memberURL: string[]): Promise<string> {
  const dn = `cn=${cn},${GROUPS}`;
  await fixture.add(dn, { objectClass: 'groupOfURLs', cn, memberURL });
  return dn;
}

describe('LDAP URLs', () => {
  it('LDAP URLs are parsed, percent-decoded, with the defaults of RFC 4516', () => {
    expect(parseLdapUrl('ldap:///o=A%20B,c=de??sub?(cn=%2a%3f)')).to.deep.equal({
      host: '',
      dn: 'o=A B,c=de',
      attributes: [],
      scope: 'sub',
      filter: '(cn=*?)',
      criticalExtensions: [],
    });
    expect(parseLdapUrl('LDAPS://host:636/o=x?cn,sn?ONE??x=1,!y=2')).to.deep.equal({
      host: 'host:636',
      dn: 'o=x',
      attributes: ['cn', 'sn'],
      scope: 'one',
      filter: '(objectClass=*)',
      criticalExtensions: ['!y=2'],
    });
    expect(parseLdapUrl('ldap://')).to.include({ host: '', dn: '', scope: 'base' });
  });

  it('LDAP URLs with a wrong scheme, scope or percent code are not parsed', () => {
    for (const text of ['http:///o=x', 'ldap:/o=x', 'ldap:///o=x??down', 'ldap:///o=%zz', 'ldap:///o=x?a?sub?f?e?more'])
      expect(parseLdapUrl(text), text).to.equal(undefined);
  });
});

for (const engine of ENGINES) {
  describe(`groups (${engine})`, () => {
    const near = nearTests(engine);
    let fixture: Fixture;
    const ann = `cn=ann,${PEOPLE}`;
    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      await fixture.unit('groups');
      await fixture.person('ann', PEOPLE, { title: 'boss' });
    });
    afterEach(() => fixture.close());

    const version = () => fixture.partition.groupsVersion();
    const expectGroups = async (dn: string, ...dns: string[]) =>
      expect(await groupsOf(fixture, dn)).to.deep.equal(names(fixture, dns));

    near('groups of an entry include all that name it in any notation, and groups that name these', async () => {
      const a = await group(fixture, 'a', 'CN=Ann ,  OU=people,dc=Example,dc=com');
      const b = await group(fixture, 'b', a.toUpperCase(), `cn=nobody,${PEOPLE}`);
      const c = await group(fixture, 'c', b);
      await group(fixture, 'd', `cn=nobody,${PEOPLE}`);
      await expectGroups(ann, a, b, c);
      await expectGroups(b, c);
      await expectGroups(c);
    });

    near('nested groups end at a cycle', async () => {
      const [a, b] = [`cn=a,${GROUPS}`, `cn=b,${GROUPS}`];
      await group(fixture, 'a', b, ann);
      await group(fixture, 'b', a);
      await expectGroups(ann, a, b);
      await expectGroups(a, a, b);
    });

    near('groups name members with a UID, in names of any length', async () => {
      for (const n of [1, 400, 505, 508, 509, 510, 511, 512, 513, 514, 700]) {
        const rest = `,${PEOPLE}`;
        const bare = fixture.dn(`cn=x${rest}`).norm.length - 1;
        const cn = 'x'.repeat(Math.max(1, n - bare));
        const dn = `cn=${cn}${rest}`;
        await fixture.person(cn, PEOPLE);
        const found: string[] = [];
        for (const [i, uid] of ['', "#'0101'B", "#''B"].entries()) {
          const name = `cn=${n}-${i},${GROUPS}`;
          const values = { objectClass: 'groupOfUniqueNames', cn: `${n}-${i}`, uniqueMember: `${dn}${uid}` };
          await fixture.add(name, values);
          found.push(name);
        }
        const longer = { objectClass: 'groupOfUniqueNames', cn: `${n}-o`, uniqueMember: `${dn},o=more#'0101'B` };
        await fixture.add(`cn=${n}-o,${GROUPS}`, longer);
        await expectGroups(dn, ...found);
      }
    });

    near('groups name members with a UID in a directory of an older version that did not count them', async () => {
      const dn = `cn=u,${GROUPS}`;
      await fixture.add(dn, { objectClass: 'groupOfUniqueNames', cn: 'u', uniqueMember: `${ann}#'1'B` });
      const step = { table: META_TABLE.name, key: GROUPS_KEY, deleteRow: true };
      await fixture.store.commit({ steps: [step], decisive: 0 });
      await expectGroups(ann, dn);
    });

    near('groups name members with a UID from a modify, a restore and a load', async () => {
      const dn = `cn=u,${GROUPS}`;
      const values = { objectClass: 'groupOfUniqueNames', cn: 'u', uniqueMember: 'cn=nobody' };
      const uids = async () =>
        cellCounter(await fixture.store.get(META_TABLE.name, GROUPS_KEY), 0, Buffer.from('uids'));
      await fixture.add(dn, values);
      expect(await uids()).to.equal(0n);
      await fixture.modify(dn, change('add', 'uniqueMember', `${ann}#'1'B`));
      await expectGroups(ann, dn);
      expect(await uids()).to.equal(1n);
      const { id } = await fixture.read(dn);
      await fixture.delete(dn);
      await fixture.partition.restore(id, SYSTEM);
      expect(await uids()).to.equal(2n);
      await fixture.load([{ dn: `cn=l,${GROUPS}`, values: { ...values, cn: 'l', uniqueMember: `${ann}#'0'B` } }]);
      expect(await uids()).to.equal(3n);
      await expectGroups(ann, dn, `cn=l,${GROUPS}`);
    });

    near('groups are found without an index and in every suffix', async () => {
      const a = await group(fixture, 'a', ann);
      await fixture.add('o=other', { objectClass: 'organization', o: 'other' });
      const values = { objectClass: 'groupOfUniqueNames', cn: 'u', uniqueMember: [`${ann}#'1'B`, a] };
      await fixture.add('cn=u,o=other', values);
      await fixture.partition.dropIndex('member');
      await expectGroups(ann, a, 'cn=u,o=other');
      await fixture.partition.dropIndex('uniqueMember');
      await expectGroups(ann, a, 'cn=u,o=other');
      await expectGroups(a, 'cn=u,o=other');
    });

    it('groups may have names longer than a row key', async () => {
      const long = `ou=${'o'.repeat(600)}`;
      await fixture.add(`${long},${SUFFIX}`, { objectClass: 'organizationalUnit', ou: 'o'.repeat(600) });
      const a = `cn=${'a'.repeat(700)},${long},${SUFFIX}`;
      await fixture.add(a, { objectClass: 'groupOfNames', cn: 'a'.repeat(700), member: ann });
      const b = `cn=b,${long},${SUFFIX}`;
      await fixture.add(b, { objectClass: 'groupOfNames', cn: 'b', member: a });
      await expectGroups(ann, a, b);
    });

    near('dynamic groups contain the entries that base, scope and filter of their URLs find', async () => {
      const all = await dynamic(fixture, 'all', `ldap:///${SUFFIX}??sub?(title=boss)`);
      const one = await dynamic(fixture, 'one', `ldap:///${PEOPLE}??one`, 'ldap:///o=nowhere??sub');
      const base = await dynamic(fixture, 'base', `ldap:///${ann.replaceAll(' ', '%20')}`);
      const root = await dynamic(fixture, 'root', 'ldap:///??sub?(&(cn=a*)(!(title=x)))');
      await dynamic(fixture, 'above', `ldap:///${SUFFIX}??one?(cn=ann)`);
      await dynamic(fixture, 'suffixes', 'ldap:///??one?(objectClass=*)');
      await dynamic(fixture, 'unknown', `ldap:///${SUFFIX}??sub?(nothing=boss)`, `ldap:///${SUFFIX}??sub?(title=x)`);
      await dynamic(fixture, 'elsewhere', `ldap://elsewhere.example/${SUFFIX}??sub?(title=boss)`);
      await dynamic(fixture, 'broken', `ldap:///${SUFFIX}??sub?((title=boss)`, 'no URL', `ldap:///nothing??sub`);
      await dynamic(fixture, 'extended', `ldap:///${SUFFIX}??sub?(title=boss)?!x-more`);
      await dynamic(fixture, 'parents', `ldap:///${PEOPLE}??sub?(hasSubordinates=TRUE)`);
      await expectGroups(ann, all, one, base, root);
      await expectGroups(PEOPLE, `cn=parents,${GROUPS}`);
      await expectGroups(SUFFIX, `cn=suffixes,${GROUPS}`);
    });

    near('dynamic groups are members of other groups, and find groups without the members of these', async () => {
      const bosses = await dynamic(fixture, 'bosses', `ldap:///${PEOPLE}??sub?(title=boss)`);
      const a = await group(fixture, 'a', bosses);
      // Finds group a, not its members.
      const groups = await dynamic(fixture, 'groups', `ldap:///${GROUPS}??one?(objectClass=groupOfNames)`);
      await expectGroups(ann, bosses, a);
      await expectGroups(a, groups);
      await expectGroups(bosses, a);
    });

    near('dynamic groups are known again when one is added, changed or removed', async () => {
      const dn = `cn=d,${GROUPS}`;
      await expectGroups(ann);
      await dynamic(fixture, 'd', `ldap:///${PEOPLE}??sub?(title=boss)`);
      await expectGroups(ann, dn);
      await fixture.modify(dn, change('replace', 'memberURL', `ldap:///${PEOPLE}??sub?(title=x)`));
      await expectGroups(ann);
      await fixture.modify(dn, change('replace', 'memberURL', `ldap:///${PEOPLE}??one`));
      await expectGroups(ann, dn);
      await fixture.rename(dn, 'cn=e');
      await expectGroups(ann, `cn=e,${GROUPS}`);
      await fixture.delete(`cn=e,${GROUPS}`);
      await expectGroups(ann);
    });

    near('groups of thousands of members are not read for one member', async () => {
      const member = Array.from({ length: 3_000 }, (_, n) => `cn=m${n},${PEOPLE}`);
      const wide = await group(fixture, 'wide', ann, ...member);
      const both = `cn=both,${GROUPS}`;
      await fixture.add(both, {
        objectClass: ['groupOfURLs', 'extensibleObject'],
        cn: 'both',
        member,
        memberURL: `ldap:///${PEOPLE}??sub?(title=boss)`,
      });
      const { store, work } = counted(fixture.store);
      const front = new Fixture(store, await Partition.open(store, testSchema()), undefined);
      work.rows = 0;
      expect(await groupsOf(front, ann)).to.deep.equal(names(fixture, [wide, both]));
      expect(work.rows).to.be.lessThan(60);
    });

    it('the version of memberships changes with every change of memberships, and only then', async () => {
      const other = await Partition.open(fixture.store, testSchema());
      const a = `cn=a,${GROUPS}`;
      let last = [await version(), await other.groupsVersion()];
      const changes = async (what: string, yes: boolean, work: () => Promise<unknown>) => {
        await work();
        // Another front end reads the shared row once a turn.
        await new Promise(setImmediate);
        const now = [await version(), await other.groupsVersion()];
        for (const i of [0, 1])
          if (yes) expect(now[i]! > last[i]!, `${what} changes the version (${i})`).to.equal(true);
          else expect(now[i], `${what} leaves the version (${i})`).to.equal(last[i]);
        last = now;
      };
      let id: Buffer = Buffer.alloc(0);
      await changes('an add', true, async () => {
        id = await fixture.add(a, { objectClass: 'groupOfNames', cn: 'a', member: ann });
      });
      await changes('another add', false, () => fixture.person('bob', PEOPLE));
      await changes('a member', true, () => fixture.modify(a, change('add', 'member', `cn=bob,${PEOPLE}`)));
      await changes('a member gone', true, () => fixture.modify(a, change('delete', 'member', `cn=bob,${PEOPLE}`)));
      await changes('an option', true, () => fixture.modify(a, change('add', 'member;x-a', `cn=bob,${PEOPLE}`)));
      await changes('a description', false, () => fixture.modify(a, change('add', 'description', 'x')));
      await changes('a rename', true, () => fixture.rename(a, 'cn=b'));
      await changes('a rename back', true, () => fixture.rename(`cn=b,${GROUPS}`, 'cn=a'));
      await changes('a rename above', true, () => fixture.rename(GROUPS, 'ou=teams'));
      await changes('a rename back above', true, () => fixture.rename(`ou=teams,${SUFFIX}`, 'ou=groups'));
      await changes('a rename of a user', true, () => fixture.rename(ann, 'cn=anna'));
      await changes('a delete', true, () => fixture.delete(a));
      await changes('another delete', false, () => fixture.delete(`cn=bob,${PEOPLE}`));
      await changes('a restore', true, () => fixture.partition.restore(id, SYSTEM));
      await changes('a dynamic group', true, () => dynamic(fixture, 'd', 'ldap:///??sub'));
      await changes('a URL', true, () => fixture.modify(`cn=d,${GROUPS}`, change('delete', 'memberURL')));
      await changes('a unique group', true, async () => {
        const values = { objectClass: 'groupOfUniqueNames', cn: 'u', uniqueMember: ann };
        await fixture.add(`cn=u,${GROUPS}`, values);
      });
      const load = (cn: string, values: Values) => fixture.load([{ dn: `cn=${cn},${GROUPS}`, values }]);
      await changes('a load', true, () => load('l', { objectClass: 'groupOfNames', cn: 'l', member: ann }));
      await changes('a load of a user', false, () => load('m', { objectClass: 'person', cn: 'm', sn: 'm' }));
      await changes('a repair', true, async () => {
        await damage(fixture, fixture.dn(ann.replace('ann', 'anna')).norm);
        expect(await fixture.partition.repair()).to.be.greaterThan(0);
      });
    });

    it('the version of memberships changes again when plans end that may have been seen half done', async () => {
      const waiting: { resolve: () => void; reject: (error: Error) => void }[] = [];
      const quiet = () => new Promise<void>((resolve, reject) => waiting.push({ resolve, reject }));
      const store = new Proxy(fixture.store, {
        get: (target, name) => {
          const member: unknown = name === 'waitUntilQuiet' ? quiet : Reflect.get(target, name);
          return typeof member === 'function' ? member.bind(target) : member;
        },
      });
      const front = await Partition.open(store, testSchema());
      const first = await front.groupsVersion();
      expect(await front.groupsVersion()).to.equal(first);
      expect(waiting).to.have.length(1);
      waiting[0]!.resolve();
      await new Promise(setImmediate);
      expect(await front.groupsVersion()).to.equal(first + 1n);
      expect(waiting, 'nothing has changed since').to.have.length(1);
      await group(fixture, 'a', ann);
      await new Promise(setImmediate);
      const second = await front.groupsVersion();
      expect(second > first + 1n).to.equal(true);
      waiting[1]!.reject(new Error('the store is away'));
      await new Promise(setImmediate);
      expect(await front.groupsVersion()).to.equal(second);
      waiting[2]!.resolve();
      await new Promise(setImmediate);
      expect(await front.groupsVersion()).to.equal(second + 1n);
    });

    it('a write that touches no memberships takes no additional step, and a batch of a load takes one', async () => {
      const { store, work } = counted(fixture.store);
      const front = new Fixture(
        watchingIngest(store, work.plans),
        await Partition.open(store, testSchema()),
        undefined,
      );
      const steps = () =>
        work.plans.flatMap(({ steps }) => steps).filter((step) => 'key' in step && step.key.equals(GROUPS_KEY));
      const context = { ...front.partition.context, store: front.store };
      await fixture.partition.refresh();
      await front.person('carl', PEOPLE);
      await front.modify(`cn=carl,${PEOPLE}`, change('replace', 'title', 'x'));
      await front.rename(`cn=carl,${PEOPLE}`, 'cn=charles');
      await front.delete(`cn=charles,${PEOPLE}`);
      expect(work.plans.length).to.equal(4);
      expect(steps()).to.deep.equal([]);
      await front.add(`cn=g,${GROUPS}`, { objectClass: 'groupOfNames', cn: 'g', member: ann });
      expect(steps().length).to.equal(1);
      work.plans.length = 0;
      const { load } = await import('../../src/partition/bulk/load.js');
      const entries = Array.from({ length: 100 }, (_, n) => ({
        line: n,
        dn: `cn=g${n},${GROUPS}`,
        attributes: attributes({ objectClass: 'groupOfNames', cn: `g${n}`, member: ann }),
      }));
      const options = { onReject: ({ reason }: { reason: string }): never => expect.fail(reason), continue: true };
      await load(
        context,
        (async function* () {
          yield entries;
        })(),
        SYSTEM,
        options,
      );
      expect(steps()).to.have.length(1);
      expect(steps()[0]).to.have.nested.property('add[0].by', 100n);
      expect(await fixture.partition.groupsOf({ id: Buffer.alloc(16), dn: fixture.dn(ann) })).to.have.property(
        'size',
        101,
      );
    });

    near('memberships are counted in one step of a plan, whatever else changes in the row', async () => {
      const { store, work } = counted(fixture.store);
      const more = { name: 'more', checkChange: () => ({ steps: [GROUPS_STEP, { ...GROUPS_STEP }] }) };
      const context = { ...fixture.partition.context, store, rules: [...RULES, more] };
      const given = attributes({ objectClass: 'groupOfNames', cn: 'g', member: ann });
      await add(context, fixture.dn(`cn=g,${GROUPS}`), given, ACTOR);
      const steps = work.plans[0]!.steps.filter((step) => 'key' in step && step.key.equals(GROUPS_KEY));
      expect(steps).to.have.length(1);
      expect(steps[0]).to.have.nested.property('add[0].by', 3n);
    });

    near('groups in random graphs are those of a plain evaluation, and the version shows each change', function () {
      this.timeout(600_000);
      return seeded(async (random) => {
        for (let n = 0; n < rounds(1, engine === 'hbase' ? 2 : 6); n++) {
          const f = await openFixture(engine);
          try {
            await randomGroups(f, random, rounds(engine === 'memory' ? 40 : 25, 40));
          } finally {
            await f.close();
          }
        }
      });
    });
  });
}

/** The store, whose bulk plans are kept, too. */
function watchingIngest(store: Store, plans: Plan[]): Store {
  return new Proxy(store, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown;
      if (name !== 'ingest') return member;
      return (tables: never, plan: Plan) => {
        plans.push(plan);
        return target.ingest(tables, plan);
      };
    },
  });
}

/** Takes an index row of a member away. */
async function damage(fixture: Fixture, norm: Buffer): Promise<void> {
  const { equalityPrefix, indexTable } = await import('../../src/partition/model/tables.js');
  const table = indexTable('2.5.4.31').name;
  const name = norm.toString('latin1').replace('anna', 'ann');
  const prefix = equalityPrefix(Buffer.from(name, 'latin1'));
  const ids = await fixture.store.postings(table, prefix, 1);
  expect(ids.length).to.equal(16);
  await fixture.store.commit({ steps: [{ table, key: Buffer.concat([prefix, ids]), deleteRow: true }], decisive: 0 });
}

/** Memberships as their definition says them, by whole readings of the directory. */
class Plain {
  readonly #fixture: Fixture;
  /** Of each entry the groups that name it themselves, or whose URLs find it. */
  own: ReadonlyMap<string, ReadonlySet<string>> = new Map();

  constructor(fixture: Fixture) {
    this.#fixture = fixture;
  }

  /** Of each entry the groups, by DN as text. */
  async all(): Promise<Map<string, Set<string>>> {
    const { dns } = await this.#fixture.search({ manageDsaIT: true });
    const inMembers = new Map<string, Set<string>>();
    const found = new Map<string, Set<string>>();
    const norm = (dn: string) => this.#fixture.dn(dn).norm.toString('latin1');
    for (const dn of dns) found.set(norm(dn), new Set());
    for (const dn of dns) {
      const { attributes } = await this.#fixture.read(dn);
      const values = (...types: string[]) =>
        attributes.flatMap(({ description, values }) => (types.includes(description) ? values.map(String) : []));
      const members = values('member', 'uniqueMember').map((value) => norm(value.replace(/#'[01]*'B$/, '')));
      inMembers.set(norm(dn), new Set(members));
      for (const url of values('memberURL'))
        for (const member of await this.#finds(url)) found.get(norm(member))!.add(norm(dn));
    }
    const own = new Map([...found].map(([entry, groups]) => [entry, new Set(groups)]));
    for (const [name, members] of inMembers) for (const member of members) own.get(member)?.add(name);
    this.own = own;
    for (const [entry, groups] of found) {
      for (let before = -1; before !== groups.size; ) {
        before = groups.size;
        for (const [name, members] of inMembers)
          if (members.has(entry) || [...groups].some((inner) => members.has(inner))) groups.add(name);
      }
    }
    return found;
  }

  async #finds(url: string): Promise<string[]> {
    const [, base, , scope, filter] = /^ldap:\/\/\/([^?]*)\?([^?]*)\?([^?]*)\?(.*)$/.exec(url)!;
    try {
      const given = { base: base!, scope: scope as Scope, filter: filter!, manageDsaIT: true };
      return (await this.#fixture.search(given)).dns;
    } catch (error) {
      if (error instanceof LdapError && error.result === 'noSuchObject') return [];
      throw error;
    }
  }
}

async function randomGroups(fixture: Fixture, random: Random, steps: number): Promise<void> {
  const { partition } = fixture;
  const other = await Partition.open(fixture.store, testSchema());
  const plain = new Plain(fixture);
  const units = [SUFFIX];
  for (const ou of ['a', 'b', 'c']) {
    const parent = random.pick(units);
    await fixture.unit(ou, parent);
    units.push(`ou=${ou},${parent}`);
  }
  let dns: string[] = [];
  const deleted: Buffer[] = [];
  let count = 0;
  const anyName = (): string =>
    random.chance(0.1) ? `cn=nobody,${random.pick(units)}` : random.pick([...dns, SUFFIX]);
  const values = (n: number): string[] => [...new Set(Array.from({ length: n }, anyName))];
  const url = (): string => {
    const filter = random.pick([
      '(title=a)',
      '(!(title=a))',
      '(objectClass=groupOfNames)',
      '(cn=*1*)',
      '(objectClass=*)',
    ]);
    return `ldap:///${random.pick([...units, `ou=none,${SUFFIX}`])}??${random.pick(['base', 'one', 'sub'])}?${filter}`;
  };
  const comes = async (): Promise<void> => {
    const cn = `e${count++}`;
    const dn = `cn=${cn},${random.pick(units)}`;
    const kind = random.int(5);
    if (kind <= 1) await fixture.add(dn, { objectClass: 'inetOrgPerson', cn, sn: cn, title: random.pick(['a', 'b']) });
    else if (kind === 2) await fixture.add(dn, { objectClass: 'groupOfNames', cn, member: values(1 + random.int(4)) });
    else if (kind === 3) {
      const uniqueMember = values(1 + random.int(3)).map((name) => name + random.pick(['', "#'01'B", "#''B"]));
      await fixture.add(dn, { objectClass: 'groupOfUniqueNames', cn, uniqueMember });
    } else await fixture.add(dn, { objectClass: 'groupOfURLs', cn, memberURL: url() });
  };
  const changes = async (): Promise<void> => {
    const leaf = (): string => random.pick(dns.filter((dn) => dn.startsWith('cn=')));
    const dn = leaf();
    const act = random.int(6);
    if (act === 0) {
      const { id } = await fixture.read(dn);
      await fixture.delete(dn);
      deleted.push(id);
    } else if (act === 1) {
      const parent = random.chance(0.5) ? random.pick(units) : undefined;
      await fixture.rename(dn, `cn=r${count++}`, parent === undefined ? {} : { newSuperior: parent });
    } else if (act === 2) {
      const at = 1 + random.int(units.length - 1);
      const was = units[at]!;
      const rdn = `ou=u${count++}`;
      await fixture.rename(was, rdn);
      const now = [rdn, ...was.split(',').slice(1)].join(',');
      for (const [i, unit] of units.entries())
        if (unit === was || unit.endsWith(`,${was}`)) units[i] = unit.slice(0, unit.length - was.length) + now;
    } else if (act === 3 && deleted.length > 0) {
      const id = deleted.splice(random.int(deleted.length), 1)[0]!;
      await partition.restore(id, SYSTEM).catch((error) => {
        if (!(error instanceof LdapError)) throw error;
      });
    } else {
      const entry = await fixture.read(dn);
      const has = (name: string) => entry.attributes.find(({ description }) => description === name);
      if (has('member')) await fixture.modify(dn, change('replace', 'member', ...values(1 + random.int(4))));
      else if (has('uniqueMember')) await fixture.modify(dn, change('replace', 'uniqueMember', anyName()));
      else if (has('memberURL')) await fixture.modify(dn, change('replace', 'memberURL', url()));
    }
  };
  let before = await plain.all();
  let version = [await partition.groupsVersion(), await other.groupsVersion()];
  for (let n = 0; n < steps; n++) {
    dns = (await fixture.search()).dns;
    await (n < 12 || random.chance(0.3) ? comes() : changes());
    const after = await plain.all();
    const now = [await partition.groupsVersion(), await other.groupsVersion()];
    const differ = [...after].some(([dn, groups]) => before.has(dn) && !same(before.get(dn)!, groups));
    if (differ)
      for (const i of [0, 1]) expect(now[i]! > version[i]!, `change ${n} changes version ${i}`).to.equal(true);
    for (const { node, groups } of await entriesOf(fixture, after)) {
      for (const front of [partition, other])
        expect([...(await front.groupsOf(node))].sort(), `${node.dn.text} after change ${n}`).to.deep.equal(
          [...groups].sort(),
        );
    }
    await filtersAgree(fixture, random, after, plain.own);
    before = after;
    version = now;
  }
}

/** Filters on memberOf find whom the groups have. */
async function filtersAgree(
  fixture: Fixture,
  random: Random,
  found: ReadonlyMap<string, Set<string>>,
  own: ReadonlyMap<string, ReadonlySet<string>>,
): Promise<void> {
  const { dns } = await fixture.search({ manageDsaIT: true });
  const groups = (dn: string): Set<string> => found.get(fixture.dn(dn).norm.toString('latin1'))!;
  const expectFound = async (filter: string, is: (dn: string) => boolean, directGroupsOnly = false): Promise<void> => {
    const given = { manageDsaIT: true, directGroupsOnly };
    expect(await fixture.find(filter, given), `${filter} ${directGroupsOnly}`).to.deep.equal(dns.filter(is).sort());
  };
  const group = random.pick([...dns, `cn=nobody,${SUFFIX}`]);
  const name = fixture.dn(group).norm.toString('latin1');
  const isIn = (dn: string) => groups(dn).has(name);
  await expectFound(`(memberOf=${group})`, isIn);
  await expectFound(`(!(isMemberOf=${group.toUpperCase()}))`, (dn) => !isIn(dn));
  await expectFound(`(&(cn=*)(memberOf=${group}))`, (dn) => dn.startsWith('cn=') && isIn(dn));
  await expectFound(`(|(ou=a)(memberOf=${group}))`, (dn) => dn.startsWith('ou=a,') || isIn(dn));
  await expectFound('(memberOf=*)', (dn) => groups(dn).size > 0);
  const ownOf = (dn: string) => own.get(fixture.dn(dn).norm.toString('latin1'))!;
  await expectFound(`(memberOf=${group})`, (dn) => ownOf(dn).has(name), true);
  await expectFound('(isMemberOf=*)', (dn) => ownOf(dn).size > 0, true);
  const inChain = `(memberOf:1.2.840.113556.1.4.1941:=${group})`;
  await expectFound(`(&${inChain}(!(memberOf=${group})))`, (dn) => isIn(dn) && !ownOf(dn).has(name), true);
  for (const dn of [random.pick(dns), random.pick(dns), ...dns.filter((one) => one === group)]) {
    const said = await compared(fixture, dn, random.pick(['memberOf', 'isMemberOf']), group);
    expect(said, `${dn} in ${group}`).to.equal(groups(dn).size > 0 ? isIn(dn) : 'noSuchAttribute');
  }
  const paged: string[] = [];
  for (let resume: Buffer | undefined; ; ) {
    const page = await fixture.search({ filter: `(memberOf=${group})`, pageSize: 2, ...(resume && { resume }) });
    paged.push(...page.dns);
    resume = page.outcome.resume;
    if (!resume) break;
  }
  expect(paged.sort(), 'page by page').to.deep.equal(dns.filter(isIn).sort());
}

async function compared(
  { partition }: Fixture,
  dn: string,
  attribute: string,
  value: string,
): Promise<boolean | ResultName> {
  const options = { manageDsaIT: true };
  const asked = [partition.schema.parseDn(dn), attribute, Buffer.from(value), UNRESTRICTED, options] as const;
  try {
    return await partition.compare(...asked);
  } catch (error) {
    if (error instanceof LdapError) return error.result;
    throw error;
  }
}

async function entriesOf(fixture: Fixture, found: ReadonlyMap<string, Set<string>>) {
  const entries: { node: { id: Buffer; dn: ReturnType<Fixture['dn']> }; groups: Set<string> }[] = [];
  for (const text of (await fixture.search({ manageDsaIT: true })).dns) {
    const dn = fixture.dn(text);
    entries.push({ node: { id: (await fixture.read(text)).id, dn }, groups: found.get(dn.norm.toString('latin1'))! });
  }
  return entries;
}

function same(a: ReadonlySet<string>, b: ReadonlySet<string>): boolean {
  return a.size === b.size && [...a].every((one) => b.has(one));
}
