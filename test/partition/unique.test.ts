import { expect } from 'chai';
import type { Partition } from '../../src/partition/index.js';
import { META_TABLE } from '../../src/partition/model/tables.js';
import { ownersRowKey, UNIQUE_TABLE } from '../../src/partition/model/unique-rows.js';
import type { Conflict } from '../../src/partition/values/unique-build.js';
import type { Store } from '../../src/store/contract.js';
import { rounds } from '../rounds.js';
import { counted } from '../store/counted.js';
import { type Fault, faulty } from '../store/faulty.js';
import {
  attributes,
  change,
  ENGINES,
  type Fixture,
  openFixture,
  type Random,
  refused,
  SUFFIX,
  SYSTEM,
  seeded,
  type Values,
} from './fixture.js';
import { anotherFront, endFronts, frontOf, resultOf } from './fronts.js';
import { nearTests } from './near-engines.js';

const PEOPLE = `ou=people,${SUFFIX}`;
const MACHINES = `ou=machines,${SUFFIX}`;
const TAKEN = /another entry has this value already, which is to be unique: 'uid'/;

interface Loaded {
  readonly loaded: number;
  /** Line and reason. */
  readonly rejects: string[];
}

/** In bulk; line n is entry n, from 1. */
async function load(fixture: Fixture, entries: readonly (readonly [string, Values])[]): Promise<Loaded> {
  const rejects: string[] = [];
  async function* chunks() {
    yield entries.map(([dn, values], n) => ({ line: n + 1, dn, attributes: attributes(values) }));
  }
  const { loaded } = await fixture.partition.load(chunks(), SYSTEM, {
    onReject: ({ entry, reason }) => void rejects.push(`${entry.line} ${reason}`),
    continue: true,
  });
  return { loaded, rejects };
}

const personOf = (cn: string, uid: string, parent = PEOPLE): readonly [string, Values] => [
  `cn=${cn},${parent}`,
  { objectClass: 'inetOrgPerson', cn, sn: cn, uid },
];

