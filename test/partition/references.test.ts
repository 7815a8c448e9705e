import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import { decodeBefore } from '../../src/partition/model/before-image.js';
import { changeRecord } from '../../src/partition/model/change-record.js';
import { CHANGES_TABLE } from '../../src/partition/model/tables.js';
import type { Plan } from '../../src/store/contract.js';
import { StoreError } from '../../src/store/store-error.js';
import { rounds } from '../rounds.js';
import {
  ACTOR,
  change,
  ENGINES,
  Fixture,
  OTHER,
  openFixture,
  type Random,
  refused,
  SUFFIX,
  SYSTEM,
  seeded,
  testSchema,
  uuidText,
} from './fixture.js';
import { nearTests } from './near-engines.js';

const PEOPLE = `ou=people,${SUFFIX}`;
const GROUPS = `ou=groups,${SUFFIX}`;
const person = (cn: string) => `cn=${cn},${PEOPLE}`;

async function group(fixture: Fixture, cn: string, ...member: string[]): Promise<string> {
  const dn = `cn=${cn},${GROUPS}`;
  await fixture.add(dn, { objectClass: 'groupOfNames', cn, member });
  return dn;
}

const members = async (fixture: Fixture, dn: string) => (await fixture.values(dn, 'member')).sort();

/** Another front end of the same directory, which leaves what is pending to others. */
async function idleFront({ store }: Fixture): Promise<Fixture> {
  const partition = await Partition.open(store, testSchema());
  await partition.context.references.close();
  return new Fixture(store, partition, undefined);
}

/** A front end that waits in its own way until plans are complete. `race` runs before the first plan of it. */
async function racingFront(
  { store }: Fixture,
  waitUntilQuiet: () => Promise<void> | undefined,
  race: () => Promise<unknown>,
): Promise<Fixture> {
  let raced: Promise<unknown> | undefined;
  const racing = new Proxy(store, {
    get(target, name) {
      if (name === 'waitUntilQuiet') return waitUntilQuiet;
      if (name === 'commit')
        return async (plan: Plan) => {
          raced ??= race();
          await raced;
          return target.commit(plan);
        };
      const member: unknown = Reflect.get(target, name);
      return typeof member === 'function' ? member.bind(target) : member;
    },
  });
  return new Fixture(racing, await Partition.open(racing, testSchema()), undefined);
}

