import { expect } from 'chai';
import type { Rights } from '../../src/access/rights.js';
import { LdapError } from '../../src/ldap/ldap-error.js';
import type { Actor } from '../../src/partition/model/directory-types.js';
import { EntryReader } from '../../src/partition/model/entry-reader.js';
import type { Hit } from '../../src/partition/read/sink.js';
import { change, type Fixture, openFixture, Random } from '../partition/fixture.js';
import { NEAR_ENGINES } from '../partition/near-engines.js';
import { rounds } from '../rounds.js';
import { LOOSE, otherOf } from './hidden.js';
import { Naive, type PlainAsker, parentOf } from './naive.js';
import { partlySeeing, randomAsker, randomEntries, SUFFIX } from './random-rules.js';
import { compiledOf, fill, rightsOf, validRules } from './rules-fixture.js';

/** What no two directories have alike. */
const DIFFERENT = ['entryUUID', 'entryCSN', 'createTimestamp', 'modifyTimestamp'];

/** One of the two directories, as the asker has it. */
class Side {
  readonly fixture: Fixture;
  readonly rights: Rights;
  readonly actor: Actor;

  constructor(fixture: Fixture, rights: Rights, dn: string) {
    this.fixture = fixture;
    this.rights = rights;
    this.actor = { dn, access: rights };
  }

  /** What the asker is told. */
  async told(work: (side: Side) => Promise<unknown>): Promise<unknown> {
    try {
      return await work(this);
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      const { result, message, matchedDN, referrals } = error;
      return { result, message, matchedDN, referrals };
    }
  }

  /** An entry as it goes out. */
  async shown(hit: Hit): Promise<unknown> {
    const { row, dn, sight } = hit;
    const reader = new EntryReader(this.fixture.partition.descriptions).read(row);
    const shown: Record<string, string[]> = {};
    for (let i = 0; i < reader.attributeCount; i++) {
      const { description } = reader.descriptions[i]!;
      const { type } = description;
      if (DIFFERENT.includes(type.name)) continue;
      if (type.secret && !sight?.allows('read', description)) continue;
      const values: string[] = [];
      for (let v = reader.firstValues[i]!; v < reader.firstValues[i + 1]!; v++) values.push(reader.value(v).toString());
      shown[description.text] = values.sort();
    }
    return { dn: dn.toString(), shown, below: await hit.numSubordinates(), any: await hit.hasSubordinates() };
  }
}

const FILTERS = [
  '(objectClass=*)',
  '(cn=ann)',
  '(cn=new1)',
  '(description=d1)',
  '(description=other1)',
  '(!(description=other1))',
  '(mail=*example.com)',
  '(sn>=s1)',
  '(|(sn=s1)(sn=s2)(sn=other1))',
  '(&(objectClass=inetOrgPerson)(!(mail=ann@example.com)))',
  '(telephoneNumber=*)',
  '(hasSubordinates=TRUE)',
  '(numSubordinates>=3)',
  '(entryDN:dnSubtreeMatch:=x)',
  '(:caseIgnoreMatch:=other2)',
  '(cn:dn:=ann)',
  '(userPassword=*)',
];

function randomSearch(random: Random, names: readonly string[]): (side: Side) => Promise<unknown> {
  const given = {
    base: random.pick(names),
    scope: random.pick(['base', 'one', 'sub', 'subordinate'] as const),
    filter: random.pick(FILTERS),
    sizeLimit: random.chance(0.2) ? 1 + random.int(4) : 0,
    lookLimit: random.chance(0.2) ? 1 + random.int(6) : Number.POSITIVE_INFINITY,
    ...(random.chance(0.2) && { pageSize: 1 + random.int(4) }),
  };
  return async (side) => {
    const found: unknown[] = [];
    let resume: Buffer | undefined;
    try {
      do {
        const params = side.fixture.params({ ...given, viewer: side.rights.viewer, ...(resume && { resume }) });
        const outcome = await side.fixture.partition.search(params, {
          entry: async (hit) => void found.push(await side.shown(hit)),
          reference: (urls) => void found.push(urls),
        });
        ({ resume } = outcome);
      } while (resume);
    } catch (error) {
      if (!(error instanceof LdapError)) throw error;
      const { result, message, matchedDN } = error;
      // Which of them come first is nobody's promise.
      return { given, result, message, matchedDN, found: found.length };
    }
    return { given, found: found.map((one) => JSON.stringify(one)).sort() };
  };
}

