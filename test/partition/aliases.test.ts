import { expect } from 'chai';
import type { ResultName } from '../../src/ldap/ldap-error.js';
import type { DerefAliases, Scope } from '../../src/ldap/ldap-types.js';
import { Partition } from '../../src/partition/index.js';
import { META_TABLE } from '../../src/partition/model/tables.js';
import { UNRESTRICTED } from '../../src/partition/model/viewer.js';
import { isPromise } from '../../src/store/maybe.js';
import { counted, type StoreWork } from '../store/counted.js';
import { change, Fixture, openFixture, refused, type SearchGiven, SUFFIX, testSchema } from './fixture.js';
import { NEAR_ENGINES } from './near-engines.js';

const PEOPLE = `ou=people,${SUFFIX}`;
const STAFF = `ou=staff,${SUFFIX}`;
const ALL = '(objectClass=*)';
const nothing = (): undefined => undefined;

for (const engine of NEAR_ENGINES) {
  describe(`aliases and referrals (${engine})`, () => {
    let fixture: Fixture;

    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      await fixture.unit('staff');
      await fixture.person('ann', PEOPLE);
      await fixture.person('bob', STAFF);
    });
    afterEach(async () => {
      await fixture.expectClean();
      await fixture.close();
    });

    const alias = (dn: string, target: string) =>
      fixture.add(dn, {
        objectClass: ['alias', 'extensibleObject'],
        cn: dn.split(/[=,]/)[1]!,
        aliasedObjectName: target,
      });
    const referral = (dn: string, ...ref: string[]) =>
      fixture.add(
        dn,
        { objectClass: ['referral', 'extensibleObject'], ou: dn.split(/[=,]/)[1]!, ref },
        undefined,
        true,
      );

    /** Another front end, and what it reads. */
    async function secondFront(): Promise<{ front: Fixture; work: StoreWork }> {
      const { store, work } = counted(fixture.store);
      return { front: new Fixture(store, await Partition.open(store, testSchema()), undefined), work };
    }

    it('elsewhere cost a search nothing', async () => {
      const { front, work } = await secondFront();
      const searches: SearchGiven[] = [
        { base: STAFF, filter: '(cn=bob)' },
        { base: STAFF, filter: '(cn=bob)', scope: 'one', deref: 'always' },
        { base: STAFF, filter: '(description=*)', deref: 'searching' },
        { base: `cn=bob,${STAFF}`, scope: 'base' },
      ];
      const cost = async (given: SearchGiven): Promise<[rows: number, later: boolean]> => {
        // The shared row is read once in a turn, whoever asks first.
        const rows = () => work.rows - (work.rowsOf.get(META_TABLE.name) ?? 0);
        const before = rows();
        const outcome = front.partition.search(front.params(given), { entry: nothing, reference: nothing });
        await outcome;
        return [rows() - before, isPromise(outcome)];
      };
      const costs = async () => {
        // In another turn of the event loop it sees what others have written; what is known once for all is looked up
        // before.
        await new Promise(setImmediate);
        for (const given of searches) await cost(given);
        const found = [];
        for (const given of searches) found.push(await cost(given));
        return found;
      };
      const none = await costs();
      await alias(`cn=link,${PEOPLE}`, STAFF);
      expect(await costs(), 'beside an alias').to.deep.equal(none);
      await referral(`ou=far,${PEOPLE}`, 'ldap://other.example/');
      expect(await costs(), 'beside a referral, too').to.deep.equal(none);
    });

    describe('aliases', () => {
      it('are entries like others when nothing is dereferenced', async () => {
        await alias(`cn=link,${PEOPLE}`, STAFF);
        expect(await fixture.find(ALL, { base: PEOPLE })).to.deep.equal([
          `cn=ann,${PEOPLE}`,
          `cn=link,${PEOPLE}`,
          PEOPLE,
        ]);
        expect(await fixture.find(ALL, { base: `cn=link,${PEOPLE}`, scope: 'base' })).to.deep.equal([
          `cn=link,${PEOPLE}`,
        ]);
        expect(await fixture.find('(objectClass=alias)', { deref: 'finding' })).to.deep.equal([`cn=link,${PEOPLE}`]);
      });

      it('are followed in searching, in finding, and in both', async () => {
        await alias(`cn=link,${PEOPLE}`, STAFF);
        const whole = [`cn=ann,${PEOPLE}`, `cn=bob,${STAFF}`, PEOPLE, STAFF];
        expect(await fixture.find(ALL, { base: PEOPLE, deref: 'searching' })).to.deep.equal(whole);
        expect(await fixture.find('(cn=bob)', { base: PEOPLE, deref: 'searching' })).to.deep.equal([`cn=bob,${STAFF}`]);
        expect(await fixture.find(ALL, { base: PEOPLE, deref: 'searching', scope: 'one' })).to.deep.equal([
          `cn=ann,${PEOPLE}`,
          STAFF,
        ]);
        expect(await fixture.find(ALL, { base: `cn=link,${PEOPLE}`, deref: 'finding' })).to.deep.equal([
          `cn=bob,${STAFF}`,
          STAFF,
        ]);
        expect(await fixture.find(ALL, { base: `cn=bob,cn=link,${PEOPLE}`, deref: 'finding' })).to.deep.equal([
          `cn=bob,${STAFF}`,
        ]);
        expect(
          await fixture.find(ALL, { base: `cn=bob,cn=link,${PEOPLE}`, deref: 'always', scope: 'base' }),
        ).to.deep.equal([`cn=bob,${STAFF}`]);
        await refused('noSuchObject', fixture.find(ALL, { base: `cn=bob,cn=link,${PEOPLE}`, deref: 'searching' }));
        expect(await fixture.find(ALL, { deref: 'always' })).to.deep.equal([...whole, SUFFIX].sort());
      });

      it('in a circle end with loopDetect or are passed over, and nothing falls', async () => {
        await alias(`cn=one,${SUFFIX}`, `cn=two,${SUFFIX}`);
        await alias(`cn=two,${SUFFIX}`, `cn=one,${SUFFIX}`);
        await alias(`cn=self,${SUFFIX}`, `cn=self,${SUFFIX}`);
        await alias(`cn=below,${SUFFIX}`, `cn=x,cn=below,${SUFFIX}`);
        for (const cn of ['one', 'self', 'below']) {
          await refused('loopDetect', fixture.find(ALL, { base: `cn=${cn},${SUFFIX}`, deref: 'finding' }));
          await refused('loopDetect', fixture.find(ALL, { base: `cn=a,cn=${cn},${SUFFIX}`, deref: 'always' }));
        }
        await refused('loopDetect', fixture.find(ALL, { deref: 'searching' }));
        expect(await fixture.find('(cn=ann)')).to.deep.equal([`cn=ann,${PEOPLE}`]);
      });

      it('that lead into each other’s subtree give each entry once', async () => {
        await alias(`cn=to-staff,${PEOPLE}`, STAFF);
        await alias(`cn=to-people,${STAFF}`, PEOPLE);
        await alias(`cn=to-top,${STAFF}`, SUFFIX);
        expect(await fixture.find(ALL, { base: PEOPLE, deref: 'searching' })).to.deep.equal(
          [`cn=ann,${PEOPLE}`, `cn=bob,${STAFF}`, SUFFIX, PEOPLE, STAFF].sort(),
        );
        expect(await fixture.find(ALL, { deref: 'searching' })).to.have.length(5);
      });

      it('whose entry is gone lead nowhere', async () => {
        await alias(`cn=lost,${PEOPLE}`, `cn=nobody,${SUFFIX}`);
        expect(await fixture.find(ALL, { base: PEOPLE, deref: 'searching' })).to.deep.equal([
          `cn=ann,${PEOPLE}`,
          PEOPLE,
        ]);
        const problem = await refused(
          'aliasProblem',
          fixture.find(ALL, { base: `cn=lost,${PEOPLE}`, deref: 'finding' }),
        );
        expect(problem.matchedDN).to.equal(`cn=lost,${PEOPLE}`);
      });

      it('appear and go while the directory is open', async () => {
        expect(await fixture.find(ALL, { base: PEOPLE, deref: 'searching' })).to.have.length(2);
        await alias(`cn=link,${PEOPLE}`, STAFF);
        expect(await fixture.find(ALL, { base: PEOPLE, deref: 'searching' })).to.have.length(4);
        await fixture.modify(`cn=link,${PEOPLE}`, change('replace', 'aliasedObjectName', SUFFIX));
        expect(await fixture.find(ALL, { base: PEOPLE, deref: 'searching' })).to.have.length(5);
        await fixture.delete(`cn=link,${PEOPLE}`);
        expect(await fixture.find(ALL, { base: PEOPLE, deref: 'searching' })).to.have.length(2);
      });

      it('page like others', async () => {
        await alias(`cn=link,${PEOPLE}`, STAFF);
        for (const pageSize of [1, 2, 3]) {
          const found: string[] = [];
          let resume: Buffer | undefined;
          do {
            const page = await fixture.search({
              base: PEOPLE,
              deref: 'always',
              pageSize,
              ...(resume ? { resume } : {}),
            });
            found.push(...page.dns);
            resume = page.outcome.resume;
          } while (resume);
          expect(found.sort()).to.deep.equal([`cn=ann,${PEOPLE}`, `cn=bob,${STAFF}`, PEOPLE, STAFF]);
        }
      });

      it('in quantity cost each a little, and the limits of the search hold', async () => {
        const count = engine === 'memory' || engine === 'lmdb' ? 400 : 40;
        await fixture.unit('links');
        const numbers = Array.from({ length: count }, (_, n) => n);
        await Promise.all(numbers.map((n) => fixture.person(`p${n}`, STAFF)));
        await Promise.all(numbers.map((n) => alias(`cn=l${n},ou=links,${SUFFIX}`, `cn=p${n},${STAFF}`)));
        await alias(`cn=again,ou=links,${SUFFIX}`, `cn=p0,${STAFF}`);
        await alias(`cn=units,${PEOPLE}`, `ou=links,${SUFFIX}`);
        const { front, work } = await secondFront();
        const people = numbers.map((n) => `cn=p${n},${STAFF}`);
        for (const scope of ['one', 'sub'] as const) {
          const given = { base: `ou=links,${SUFFIX}`, deref: 'searching', scope } as const;
          const before = work.rows;
          const { dns, outcome } = await front.search(given);
          expect(dns.sort()).to.deep.equal([...people, ...(scope === 'sub' ? [given.base] : [])].sort());
          // The entry itself, the aliases below it (HBase counts a row that matches twice) as they are met and as they
          // are followed, and what they lead to.
          expect(outcome.rowsExamined).to.be.below((engine === 'hbase' ? 4 : 3) * count + 10);
          const whole = work.rows - before;
          // Where they are, each one, the way to what it names, and that.
          expect(whole).to.be.below(15 * count);
          const ended = async (result: ResultName, limit: SearchGiven): Promise<number> => {
            const start = work.rows;
            await refused(result, front.search({ ...given, ...limit }));
            return work.rows - start;
          };
          // Limits are looked at once in a turn.
          for (const rows of [
            await ended('timeLimitExceeded', { deadline: performance.now() - 1 }),
            await ended('canceled', { signal: { aborted: true } }),
            await ended('adminLimitExceeded', { lookLimit: 5 }),
          ])
            if (count === 400) expect(rows).to.be.below(whole / 2);
        }
        expect(await front.find('(cn=p7)', { base: PEOPLE, deref: 'always' })).to.deep.equal([`cn=p7,${STAFF}`]);
      });

      it('named by their class’s OID are aliases too', async () => {
        await fixture.add(`cn=link,${PEOPLE}`, {
          objectClass: ['2.5.6.1', 'extensibleObject'],
          cn: 'link',
          aliasedObjectName: STAFF,
        });
        expect(await fixture.find('(cn=bob)', { base: PEOPLE, deref: 'searching' })).to.deep.equal([`cn=bob,${STAFF}`]);
      });

      it('whose class stands under an option are aliases too', async () => {
        expect(await fixture.find('(cn=bob)', { base: PEOPLE, deref: 'searching' })).to.deep.equal([]);
        await fixture.add(`cn=link,${PEOPLE}`, {
          objectClass: ['device', 'extensibleObject'],
          'objectClass;x-more': ['alias'],
          cn: 'link',
          aliasedObjectName: STAFF,
        });
        expect(await fixture.find('(cn=bob)', { base: PEOPLE, deref: 'searching' })).to.deep.equal([`cn=bob,${STAFF}`]);
        await fixture.delete(`cn=link,${PEOPLE}`);
        expect(await fixture.find('(cn=bob)', { base: PEOPLE, deref: 'searching' })).to.deep.equal([]);
      });
    });

    describe('referrals', () => {
      const URL = 'ldap://other.example/ou=far,dc=example,dc=com';
      const FAR = `ou=far,${SUFFIX}`;

      it('come back as references from searches that pass them', async () => {
        await referral(FAR, URL, 'ldap://third.example/');
        const sub = await fixture.search({});
        expect(sub.dns).to.not.include(FAR);
        expect(sub.references).to.deep.equal([
          ['ldap://other.example/ou=far,dc=example,dc=com??sub', 'ldap://third.example/ou=far,dc=example,dc=com??sub'],
        ]);
        const one = await fixture.search({ scope: 'one' });
        expect(one.references[0]![0]).to.match(/\?\?base$/);
        expect((await fixture.search({ base: PEOPLE })).references).to.deep.equal([]);
      });

      it('end operations at and below them with a referral', async () => {
        await referral(FAR, URL);
        const below = `cn=x,${FAR}`;
        for (const operation of [
          () => fixture.search({ base: FAR }),
          () => fixture.search({ base: FAR, scope: 'base' }),
          () => fixture.modify(FAR, change('add', 'description', 'x')),
          () => fixture.delete(FAR),
          () => fixture.rename(FAR, 'ou=b'),
          async () => fixture.partition.compare(fixture.dn(FAR), 'ou', Buffer.from('far'), UNRESTRICTED),
        ]) {
          const error = await refused('referral', operation());
          expect(error.referrals[0]).to.match(/^ldap:\/\/other\.example\/ou=far,dc=example,dc=com/);
        }
        for (const operation of [
          () => fixture.search({ base: below }),
          () => fixture.person('x', FAR),
          () => fixture.delete(below),
        ]) {
          const error = await refused('referral', operation());
          expect(error.referrals[0]).to.match(/^ldap:\/\/other\.example\/cn=x,ou=far,dc=example,dc=com/);
        }
      });

      it('end a search with URLs that have its scope', async () => {
        await referral(FAR, URL, 'ldap://third.example/', 'http://other/');
        const urls = async (base: string, scope: Scope, deref: DerefAliases = 'never') =>
          (await refused('referral', fixture.search({ base, scope, deref }))).referrals;
        for (const scope of ['base', 'one', 'sub'] as const) {
          expect(await urls(FAR, scope)).to.deep.equal([
            `ldap://other.example/${FAR}??${scope}`,
            `ldap://third.example/${FAR}??${scope}`,
            'http://other/',
          ]);
          expect((await urls(`cn=x,${FAR}`, scope))[0]).to.equal(`ldap://other.example/cn=x,${FAR}??${scope}`);
        }
        expect((await urls(FAR, 'subordinate'))[0]).to.equal(`ldap://other.example/${FAR}`);
        await fixture.add(`cn=way,${SUFFIX}`, {
          objectClass: ['alias', 'extensibleObject'],
          cn: 'way',
          aliasedObjectName: FAR,
        });
        expect((await urls(`cn=x,cn=way,${SUFFIX}`, 'one', 'always'))[0]).to.equal(
          `ldap://other.example/cn=x,${FAR}??one`,
        );
        expect((await refused('referral', fixture.delete(FAR))).referrals[0]).to.equal(`ldap://other.example/${FAR}`);
      });

      it('are entries like others under ManageDsaIT', async () => {
        await referral(FAR, URL);
        const found = await fixture.search({ manageDsaIT: true });
        expect(found.dns).to.include(FAR);
        expect(found.references).to.deep.equal([]);
        const options = { manageDsaIT: true };
        await fixture.partition.modify(
          fixture.dn(FAR),
          [change('replace', 'ref', 'ldap://new.example/')],
          { dn: '' },
          options,
        );
        await fixture.partition.rename(
          fixture.dn(FAR),
          { newRdn: 'ou=farther', deleteOldRdn: true, newSuperior: undefined },
          { dn: '' },
          options,
        );
        expect((await fixture.search({})).references).to.deep.equal([
          ['ldap://new.example/ou=farther,dc=example,dc=com??sub'],
        ]);
        await fixture.partition.delete(fixture.dn(`ou=farther,${SUFFIX}`), { dn: '' }, options);
        expect((await fixture.search({})).references).to.deep.equal([]);
      });

      it('with odd URLs harm nothing', async () => {
        await referral(
          FAR,
          'ldap://h/%zz',
          'http://other/',
          'nonsense label with spaces',
          'ldap://h/ou=%20x label',
          'ldap:///',
        );
        expect((await fixture.search({})).references[0]).to.have.length(5);
        await refused('referral', fixture.search({ base: FAR }));
      });
    });
  });
}
