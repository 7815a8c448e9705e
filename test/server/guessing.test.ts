import { expect } from 'chai';
import type { AccountState } from '../../src/partition/model/account-state.js';
import { DEFAULT_POLICY, hashPassword } from '../../src/password/index.js';
import { hold } from '../password/hold.js';
import { inSoak, rounds } from '../rounds.js';
import {
  ADMIN,
  attributes,
  CHEAP,
  personAttributes,
  personDn,
  type Running,
  SUFFIX,
  start,
  testSchema,
} from './directory.js';
import { RawClient, simpleBind } from './raw-client.js';

const POLICY = `cn=policy,${SUFFIX}`;
const SYSTEM = { dn: ADMIN.dn, system: true };
const CONNECTIONS = 100;
/** Of the longest queue a network has half. */
const ROOM_OF_NETWORK = 2048;
const MOST = 5;
/** Connections that give the right password meanwhile, `MOST` times each. */
const RACERS = 20;
const CHEAP_POLICY = { ...DEFAULT_POLICY, argon2: { memoryKiB: 64, timeCost: 1, parallelism: 1 } };

/** Failures of an account before a change and after it; `MOST`: it is locked. */
type Step = [number, number];

function failuresOf(state: AccountState | undefined): number {
  return state && state.lockedUntil > 0 ? MOST : (state?.failures.length ?? 0);
}

/** Guesses of one password, or of many, in `npm test`. */
const GUESSES = 1_000;

