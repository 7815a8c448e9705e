import { expect } from 'chai';
import { type Right, rightSet } from '../../src/access/right.js';
import type { Rights } from '../../src/access/rights.js';
import type { CheckedEntry } from '../../src/partition/model/directory-types.js';
import { MASTER_TABLE } from '../../src/partition/model/tables.js';
import { type Fixture, openFixture, Random } from '../partition/fixture.js';
import { NEAR_ENGINES } from '../partition/near-engines.js';
import { rounds } from '../rounds.js';
import { ATTRIBUTE_RIGHTS, CHILDREN_RIGHTS, ENTRY_RIGHTS, Naive, type PlainAsker, type PlainEntry } from './naive.js';
import { randomAsker, randomEntries } from './random-rules.js';
import { compiledOf, fill, rightsOf, validRules } from './rules-fixture.js';

const ASKED = [
  'cn',
  'cn;lang-de',
  'sn',
  'title',
  'mail',
  'description',
  'userPassword',
  'member',
  'objectClass',
  'entryUUID',
];

async function metEntry(fixture: Fixture, dn: string): Promise<CheckedEntry> {
  const { id } = await fixture.read(dn);
  const node = (await fixture.partition.context.nodes.byId(id))!;
  return { node, row: (await fixture.store.get(MASTER_TABLE.name, id))! };
}

/** What the two say of an entry, for messages: `right target`. */
function compiledRights(rights: Rights, met: CheckedEntry, fixture: Fixture): string[] {
  const sight = rights.sightOf(met);
  const has = (set: number, right: string) => (set & rightSet(right as Right)) !== 0;
  const found = [
    ...ENTRY_RIGHTS.filter((right) => has(sight.entryRights, right)).map((right) => `${right} entry`),
    ...CHILDREN_RIGHTS.filter((right) => has(sight.childrenRights, right)).map((right) => `${right} children`),
  ];
  for (const attribute of ASKED) {
    const on = sight.rightsOn(fixture.partition.schema.requireDescription(attribute));
    found.push(...ATTRIBUTE_RIGHTS.filter((right) => has(on, right)).map((right) => `${right} ${attribute}`));
  }
  return found;
}

function naiveRights(naive: Naive, asker: PlainAsker, entry: PlainEntry): string[] {
  const found = [
    ...ENTRY_RIGHTS.filter((right) => naive.onEntry(asker, entry, right)).map((right) => `${right} entry`),
    ...CHILDREN_RIGHTS.filter((right) => naive.onEntry(asker, entry, right)).map((right) => `${right} children`),
  ];
  for (const attribute of ASKED)
    found.push(
      ...ATTRIBUTE_RIGHTS.filter((right) => naive.onAttribute(asker, entry, attribute, right)).map(
        (right) => `${right} ${attribute}`,
      ),
    );
  return found;
}

const USES = ['search', 'compare', 'read'] as const;

for (const engine of NEAR_ENGINES) {
  describe(`rights by access rules (${engine})`, () => {
    const random = new Random();
    let fixture: Fixture;
    let entries: Map<string, PlainEntry>;
    const mets = new Map<string, CheckedEntry>();
    before(async () => {
      fixture = await openFixture(engine);
      entries = randomEntries(random);
      await fill(fixture, entries);
      for (const dn of entries.keys()) mets.set(dn, await metEntry(fixture, dn));
    });
    after(() => fixture.close());

    it(`rights by random access rules are those of the naive evaluation (seed ${random.seed})`, async () => {
      for (let round = 0; round < rounds(engine === 'hbase' ? 3 : 8, 200); round++) {
        const rules = validRules(random, fixture, 1 + random.int(12));
        const naive = new Naive(rules, entries);
        const access = compiledOf(fixture, rules);
        for (let n = 0; n < 4; n++) {
          const asker = randomAsker(random);
          const rights = await rightsOf(fixture, access, asker, entries);
          const said = () => `seed ${random.seed}, ${JSON.stringify({ rules, asker })}`;
          for (const entry of entries.values()) {
            const met = mets.get(entry.dn)!;
            const meant = naiveRights(naive, asker, entry);
            expect(compiledRights(rights, met, fixture), `${entry.dn}: ${said()}`).to.deep.equal(meant);
            const { viewer } = rights;
            const { id, parent } = met.node;
            const sight = viewer.sightOf?.({ id, parent: parent!, row: met.row });
            const isVisible = viewer.sightOf === undefined || sight !== undefined;
            expect(isVisible, `${entry.dn}: ${said()}`).to.equal(meant.includes('see entry'));
            const told = viewer.sees?.(met.node);
            if (told !== undefined) expect(told, `${entry.dn}: ${said()}`).to.equal(isVisible);
            for (const attribute of ASKED) {
              const { type } = fixture.partition.schema.requireDescription(attribute);
              for (const use of USES)
                if (viewer.mayUse?.(met.node, use, type))
                  expect(meant, `${entry.dn}: ${said()}`).to.include.members(['see entry', `${use} ${attribute}`]);
            }
            if (!isVisible) continue;
            for (const attribute of ASKED) {
              const description = fixture.partition.schema.requireDescription(attribute);
              for (const use of USES) {
                const { secret } = description.type;
                if (secret && use !== 'read') continue;
                const may = sight ? (sight.all(use) && !secret) || sight.allows(use, description) : !secret;
                expect(may, `${use} ${attribute} of ${entry.dn}: ${said()}`).to.equal(
                  meant.includes(`${use} ${attribute}`),
                );
              }
            }
          }
        }
      }
    }).timeout(600_000);
  });
}
