import { expect } from 'chai';
import { LdapError } from '../../src/ldap/ldap-error.js';
import type { Actor } from '../../src/partition/model/directory-types.js';
import { add } from '../../src/partition/write/add.js';
import type { Rule, WriteContext } from '../../src/partition/write/context.js';
import { remove } from '../../src/partition/write/delete.js';
import { modify } from '../../src/partition/write/modify.js';
import { rename } from '../../src/partition/write/rename.js';
import { RULES } from '../../src/partition/write/rules/index.js';
import { attributes, change, type Fixture, openFixture, Random } from '../partition/fixture.js';
import { NEAR_ENGINES } from '../partition/near-engines.js';
import { rounds } from '../rounds.js';
import { Naive, type PlainAsker, type PlainEntry, parentOf } from './naive.js';
import { PEOPLE, randomAsker, randomEntries, SUFFIX, UNITS } from './random-rules.js';
import { compiledOf, fill, rightsOf, validRules } from './rules-fixture.js';

/** What is allowed comes to the last rule, which refuses it: nothing is ever written. */
const ALLOWED = 'this was allowed';
const LAST: Rule = { name: 'last', checkChange: () => ({ refuse: new LdapError('other', ALLOWED) }) };

interface Attempt {
  readonly what: string;
  readonly allowed: boolean;
  readonly work: (context: WriteContext, actor: Actor) => Promise<unknown>;
}

/** A write, and whether the words of the rules allow it. */
function randomAttempt(random: Random, fixture: Fixture, naive: Naive, asker: PlainAsker): Attempt {
  const entry = naive.entries.get(random.pick([...naive.entries.keys()]))!;
  const { dn } = entry;
  const may = (right: string, on: PlainEntry = entry): boolean =>
    naive.onEntry(asker, on, 'see') && naive.onEntry(asker, on, right);
  const seen = naive.onEntry(asker, entry, 'see');
  switch (random.int(5)) {
    case 0: {
      const attribute = random.pick(['title', 'mail', 'userPassword', 'member', 'description']);
      const how = random.pick(['add', 'delete', 'replace'] as const);
      const allowed = seen && naive.onAttribute(asker, entry, attribute, how);
      const values =
        how === 'delete' ? [...(entry.values.get(attribute.toLowerCase()) ?? ['x'])].slice(0, 1) : ['cn=x'];
      const changes = [change(how, attribute, ...values)];
      return {
        what: `${how} ${attribute} of ${dn}`,
        allowed,
        work: (c, actor) => modify(c, fixture.dn(dn), changes, actor),
      };
    }
    case 1:
      return { what: `remove ${dn}`, allowed: may('remove'), work: (c, actor) => remove(c, fixture.dn(dn), actor) };
    case 2: {
      const parent = naive.entries.get(random.pick(UNITS))!;
      const added = {
        dn: `cn=new,${parent.dn}`,
        values: new Map([
          ['objectclass', ['inetOrgPerson']],
          ['cn', ['new']],
          ['sn', ['new']],
          ['employeetype', [random.pick(['staff', 'guest'])]],
          ...(random.chance(0.5) ? [['title', ['chief']] as const] : []),
        ]),
      };
      const names = [...added.values.keys()];
      const allowed = may('create', parent) && names.every((name) => naive.onAttribute(asker, added, name, 'add'));
      const given = attributes(Object.fromEntries([...added.values].map(([name, values]) => [name, [...values]])));
      return { what: `add ${added.dn}`, allowed, work: (c, actor) => add(c, fixture.dn(added.dn), given, actor) };
    }
    default: {
      const target = naive.entries.get(random.pick(PEOPLE))!;
      const superior = random.chance(0.6) ? naive.entries.get(random.pick(UNITS))! : undefined;
      const moves = superior !== undefined && superior.dn !== parentOf(target.dn);
      const renames = !moves || random.chance(0.5);
      const deleteOldRdn = random.chance(0.5);
      const newRdn = renames ? 'cn=renamed' : target.dn.slice(0, target.dn.indexOf(','));
      const allowed =
        naive.onEntry(asker, target, 'see') &&
        (superior === undefined || naive.onEntry(asker, superior, 'see')) &&
        (!renames || naive.onEntry(asker, target, 'rename')) &&
        (!renames || naive.onAttribute(asker, target, 'cn', 'add')) &&
        (!renames || !deleteOldRdn || naive.onAttribute(asker, target, 'cn', 'delete')) &&
        (!moves || (naive.onEntry(asker, target, 'moveOut') && may('moveIn', superior)));
      const to = { newRdn, deleteOldRdn, newSuperior: superior?.dn };
      return {
        what: `rename ${target.dn} ${JSON.stringify(to)}`,
        allowed,
        work: (c, actor) => rename(c, fixture.dn(target.dn), to, actor),
      };
    }
  }
}