describe('server: guessing passwords', function () {
  this.timeout(600_000);
  let running: Running;
  let clients: RawClient[];
  /** Guesses that have been answered. */
  let answered: number;

  async function begin(most: number, scheme: 'argon2id' | 'ssha512' = 'argon2id'): Promise<void> {
    running = await start({ ...CHEAP, 'passwords.scheme': scheme, 'passwords.policy': POLICY }, 1);
    const policy = attributes({
      objectClass: ['device', 'pwdPolicy'],
      cn: 'policy',
      pwdAttribute: 'userPassword',
      pwdLockout: 'TRUE',
      pwdMaxFailure: String(most),
    });
    await running.partition.add(testSchema().parseDn(POLICY), policy, SYSTEM);
    clients = await Promise.all(Array.from({ length: CONNECTIONS }, () => open()));
    answered = 0;
  }
  afterEach(async () => {
    for (const client of clients) client.close();
    await running.stop();
  });

  async function open(): Promise<RawClient> {
    return RawClient.open(running.port);
  }

  /** Somebody with this password, or a value that stands for it. */
  async function person(uid: string, userPassword = '{CLEARTEXT}right'): Promise<string> {
    await running.partition.add(testSchema().parseDn(personDn(uid)), personAttributes(uid, { userPassword }), SYSTEM);
    return personDn(uid);
  }

  async function stateOf(name: string): Promise<AccountState | undefined> {
    const found = await running.partition.findRow(testSchema().parseDn(name));
    return running.partition.accountState(found!.id);
  }

  /** Every connection guesses so often, one guess after another. */
  async function guess(times: number, whom: (connection: number, turn: number) => string): Promise<void> {
    await Promise.all(
      clients.map(async (client, n) => {
        for (let i = 0; i < times; i++) {
          expect(await client.bind(whom(n, i), `guess ${n} ${i}`)).to.equal(49);
          answered++;
        }
      }),
    );
  }

  /** The guesses that are answered while each of its searches between, until `others` are over. */
  async function searchBeside(others: () => Promise<unknown>): Promise<number[]> {
    const searcher = await open();
    expect(await searcher.bind(personDn('p0'), 'secret-0')).to.equal(0);
    let over = false;
    const guessing = others().finally(() => {
      over = true;
    });
    const between: number[] = [];
    try {
      while (!over) {
        const before = answered;
        const { code, entries } = await searcher.search(personDn('p0'));
        expect([code, entries.length]).to.deep.equal([0, 1]);
        between.push(answered - before);
      }
    } finally {
      await guessing;
      searcher.close();
    }
    return between;
  }

  /** Each search is answered after two guesses of every other connection at most. */
  function expectTurns(between: readonly number[], guesses: number): void {
    expect(Math.max(...between), 'guesses between a search and its answer').to.be.at.most(2 * CONNECTIONS);
    expect(between.length, 'searches').to.be.at.least(guesses / (2 * CONNECTIONS));
  }

  it('of one account locks it exactly, and nobody gets in from then on', async () => {
    await begin(MOST);
    const [ann, bob] = [
      await person('ann', (await hashPassword(Buffer.from('right'), CHEAP_POLICY)).toString()),
      await person('bob'),
    ];
    const { id } = (await running.partition.findRow(testSchema().parseDn(ann)))!;
    const steps: Step[] = [];
    const change = running.partition.changeAccountState.bind(running.partition);
    // What is kept of the account, in the order in which it is: the real thing does it.
    running.partition.changeAccountState = (whose, edit) =>
      change(whose, (before) => {
        const after = edit(before);
        if (after && whose.equals(id)) steps.push([failuresOf(before), failuresOf(after)]);
        return after;
      });
    const racers = await Promise.all(Array.from({ length: RACERS }, () => open()));
    async function race(racer: RawClient): Promise<void> {
      for (let i = 0; i < MOST; i++) {
        if ((await racer.bind(ann, 'right')) === 0) continue;
        expect(steps.at(-1), 'a right password is refused').to.deep.equal([MOST - 1, MOST]);
      }
    }
    const times = rounds(GUESSES, 10 * GUESSES) / CONNECTIONS;
    const between = await searchBeside(async () => {
      const racing = Promise.all(racers.map(race));
      // The guesses may lock the account early, so one right password is answered before they start.
      const first = clients[0]!.bind(ann, 'right').then((code) => expect(code).to.equal(0));
      await Promise.all([first.then(() => guess(times, () => ann)), racing]);
    });
    clients.push(...racers);

    expectTurns(between, times * CONNECTIONS);
    expect(steps.pop()).to.deep.equal([MOST - 1, MOST]);
    for (const [before, after] of steps) expect(after, `after ${before} failures`).to.be.oneOf([0, before + 1]);
    for (const [i, [before]] of steps.entries()) expect(before).to.equal(i === 0 ? 0 : steps[i - 1]![1]);
    for (const client of [...racers, clients[0]!]) expect(await client.bind(ann, 'right')).to.equal(49);
    expect((await stateOf(ann))!.lockedUntil).to.equal(Number.POSITIVE_INFINITY);
    expect(await clients[0]!.bind(bob, 'right'), 'another').to.equal(0);
  });

  it('of many accounts are counted exactly, each by itself', async () => {
    // Without hashes that take time the guesses come as fast as they can.
    const each = 5;
    await begin(each + 1, inSoak ? 'argon2id' : 'ssha512');
    const names: string[] = [];
    const guesses = rounds(GUESSES, 10 * GUESSES);
    for (let n = 0; n < guesses / each; n++) names.push(await person(`user${n}`));
    const between = await searchBeside(() =>
      guess(guesses / CONNECTIONS, (n, i) => names[(i * CONNECTIONS + n) % names.length]!),
    );
    expectTurns(between, guesses);
    for (const name of names) expect((await stateOf(name))!.failures, name).to.have.length(each);
    const [admitted, shut] = [names.slice(0, CONNECTIONS), names.slice(CONNECTIONS, 2 * CONNECTIONS)];
    await Promise.all(admitted.map(async (name, n) => expect(await clients[n]!.bind(name, 'right')).to.equal(0)));
    await guess(1, (n) => shut[n]!);
    await Promise.all(shut.map(async (name, n) => expect(await clients[n]!.bind(name, 'right')).to.equal(49)));
    for (const name of admitted) expect((await stateOf(name))!.failures, name).to.have.length(0);
    for (const name of shut) expect((await stateOf(name))!.lockedUntil).to.equal(Number.POSITIVE_INFINITY);
  });

  it('where too many passwords wait is told to try again, and goes on when there is room', async () => {
    await begin(MOST);
    const ann = await person('ann');
    const held = hold();
    const more = await Promise.all(Array.from({ length: ROOM_OF_NETWORK + 10 - CONNECTIONS }, () => open()));
    clients.push(...more);
    const answers = clients.map((client) => client.request(simpleBind(ann, 'no')));
    const first = await Promise.race(answers);
    expect(first.final).to.include({ code: 51, message: 'too many passwords wait to be verified; try again' });
    held.goOn();
    await Promise.all(answers);
    expect(await clients[0]!.bind(ann, 'right')).to.equal(49);
  });
});