for (const engine of ENGINES) {
  describe(`references (${engine})`, () => {
    let fixture: Fixture;
    let ann: Buffer;
    const near = nearTests(engine);
    beforeEach(async () => {
      fixture = await openFixture(engine);
      await fixture.unit('people');
      await fixture.unit('groups');
      ann = await fixture.person('ann', PEOPLE);
      await fixture.person('bob', PEOPLE);
    });
    afterEach(() => fixture.close());

    it('references follow a renamed entry before and after the stored values do', async () => {
      const dn = await group(fixture, 'g', person('ann'), person('bob'));
      const unique = `cn=u,${GROUPS}`;
      const values = [`${person('ann')}#'0101'B`, person('bob')];
      await fixture.add(unique, { objectClass: 'groupOfUniqueNames', cn: 'u', uniqueMember: values });
      const front = await idleFront(fixture);
      await front.rename(person('ann'), 'cn=anna');
      const expectFollowed = async () => {
        await fixture.partition.refresh();
        expect(await members(fixture, dn)).to.deep.equal([person('anna'), person('bob')]);
        expect(await fixture.values(unique, 'uniqueMember')).to.have.members([
          `${person('anna')}#'0101'B`,
          person('bob'),
        ]);
        expect(await fixture.find(`(member=${person('anna')})`)).to.deep.equal([dn]);
        expect(await fixture.find(`(member=${person('ann')})`)).to.deep.equal([]);
        expect(await fixture.find(`(&(cn=g)(member=${person('anna')}))`)).to.deep.equal([dn]);
        expect(await fixture.find(`(memberOf=${dn})`)).to.have.members([person('anna'), person('bob')]);
        expect(await fixture.find(`(&(cn=anna)(memberOf=${dn}))`)).to.deep.equal([person('anna')]);
        expect(await fixture.find(`(uniqueMember=${person('anna')}#'0101'B)`)).to.deep.equal([unique]);
        expect(await fixture.partition.compare(fixture.dn(dn), 'member', Buffer.from(person('anna')), {})).to.equal(
          true,
        );
        expect(await fixture.partition.compare(fixture.dn(dn), 'member', Buffer.from(person('ann')), {})).to.equal(
          false,
        );
      };
      await expectFollowed();
      expect(await fixture.partition.settleReferences()).to.equal(1);
      expect(await fixture.partition.settleReferences()).to.equal(0);
      await expectFollowed();
      await fixture.expectClean();
    });

    it('references follow entries below a renamed or moved entry, and names of no entry stay', async () => {
      const dn = await group(fixture, 'g', person('ann'), `cn=x,${SUFFIX}`, 'CN=Bob, OU=People,dc=example,dc=com');
      const front = await idleFront(fixture);
      await front.rename(PEOPLE, 'ou=staff', { newSuperior: GROUPS });
      const below = `ou=staff,${GROUPS}`;
      const now = [`CN=Bob,${below}`, `cn=ann,${below}`, `cn=x,${SUFFIX}`].sort();
      await fixture.partition.refresh();
      expect(await members(fixture, dn)).to.deep.equal(now);
      expect(await fixture.find(`(member=cn=ann,${below})`)).to.deep.equal([dn]);
      await fixture.partition.settleReferences();
      expect(await members(fixture, dn)).to.deep.equal(now);
      await fixture.expectClean();
    });

    it('references are removed with a deleted entry at once, and restored to their places with the entry', async () => {
      const dn = await group(fixture, 'g', person('ann'), person('bob'));
      const one = await group(fixture, 'one', person('ann'));
      const front = await idleFront(fixture);
      await front.delete(person('ann'));
      await fixture.partition.refresh();
      expect(await members(fixture, dn)).to.deep.equal([person('bob')]);
      expect(await fixture.find(`(member=${person('ann')})`)).to.deep.equal([]);
      await fixture.partition.settleReferences();
      expect(await members(fixture, dn)).to.deep.equal([person('bob')]);
      expect(await members(fixture, one), 'a class demands a member').to.deep.equal(['']);
      const other = await fixture.person('ann', PEOPLE);
      expect(await fixture.find(`(member=${person('ann')})`), 'another entry of the name').to.deep.equal([]);
      await fixture.rename(person('ann'), 'cn=other');
      await fixture.rename(PEOPLE, 'ou=staff');
      await fixture.partition.restore(ann, SYSTEM);
      const staff = `ou=staff,${SUFFIX}`;
      expect(await members(fixture, dn)).to.deep.equal([`cn=ann,${staff}`, `cn=bob,${staff}`]);
      expect(await members(fixture, one)).to.deep.equal([`cn=ann,${staff}`]);
      expect(other.equals(ann)).to.equal(false);
      await fixture.expectClean();
    });

    it('references of a deleted entry are restored if it is restored before their removal', async () => {
      const dn = await group(fixture, 'g', person('ann'), person('bob'));
      const front = await idleFront(fixture);
      await front.delete(person('ann'));
      await fixture.partition.restore(ann, SYSTEM);
      expect(await members(fixture, dn)).to.deep.equal([person('ann'), person('bob')]);
      expect(await fixture.partition.settleReferences()).to.equal(0);
      await fixture.expectClean();
    });

    it('references of a restored group have the current names of its members', async () => {
      const dn = await group(fixture, 'g', person('ann'), person('bob'));
      const { id } = await fixture.read(dn);
      await fixture.delete(dn);
      await fixture.rename(person('ann'), 'cn=anna');
      await fixture.person('ann', PEOPLE);
      const { id: bob } = await fixture.read(person('bob'));
      await fixture.delete(person('bob'));
      await fixture.partition.restore(id, SYSTEM);
      expect(await members(fixture, dn)).to.deep.equal([person('anna')]);
      await fixture.partition.restore(bob, SYSTEM);
      expect(await members(fixture, dn)).to.deep.equal([person('anna'), person('bob')]);
      await fixture.expectClean();
    });

    it('names and values stay reserved until references have followed', async () => {
      const dn = await group(fixture, 'g', person('ann'), person('bob'));
      const front = await idleFront(fixture);
      await front.rename(person('ann'), 'cn=anna');
      await refused('unavailable', front.person('ann', PEOPLE));
      await fixture.person('ann', PEOPLE);
      expect(await members(fixture, dn)).to.deep.equal([person('anna'), person('bob')]);
      await front.rename(person('bob'), 'cn=rob');
      await fixture.partition.refresh();
      await fixture.modify(dn, change('delete', 'member', person('rob')), change('add', 'member', person('bob')));
      expect(await members(fixture, dn)).to.deep.equal([person('anna'), person('bob')]);
      await front.rename(person('anna'), 'cn=anne');
      await fixture.partition.refresh();
      await fixture.load([{ dn: person('anna'), values: { objectClass: 'person', cn: 'anna', sn: 'x' } }]);
      expect(await members(fixture, dn)).to.deep.equal([person('anne'), person('bob')]);
      await fixture.expectClean();
    });

    it('references of a large group follow a few at a time', async () => {
      const people = Array.from({ length: 600 }, (_, n) => person(`p${n}`));
      const dn = await group(fixture, 'g', ...people, person('ann'));
      await fixture.rename(person('ann'), 'cn=anna');
      await fixture.partition.settleReferences();
      await fixture.rename(PEOPLE, 'ou=staff');
      await fixture.partition.settleReferences();
      const now = [...people, person('anna')].map((name) => name.replace('ou=people', 'ou=staff')).sort();
      expect(await members(fixture, dn)).to.deep.equal(now);
      await fixture.expectClean();
    });

    near('references of a deleted subtree are restored with it, in any order of its entries', async () => {
      const dn = await group(fixture, 'g', person('ann'), person('bob'));
      const { id } = await fixture.read(dn);
      await fixture.delete(person('ann'));
      await fixture.delete(dn);
      await fixture.partition.restore(ann, SYSTEM);
      await fixture.partition.restore(id, SYSTEM);
      expect(await members(fixture, dn)).to.deep.equal([person('ann'), person('bob')]);
      await fixture.delete(person('ann'));
      await fixture.delete(dn);
      await fixture.partition.restore(ann, SYSTEM);
      await fixture.delete(person('ann'));
      await fixture.partition.restore(id, SYSTEM);
      expect(await members(fixture, dn), 'it has gone again').to.deep.equal([person('bob')]);
      await fixture.partition.restore(ann, SYSTEM);
      expect(await members(fixture, dn)).to.deep.equal([person('ann'), person('bob')]);
      await fixture.expectClean();
    });

    near('references are restored while the group is renamed', async () => {
      const dn = await group(fixture, 'g', person('ann'), person('bob'));
      await fixture.delete(person('ann'));
      await fixture.partition.settleReferences();
      const front = new Fixture(fixture.store, await Partition.open(fixture.store, testSchema()), undefined);
      await Promise.all([fixture.partition.restore(ann, SYSTEM), front.rename(dn, 'cn=h')]);
      await front.partition.context.references.close();
      await fixture.partition.settleReferences();
      expect(await members(fixture, `cn=h,${GROUPS}`)).to.deep.equal([person('ann'), person('bob')]);
    });

    near('the empty DN goes with the write that adds a member, and not with others', async () => {
      const dn = await group(fixture, 'g', person('ann'));
      await fixture.delete(person('ann'));
      await fixture.partition.settleReferences();
      await fixture.modify(dn, change('replace', 'description', 'nobody'));
      expect(await members(fixture, dn)).to.deep.equal(['']);
      await fixture.modify(dn, change('add', 'member', person('bob')));
      expect(await members(fixture, dn)).to.deep.equal([person('bob')]);
      expect(await fixture.find('(member=)')).to.deep.equal([]);
      expect(await fixture.find(`(memberOf=${dn})`)).to.deep.equal([person('bob')]);
      const [record] = (await fixture.store.scan(CHANGES_TABLE.name, {}, { reverse: true }).next())!.rows;
      const { attributes } = decodeBefore(changeRecord(record!).beforeImage!);
      const recorded = attributes.find(({ description }) => description === 'member')!;
      expect(recorded.old.map(({ bytes }) => bytes.toString())).to.deep.equal(['']);
      expect(recorded.added).to.have.length(1);
      await refused('noSuchAttribute', fixture.modify(dn, change('delete', 'member', '')));
      // A client may store it, and take it away with the write that adds a member.
      await fixture.modify(dn, change('replace', 'member', '', person('bob')));
      expect(await members(fixture, dn)).to.deep.equal(['', person('bob')]);
      await fixture.modify(dn, change('delete', 'member', person('bob')));
      await fixture.modify(dn, change('add', 'member', person('bob')), change('delete', 'member', ''));
      expect(await members(fixture, dn)).to.deep.equal([person('bob')]);
      await fixture.partition.restore(ann, SYSTEM);
      expect(await members(fixture, dn)).to.deep.equal([person('ann'), person('bob')]);
      await fixture.expectClean();
    });

    near('a group has the empty DN if no member is left, whoever writes to it meanwhile', async () => {
      const dn = await group(fixture, 'g', person('ann'));
      const noWait = () => fixture.store.waitUntilQuiet?.();
      const settleWhile = async (work: () => Promise<void>) => {
        const front = await racingFront(fixture, noWait, work);
        await front.partition.settleReferences();
      };
      const idle = await idleFront(fixture);
      await idle.delete(person('ann'));
      await settleWhile(() => idle.modify(dn, change('add', 'member', person('bob'))));
      expect(await members(fixture, dn)).to.deep.equal([person('bob')]);
      await fixture.modify(dn, change('add', 'member', `cn=nobody,${OTHER}`));
      await idle.delete(person('bob'));
      await settleWhile(() => idle.modify(dn, change('delete', 'member', `cn=nobody,${OTHER}`)));
      expect(await members(fixture, dn)).to.deep.equal(['']);
      await fixture.expectClean();
    });

    near('hundreds of references with UIDs to one entry are removed and restored with it unchanged', async () => {
      const values = [
        person('ann'),
        ...Array.from({ length: 510 }, (_, n) => `${person('ann')}#'${n.toString(2).padStart(10, '0')}'B`),
      ];
      const dn = `cn=u,${GROUPS}`;
      await fixture.add(dn, { objectClass: 'groupOfUniqueNames', cn: 'u', uniqueMember: values });
      await fixture.delete(person('ann'));
      await fixture.partition.settleReferences();
      expect(await fixture.values(dn, 'uniqueMember')).to.deep.equal(['']);
      await fixture.partition.restore(ann, SYSTEM);
      expect(await fixture.values(dn, 'uniqueMember')).to.have.members(values);
      await fixture.expectClean();
    });

    near('references are not changed by a process that is late', async () => {
      const dn = await group(fixture, 'g', person('ann'), person('bob'));
      let gate: Promise<void> | undefined;
      let arrive = (): void => undefined;
      const arrived = new Promise<void>((resolve) => {
        arrive = resolve;
      });
      const slow = new Proxy(fixture.store, {
        get(target, name) {
          const member: unknown = Reflect.get(target, name);
          if (name !== 'commit') return typeof member === 'function' ? member.bind(target) : member;
          return async (plan: Plan) => {
            arrive();
            await gate;
            return target.commit(plan);
          };
        },
      });
      const late = await Partition.open(slow, testSchema());
      const front = await idleFront(fixture);
      await front.rename(person('ann'), 'cn=anna');
      let open = (): void => undefined;
      gate = new Promise((resolve) => {
        open = resolve;
      });
      await late.refresh();
      const settled = late.settleReferences();
      await arrived;
      await fixture.partition.settleReferences();
      await fixture.rename(person('anna'), 'cn=ann');
      await fixture.partition.settleReferences();
      gate = undefined;
      open();
      await settled;
      expect(await members(fixture, dn)).to.deep.equal([person('ann'), person('bob')]);
      await fixture.expectClean();
    });

    near('references follow after a failure of the store', async () => {
      let isAway = true;
      const awaited = () =>
        isAway ? Promise.reject(new StoreError('unavailable', 'no answer')) : fixture.store.waitUntilQuiet?.();
      const front = await racingFront(fixture, awaited, () => group(fixture, 'g', person('ann')));
      await front.rename(person('ann'), 'cn=anna');
      await refused('unavailable', front.partition.settleReferences());
      const dn = `cn=g,${GROUPS}`;
      expect(await members(fixture, dn)).to.deep.equal([person('ann')]);
      isAway = false;
      await front.partition.settleReferences();
      expect(await members(fixture, dn)).to.deep.equal([person('anna')]);
      await fixture.expectClean();
    });

    it('references follow a name if they were written before its change, and stay if they were written later', async () => {
      const cid = person('cid');
      await fixture.person('cid', PEOPLE);
      const changed = await group(fixture, 'changed', person('bob'));
      const replaced = await group(fixture, 'replaced', person('bob'));
      let endWait = (): void => undefined;
      const wait = new Promise<void>((resolve) => {
        endWait = resolve;
      });
      const awaited = () => wait.then(() => fixture.store.waitUntilQuiet?.());
      const [before, also] = [`cn=before,${GROUPS}`, `cn=also,${GROUPS}`];
      const front = await racingFront(fixture, awaited, async () => {
        await group(fixture, 'before', person('ann'));
        await group(fixture, 'also', person('ann'), person('bob'));
      });
      await front.rename(person('ann'), 'cn=anna');
      await front.delete(cid);
      const later = await group(fixture, 'later', person('ann'), cid);
      await fixture.modify(changed, change('add', 'member', person('ann'), cid));
      await fixture.modify(replaced, change('replace', 'member', person('ann')));
      await fixture.modify(before, change('add', 'member', person('bob')));
      await fixture.modify(also, change('delete', 'member', person('ann')));
      await fixture.modify(also, change('add', 'member', person('ann')));
      endWait();
      await front.partition.settleReferences();
      expect(await members(fixture, later)).to.deep.equal([person('ann'), cid]);
      expect(await members(fixture, changed)).to.deep.equal([person('ann'), person('bob'), cid]);
      expect(await members(fixture, replaced)).to.deep.equal([person('ann')]);
      expect(await members(fixture, before)).to.deep.equal([person('anna'), person('bob')]);
      expect(await members(fixture, also)).to.deep.equal([person('ann'), person('bob')]);
      await fixture.expectClean();
    });

    near('references do not wait forever where another entry has the entryUUID of a forgotten entry', async () => {
      const dn = await group(fixture, 'g', person('ann'), person('bob'));
      const front = await idleFront(fixture);
      await front.delete(person('ann'));
      await front.partition.purge(Date.now() + 1000);
      await front.add(
        person('other'),
        { objectClass: 'person', cn: 'other', sn: 'x', entryUUID: uuidText(ann) },
        SYSTEM,
      );
      await fixture.partition.settleReferences();
      expect(await members(fixture, dn)).to.deep.equal([person('bob')]);
    });

    near('references of an entry follow even if the entry lacks a required attribute', async () => {
      const dn = await group(fixture, 'g', person('ann'), person('bob'));
      await fixture.put(dn, 'objectClass', 'groupOfNames', 'person');
      await fixture.rename(person('ann'), 'cn=anna');
      await fixture.partition.settleReferences();
      expect(await members(fixture, dn)).to.deep.equal([person('anna'), person('bob')]);
    });

    near(
      'values of manager and owner follow from the start; of other attributes they are listed, and kept',
      async () => {
        const team = { objectClass: ['groupOfNames'], member: person('bob'), owner: person('ann') };
        await fixture.add(`cn=team,${SUFFIX}`, { ...team, cn: 'team', seeAlso: person('ann') });
        const staff = { objectClass: 'inetOrgPerson', sn: 'x', manager: person('ann') };
        await fixture.add(person('cat'), { ...staff, cn: 'cat', secretary: person('ann') });
        await fixture.rename(person('ann'), 'cn=anna');
        expect(await fixture.values(`cn=team,${SUFFIX}`, 'owner')).to.deep.equal([person('anna')]);
        expect(await fixture.values(person('cat'), 'manager')).to.deep.equal([person('anna')]);
        const listed: string[] = [];
        await fixture.partition.danglingReferences(({ attribute, follows }) => listed.push(`${attribute} ${follows}`));
        expect(listed).to.have.members(['seeAlso false', 'secretary false']);
        expect(await fixture.partition.danglingReferences(() => undefined, true)).to.equal(0);
        expect(await fixture.values(person('cat'), 'secretary')).to.deep.equal([person('ann')]);
      },
    );

    near('references to missing entries are listed and removed, but not below a referral', async () => {
      const names = Array.from({ length: 600 }, (_, n) => person(`nobody${n}`));
      const dn = await group(fixture, 'g', ...names);
      const far = { objectClass: ['referral', 'extensibleObject'], ou: 'far', ref: 'ldap://elsewhere/ou=far' };
      await fixture.add(`ou=far,${SUFFIX}`, far, ACTOR, true);
      const other = await group(fixture, 'h', `cn=x,ou=far,${SUFFIX}`, 'cn=x,o=outside', ACTOR.dn, person('ann'));
      const listed: string[] = [];
      await fixture.partition.danglingReferences(({ value }) => listed.push(value));
      expect(listed).to.have.members(names);
      expect(await fixture.partition.danglingReferences(() => undefined, true)).to.equal(600);
      expect(await members(fixture, dn)).to.deep.equal(['']);
      expect(await members(fixture, other)).to.have.length(4);
      await fixture.expectClean();
    });

    near('references stay readable where a move makes names longer than a DN may be', async () => {
      const chain = (ou: string) =>
        Array.from(
          { length: 510 },
          (_, n) =>
            `${Array(n + 1)
              .fill(`ou=${ou}`)
              .join(',')},${SUFFIX}`,
        );
      for (const ou of ['a', 'b'])
        await fixture.load(chain(ou).map((dn) => ({ dn, values: { objectClass: 'organizationalUnit', ou } })));
      const deep = chain('a').at(-1)!;
      const dn = await group(fixture, 'g', deep, person('ann'));
      const front = await idleFront(fixture);
      await front.rename(`ou=a,${SUFFIX}`, 'ou=a', { newSuperior: chain('b').at(-1)! });
      await fixture.partition.refresh();
      expect(await members(fixture, dn)).to.have.length(2);
      await fixture.partition.settleReferences();
      expect(await fixture.partition.settleReferences()).to.equal(0);
      await fixture.rename(person('ann'), 'cn=anna');
      await fixture.person('ann', PEOPLE);
      expect((await members(fixture, dn)).map((name) => name.slice(-60))).to.include(person('anna'));
    });

    it('references agree with a plain model after random changes at two front ends', () =>
      seeded(async (random) => {
        const front = new Fixture(fixture.store, await Partition.open(fixture.store, testSchema()), undefined);
        const idle = await idleFront(fixture);
        const model = new Model([fixture, front, idle], random);
        await model.prepare();
        const steps = engine === 'hbase' ? rounds(40, 300) : rounds(90, 1500);
        for (let n = 0; n < steps; n++) await model.step();
        await front.partition.context.references.close();
        await fixture.partition.settleReferences();
        await model.compare(fixture);
        await fixture.expectClean();
      })).timeout(600_000);

    it('references stay correct while entries are renamed and deleted and groups change concurrently', () =>
      seeded(async (random) => {
        const front = new Fixture(fixture.store, await Partition.open(fixture.store, testSchema()), undefined);
        const count = engine === 'hbase' ? 12 : 40;
        const names = Array.from({ length: count }, (_, n) => `p${n}`);
        for (const name of names) await fixture.person(name, PEOPLE);
        const groups = await Promise.all(['a', 'b', 'c'].map((cn) => group(fixture, cn, person('bob'))));
        const work = names.map(async (name, n) => {
          const [here, there] = random.chance(0.5) ? [fixture, front] : [front, fixture];
          const joins = groups.map((dn) =>
            there.modify(dn, change('add', 'member', person(name))).catch((error: { result?: string }) => {
              if (error.result !== 'busy') throw error;
            }),
          );
          await (n % 2 === 0 ? here.rename(person(name), `cn=new-${name}`) : here.delete(person(name)));
          await Promise.all(joins);
        });
        await Promise.all(work);
        await front.partition.context.references.close();
        await fixture.partition.settleReferences();
        const there = new Set(await fixture.find('(objectClass=person)'));
        for (const dn of groups)
          for (const value of await members(fixture, dn)) {
            // Who joined after a rename or a deletion has joined a name that nobody has.
            const isLate = names.some((name) => value === person(name));
            expect(there.has(value) || isLate, value).to.equal(true);
          }
        await fixture.expectClean();
      })).timeout(300_000);
  });
}

