import { expect } from 'chai';
import { Partition, UNRESTRICTED } from '../../src/partition/index.js';
import type { Viewer } from '../../src/partition/model/viewer.js';
import { rounds } from '../rounds.js';
import { counted } from '../store/counted.js';
import {
  change,
  Fixture,
  hiding,
  openFixture,
  type Random,
  refused,
  type SearchGiven,
  SUFFIX,
  seeded,
  testSchema,
  type Values,
  viewedDn,
} from './fixture.js';
import { NEAR_ENGINES } from './near-engines.js';

const PEOPLE = `ou=people,${SUFFIX}`;
const GROUPS = `ou=groups,${SUFFIX}`;
const RULE = '1.2.840.113556.1.4.1941';

/** What refers to what, as plain words. */
interface Node {
  readonly dn: string;
  readonly values: Values;
  /** By attribute: DNs that it names. */
  readonly refers: Readonly<Record<string, readonly string[]>>;
  /** Titles that its URL finds. */
  readonly finds?: string | undefined;
  readonly title?: string | undefined;
}

const TITLES = ['a', 'b', 'c'];

/** Some people below each other, and groups in each other; circles among both. */
function randomGraph(random: Random): Node[] {
  const people = Array.from({ length: 8 }, (_, n) => `cn=p${n},${PEOPLE}`);
  const groups = Array.from({ length: 8 }, (_, n) => `cn=g${n},${GROUPS}`);
  const some = (from: readonly string[], most: number) =>
    Array.from(new Set(Array.from({ length: random.int(most + 1) }, () => random.pick(from))));
  const nodes = people.map((dn, n): Node => {
    const manager = some(people, 1);
    const title = random.pick(TITLES);
    const values = { objectClass: 'inetOrgPerson', cn: `p${n}`, sn: 'x', title, ...(manager[0] && { manager }) };
    return { dn, title, refers: { manager }, values };
  });
  for (const [n, dn] of groups.entries()) {
    const member = some([...people, ...groups], 4);
    const uniqueMember = some([...people, ...groups], 2);
    const finds = random.chance(0.3) ? random.pick(TITLES) : undefined;
    const uid = random.chance(0.3) ? "#'01'B" : '';
    const values = {
      objectClass: ['groupOfURLs', 'extensibleObject'],
      cn: `g${n}`,
      ...(member[0] && { member: member.map((name) => (random.chance(0.2) ? name.toUpperCase() : name)) }),
      ...(uniqueMember[0] && { uniqueMember: uniqueMember.map((name) => `${name}${uid}`) }),
      ...(finds && { memberURL: `ldap:///${PEOPLE}??sub?(title=${finds})` }),
    };
    nodes.push({ dn, refers: { member, uniqueMember }, finds, values });
  }
  return nodes;
}

/** What somebody does not see: entries, and attributes that it may not search for. */
interface Blind {
  readonly entries: ReadonlySet<string>;
  readonly attributes: ReadonlySet<string>;
}

const ALL: Blind = { entries: new Set(), attributes: new Set() };

function randomBlind(random: Random, nodes: readonly Node[]): Blind {
  const types = ['member', 'uniqueMember', 'manager', 'memberURL', 'memberOf'];
  const attributes = nodes.flatMap(({ dn }) => types.filter(() => random.chance(0.1)).map((type) => `${dn} ${type}`));
  const entries = nodes.filter(() => random.chance(0.15)).map(({ dn }) => dn);
  return { entries: new Set(entries), attributes: new Set(attributes) };
}

function viewerOf({ entries, attributes }: Blind): Viewer {
  const all = hiding(({ name }, entry, use) => use === 'search' && attributes.has(`${viewedDn(entry)} ${name}`));
  return { sightOf: (entry) => (entries.has(viewedDn(entry)) ? undefined : all.sightOf!(entry)) };
}

/** The same by nothing but the words of docs/groups.md. */
class Naive {
  readonly #nodes: readonly Node[];
  readonly #blind: Blind;

