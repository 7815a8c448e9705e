import { expect } from 'chai';
import { LdapError } from '../../src/ldap/ldap-error.js';
import { draftFromAttributes } from '../../src/partition/model/draft.js';
import { CHANGES_TABLE } from '../../src/partition/model/tables.js';
import { newUuid } from '../../src/partition/model/uuid.js';
import { add, additionOf, completeEntry } from '../../src/partition/write/add.js';
import type { Change, WriteContext } from '../../src/partition/write/context.js';
import { remove } from '../../src/partition/write/delete.js';
import { modify } from '../../src/partition/write/modify.js';
import { planOf } from '../../src/partition/write/plan.js';
import { rename } from '../../src/partition/write/rename.js';
import { applyRules } from '../../src/partition/write/rules/apply.js';
import { StoreError } from '../../src/store/store-error.js';
import {
  attributes,
  change,
  ENGINES,
  type Fixture,
  openFixture,
  type Random,
  SUFFIX,
  SYSTEM,
  seeded,
  uuidText,
} from './fixture.js';

type Operation = (context: WriteContext) => Promise<unknown>;

/** The change that the operation is about to make, as the rules have amended it. */
async function changeOf({ partition }: Fixture, operation: Operation): Promise<Change> {
  const stop = new LdapError('other', 'it is seen and not made');
  const seen: Change[] = [];
  const last = {
    name: 'last',
    checkChange: (_: WriteContext, made: Change) => {
      seen.push(made);
      return { refuse: stop };
    },
  };
  const { context } = partition;
  try {
    await operation({ ...context, rules: [...context.rules, last] });
  } catch (error) {
    if (error !== stop) throw error;
  }
  return seen[0]!;
}

/** Makes all of them or none. */
function together({ partition }: Fixture, changes: readonly Change[]): Promise<unknown> {
  const { context } = partition;
  const plan = planOf(
    context,
    changes.map((one) => ({ change: one })),
  );
  return context.store.commit(plan);
}

/** Name, id and attributes of all entries, but for the times of writes. */
async function content(fixture: Fixture): Promise<unknown[]> {
  const found: unknown[] = [];
  for (const dn of await fixture.find('(objectClass=*)')) {
    const { id, attributes: all } = await fixture.read(dn);
    const kept = all.filter(({ description }) => !/^entryCSN$|Timestamp$/i.test(description));
    found.push([
      dn,
      uuidText(id),
      kept.map(({ description, values }) => [description, values.map(String).sort()]).sort(),
    ]);
  }
  return found;
}

async function recordsOf({ store }: Fixture): Promise<number> {
  const scan = store.scan(CHANGES_TABLE.name, {});
  let rows = 0;
  for (let batch = await scan.next(); batch; batch = await scan.next()) rows += batch.keys.length;
  scan.close();
  return rows;
}

/** Operations that do not stand in each other's way: each entry is in one of them, parents stay. */
function operations(fixture: Fixture, random: Random, people: string[], units: string[]): Operation[] {
  const dn = (text: string) => fixture.dn(text);
  const left = [...people];
  const taken = (): string => left.splice(random.int(left.length), 1)[0]!;
  const one = (n: number): Operation => {
    switch (random.int(5)) {
      case 0: {
        const values = { objectClass: 'person', cn: `new${n}`, sn: 'New', entryUUID: uuidText(newUuid(true)) };
        const name = dn(`cn=new${n},${random.pick(units)}`);
        return (context) => add(context, name, attributes(values), SYSTEM);
      }
      case 1: {
        const of = dn(taken());
        return (context) => remove(context, of, SYSTEM);
      }
      case 2: {
        const to = { newRdn: `cn=named${n}`, deleteOldRdn: random.chance(0.5), newSuperior: undefined };
        const of = dn(taken());
        return (context) => rename(context, of, to, SYSTEM);
      }
      case 3: {
        const to = { newRdn: `cn=moved${n}`, deleteOldRdn: true, newSuperior: random.pick(units) };
        const of = dn(taken());
        return (context) => rename(context, of, to, SYSTEM);
      }
      default: {
        const changes = [change('replace', 'sn', `Other ${random.int(3)}`), change('add', 'description', `of ${n}`)];
        const of = dn(taken());
        return (context) => modify(context, of, changes, SYSTEM);
      }
    }
  };
  return Array.from({ length: 2 + random.int(6) }, (_, n) => one(n));
}