/** A write that the asker may not do, or that meets nothing. */
function randomWrite(
  random: Random,
  names: readonly string[],
  naive: Naive,
  asker: PlainAsker,
): ((side: Side) => Promise<unknown>) | undefined {
  const dn = random.pick(names);
  const entry = naive.entries.get(dn);
  const seen = entry && naive.onEntry(asker, entry, 'see');
  const may = (right: string, on = entry): boolean =>
    on !== undefined && naive.onEntry(asker, on, 'see') && naive.onEntry(asker, on, right);
  switch (random.int(4)) {
    case 0: {
      const attribute = random.pick(LOOSE);
      const how = random.pick(['add', 'delete', 'replace'] as const);
      if (seen && naive.onAttribute(asker, entry, attribute, how)) return undefined;
      const values = how === 'delete' && random.chance(0.5) ? [] : ['other1'];
      return ({ fixture, actor }) =>
        fixture.partition.modify(fixture.dn(dn), [change(how, attribute, ...values)], actor);
    }
    case 1:
      if (may('remove')) return undefined;
      return ({ fixture, actor }) => fixture.partition.delete(fixture.dn(dn), actor);
    case 2: {
      const newSuperior = random.chance(0.5) ? random.pick(names) : undefined;
      const superior = newSuperior === undefined ? undefined : naive.entries.get(newSuperior);
      // Who may move an entry still learns nothing of where it may not.
      const isPlace = newSuperior === undefined || (superior && may('moveIn', superior));
      if (may('rename') && isPlace) return undefined;
      return ({ fixture, actor }) =>
        fixture.partition.rename(fixture.dn(dn), { newRdn: 'cn=gone', deleteOldRdn: true, newSuperior }, actor);
    }
    default: {
      const parent = naive.entries.get(parentOf(dn));
      if (may('create', parent)) return undefined;
      const attributes = { objectClass: 'inetOrgPerson', cn: 'x', sn: 'x' };
      return ({ fixture, actor }) =>
        fixture.partition.add(
          fixture.dn(dn),
          Object.entries(attributes).map(([type, value]) => ({ type, values: [Buffer.from(value)] })),
          actor,
        );
    }
  }
}

// Over HBase two directories take a while to be made.
for (const engine of NEAR_ENGINES) {
  describe(`hidden entries (${engine})`, () => {
    const random = new Random();
    it(`hidden data makes no difference to a client that may not see it (seed ${random.seed})`, async () => {
      const times = rounds(2, engine === 'hbase' ? 5 : 60);
      for (let round = 0; round < times; round++) {
        const entries = randomEntries(random);
        const left = await openFixture(engine);
        const right = await openFixture(engine);
        try {
          const some = validRules(random, left, 1 + random.int(8));
          const rules = random.chance(0.7) ? [partlySeeing(random), ...some] : some;
          const asker = randomAsker(random);
          const naive = new Naive(rules, entries);
          const other = otherOf(entries, naive, asker, random);
          await fill(left, entries);
          await fill(right, other);
          const dn = asker.dn ?? '';
          const sides = [
            new Side(left, await rightsOf(left, compiledOf(left, rules), asker, entries), dn),
            new Side(right, await rightsOf(right, compiledOf(right, rules), asker, other), dn),
          ] as const;
          const there = new Set([...entries.keys(), ...other.keys()]);
          const names = [...there, `ou=no,${SUFFIX}`, ...[...there].map((name) => `cn=nobody,${name}`)];
          for (let n = 0; n < 150; n++) {
            const work = pickWork(random, names, naive, asker);
            if (!work) continue;
            const told = [await sides[0].told(work), await sides[1].told(work)];
            const said = `seed ${random.seed}, ${JSON.stringify({ asker, rules, hidden: [...other.keys()].filter((name) => !entries.has(name)) })}`;
            expect(told[1], said).to.deep.equal(told[0]);
          }
        } finally {
          await left.close();
          await right.close();
        }
      }
    }).timeout(600_000);
  });
}

function pickWork(random: Random, names: readonly string[], naive: Naive, asker: PlainAsker) {
  if (random.chance(0.6)) return randomSearch(random, names);
  if (random.chance(0.5)) return randomWrite(random, names, naive, asker);
  const dn = random.pick(names);
  const attribute = random.pick([...LOOSE, 'cn', 'hasSubordinates', 'numSubordinates', 'entryDN']);
  const value = Buffer.from(random.pick(['other1', 'd1', 'TRUE', '3', 'ann']));
  return ({ fixture, rights }: Side) =>
    fixture.partition.compare(fixture.dn(dn), attribute, value, rights.viewer) as Promise<boolean>;
}