for (const engine of ENGINES) {
  describe(`unique values (${engine})`, () => {
    const near = nearTests(engine);
    let fixture: Fixture;
    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      await fixture.unit('machines');
    });
    afterEach(async () => {
      await fixture.expectClean();
      await fixture.close();
    });

    const turnOn = async (
      given: Parameters<Partition['addUnique']>[0] = { attributes: ['uid'] },
      by = fixture,
    ): Promise<Conflict[]> => {
      const conflicts: Conflict[] = [];
      await by.partition.addUnique(given);
      await by.partition.finishUnique({ onConflict: (conflict) => void conflicts.push(conflict) });
      return conflicts;
    };
    const inForce = () => fixture.partition.uniqueConstraints().map(({ record }) => record.ready);
    const person = (cn: string, uid: string | string[], parent = PEOPLE, more: Values = {}) =>
      fixture.person(cn, parent, { uid, ...more });
    const ann = `cn=ann,${PEOPLE}`;
    const bob = `cn=bob,${PEOPLE}`;

    near(
      'a unique value is refused to a second entry by add, modify and rename, in any case, without naming the first',
      async () => {
        await turnOn();
        await person('ann', 'ann');
        const error = await refused('constraintViolation', person('bob', 'ANN'), TAKEN);
        expect(error.message).not.to.match(/cn=ann/i);
        await person('bob', 'bob');
        await refused('constraintViolation', fixture.modify(bob, change('add', 'uid', 'ann')), TAKEN);
        await refused('constraintViolation', fixture.modify(bob, change('replace', 'uid', 'b', 'Ann')), TAKEN);
        await refused('constraintViolation', fixture.rename(bob, 'uid=ann', { deleteOldRdn: false }), TAKEN);
        expect(await fixture.values(bob, 'uid')).to.deep.equal(['bob']);
      },
    );

    near(
      'unique values stay with their entry when it writes, removes and adds them, or is renamed by them',
      async () => {
        await turnOn();
        await person('ann', 'ann');
        await fixture.modify(ann, change('replace', 'uid', 'ann'));
        await fixture.modify(ann, change('replace', 'uid', 'ANN', 'other'));
        await fixture.modify(ann, change('delete', 'uid', 'ann'), change('add', 'uid', 'Ann'));
        await fixture.rename(ann, 'uid=ann', { deleteOldRdn: false });
        await fixture.rename(`uid=ann,${PEOPLE}`, 'cn=ann', { newSuperior: MACHINES });
        await refused('constraintViolation', person('bob', 'other'), TAKEN);
      },
    );

    near(
      'unique values are free again when removed, replaced or renamed away, or when their entry is deleted',
      async () => {
        await turnOn();
        await person('ann', ['a', 'b', 'c']);
        await fixture.modify(ann, change('delete', 'uid', 'a'));
        await person('1', 'a');
        await fixture.modify(ann, change('replace', 'uid', 'd'));
        await person('2', ['b', 'c']);
        await fixture.rename(ann, 'uid=e', { deleteOldRdn: false });
        await fixture.rename(`uid=e,${PEOPLE}`, 'cn=ann', { deleteOldRdn: true });
        await person('3', 'e');
        await fixture.delete(ann);
        await person('4', 'd');
      },
    );

    near('unique values are restored with an entry if they are still free', async () => {
      await turnOn();
      const id = await person('ann', 'ann');
      await fixture.delete(ann);
      await person('bob', 'ann');
      await refused('constraintViolation', fixture.partition.restore(id, SYSTEM), TAKEN);
      await fixture.modify(bob, change('replace', 'uid', 'bob'));
      await fixture.partition.restore(id, SYSTEM);
      await refused('constraintViolation', fixture.modify(bob, change('add', 'uid', 'ann')), TAKEN);
    });

    near('unique values may span several attributes, their subtypes and options', async () => {
      await turnOn({ attributes: ['mail', 'cn'] });
      await fixture.person('ann', PEOPLE, { mail: 'ann@x' });
      await refused('constraintViolation', fixture.person('ANN@X', MACHINES), /'mail', 'cn'/);
      await refused('constraintViolation', fixture.person('b', PEOPLE, { 'cn;lang-de': 'ann' }), /'mail', 'cn'/);
      await fixture.person('c', PEOPLE, { mail: 'c' });
    });

    near(
      'unique values of entries that match a filter are updated when an entry begins or ceases to match',
      async () => {
        await turnOn({ attributes: ['uid'], filter: '(title=staff)' });
        await person('ann', 'x', PEOPLE, { title: 'staff' });
        await person('bob', 'x');
        await refused('constraintViolation', fixture.modify(bob, change('add', 'title', 'Staff')), TAKEN);
        await fixture.modify(ann, change('replace', 'title', 'guest'));
        await fixture.modify(bob, change('add', 'title', 'staff'));
        await refused('constraintViolation', fixture.modify(ann, change('replace', 'title', 'staff')), TAKEN);
      },
    );

    near('an error about a unique value comes only after the error about a name that is taken', async () => {
      await turnOn();
      await person('ann', 'ann');
      await refused('entryAlreadyExists', person('ann', 'ann'));
      const { rejects } = await load(fixture, [personOf('ann', 'ann')]);
      expect(rejects).to.have.length(1);
      expect(rejects[0]).to.match(/^1 entryAlreadyExists/);
    });

    describe('unique values in a subtree', () => {
      beforeEach(() => turnOn({ attributes: ['uid'], subtree: PEOPLE }));

      near('unique values in a subtree may equal values of entries outside of the subtree', async () => {
        await person('ann', 'x');
        await person('m1', 'x', MACHINES);
        await person('m2', 'x', MACHINES);
        await refused('constraintViolation', person('bob', 'x'), TAKEN);
        await fixture.delete(ann);
        await person('bob', 'x');
      });

      near(
        'unique values are checked when an entry is moved into a subtree, and are free when it is moved out',
        async () => {
          await person('ann', 'x');
          await person('m', 'x', MACHINES);
          await refused('constraintViolation', fixture.rename(`cn=m,${MACHINES}`, 'cn=m', { newSuperior: PEOPLE }));
          await fixture.rename(ann, 'cn=ann', { newSuperior: MACHINES });
          await fixture.rename(`cn=m,${MACHINES}`, 'cn=m', { newSuperior: PEOPLE });
          await refused('constraintViolation', person('bob', 'x'), TAKEN);
          await refused('constraintViolation', fixture.rename(`cn=ann,${MACHINES}`, 'cn=ann', { newSuperior: PEOPLE }));
        },
      );

      it('unique values are checked when a subtree is moved in, also with another name or with two equal values', async () => {
        await fixture.unit('lab', MACHINES);
        const lab = `ou=lab,${MACHINES}`;
        await person('l1', 'x', lab);
        await person('l2', 'x', lab);
        await person('l3', 'y', lab);
        await person('ann', 'y');
        const move = () => fixture.rename(lab, 'ou=labs', { newSuperior: PEOPLE });
        await refused('constraintViolation', move(), /two entries would have one value/);
        await fixture.delete(ann);
        await refused('constraintViolation', move(), /two entries would have one value/);
        await fixture.modify(`cn=l2,${lab}`, change('replace', 'uid', 'z'));
        await move();
        await refused('constraintViolation', person('ann', 'z'), TAKEN);
      });

      describe('unique values with concurrent changes between check and write', () => {
        const lab = `ou=lab,${MACHINES}`;
        const moveLab = (by = fixture) => by.rename(lab, 'ou=lab', { newSuperior: PEOPLE });
        /** What `work` at a front end ends with, where `between` is done right before its first plan. */
        const meeting = async (work: (front: Fixture) => Promise<unknown>, between: () => Promise<unknown>) => {
          let met = false;
          const commit: Store['commit'] = async (plan) => {
            const first = !met;
            met = true;
            if (first) await between();
            return fixture.store.commit(plan);
          };
          const front = await frontOf(overriding(fixture.store, { commit }));
          const result = await resultOf(work(front));
          expect(met).to.equal(true);
          return result;
        };
        beforeEach(async () => {
          await fixture.unit('lab', MACHINES);
          await person('m', 'm', lab);
          await person('ann', 'a');
        });

        it('unique values stay unique when a subtree with the value is moved in concurrently', async () => {
          expect(await meeting((front) => front.add(...personOf('bob', 'm')), moveLab)).to.equal('constraintViolation');
        });

        it('unique values stay unique when the entry that takes the value is moved in concurrently', async () => {
          const take = (front: Fixture) => front.modify(`cn=m,${lab}`, change('replace', 'uid', 'a'));
          expect(await meeting(take, moveLab)).to.equal('noSuchObject');
          await refused('constraintViolation', fixture.modify(`cn=m,ou=lab,${PEOPLE}`, change('replace', 'uid', 'a')));
        });

        it('unique values stay unique when an entry takes the value in a subtree that is moved in', async () => {
          const take = () => fixture.modify(`cn=m,${lab}`, change('replace', 'uid', 'a'));
          expect(await meeting(moveLab, take)).to.equal('constraintViolation');
        });

        it('unique values stay unique when another subtree with the value is moved in', async () => {
          await fixture.unit('hall', MACHINES);
          await person('h', 'm', `ou=hall,${MACHINES}`);
          const moveHall = () => fixture.rename(`ou=hall,${MACHINES}`, 'ou=hall', { newSuperior: PEOPLE });
          expect(await meeting(moveLab, moveHall)).to.equal('constraintViolation');
        });
      });

      near('unique values are checked when a subtree takes the name of the constraint', async () => {
        await person('m1', 'x', MACHINES);
        await person('m2', 'x', MACHINES);
        await fixture.delete(PEOPLE);
        await refused('constraintViolation', fixture.rename(MACHINES, 'ou=people'));
        await fixture.delete(`cn=m2,${MACHINES}`);
        await fixture.rename(MACHINES, 'ou=people');
        await refused('constraintViolation', person('ann', 'x'), TAKEN);
        await fixture.rename(PEOPLE, 'ou=machines');
        await person('m2', 'x', MACHINES);
      });
    });

    near('unique values are refused where the constraint cannot be enforced', async () => {
      const add = (given: Parameters<Partition['addUnique']>[0]) => fixture.partition.addUnique(given);
      await refused('undefinedAttributeType', add({ attributes: ['uidd'] }));
      await refused('unwillingToPerform', add({ attributes: ['userPassword'] }), /secret/);
      await refused('unwillingToPerform', add({ attributes: ['entryUUID'] }), /server itself/);
      await refused('unwillingToPerform', add({ attributes: ['uid;lang-de'] }), /options/);
      await refused('unwillingToPerform', add({ attributes: ['uid'], filter: '(memberOf=cn=x)' }), /not stored/);
      await refused('unwillingToPerform', add({ attributes: ['uid'], filter: '(ou:dn:=x)' }), /none asks the DN/);
      await refused('noSuchObject', add({ attributes: ['uid'], subtree: 'o=elsewhere' }), /no suffix/);
      await turnOn();
      await refused('entryAlreadyExists', add({ attributes: ['uid'] }), /in force already/);
      await refused('noSuchObject', fixture.partition.removeUnique(7));
    });

    it('a constraint on unique values is enforced only after the reported conflicts are resolved', async () => {
      await person('ann', ['x', 'y']);
      await person('bob', 'X');
      await person('carl', 'y', MACHINES);
      expect(await turnOn()).to.deep.equal([
        { number: 1, value: 'x', dns: [ann, bob] },
        { number: 1, value: 'y', dns: [ann, `cn=carl,${MACHINES}`] },
      ]);
      expect(inForce()).to.deep.equal([false]);
      await person('dora', 'x');
      await fixture.delete(`cn=dora,${PEOPLE}`);
      await fixture.modify(bob, change('delete', 'uid'));
      expect(await turnOn()).to.deep.equal([{ number: 1, value: 'y', dns: [ann, `cn=carl,${MACHINES}`] }]);
      await fixture.modify(ann, change('delete', 'uid', 'y'));
      await fixture.partition.finishUnique();
      expect(inForce()).to.deep.equal([true]);
      await refused('constraintViolation', person('dora', 'x'), TAKEN);
    });

    it('a constraint on unique values is not enforced if a conflict appears at the last moment', async () => {
      await person('ann', 'x');
      let met = false;
      const commit: Store['commit'] = async (plan) => {
        const puts = plan.steps.some((step) => step.table === META_TABLE.name && 'put' in step);
        if (puts && fixture.partition.uniqueConstraints().length > 0 && !met) {
          met = true;
          await person('bob', 'x');
        }
        await fixture.store.commit(plan);
        await fixture.partition.refresh();
      };
      const front = await frontOf(overriding(fixture.store, { commit }));
      expect(await turnOn({ attributes: ['uid'] }, front)).to.deep.equal([{ number: 1, value: 'x', dns: [ann, bob] }]);
      expect(met).to.equal(true);
      expect(inForce()).to.deep.equal([false]);
    });

    near('unique values in a subtree conflict in this subtree only', async () => {
      await person('ann', 'x');
      await person('m1', 'x', MACHINES);
      await person('m2', 'x', MACHINES);
      expect(await turnOn({ attributes: ['uid'], subtree: MACHINES })).to.have.length(1);
      const next = await turnOn({ attributes: ['uid'], subtree: PEOPLE });
      expect(next.filter(({ number }) => number === 2)).to.deep.equal([]);
      expect(inForce()).to.deep.equal([false, true]);
    });

    near('unique values end when their constraint is removed, and the rows are deleted', async () => {
      await turnOn();
      await person('ann', 'x');
      await fixture.partition.removeUnique(1);
      await person('bob', 'x');
      expect(await fixture.store.count(UNIQUE_TABLE.name, {}, 10)).to.equal(0);
      expect(await turnOn()).to.deep.equal([{ number: 2, value: 'x', dns: [ann, bob] }]);
    });

    it('rows of a constraint whose removal was interrupted are deleted', async () => {
      await turnOn();
      await person('ann', 'x');
      const { partition } = await frontOf(failing(fixture.store, (n) => n > 1));
      await refused('unavailable', partition.removeUnique(1));
      expect(await fixture.store.count(UNIQUE_TABLE.name, {}, 10)).to.be.greaterThan(0);
      await fixture.partition.finishUnique();
      expect(await fixture.store.count(UNIQUE_TABLE.name, {}, 10)).to.equal(0);
    });

    it('the setup of unique values continues wherever it was interrupted', async () => {
      // More than are read at once; over HBase `npm run soak` alone does so.
      const count = engine === 'hbase' ? rounds(60, 260) : 260;
      await load(
        fixture,
        Array.from({ length: count }, (_, n) => personOf(`p${n}`, `u${n}`)),
      );
      // Over memory after each plan, elsewhere after every third.
      const step = engine === 'memory' ? 1 : rounds(3, 1);
      for (let plans = 1; ; plans += step) {
        const { partition } = await frontOf(failing(fixture.store, (n) => n > plans));
        const done = await resultOf(partition.addUnique({ attributes: ['uid'] }).then(() => partition.finishUnique()));
        await fixture.partition.refresh();
        await fixture.expectClean();
        await fixture.modify(`cn=p${plans},${PEOPLE}`, change('replace', 'uid', `v${plans}`));
        if (done === 'success' || done === 'entryAlreadyExists') break;
        expect(done).to.equal('unavailable');
      }
      expect(inForce()).to.deep.equal([true]);
      await refused('constraintViolation', person('ann', `u${count - 1}`), TAKEN);
    });

    it('a unique value goes to one of many concurrent clients at several front ends', async () => {
      await turnOn();
      const fronts = [fixture, await anotherFront(fixture), await anotherFront(fixture)];
      for (let n = 0; n < 4; n++) {
        const results = await Promise.all(
          Array.from({ length: 9 }, (_, i) =>
            resultOf(fronts[i % 3]!.add(...personOf(`p${n}-${i}`, `u${n}`, i % 2 ? PEOPLE : MACHINES))),
          ),
        );
        expect(results.sort()).to.deep.equal([...Array<string>(8).fill('constraintViolation'), 'success']);
      }
      await endFronts(fixture, fronts);
    });

    it('a unique value goes to one entry while entries are moved in, added and changed', async () => {
      await turnOn({ attributes: ['uid'], subtree: PEOPLE });
      const fronts = [fixture, await anotherFront(fixture)];
      for (let n = 0; n < 4; n++) {
        const uid = `u${n}`;
        await fixture.unit(`a${n}`, MACHINES);
        await fixture.unit(`b${n}`, MACHINES);
        await person(`a${n}`, uid, `ou=a${n},${MACHINES}`);
        await person(`b${n}`, `v${n}`, `ou=b${n},${MACHINES}`);
        const moves = ['a', 'b'].map((name, i) =>
          resultOf(fronts[i]!.rename(`ou=${name}${n},${MACHINES}`, `ou=${name}${n}`, { newSuperior: PEOPLE })),
        );
        const takes = resultOf(fronts[1]!.modify(`cn=b${n},ou=b${n},${MACHINES}`, change('replace', 'uid', uid)));
        const adds = resultOf(fronts[0]!.add(...personOf(`p${n}`, uid)));
        for (const result of await Promise.all([...moves, takes, adds]))
          expect(result).to.be.oneOf(['success', 'constraintViolation', 'noSuchObject']);
        await fixture.expectClean();
      }
      await endFronts(fixture, fronts);
    });

    it('duplicate unique values in a bulk load are refused with their lines, within the load and against the directory', async () => {
      await turnOn();
      await person('ann', 'ann');
      const { loaded, rejects } = await load(fixture, [
        personOf('1', 'one'),
        personOf('2', 'ANN'),
        personOf('3', 'three'),
        personOf('4', 'One'),
        personOf('5', 'five', MACHINES),
      ]);
      expect(loaded).to.equal(3);
      expect(rejects.map((reject) => reject.split(':', 1)[0])).to.deep.equal([
        '2 constraintViolation',
        '4 constraintViolation',
      ]);
      await refused('constraintViolation', person('6', 'five'), TAKEN);
    });

    it('unique values are correct when a constraint comes into force during a load and during writes', async () => {
      // More than a plan takes. Over HBase, where each conflict is dear, fewer.
      const different = engine === 'hbase' ? 60 : 290;
      const entries = Array.from({ length: different + 10 }, (_, n) => personOf(`p${n}`, `u${n % different}`));
      const other = await frontOf(fixture.store);
      const [, , { loaded }] = await Promise.all([
        turnOn({ attributes: ['uid'] }, other),
        person('ann', 'ann'),
        load(fixture, entries),
      ]);
      await fixture.partition.refresh();
      expect(loaded).to.be.within(different, different + 10);
      const isReady = inForce()[0];
      if (loaded > different) expect(isReady).to.equal(false);
      await fixture.expectClean();
    });

    it('rows of unique values are checked and repaired', async () => {
      await turnOn();
      const id = await person('ann', 'ann');
      await person('bob', 'bob');
      const [unique] = fixture.partition.uniqueConstraints();
      const key = (value: string) => ownersRowKey(unique!, Buffer.from(value));
      const put = (value: string, owners: Buffer) => ({
        table: UNIQUE_TABLE.name,
        key: key(value),
        put: [{ family: 0, qualifier: Buffer.from('of'), value: owners }],
      });
      const steps = [
        { table: UNIQUE_TABLE.name, key: key('ann'), deleteRow: true },
        put('bob', Buffer.concat([(await fixture.read(bob)).id, id])),
        put('nobody', Buffer.alloc(16, 7)),
        put('odd', Buffer.from('odd')),
      ];
      await fixture.store.commit({ steps, decisive: 0 });
      const breaches = await fixture.breaches();
      expect(new Set(breaches.map(({ invariant }) => invariant))).to.deep.equal(new Set(['unique']));
      expect(breaches).to.have.length(4);
      await fixture.partition.repair();
      await fixture.expectClean();
      await refused('constraintViolation', person('carl', 'ann'), TAKEN);
      await person('carl', 'nobody');
    });

    near('check reports unique values that two entries have', async () => {
      await turnOn();
      await person('ann', 'ann');
      await person('bob', 'bob');
      await fixture.put(bob, 'uid', 'ann');
      await fixture.partition.repair();
      const breaches = await fixture.breaches();
      expect(breaches.map(({ invariant }) => invariant)).to.deep.equal(['unique']);
      expect(breaches[0]!.message).to.match(/entries .*, .* have it/);
      await fixture.modify(bob, change('replace', 'uid', 'bob'));
    });

    it('unique values cost nothing in a write that does not touch them, and one row in a write that does', async () => {
      await turnOn();
      const { store, work } = counted(fixture.store);
      const front = await frontOf(store);
      const rows = () =>
        work.plans
          .splice(0)
          .flatMap(({ steps }) => steps)
          .filter((step) => step.table === UNIQUE_TABLE.name).length;
      await front.person('ann', PEOPLE);
      await front.modify(ann, change('replace', 'title', 'x'));
      await front.rename(ann, 'cn=anna', { newSuperior: MACHINES });
      expect(rows()).to.equal(0);
      expect(work.rowsOf.get(UNIQUE_TABLE.name) ?? 0).to.equal(0);
      await front.modify(`cn=anna,${MACHINES}`, change('replace', 'uid', 'x'));
      expect(rows()).to.equal(1);
      await front.delete(`cn=anna,${MACHINES}`);
      expect(rows()).to.equal(1);
    });

    it('unique values agree with a plain evaluation after random operations', function () {
      this.timeout(600_000);
      return seeded(async (random) => {
        const times = engine === 'hbase' ? rounds(60, 300) : rounds(120, 2000);
        const model = new Model(random);
        await turnOn({ attributes: ['uid', 'mail'], subtree: PEOPLE, filter: '(!(title=guest))' });
        for (let n = 0; n < times; n++) await model.step(fixture);
        await fixture.expectClean();
        for (const entry of model.entries) {
          const uid = await fixture.values(model.dn(entry), 'uid');
          expect(uid.sort(), model.dn(entry)).to.deep.equal([...entry.uid].sort());
        }
      });
    });
  });
}