const EVERYTHING_BUT = (right: string) =>
  ['add', 'delete', 'replace', 'create', 'remove', 'rename', 'moveIn', 'moveOut'].filter((one) => one !== right);

for (const engine of NEAR_ENGINES) {
  describe(`writes by access rules (${engine})`, () => {
    const random = new Random();
    let fixture: Fixture;
    let entries: Map<string, PlainEntry>;
    before(async () => {
      fixture = await openFixture(engine);
      entries = randomEntries(random);
      await fill(fixture, entries);
    });
    after(() => fixture.close());

    it(`writes by random access rules are allowed as in the naive evaluation (seed ${random.seed})`, async () => {
      const { context } = fixture.partition;
      const stopped: WriteContext = { ...context, rules: [...RULES, LAST] };
      const outcomes = { allowed: 0, refused: 0 };
      const times = engine === 'hbase' ? rounds(15, 60) : rounds(30, 500);
      for (let round = 0; round < times; round++) {
        const some = validRules(random, fixture, 1 + random.int(8));
        const wide = {
          name: 'wide',
          who: random.pick([{ users: true as const }, { users: true as const, strength: 128 }]),
          allow: ['view', ...EVERYTHING_BUT(random.pick(['add', 'delete', 'create', 'rename', 'moveIn', 'none']))],
        };
        const rules = round === 0 || random.chance(0.6) ? [...some, wide] : some;
        const naive = new Naive(rules, entries);
        const asker = randomAsker(random);
        const access = await rightsOf(fixture, compiledOf(fixture, rules), asker, entries);
        for (let n = 0; n < 30; n++) {
          const { what, allowed, work } = randomAttempt(random, fixture, naive, asker);
          const told = await work(stopped, { dn: asker.dn ?? '', access }).then(
            () => 'done',
            (error: unknown) => (error instanceof LdapError ? `${error.result}: ${error.message}` : error),
          );
          const said = `${what}: ${String(told)}; seed ${random.seed}, ${JSON.stringify({ asker, rules })}`;
          const isRefused = /^(?:insufficientAccessRights|noSuchObject)/.test(String(told));
          expect(!isRefused, said).to.equal(allowed);
          outcomes[allowed ? 'allowed' : 'refused']++;
        }
      }
      expect(outcomes.allowed).to.be.greaterThan(0);
      expect(outcomes.refused).to.be.greaterThan(0);
    }).timeout(600_000);

    it('a client that sees everything and may write nothing is refused every write', async () => {
      const rules = [{ name: 'users read', who: { users: true as const }, allow: ['view'] }];
      const asker = { dn: PEOPLE[0]!, address: undefined, strength: 256 };
      const rights = await rightsOf(fixture, compiledOf(fixture, rules), asker, entries);
      const actor = { dn: asker.dn, access: rights };
      const refusal = async (work: Promise<unknown>) =>
        expect(await work.catch((error: LdapError) => error.result)).to.equal('insufficientAccessRights');
      const { partition } = fixture;
      const dn = fixture.dn(PEOPLE[1]!);
      await refusal(partition.modify(dn, [change('replace', 'title', 'x')], actor));
      await refusal(
        partition.modify(dn, () => [change('replace', 'title', 'x')], actor, { touchedDescriptions: ['title'] }),
      );
      await refusal(partition.delete(dn, actor));
      await refusal(partition.rename(dn, { newRdn: 'cn=x', deleteOldRdn: true, newSuperior: undefined }, actor));
      await refusal(partition.add(fixture.dn(`cn=x,${SUFFIX}`), attributes({ objectClass: 'person', sn: 'x' }), actor));
    });
  });
}
