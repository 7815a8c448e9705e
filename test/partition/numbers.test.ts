import { expect } from 'chai';
import type { Store } from '../../src/store/contract.js';
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
    const left = async () => Number((await fixture.partition.numberRanges())[0]!.left);
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

    near('numbers in use are skipped, and a number that a client chose uses up only itself', async () => {
      for (const [n, number] of ['999', '1000', '1001', '1003', '2000', '10000'].entries())
        await fixture.add(...account(`p${n}`, number));
      await set(1000, 1999);
      expect(await left()).to.equal(997);
      expect([await given('a'), await given('b')]).to.deep.equal([1002, 1004]);
      await fixture.add(...account('last', '1999'));
      await fixture.add(...account('outside', '5000'));
      const before = await next();
      await fixture.add(...account('near', String(before)));
      const numbers = new Set([1999, before]);
      // Of a block that was taken before some may be left.
      for (let n = 0; n < 5; n++) numbers.add(await given(`b${n}`));
      expect(numbers).to.have.length(7);
      expect(await next()).to.be.lessThan(1999);
      await fixture.modify(`uid=near,${SUFFIX}`, change('replace', 'uidNumber', '1998'));
      expect(await next()).to.be.lessThan(1998);
    });

    it('a chosen number at the end leaves all others, over a long run of used ones, too', async () => {
      const load = (...numbers: number[]) =>
        fixture.load(numbers.map((n) => account(`p${n}`, String(n))).map(([dn, values]) => ({ dn, values })));
      await load(...Array.from({ length: 130 }, (_, n) => 10_000 + n));
      await fixture.add(...account('last', '19999'));
      await set(10_000, 19_999);
      await load(19_998);
      expect([await next(), await left()]).to.deep.equal([10_130, 9_868]);
      expect(await given('a')).to.equal(10_130);
    });

    near('excepted numbers are never assigned', async () => {
      await fixture.partition.setNumbers('uidNumber', 1000, 1004, [1000, 1002, 7]);
      await fixture.add(...account('said', '1003'));
      expect(await left()).to.equal(2);
      expect([await given('a'), await given('b')]).to.deep.equal([1001, 1004]);
      await refused('unwillingToPerform', fixture.add(...account('c')), /are given out/);
      await fixture.add(...account('c', '1002'));
      expect(await left()).to.equal(0);
    });

    it('a range that is set again goes on behind the assigned numbers', async () => {
      await set(1000, 1009);
      expect([await given('a'), await given('b')]).to.deep.equal([1000, 1001]);
      const before = await next();
      await fixture.delete(`uid=b,${SUFFIX}`);
      await set(1000, 1999);
      expect(await next()).to.be.at.least(before);
      await set(900, 1999);
      expect(await given('c')).to.equal(900);
      await fixture.partition.removeNumbers('uidNumber');
      await set(1000, 1999);
      expect(await given('d')).to.equal(1001);
    });

    near('no number is drawn for a write that is refused', async () => {
      await set(1000, 1999);
      await given('a');
      await fixture.partition.addUnique({ attributes: ['uid', 'uidNumber'] });
      await fixture.partition.finishUnique();
      const before = await next();
      const [dn, values] = account('b');
      await refused('objectClassViolation', fixture.add(dn, { ...values, mail: 'b@example.com' }));
      await refused('constraintViolation', fixture.add(dn, { ...values, uid: ['b', 'a'] }));
      await refused('entryAlreadyExists', fixture.add(...account('a')));
      expect(await next()).to.equal(before);
      // A store in which numbers are taken in blocks has some left of the first.
      expect(await given('b')).to.equal(1001);
      await refused('constraintViolation', fixture.add(...account('c', String(await numberOf('b')))));
    });

    near('no number is used up while others choose numbers, however often a guard fails', async () => {
      await set(1000, 1999);
      const other = await frontOf(fixture.store);
      const [own, values] = account('own', '1900');
      await other.add(own, values);
      let failures = 0;
      const commit: Store['commit'] = async (plan) => {
        if (numberIn(plan) !== undefined && failures < 5) {
          failures++;
          await other.modify(own, change('replace', 'uidNumber', failures % 2 === 1 ? '1905' : '1900'));
        }
        await fixture.store.commit(plan);
      };
      const front = await frontOf(overriding(fixture.store, commit));
      await front.add(...account('a'));
      expect([failures, await numberOf('a')]).to.deep.equal([5, 1000]);
      await front.add(...account('b'));
      expect(await numberOf('b')).to.equal(1001);
    });

    near('"auto" beside a number that the entry has or gets leaves that number', async () => {
      await set(1000, 1999);
      await fixture.add(...account('a', '7'));
      await fixture.modify(`uid=a,${SUFFIX}`, change('add', 'uidNumber', 'auto'));
      const [dn, values] = account('b');
      await fixture.add(dn, { ...values, uidNumber: ['auto', '8'] });
      expect([await numberOf('a'), await numberOf('b'), await next()]).to.deep.equal([7, 8, 1000]);
      await fixture.modify(`uid=a,${SUFFIX}`, change('delete', 'uidNumber'), change('add', 'uidNumber', 'auto'));
      expect(await numberOf('a')).to.equal(1000);
    });

    it('a chosen number is counted beside a request for a number of another attribute', async () => {
      await set(1000, 1999);
      await fixture.partition.setNumbers('gidNumber', 1, 9);
      const { store, work } = counted(fixture.store);
      const front = await frontOf(store);
      await front.add(...account('a'));
      const counters = work.plans.flatMap(({ steps }) => steps).flatMap((step) => ('add' in step && step.add) || []);
      expect(counters.map(({ qualifier }) => String(qualifier))).to.include('said');
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

    it('a bulk load assigns numbers, and its chosen numbers are skipped', async () => {
      await set(1000, 9999);
      const entries = [account('a', '1500'), account('b'), account('c', '1200'), account('d')];
      await fixture.load(entries.map(([dn, values]) => ({ dn, values })));
      const numbers = await Promise.all(['a', 'b', 'c', 'd'].map(numberOf));
      expect(numbers[0]).to.equal(1500);
      expect(new Set(numbers)).to.have.length(4);
      const before = await next();
      expect(before).to.be.greaterThan(1000).and.lessThan(1500);
      await fixture.load([{ dn: account('e', String(before))[0], values: account('e', String(before))[1] }]);
      expect(await next()).to.equal(before + 1);
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
      expect((await partition.numberRanges())[0]!.left).to.equal(undefined);
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