const UNITS = ['a', 'b'].map((ou) => `ou=${ou},${SUFFIX}`);

for (const engine of ENGINES) {
  describe(`a plan of several changes (${engine})`, () => {
    let fixture: Fixture;
    let other: Fixture;

    beforeEach(async () => {
      fixture = await openFixture(engine);
      other = await openFixture('memory');
    });
    afterEach(async () => {
      await fixture.expectClean();
      await fixture.close();
      await other.close();
    });

    it('leaves what they leave one after another', () =>
      seeded(async (random) => {
        const people: string[] = [];
        const ids = new Map<string, string>();
        const idOf = (dn: string): string => ids.get(dn) ?? ids.set(dn, uuidText(newUuid(true))).get(dn)!;
        for (const dn of UNITS) {
          const values = { objectClass: 'organizationalUnit', entryUUID: idOf(dn) };
          for (const one of [fixture, other]) await one.add(dn, values, SYSTEM);
        }
        for (let n = 0; n < 8; n++) {
          const dn = `cn=p${n},${random.pick([SUFFIX, ...UNITS])}`;
          const values = { objectClass: 'person', sn: `Sn ${random.int(3)}`, entryUUID: idOf(dn) };
          for (const one of [fixture, other]) await one.add(dn, values, SYSTEM);
          people.push(dn);
        }
        const all = operations(fixture, random, people, UNITS);
        for (const operation of all) await operation(other.partition.context);
        const before = await recordsOf(fixture);
        const changes: Change[] = [];
        for (const operation of all) changes.push(await changeOf(fixture, operation));
        await together(fixture, changes);
        const own = (entries: unknown[]): unknown[] => entries.filter((entry) => (entry as string[])[0] !== SUFFIX);
        expect(own(await content(fixture))).to.deep.equal(own(await content(other)));
        expect((await recordsOf(fixture)) - before).to.equal(all.length);
      }));

    it('takes an entry and one below it', async () => {
      const { context } = fixture.partition;
      const unit = await changeOf(fixture, (within) =>
        add(within, fixture.dn(UNITS[0]!), attributes({ objectClass: 'organizationalUnit' }), SYSTEM),
      );
      const dn = fixture.dn(`cn=below,${UNITS[0]}`);
      const draft = draftFromAttributes(context.schema, attributes({ objectClass: 'person', sn: 'Below' }));
      const id = completeEntry(context, draft, dn);
      const below = additionOf(draft, dn, unit.place.to!, id, SYSTEM, undefined);
      await applyRules(context, below);
      await together(fixture, [unit, below]);
      expect(await fixture.find('(sn=below)', { base: UNITS[0]! })).to.deep.equal([`cn=below,${UNITS[0]}`]);
      expect(await fixture.counts(SUFFIX)).to.deep.equal([1, 2]);
    });

    it('does nothing where one of them cannot be', async () => {
      for (const cn of ['x', 'y']) await fixture.person(cn);
      const dnOf = (cn: string) => fixture.dn(`cn=${cn},${SUFFIX}`);
      const changes = [
        await changeOf(fixture, (context) => remove(context, dnOf('x'), SYSTEM)),
        await changeOf(fixture, (context) => modify(context, dnOf('y'), [change('replace', 'sn', 'new')], SYSTEM)),
      ];
      await fixture.modify(`cn=y,${SUFFIX}`, change('replace', 'sn', 'first'));
      const failed: unknown = await together(fixture, changes).then(
        () => undefined,
        (error: unknown) => error,
      );
      expect(failed).to.be.instanceOf(StoreError).with.property('code', 'guard');
      expect(await fixture.find('(objectClass=person)')).to.have.length(2);
      expect(await fixture.values(`cn=y,${SUFFIX}`, 'sn')).to.deep.equal(['first']);
    });
  });
}
