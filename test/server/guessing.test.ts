import { expect } from 'chai';
import { hold } from '../password/hold.js';
import { rounds } from '../rounds.js';
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
const CONNECTIONS = 200;
/** Of the longest queue a network has half. */
const ROOM_OF_NETWORK = 2048;
const MOST = 5;

describe('server: guessing passwords', () => {
  let running: Running;
  let clients: RawClient[];

  beforeEach(async () => {
    running = await start({ ...CHEAP, 'passwords.policy': POLICY }, 0);
    const policy = attributes({
      objectClass: ['device', 'pwdPolicy'],
      cn: 'policy',
      pwdAttribute: 'userPassword',
      pwdLockout: 'TRUE',
      pwdMaxFailure: String(MOST),
    });
    await running.partition.add(testSchema().parseDn(POLICY), policy, SYSTEM);
    clients = await Promise.all(Array.from({ length: CONNECTIONS }, () => open()));
  });
  afterEach(async () => {
    for (const client of clients) client.close();
    await running.stop();
  });

  const open = (): Promise<RawClient> => RawClient.open(running.port);

  async function person(uid: string): Promise<string> {
    const all = personAttributes(uid, { userPassword: '{CLEARTEXT}right' });
    await running.partition.add(testSchema().parseDn(personDn(uid)), all, SYSTEM);
    return personDn(uid);
  }

  async function stateOf(name: string) {
    const found = await running.partition.findRow(testSchema().parseDn(name));
    return running.partition.accountState(found!.id);
  }

  /** Every connection guesses so often, one guess after another. */
  async function guess(times: number, whom: (connection: number) => string): Promise<void> {
    await Promise.all(
      clients.map(async (client, n) => {
        for (let i = 0; i < times; i++) expect(await client.bind(whom(n), `guess ${n} ${i}`)).to.equal(49);
      }),
    );
  }

  it('of one account from 200 connections locks it, and counts no more', async () => {
    const [ann, bob] = [await person('ann'), await person('bob')];
    await guess(rounds(10, 50), () => ann);
    expect(await clients[0]!.bind(ann, 'right')).to.equal(49);
    expect((await stateOf(ann))!.lockedUntil).to.equal(Number.POSITIVE_INFINITY);
    expect(await clients[0]!.bind(bob, 'right'), 'another').to.equal(0);
  });

  it('of many accounts from 200 connections at once is counted exactly, each by itself', async () => {
    const names: string[] = [];
    for (let n = 0; n < rounds(50, 500); n++) names.push(await person(`user${n}`));
    const guesses = names.flatMap((name) => Array.from({ length: MOST - 1 }, () => name));
    await Promise.all(
      guesses.map(async (name, n) => expect(await clients[n % CONNECTIONS]!.bind(name, 'no')).to.equal(49)),
    );
    for (const name of names) expect((await stateOf(name))!.failures, name).to.have.length(MOST - 1);
    for (const name of names.slice(0, 10)) expect(await clients[0]!.bind(name, 'right')).to.equal(0);
    for (const name of names.slice(10)) expect(await clients[0]!.bind(name, 'no')).to.equal(49);
    for (const name of names.slice(10)) expect(await clients[0]!.bind(name, 'right')).to.equal(49);
  });

  it('where too many passwords wait is told to try again, and goes on when there is room', async () => {
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
