import { expect } from 'chai';
import { LdapError } from '../../src/ldap/ldap-error.js';
import { initDirectory, Partition } from '../../src/partition/index.js';
import { MASTER_TABLE, META_TABLE } from '../../src/partition/model/tables.js';
import type { Store } from '../../src/store/contract.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { StoreError } from '../../src/store/store-error.js';
import { rounds } from '../rounds.js';
import { faulty } from '../store/faulty.js';
import { ACTOR, change, Fixture, type Random, refused, SUFFIX, seeded, testSchema } from './fixture.js';

const ROUNDS = rounds(30, 60);
const AT_ONCE = 12;
const NAMES = ['a', 'b', 'c', 'd'];
const REFERRAL = 'ou=elsewhere';
/** What an operation may hear when others are at work on the same entries. */
const ANSWERS = ['noSuchObject', 'entryAlreadyExists', 'unwillingToPerform', 'notAllowedOnNonLeaf', 'busy'];

/** Two front ends of one store that answers late and out of order, and everything that they do at once. */
class Crowd {
  readonly fronts: readonly Fixture[];
  readonly #random: Random;
  #made = 0;

  constructor(fronts: readonly Fixture[], random: Random) {
    this.fronts = fronts;
    this.#random = random;
  }

  /** A name that there may be: up to three of them below each other. */
  #dn(): string {
    const depth = 1 + this.#random.int(3);
    return [...Array.from({ length: depth }, () => `ou=${this.#random.pick(NAMES)}`), SUFFIX].join(',');
  }

  async #one(): Promise<void> {
    const front = this.#random.pick(this.fronts);
    switch (this.#random.int(8)) {
      case 0:
      case 1:
        return void (await front.unit(this.#random.pick(NAMES), this.#random.chance(0.3) ? SUFFIX : this.#dn()));
      case 2:
        return void (await front.person(`p${this.#made++}`, this.#dn()));
      case 3:
      case 4: {
        const newSuperior = this.#random.chance(0.3) ? SUFFIX : this.#dn();
        return front.rename(this.#dn(), `ou=${this.#random.pick(NAMES)}`, { newSuperior });
      }
      case 5:
        return front.delete(this.#dn());
      default:
        return this.#search(front);
    }
  }

  /** A referral is never an entry of a result, whatever else happens to the tree meanwhile. */
  async #search(front: Fixture): Promise<void> {
    const scope = this.#random.pick(['one', 'sub'] as const);
    const filter = this.#random.pick(['(objectClass=*)', '(objectClass=organizationalUnit)', '(ou=*)']);
    const { dns, references } = await front.search({ scope, filter });
    expect(dns.filter((dn) => dn.startsWith(REFERRAL))).to.deep.equal([]);
    expect(references).to.have.length(1);
  }

  async round(): Promise<void> {
    const works = Array.from({ length: AT_ONCE }, async () => {
      try {
        await this.#one();
      } catch (error) {
        if (!(error instanceof LdapError)) throw error;
        expect(error.result, error.message).to.be.oneOf(ANSWERS);
      }
    });
    for (const settled of await Promise.allSettled(works)) if (settled.status === 'rejected') throw settled.reason;
  }
}

type Gate = (call: string, table: unknown, key: unknown) => Promise<void> | undefined;

/** A store whose calls are done at once, and answered when the gate lets them through. */
function gated(inner: Store, gate: Gate): Store {
  return new Proxy(inner, {
    get(target, name) {
      const member = Reflect.get(target, name) as unknown;
      if (typeof member !== 'function') return member;
      return (...given: unknown[]) => {
        const held = gate(String(name), given[0], given[1]);
        if (held && name === 'commit') return held.then(() => Reflect.apply(member, target, given));
        const answer = Reflect.apply(member, target, given) as unknown;
        return held ? held.then(() => answer) : answer;
      };
    },
  });
}

/** A promise, and what resolves it. */
function latch(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('an answer of the store that comes late', () => {
  let gate: Gate;
  let front: Fixture;
  let other: Fixture;
  let unit: Buffer;
  const people = `ou=people,${SUFFIX}`;

  beforeEach(async () => {
    gate = () => undefined;
    const inner = openMemoryStore();
    const schema = testSchema();
    await initDirectory(inner, { suffixes: [SUFFIX], adminDn: ACTOR.dn, adminPassword: Buffer.from('old') }, schema);
    other = new Fixture(inner, await Partition.open(inner, schema), undefined);
    await other.add(SUFFIX, { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' });
    unit = await other.unit('people');
    await other.person('ann', people);
    const store = gated(inner, (...call) => gate(...call));
    front = new Fixture(store, await Partition.open(store, schema), undefined);
  });
  afterEach(() => front.close());

  /** Holds the next read of a row of the table; its answer is what was there when it was asked for. */
  function hold(table: string, key?: Buffer): { readonly reached: Promise<void>; open(): void } {
    const reached = latch();
    const held = latch();
    gate = (call, of, at) => {
      if ((call !== 'get' && call !== 'getHead') || of !== table || (key && !key.equals(at as Buffer)))
        return undefined;
      gate = () => undefined;
      reached.open();
      return held.opened;
    };
    return { reached: reached.opened, open: held.open };
  }

  it('of a name that has changed meanwhile is not kept', async () => {
    const late = hold(MASTER_TABLE.name, unit);
    const found = front.find('(cn=ann)');
    await late.reached;
    await other.rename(people, 'ou=folk');
    await turn();
    expect(await front.find('(ou=*)', { scope: 'one' })).to.deep.equal([`ou=folk,${SUFFIX}`]);
    late.open();
    expect(await found).to.have.length(1);
    expect(await front.find('(cn=ann)')).to.deep.equal([`cn=ann,ou=folk,${SUFFIX}`]);
  });

  it('of the shared row does not undo a newer one', async () => {
    const late = hold(META_TABLE.name);
    await turn();
    const asked = front.partition.adminPassword();
    await late.reached;
    await front.partition.setAdminPassword(Buffer.from('new'));
    late.open();
    await asked;
    expect(front.partition.settings.adminPassword.toString()).to.equal('new');
  });

  it('of the shared row, asked for before a commit, does not stand for what is there after it', async () => {
    expect(await front.find('(ou=*)', { scope: 'one' })).to.deep.equal([people]);
    await turn();
    const committed = latch();
    gate = (call) => (call === 'commit' ? committed.opened : undefined);
    const added = front.add(`ou=elsewhere,${SUFFIX}`, {
      objectClass: ['referral', 'extensibleObject'],
      ou: 'elsewhere',
      ref: 'ldap://elsewhere.example.com/',
    });
    await turn();
    const late = hold(META_TABLE.name);
    const asked = front.partition.adminPassword();
    await late.reached;
    committed.open();
    await added;
    late.open();
    await asked;
    expect(await front.find('(ou=*)', { scope: 'one' })).to.deep.equal([people]);
  });

  it('of the shared row, which is an error, ends the repeated write that asked for it', async () => {
    const ann = `cn=ann,${people}`;
    const reached = latch();
    const committed = latch();
    gate = (call) => {
      if (call !== 'commit') return undefined;
      reached.open();
      return committed.opened;
    };
    const written = front.modify(ann, change('replace', 'title', 'late'));
    await reached.opened;
    await other.modify(ann, change('replace', 'title', 'first'));
    gate = (call, table) => {
      if (call !== 'get' || table !== META_TABLE.name) return undefined;
      gate = () => undefined;
      // Another operation reads the row itself, before the repeated write goes on.
      queueMicrotask(() => void front.partition.refresh());
      return Promise.reject(new StoreError('unavailable', 'gone'));
    };
    committed.open();
    await refused('unavailable', written);
    expect(await front.values(ann, 'title')).to.deep.equal(['first']);
  });
});

describe('front ends that work at once on a store that answers late', () => {
  it('agree in the end, and leave nothing wrong behind', () =>
    seeded(async (random) => {
      const delay = (): number => (random.chance(0.95) ? 0 : 1 + random.int(3));
      const store = faulty(openMemoryStore(), () => ({ do: 'delay', ms: delay(), late: delay() }));
      const schema = testSchema();
      const settings = { suffixes: [SUFFIX], adminDn: ACTOR.dn, adminPassword: Buffer.from('{CLEARTEXT}x') };
      await initDirectory(store, settings, schema);
      const open = async (): Promise<Fixture> => new Fixture(store, await Partition.open(store, schema), undefined);
      const fronts = [await open(), await open()];
      await fronts[0]!.add(SUFFIX, { objectClass: ['organization', 'dcObject'], dc: 'example', o: 'Example' });
      await fronts[0]!.add(`${REFERRAL},${SUFFIX}`, {
        objectClass: ['referral', 'extensibleObject'],
        ou: 'elsewhere',
        ref: 'ldap://elsewhere.example.com/',
      });
      const crowd = new Crowd(fronts, random);
      for (let n = 0; n < ROUNDS; n++) {
        await crowd.round();
        const truth = await (await open()).find('(objectClass=*)', { manageDsaIT: true });
        for (const front of fronts) {
          // Those by index, those by scan, and by name.
          expect(await front.find('(objectClass=*)', { manageDsaIT: true }), `round ${n}`).to.deep.equal(truth);
          expect((await front.find('(ou=*)', { manageDsaIT: true })).length).to.be.greaterThan(0);
          const read = await Promise.all(truth.map((dn) => front.read(dn)));
          expect(read.map((entry) => entry.dn)).to.deep.equal(truth);
        }
        if (n % 30 === 0) await fronts[0]!.expectClean();
      }
      await fronts[0]!.expectClean();
      await store.close();
    }));
});