/** The store, but for these of its members. */
function overriding(store: Store, members: Partial<Store>): Store {
  return new Proxy(store, {
    get(target, name) {
      const member: unknown = Reflect.get(Object.hasOwn(members, name) ? members : target, name);
      return typeof member === 'function' ? (member.bind(target) as unknown) : member;
    },
  });
}

/** A store whose plans fail when `when` says so of their number, from 1. */
function failing(store: Store, when: (plan: number) => boolean): Store {
  let plans = 0;
  return faulty(store, ({ at }): Fault | undefined => {
    if (at !== 'beforeCommit') return undefined;
    return when(++plans) ? { do: 'fail' } : undefined;
  });
}

interface ModelEntry {
  readonly cn: string;
  parent: string;
  uid: string[];
  guest: boolean;
}

const UIDS = ['a', 'b', 'c', 'd', 'e'];

/** Entries in two places and in a unit that moves between them; what is right is told by a look at all of them. */
class Model {
  readonly entries: ModelEntry[] = [];
  readonly #random: Random;
  #made = 0;
  /** Where the unit is. */
  #lab: string | undefined;

  constructor(random: Random) {
    this.#random = random;
  }

  #parentDn(parent: string): string {
    return parent === 'lab' ? `ou=lab,${this.#lab}` : parent;
  }

  dn({ cn, parent }: ModelEntry): string {
    return `cn=${cn},${this.#parentDn(parent)}`;
  }

  /** Whether no two entries would have one value in the scope. */
  #isRight(entries: readonly ModelEntry[], lab: string | undefined): boolean {
    const seen = new Set<string>();
    for (const { parent, uid, guest } of entries) {
      const place = parent === 'lab' ? lab! : parent;
      if (guest || place !== PEOPLE) continue;
      for (const value of new Set(uid)) {
        if (seen.has(value)) return false;
        seen.add(value);
      }
    }
    return true;
  }

  async #expect(work: Promise<unknown>, right: boolean, then: () => void): Promise<void> {
    expect(await resultOf(work)).to.equal(right ? 'success' : 'constraintViolation');
    if (right) then();
  }

  #uids(): string[] {
    return [...new Set([this.#random.pick(UIDS), this.#random.pick(UIDS)])];
  }

  async step(fixture: Fixture): Promise<void> {
    const random = this.#random;
    if (!this.#lab) {
      this.#lab = MACHINES;
      await fixture.unit('lab', MACHINES);
    }
    const at = random.int(this.entries.length + 1);
    const entry = this.entries[at];
    if (!entry || random.chance(0.2)) return this.#add(fixture);
    const others = this.entries.filter((one) => one !== entry);
    const changed = (next: Partial<ModelEntry>) => this.#isRight([...others, { ...entry, ...next }], this.#lab);
    switch (random.int(6)) {
      case 0:
        await fixture.delete(this.dn(entry));
        this.entries.splice(at, 1);
        return;
      case 1: {
        const uid = this.#uids();
        const work = fixture.modify(this.dn(entry), change('replace', 'uid', ...uid));
        return this.#expect(work, changed({ uid }), () => {
          entry.uid = uid;
        });
      }
      case 2: {
        const guest = !entry.guest;
        const title = guest ? change('add', 'title', 'guest') : change('delete', 'title');
        return this.#expect(fixture.modify(this.dn(entry), title), changed({ guest }), () => {
          entry.guest = guest;
        });
      }
      case 3: {
        const to = this.#lab === PEOPLE ? MACHINES : PEOPLE;
        const work = fixture.rename(`ou=lab,${this.#lab}`, 'ou=lab', { newSuperior: to });
        return this.#expect(work, this.#isRight(this.entries, to), () => {
          this.#lab = to;
        });
      }
      default: {
        const parent = random.pick([PEOPLE, MACHINES, 'lab']);
        const newSuperior = this.#parentDn(parent);
        const work = fixture.rename(this.dn(entry), `cn=${entry.cn}`, { newSuperior });
        return this.#expect(work, changed({ parent }), () => {
          entry.parent = parent;
        });
      }
    }
  }

  async #add(fixture: Fixture): Promise<void> {
    const parent = this.#random.pick([PEOPLE, MACHINES, 'lab']);
    const entry = { cn: `p${this.#made++}`, parent, uid: this.#uids(), guest: this.#random.chance(0.3) };
    const right = this.#isRight([...this.entries, entry], this.#lab);
    const values: Values = { uid: entry.uid, ...(entry.guest && { title: 'guest' }) };
    const work = fixture.person(entry.cn, this.#parentDn(parent), values);
    await this.#expect(work, right, () => void this.entries.push(entry));
  }
}