  constructor(nodes: readonly Node[], blind: Blind) {
    this.#nodes = nodes;
    this.#blind = blind;
  }

  #may({ dn }: Node, type: string): boolean {
    return !this.#blind.entries.has(dn) && !this.#blind.attributes.has(`${dn} ${type}`);
  }

  #leadingTo(ends: readonly string[], types: readonly string[]): Set<string> {
    const met = new Set<string>();
    for (let step = [...ends]; step.length > 0; ) {
      const next = this.#nodes.filter((node) =>
        types.some((type) => this.#may(node, type) && node.refers[type]?.some((to) => step.includes(to))),
      );
      step = next.map(({ dn }) => dn).filter((dn) => !met.has(dn));
      for (const dn of step) met.add(dn);
    }
    return met;
  }

  groupsOf(dn: string): Set<string> {
    const self = this.#nodes.find((node) => node.dn === dn);
    const isVisible = self && !this.#blind.entries.has(dn);
    const finding = this.#nodes.filter(
      (node) => isVisible && node.finds && node.finds === self.title && this.#may(node, 'memberURL'),
    );
    const dynamic = finding.map((node) => node.dn);
    return new Set([...dynamic, ...this.#leadingTo([dn, ...dynamic], ['member', 'uniqueMember'])]);
  }

  /** What a search for `(type:in chain:=end)` finds. */
  found(type: string, end: string): string[] {
    const isFound = (dn: string): boolean => {
      if (type === 'memberOf') return this.groupsOf(dn).has(end);
      if (type === 'manager') return this.#leadingTo([end], ['manager']).has(dn);
      return this.groupsOf(end).has(dn);
    };
    return this.#nodes.filter((node) => this.#may(node, type) && isFound(node.dn)).map(({ dn }) => dn);
  }
}

