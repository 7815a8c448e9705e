import { expect } from 'chai';
import { LdapError } from '../../src/ldap/ldap-error.js';
import { Partition, UNRESTRICTED } from '../../src/partition/index.js';
import type { Dn } from '../../src/schema/schema-types.js';
import { faulty } from '../store/faulty.js';
import { ACTOR, attributes, change, type Fixture, OTHER, openFixture, SUFFIX, SYSTEM } from './fixture.js';
import { NEAR_ENGINES } from './near-engines.js';

const FEW = 100;
const MANY = 400;
const PEOPLE = `ou=people,${SUFFIX}`;

/** RDNs that name nothing, and an entry below them. */
const below = (rdns: number, ancestor: string) => `${'cn=a,'.repeat(rdns)}${ancestor}`;

for (const engine of NEAR_ENGINES) {
  describe(`names of many RDNs (${engine})`, () => {
    let fixture: Fixture;
    /** Counts what is read of the store, and of the RDNs of DNs that `counted` made. */
    let partition: Partition;
    let steps = 0;
    before(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      const counting = faulty(fixture.store, () => {
        steps++;
        return undefined;
      });
      partition = await Partition.open(counting, fixture.partition.schema);
    });
    after(async () => {
      await fixture.expectClean();
      await fixture.close();
    });

    function counted(text: string): Dn {
      const { rdns, ...rest } = fixture.dn(text);
      const get = (target: Dn['rdns'], name: string | symbol): unknown => {
        steps++;
        return Reflect.get(target, name);
      };
      return { ...rest, rdns: new Proxy(rdns, { get }) };
    }

    const sink = { entry: () => undefined, reference: () => undefined };
    const search = (dn: string, given: Partial<Parameters<Fixture['params']>[0]>) =>
      partition.search({ ...fixture.params(given), base: counted(dn) }, sink);
    const options = { newRdn: 'cn=b', deleteOldRdn: false };
    const operations: Record<string, (dn: string) => unknown> = {
      'a search of the base': (dn) => search(dn, { scope: 'base' }),
      'a search of all below': (dn) => search(dn, {}),
      'a search that follows aliases': (dn) => search(dn, { deref: 'always' }),
      'a compare': (dn) => partition.compare(counted(dn), 'cn', Buffer.from('a'), UNRESTRICTED),
      'an add': (dn) => partition.add(counted(dn), attributes({ objectClass: 'device', cn: 'a' }), ACTOR),
      'a modify': (dn) => partition.modify(counted(dn), [change('replace', 'cn', 'x')], ACTOR),
      'a delete': (dn) => partition.delete(counted(dn), ACTOR),
      'a rename': (dn) => partition.rename(counted(dn), { ...options, newSuperior: undefined }, ACTOR),
      'a move below it': (dn) => partition.rename(fixture.dn(PEOPLE), { ...options, newSuperior: dn }, ACTOR),
      'a read': (dn) => partition.read(counted(dn)),
    };

    /** Steps of an operation that finds nothing, and how far it says that the name goes. */
    async function cost(operation: (dn: string) => unknown, dn: string): Promise<[number, string | undefined]> {
      steps = 0;
      try {
        await operation(dn);
      } catch (error) {
        if (!(error instanceof LdapError)) throw error;
        expect(error.result).to.equal('noSuchObject');
        return [steps, error.matchedDN];
      }
      return expect.fail('it was found');
    }

    for (const aliases of [false, true]) {
      describe(aliases ? 'where there are aliases' : 'where there are none', () => {
        before(async () => {
          if (!aliases) return;
          await fixture.add(`cn=link,${SUFFIX}`, {
            objectClass: ['alias', 'extensibleObject'],
            cn: 'link',
            aliasedObjectName: PEOPLE,
          });
        });

        for (const [name, operation] of Object.entries(operations)) {
          it(`${name} costs so much for each RDN`, async () => {
            for (const ancestor of [PEOPLE, OTHER, 'dc=com']) {
              const matched = ancestor === PEOPLE ? PEOPLE : '';
              const once = await cost(operation, below(FEW, ancestor));
              const [few, dn] = await cost(operation, below(FEW, ancestor));
              const [many] = await cost(operation, below(MANY, ancestor));
              expect([once[1] ?? '', dn ?? '']).to.deep.equal([matched, matched]);
              expect(many, `${few} steps for ${FEW}`).to.be.lessThan((MANY / FEW + 1) * few);
              expect(many).to.be.lessThan(40 * MANY);
            }
          });
        }
      });
    }

    it('are no other than none', async () => {
      for (const name of ['a read', 'a compare']) expect((await cost(operations[name]!, ''))[1] ?? '').to.equal('');
      expect(await partition.findRow(fixture.dn(''))).to.equal(undefined);
    });

    it('are refused by a load one by one', async () => {
      for (const [rdns, why] of [
        [FEW, /the entry above it does not exist/],
        [MANY, /the entry above it does not exist/],
      ] as const) {
        const reasons: string[] = [];
        async function* chunks() {
          yield [{ line: 1, dn: below(rdns, PEOPLE), attributes: attributes({ objectClass: 'device', cn: 'a' }) }];
        }
        steps = 0;
        await partition.load(chunks(), SYSTEM, {
          continue: true,
          onReject: ({ reason }) => void reasons.push(reason),
        });
        expect(reasons).to.have.length(1).and.to.match(why);
        expect(steps).to.be.lessThan(100);
      }
    });

    it('lead to entries that lie deep, and past those that were cached and are gone', async () => {
      const levels = 60;
      const names = [SUFFIX];
      const unit = (i: number) => `ou=${'level'.repeat(10)}${i},${names[i]}`;
      for (let i = 0; i < levels; i++) names.push(unit(i));
      for (let i = 0; i < levels; i++) await fixture.unit(`${'level'.repeat(10)}${i}`, names[i]);
      const deepest = names.at(-1)!;
      expect(deepest.length).to.be.greaterThan(3000);
      const missed = async (dn: string) => (await cost(operations['a compare']!, dn))[1];
      expect(await missed(`cn=x,cn=y,${deepest}`)).to.equal(deepest);
      expect(await partition.compare(fixture.dn(deepest), 'objectClass', Buffer.from('top'), UNRESTRICTED)).to.equal(
        true,
      );
      for (let i = levels; i > 0; i--) {
        await fixture.delete(names[i]!);
        expect(await missed(`cn=x,cn=y,${deepest}`), `level ${i}`).to.equal(names[i - 1]);
      }
      for (let i = 0; i < 3; i++) {
        await fixture.unit(`${'level'.repeat(10)}${i}`, names[i]);
        expect(await missed(`cn=x,cn=y,${deepest}`), `level ${i} again`).to.equal(names[i + 1]);
      }
      for (let i = 3; i > 0; i--) await fixture.delete(names[i]!);
    });
  });
}