interface Entry {
  readonly id: string;
  cn: string;
  isGroup: boolean;
  /** Of a group: ids, or names of nobody. */
  refs: Set<string>;
  /** Of a deleted entry: groups that named it. */
  saved: Set<string>;
}

/** References by entryUUID. A name of nobody becomes a reference when an entry of the name comes. */
class Model {
  readonly #fronts: readonly Fixture[];
  readonly #random: Random;
  readonly #live = new Map<string, Entry>();
  readonly #deleted = new Map<string, Entry>();
  #people = 'people';
  /** entryUUID of the dynamic group, which is renamed, and not deleted. */
  #dynamic = '';
  #log: string[] = [];

  constructor(fronts: readonly Fixture[], random: Random) {
    this.#fronts = fronts;
    this.#random = random;
  }

  async prepare(): Promise<void> {
    const [front] = this.#fronts;
    const dynamic = {
      objectClass: 'groupOfURLs',
      cn: 'dynamic',
      memberURL: `ldap:///${SUFFIX}??sub?(cn=${DYNAMIC_CN})`,
    };
    this.#dynamic = (await front!.add(`cn=dynamic,${GROUPS}`, dynamic)).toString('hex');
    const group = {
      id: this.#dynamic,
      cn: 'dynamic',
      isGroup: true,
      refs: new Set<string>(),
      saved: new Set<string>(),
    };
    this.#live.set(group.id, group);
    for (const cn of ['ann', 'bob']) {
      const { id } = await this.#fronts[0]!.read(person(cn));
      this.#live.set(id.toString('hex'), {
        id: id.toString('hex'),
        cn,
        isGroup: false,
        refs: new Set(),
        saved: new Set(),
      });
    }
  }

  #dn({ cn, isGroup }: Pick<Entry, 'cn' | 'isGroup'>): string {
    return isGroup ? `cn=${cn},${GROUPS}` : `cn=${cn},ou=${this.#people},${SUFFIX}`;
  }

  #named(cn: string, isGroup: boolean): Entry | undefined {
    return [...this.#live.values()].find((entry) => entry.cn === cn && entry.isGroup === isGroup);
  }

  async step(): Promise<void> {
    const random = this.#random;
    // The one that leaves things pending takes part where it does not have to wait for others.
    const front = random.pick(this.#fronts);
    const name = `n${random.int(10)}`;
    const isGroup = random.chance(0.4);
    const kind = random.int(10);
    // A server does so when bytes arrive from a client.
    for (const { partition } of this.#fronts) await partition.refresh();
    try {
      if (kind < 2) await this.#add(front, name, isGroup);
      else if (kind < 5) await this.#regroup(front);
      else if (kind < 6) await this.#rename(front, name);
      else if (kind < 7) await this.#delete(front);
      else if (kind < 9) await this.#restore(this.#fronts[0]!);
      else if (random.chance(0.3)) await this.#renamePeople(front);
    } catch (error) {
      if (!(error instanceof Error) || (error as { result?: string }).result !== 'unavailable') throw error;
    }
    if (random.chance(0.3)) await this.compare(random.pick(this.#fronts));
  }

  async #add(front: Fixture, cn: string, isGroup: boolean): Promise<void> {
    if (this.#named(cn, isGroup)) return;
    const entry: Entry = { id: '', cn, isGroup, refs: new Set(), saved: new Set() };
    const refs = isGroup ? this.#someRefs() : [];
    const values = isGroup
      ? { objectClass: ['person', 'extensibleObject'], cn, sn: cn, member: refs.map(([, dn]) => dn) }
      : { objectClass: 'person', cn, sn: cn };
    this.#log.push(`add ${this.#dn(entry)} ${refs.map(([, dn]) => dn).join(' ')}`);
    const id = (await front.add(this.#dn(entry), values)).toString('hex');
    const added = { ...entry, id, refs: new Set(refs.map(([ref]) => ref)) };
    this.#live.set(id, added);
    this.#bind(added);
  }

  /** Ids or names, with the DNs that are written. */
  #someRefs(): [string, string][] {
    const random = this.#random;
    const refs = new Map<string, string>();
    for (let n = 1 + random.int(4); n > 0; n--) {
      const isGroup = random.chance(0.3);
      const cn = isGroup && random.chance(0.2) ? 'dynamic' : `n${random.int(10)}`;
      const dn = this.#dn({ cn, isGroup });
      refs.set(this.#named(cn, isGroup)?.id ?? `${isGroup}:${cn}`, dn);
    }
    return [...refs];
  }

  #bind({ id, cn, isGroup }: Entry): void {
    const name = `${isGroup}:${cn}`;
    for (const { refs } of [...this.#live.values(), ...this.#deleted.values()]) if (refs.delete(name)) refs.add(id);
  }

  async #regroup(front: Fixture): Promise<void> {
    const groups = [...this.#live.values()].filter(({ isGroup, id }) => isGroup && id !== this.#dynamic);
    if (groups.length === 0) return;
    const entry = this.#random.pick(groups);
    const dn = this.#dn(entry);
    const known = [...entry.refs];
    if (known.length > 0 && this.#random.chance(0.4)) {
      const ref = this.#random.pick(known);
      this.#log.push(`modify ${dn} delete ${this.#text(ref)}`);
      await front.modify(dn, change('delete', 'member', this.#text(ref)));
      entry.refs.delete(ref);
      return;
    }
    const refs = this.#someRefs().filter(([ref]) => !entry.refs.has(ref));
    if (refs.length === 0) return;
    this.#log.push(`modify ${dn} add ${refs.map(([, value]) => value).join(' ')}`);
    await front.modify(dn, change('add', 'member', ...refs.map(([, value]) => value)));
    for (const [ref] of refs) entry.refs.add(ref);
  }

  #text(ref: string): string {
    const entry = this.#live.get(ref);
    if (entry) return this.#dn(entry);
    const [isGroup, cn] = ref.split(':');
    return this.#dn({ cn: cn!, isGroup: isGroup === 'true' });
  }

  async #rename(front: Fixture, cn: string): Promise<void> {
    const entries = [...this.#live.values()];
    if (entries.length === 0) return;
    const entry = this.#random.pick(entries);
    if (this.#named(cn, entry.isGroup)) return;
    this.#log.push(`rename ${this.#dn(entry)} cn=${cn}`);
    await front.rename(this.#dn(entry), `cn=${cn}`);
    entry.cn = cn;
    this.#bind(entry);
  }

  async #renamePeople(front: Fixture): Promise<void> {
    const to = this.#people === 'people' ? 'staff' : 'people';
    this.#log.push(`rename people to ${to}`);
    if ([...this.#live.values()].every(({ isGroup }) => isGroup)) return;
    await front.rename(`ou=${this.#people},${SUFFIX}`, `ou=${to}`);
    this.#people = to;
  }

  async #delete(front: Fixture): Promise<void> {
    const entries = [...this.#live.values()].filter(({ id }) => id !== this.#dynamic);
    if (entries.length <= 2) return;
    const entry = this.#random.pick(entries);
    this.#log.push(`delete ${this.#dn(entry)}`);
    await front.delete(this.#dn(entry));
    this.#live.delete(entry.id);
    this.#deleted.set(entry.id, entry);
    for (const { id, refs } of this.#live.values()) if (refs.delete(entry.id)) entry.saved.add(id);
    if (entry.refs.delete(entry.id)) entry.saved.add(entry.id);
  }

  async #restore(front: Fixture): Promise<void> {
    const entries = [...this.#deleted.values()].filter(({ cn, isGroup }) => !this.#named(cn, isGroup));
    if (entries.length === 0) return;
    const entry = this.#random.pick(entries);
    this.#log.push(`restore ${this.#dn(entry)}`);
    await front.partition.restore(Buffer.from(entry.id, 'hex'), SYSTEM);
    this.#deleted.delete(entry.id);
    this.#live.set(entry.id, entry);
    for (const ref of [...entry.refs]) {
      const gone = this.#deleted.get(ref);
      if (!gone) continue;
      entry.refs.delete(ref);
      gone.saved.add(entry.id);
    }
    for (const id of entry.saved) (this.#live.get(id) ?? this.#deleted.get(id))?.refs.add(entry.id);
    entry.saved.clear();
    this.#bind(entry);
  }

  /** What a front end says agrees with the model: values, filters and groups. */
  async compare(front: Fixture): Promise<void> {
    const log = () => `\n${this.#log.slice(-25).join('\n')}`;
    await front.partition.refresh();
    const norm = (dn: string) => front.dn(dn).norm.toString('latin1');
    for (const entry of this.#live.values()) {
      if (!entry.isGroup || entry.id === this.#dynamic) continue;
      const dn = this.#dn(entry);
      const expected = [...entry.refs].map((ref) => norm(this.#text(ref))).sort();
      const found = (await front.values(dn, 'member')).map(norm).sort();
      expect(found, `members of ${dn}${log()}`).to.deep.equal(expected);
    }
    const entry = this.#random.pick([...this.#live.values()]);
    const dn = this.#dn(entry);
    const groups = [...this.#live.values()].filter((group) => this.#has(group, entry));
    const direct = await front.find(`(member=${dn})`);
    expect(direct.map(norm).sort(), `who has ${dn}${log()}`).to.deep.equal(groups.map((g) => norm(this.#dn(g))).sort());
    const all = this.#groupsOf(entry);
    const memberOf = await front.partition.groupsOf({ id: Buffer.from(entry.id, 'hex'), dn: front.dn(dn) });
    expect([...memberOf].sort(), `groups of ${dn}${log()}`).to.deep.equal(
      [...all].map((g) => norm(this.#dn(g))).sort(),
    );
    const group = this.#random.pick([...this.#live.values()].filter(({ isGroup }) => isGroup));
    const groupDn = this.#dn(group);
    const isIn = all.has(group);
    const found = await front.find(`(&(cn=${entry.cn})(memberOf=${groupDn}))`);
    expect(found.map(norm).includes(norm(dn)), `${dn} is in ${groupDn}${log()}`).to.equal(isIn);
    if (all.size > 0)
      expect(
        await front.partition.compare(front.dn(dn), 'memberOf', Buffer.from(groupDn), {}),
        `compare of ${dn} with ${groupDn}${log()}`,
      ).to.equal(isIn);
    const members = [...this.#live.values()].filter((one) => this.#groupsOf(one).has(group));
    expect((await front.find(`(memberOf=${groupDn})`)).map(norm).sort(), `memberOf=${groupDn}${log()}`).to.deep.equal(
      members.map((one) => norm(this.#dn(one))).sort(),
    );
  }

  /** Whether the group names the entry, or finds it by its URL. */
  #has(group: Entry, entry: Entry): boolean {
    return group.refs.has(entry.id) || (group.id === this.#dynamic && entry.cn === DYNAMIC_CN);
  }

  /** The URL is asked about the entry itself, not about groups that it is in. */
  #groupsOf(entry: Entry): Set<Entry> {
    const all = new Set<Entry>();
    const step = [...this.#live.values()].filter((group) => this.#has(group, entry));
    for (let group = step.pop(); group; group = step.pop()) {
      if (all.has(group)) continue;
      all.add(group);
      for (const above of this.#live.values()) if (above.refs.has(group.id)) step.push(above);
    }
    return all;
  }
}

/** Whoever is called so is in the dynamic group. */
const DYNAMIC_CN = 'n1';
