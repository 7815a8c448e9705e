import { expect } from 'chai';
import type { Store } from '../../src/store/contract.js';
import { StoreError } from '../../src/store/store-error.js';
import { counted } from '../store/counted.js';
import { change, ENGINES, type Fixture, openFixture, refused, SUFFIX, type Values } from './fixture.js';
import { anotherFront, endFronts, frontOf } from './fronts.js';
import { nearTests } from './near-engines.js';

/** An account; without a number one that wants the next. */
function account(uid: string, uidNumber = 'auto'): readonly [string, Values] {
  return [
    `uid=${uid},${SUFFIX}`,
    {
      objectClass: ['account', 'posixAccount'],
      uid,
      cn: uid,
      uidNumber,
      gidNumber: '5',
      homeDirectory: `/home/${uid}`,
    },
  ];
}

for (const engine of ENGINES) {
  describe(`numbers that are given out (${engine})`, () => {
    const near = nearTests(engine);
    let fixture: Fixture;
    beforeEach(async () => {
      fixture = await openFixture(engine);
    });
    afterEach(async () => {
      await fixture.expectClean();
      await fixture.close();
    });

    const set = (first: number, last: number) => fixture.partition.setNumbers('uidNumber', first, last);
    const numberOf = async (uid: string) => Number((await fixture.values(`uid=${uid},${SUFFIX}`, 'uidNumber'))[0]);
    /** The number that a new account gets. */
    const given = async (uid: string, by = fixture) => {
      await by.add(...account(uid));
      return numberOf(uid);
    };
    const next = async () => Number((await fixture.partition.numberRanges())[0]!.next);

    near('"auto" assigns the next number, and is not an integer where no numbers are assigned', async () => {
      await refused('invalidAttributeSyntax', fixture.add(...account('a')));
      await set(1000, 1999);
      expect([await given('a'), await given('b'), await given('c')]).to.deep.equal([1000, 1001, 1002]);
      await refused(
        'invalidAttributeSyntax',
        fixture.modify(`uid=a,${SUFFIX}`, change('replace', 'gidNumber', 'auto')),
      );
      await fixture.partition.removeNumbers('uidNumber');
      await refused('invalidAttributeSyntax', fixture.add(...account('d')));
    });

    it('a modify assigns numbers, too', async () => {
      await set(1000, 1999);
      await fixture.add(...account('a', '7'));
      await fixture.modify(`uid=a,${SUFFIX}`, change('replace', 'uidNumber', 'auto'));
      expect(await numberOf('a')).to.equal(1000);
    });

    near('assigned numbers start above the highest number in the range that an entry has', async () => {
      for (const [n, number] of ['999', '1005', '1500', '2000', '10000', '1499'].entries())
        await fixture.add(...account(`p${n}`, number));
      await set(1000, 1999);
      expect(await given('a')).to.equal(1501);
      await set(10, 99);
      expect(await given('b')).to.equal(10);
    });

    near('assigned numbers continue above numbers given by clients, and skip given numbers', async () => {
      await set(1000, 1999);
      expect(await given('a')).to.equal(1000);
      const before = await next();
      await fixture.add(...account('said', String(before + 2)));
      await fixture.add(...account('outside', '5000'));
      const numbers = new Set([before + 2]);
      // Of a block that was taken before some may be left.
      for (let n = 0; n < 5; n++) numbers.add(await given(`b${n}`));
      expect(numbers).to.have.length(6);
      expect(await next()).to.be.greaterThan(before + 2);
      await fixture.modify(`uid=said,${SUFFIX}`, change('replace', 'uidNumber', '1800'));
      expect(await next()).to.equal(1801);
    });

    it('no number of an entry is assigned again after the setup of the range broke off', async () => {
      await fixture.add(...account('a', '1000'));
      await fixture.add(...account('b', '1001'));
      let plans = 0;
      const { partition } = await frontOf(
        overriding(fixture.store, async (plan) => {
          if (++plans > 1) throw new StoreError('unavailable', 'gone');
          await fixture.store.commit(plan);
        }),
      );
      await refused('unavailable', partition.setNumbers('uidNumber', 1000, 1999));
      await fixture.partition.refresh();
      expect(await next()).to.equal(1000);
      expect(await given('c')).to.equal(1002);
    });

    near('assigning numbers fails at the end of the range', async () => {
      await set(1000, 1002);
      for (const [n, uid] of ['a', 'b', 'c'].entries()) expect(await given(uid)).to.equal(1000 + n);
      const message = /all numbers for 'uidNumber' from 1000 to 1002 are given out.*rowan number set/;
      await refused('unwillingToPerform', fixture.add(...account('d')), message);
      await fixture.add(...account('e', '1002'));
      await set(1000, 1003);
      expect(await given('d')).to.equal(1003);
    });

    near('no number is assigned for a name that is taken', async () => {
      await set(1000, 1999);
      await given('a');
      const before = await next();
      await refused('entryAlreadyExists', fixture.add(...account('a')));
      expect(await next()).to.equal(before);
    });

    it('each number is assigned once to many concurrent clients at several front ends', async () => {
      await set(1000, 9999);
      const fronts = [fixture, await anotherFront(fixture), await anotherFront(fixture)];
      const uids = Array.from({ length: 60 }, (_, n) => `u${n}`);
      await Promise.all(uids.map((uid, n) => fronts[n % 3]!.add(...account(uid))));
      expect(new Set(await Promise.all(uids.map(numberOf)))).to.have.length(60);
      await endFronts(fixture, fronts);
    });

    it('no number is assigned that another client gives at the same time', async () => {
      await set(1000, 9999);
      const other = await frontOf(fixture.store);
      for (let n = 0; n < 5; n++) {
        let met: string | undefined;
        const commit: Store['commit'] = async (plan) => {
          const number = numberIn(plan);
          if (number !== undefined && met === undefined) {
            met = number;
            await other.add(...account(`said${n}`, met));
          }
          await fixture.store.commit(plan);
        };
        const front = await frontOf(overriding(fixture.store, commit));
        await front.add(...account(`auto${n}`));
        expect(met).not.to.equal(undefined);
        expect(await numberOf(`said${n}`)).to.equal(Number(met));
        expect(await numberOf(`auto${n}`)).not.to.equal(Number(met));
      }
    });

    it('a bulk load assigns numbers and advances the next number', async () => {
      await set(1000, 9999);
      const entries = [account('a', '1500'), account('b'), account('c', '1200'), account('d')];
      await fixture.load(entries.map(([dn, values]) => ({ dn, values })));
      const numbers = await Promise.all(['a', 'b', 'c', 'd'].map(numberOf));
      expect(numbers[0]).to.equal(1500);
      expect(new Set(numbers)).to.have.length(4);
      expect(await next()).to.be.greaterThan(1500);
      await fixture.load([{ dn: account('e', '2000')[0], values: account('e', '2000')[1] }]);
      expect(await next()).to.equal(2001);
      await fixture.load([{ dn: account('f', '1999')[0], values: account('f', '1999')[1] }]);
      expect(await next()).to.equal(2001);
    });

    near('an impossible assignment of numbers is refused', async () => {
      const { partition } = fixture;
      await refused('undefinedAttributeType', partition.setNumbers('uidNumberr', 1, 2));
      await refused('unwillingToPerform', partition.setNumbers('uid', 1, 2), /Integer/);
      await refused('unwillingToPerform', partition.setNumbers('uidNumber', 2, 1), /no range/);
      await refused('unwillingToPerform', partition.setNumbers('shadowMax', 1, 2), /rowan index add shadowMax/);
      await refused('noSuchObject', partition.removeNumbers('uidNumber'));
      await set(1000, 1999);
      await partition.dropIndex('uidNumber');
      await refused('unwillingToPerform', fixture.add(...account('a')), /rowan index add uidNumber/);
    });

    near('a write without such attributes takes no additional step', async () => {
      await set(1000, 1999);
      const { store, work } = counted(fixture.store);
      const front = await frontOf(store);
      await front.person('ann');
      const rows = work.plans.flatMap(({ steps }) => steps).filter((step) => step.table === 'meta');
      expect(rows).to.have.length(1);
    });
  });
}

/** The uidNumber of the range that a plan gives an entry. */
function numberIn(plan: Parameters<Store['commit']>[0]): string | undefined {
  for (const step of plan.steps) {
    if (step.table !== 'master' || 'append' in step) continue;
    const cell = step.put?.find(({ qualifier }) => qualifier.toString('latin1').startsWith('uidNumber'));
    if (cell) return cell.value.toString();
  }
  return undefined;
}

/** The store with another `commit`. */
function overriding(store: Store, commit: Store['commit']): Store {
  return new Proxy(store, {
    get(target, name) {
      if (name === 'commit') return commit;
      const member: unknown = Reflect.get(target, name);
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });
}