for (const engine of NEAR_ENGINES) {
  describe(`in-chain matches (${engine})`, () => {
    let fixture: Fixture;
    const boss = `cn=boss,${PEOPLE}`;
    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      await fixture.unit('groups');
    });
    afterEach(() => fixture.close());

    const explain = async (filter: string) => fixture.partition.explain(fixture.params({ filter }));
    /** Each the next one's manager, behind the boss. */
    const line = async (length: number, above = boss, name = 'l'): Promise<string[]> => {
      const dns = Array.from({ length }, (_, n) => `cn=${name}${n},${PEOPLE}`);
      const entries = dns.map((dn, n) => ({
        dn,
        values: { objectClass: 'inetOrgPerson', cn: `${name}${n}`, sn: 'x', manager: dns[n - 1] ?? above },
      }));
      await fixture.load(entries);
      return dns;
    };
    const inPages = async (filter: string, given: SearchGiven): Promise<string[]> => {
      const dns: string[] = [];
      for (let resume: Buffer | undefined; ; ) {
        const page = await fixture.search({ ...given, filter, pageSize: 3, ...(resume && { resume }) });
        dns.push(...page.dns);
        resume = page.outcome.resume;
        if (!resume) return dns.sort();
      }
    };

    it('find in random graphs what the words say, for whoever asks', () =>
      seeded(async (random) => {
        const times = engine === 'memory' ? rounds(2, 20) : rounds(1, engine === 'hbase' ? 3 : 20);
        const terms = engine === 'hbase' ? rounds(3, 12) : 12;
        await fixture.partition.dropIndex('manager');
        for (let round = 0; round < times; round++) {
          const nodes = randomGraph(random);
          for (const { dn, values } of nodes) await fixture.add(dn, values);
          for (const indexed of [false, true]) {
            if (indexed) {
              await fixture.partition.addIndex('manager');
              await fixture.partition.buildIndexes();
            }
            for (const blind of [ALL, randomBlind(random, nodes), randomBlind(random, nodes)]) {
              const viewer = blind === ALL ? UNRESTRICTED : viewerOf(blind);
              const naive = new Naive(nodes, blind);
              for (let n = 0; n < terms; n++) {
                const type = random.pick(['member', 'uniqueMember', 'memberOf', 'manager']);
                const end = random.chance(0.1) ? `cn=nobody,${PEOPLE}` : random.pick(nodes).dn;
                const expected = naive.found(type, end).sort();
                const term = `(${type}:${RULE}:=${end})`;
                const what = `${term}, round ${round}, ${indexed ? 'indexed' : 'not indexed'}, ${[...blind.entries]}`;
                expect(await fixture.find(term, { viewer }), what).to.deep.equal(expected);
                expect(await inPages(term, { viewer }), `paged ${what}`).to.deep.equal(expected);
                const some = `(&(|(cn=p*)(cn=g1*))${term})`;
                const parts = expected.filter((dn) => /^cn=(p|g1)/.test(dn));
                expect(await fixture.find(some, { viewer }), what).to.deep.equal(parts);
                const mayAll = !nodes.some(({ dn }) => blind.attributes.has(`${dn} ${type}`));
                if (!mayAll) continue;
                const others = nodes
                  .map(({ dn }) => dn)
                  .filter((dn) => !blind.entries.has(dn) && !expected.includes(dn));
                expect(await fixture.find(`(&(cn=*)(!${term}))`, { viewer }), `not ${what}`).to.deep.equal(
                  others.sort(),
                );
              }
            }
          }
          for (const { dn } of nodes) await fixture.delete(dn);
          await fixture.partition.dropIndex('manager');
        }
      })).timeout(600_000);

    it('go through the index, not through the entries', async () => {
      await fixture.person('boss', PEOPLE);
      await fixture.load(
        Array.from({ length: 400 }, (_, n) => ({
          dn: `cn=o${n},${PEOPLE}`,
          values: { objectClass: 'inetOrgPerson', cn: `o${n}`, sn: 'x' },
        })),
      );
      const below = await line(5);
      const inner = `cn=inner,${GROUPS}`;
      const outer = `cn=outer,${GROUPS}`;
      await fixture.add(inner, { objectClass: 'groupOfNames', cn: 'inner', member: below[4]! });
      await fixture.add(outer, { objectClass: 'groupOfUniqueNames', cn: 'outer', uniqueMember: inner });
      const { store, work } = counted(fixture.store);
      const front = new Fixture(store, await Partition.open(store, testSchema()), undefined);
      const asked: [string, string[]][] = [
        [`(manager:${RULE}:=${boss})`, below],
        [`(&(objectClass=person)(manager:inChainMatch:=${boss}))`, below],
        [`(member:${RULE}:=${below[4]})`, [inner, outer]],
        [`(uniqueMember:${RULE}:=${below[4]})`, [inner, outer]],
        [`(memberOf:${RULE}:=${outer})`, [inner, below[4]!]],
        [`(&(cn=l4)(manager:${RULE}:=${boss}))`, [below[4]!]],
        [`(|(cn=o7)(member:${RULE}:=${below[4]}))`, [`cn=o7,${PEOPLE}`, inner, outer]],
      ];
      for (const [filter, expected] of asked) {
        expect((await explain(filter)).plan, filter).to.equal('index');
        await front.find('(cn=o1)');
        work.rows = 0;
        expect(await front.find(filter), filter).to.deep.equal(expected.sort());
        expect(work.rows, filter).to.be.lessThan(200);
      }
      expect((await explain(asked[0]![0])).terms).to.deep.include({
        term: 'manager',
        count: 5,
        taken: true,
        why: 'chain',
      });
    });

    it('without an index are right, and told to want one', async () => {
      await fixture.person('boss', PEOPLE);
      const below = await line(10);
      await fixture.partition.dropIndex('manager');
      expect(await fixture.find(`(manager:${RULE}:=${boss})`)).to.deep.equal(below.sort());
      const wanted = `(&(description=x)(manager:${RULE}:=${boss}))`;
      const { outcome } = await fixture.search({ filter: wanted });
      expect(outcome.advice()).to.contain('rowan index add manager');
    });

    it('end at circles', async () => {
      await fixture.person('boss', PEOPLE, { manager: `cn=l2,${PEOPLE}` });
      const below = await line(3);
      expect(await fixture.find(`(manager:${RULE}:=${boss})`)).to.deep.equal([boss, ...below].sort());
    });

    it('follow subtypes, names that nothing has, and what is renamed as it is called now', async () => {
      const gone = `cn=gone,${PEOPLE}`;
      const [first = '', second = ''] = await line(2, gone);
      await fixture.modify(first, change('add', 'seeAlso', second));
      const term = `(manager:${RULE}:=${gone})`;
      expect(await fixture.find(term)).to.deep.equal([first, second]);
      expect(await fixture.find(`(distinguishedName:${RULE}:=${second})`), 'by seeAlso').to.deep.equal([first]);
      await fixture.rename(first, 'cn=other');
      expect(await fixture.find(term)).to.deep.equal([second, `cn=other,${PEOPLE}`]);
    });

    it('are Undefined where they say nothing', async () => {
      await fixture.person('boss', PEOPLE);
      for (const term of [
        `(:${RULE}:=${boss})`,
        `(manager:dn:${RULE}:=${boss})`,
        `(manager;x-a:${RULE}:=${boss})`,
        `(cn:${RULE}:=${boss})`,
        `(entryDN:${RULE}:=${boss})`,
        `(manager:${RULE}:=no DN)`,
        `(userPassword:${RULE}:=${boss})`,
      ]) {
        expect(await fixture.find(term), term).to.deep.equal([]);
        expect(await fixture.find(`(!${term})`), `not ${term}`).to.deep.equal([]);
      }
    });

    it('of a memberURL are Undefined: it is asked about the entry itself', async () => {
      await line(1);
      const memberURL = `ldap:///${PEOPLE}??sub?(|(cn=l9)(manager:${RULE}:=${boss}))`;
      await fixture.add(`cn=d,${GROUPS}`, { objectClass: 'groupOfURLs', cn: 'd', memberURL });
      expect(await fixture.find(`(member:${RULE}:=cn=l0,${PEOPLE})`)).to.deep.equal([]);
    });

    it('are bounded by entries, by steps, and by the time that the search has', async () => {
      await line(20);
      const { context, schema } = fixture.partition;
      const chain = { kind: 'chain', type: schema.attribute('manager')!, endDns: [fixture.dn(boss).norm] } as const;
      const until = { deadline: Number.POSITIVE_INFINITY, signal: undefined };
      const found = async (entries: number, steps: number) =>
        context.findChainIds(chain, UNRESTRICTED, { ...until, entriesLeft: entries, stepsLeft: steps });
      expect(await found(20, 21)).to.have.length(20 * 16);
      await refused('adminLimitExceeded', found(19, 21), /leads to more entries/);
      await refused('adminLimitExceeded', found(20, 20));
      const filter = `(manager:${RULE}:=${boss})`;
      await refused('timeLimitExceeded', fixture.search({ filter, deadline: 0 }));
      await refused('canceled', fixture.search({ filter, signal: { aborted: true } }));
    });

    it('and groups and entryUUIDs stand in pages beside what a range finds', async () => {
      const below = await line(9);
      await line(60, `cn=nobody,${PEOPLE}`, 'x');
      await fixture.add(`cn=g,${GROUPS}`, { objectClass: 'groupOfNames', cn: 'g', member: below });
      const { id } = await fixture.read(below[3]!);
      const uuid = id.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
      for (const [term, dns] of [
        [`(manager:${RULE}:=${boss})`, below],
        [`(memberOf=cn=g,${GROUPS})`, below],
        [`(entryUUID=${uuid})`, [below[3]!]],
      ] as const)
        expect(await inPages(`(|${term}(cn=x0*))`, {}), term).to.deep.equal([`cn=x0,${PEOPLE}`, ...dns].sort());
    });
  });
}
