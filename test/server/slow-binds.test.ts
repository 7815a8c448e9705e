import { once } from 'node:events';
import { connect } from 'node:net';
import { expect } from 'chai';
import { DEFAULT_ARGON2_COST, slowWork } from '../../src/password/index.js';
import { clientNetwork } from '../../src/server/words/network.js';
import { hold } from '../password/hold.js';
import { ADMIN, addPerson, attributes, CHEAP, personAttributes, personDn, type Running, start } from './directory.js';
import { RawClient } from './raw-client.js';

const WRONG = 200;

describe('server: slow binds', () => {
  let running: Running;
  const clients: RawClient[] = [];
  beforeEach(async () => {
    running = await start({ ...CHEAP, 'credentialCache.enabled': false }, 1);
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await running.stop();
  });

  async function open(localAddress = '127.0.0.1'): Promise<RawClient> {
    const socket = connect({ port: running.port, host: '127.0.0.1', localAddress });
    await once(socket, 'connect');
    const client = new RawClient(socket);
    clients.push(client);
    return client;
  }

  /** Persons whose password is `right`, hashed. */
  async function addRight(...uids: string[]): Promise<void> {
    const admin = await open();
    await admin.bind(ADMIN.dn, ADMIN.password);
    for (const uid of uids) {
      const given = personAttributes(uid, { userPassword: 'right' });
      expect((await admin.request({ op: 'add', dn: personDn(uid), attributes: given })).code).to.equal(0);
    }
  }

  /** The place of the right bind among the answers, when it is sent behind all the wrong ones. */
  async function placeOf(right: RawClient, dn: string, wrong: (n: number) => [RawClient, string]): Promise<number> {
    const held = hold();
    const order: string[] = [];
    const answers = Array.from({ length: WRONG }, async (_, n) => {
      const [client, name] = wrong(n);
      expect(await client.bind(name, 'wrong')).to.equal(49);
      order.push('wrong');
    });
    await held.until(WRONG);
    const own = right.bind(dn, 'right').then((code) => {
      expect(code).to.equal(0);
      order.push('right');
    });
    await held.until(WRONG + 1);
    held.goOn();
    await Promise.all([...answers, own]);
    return order.indexOf('right');
  }

  it('a right one does not wait for 200 wrong ones', async () => {
    await addRight('ann', 'bob');
    const many = await Promise.all(Array.from({ length: WRONG }, () => open()));
    const [right, elsewhere] = [await open(), await open('127.0.0.2')];
    const few = WRONG / 5;
    const toAnn = (n: number): [RawClient, string] => [many[n]!, personDn('ann')];
    expect(await placeOf(elsewhere, personDn('ann'), toAnn), 'from another network').to.be.at.most(few);
    expect(await placeOf(right, personDn('bob'), toAnn), 'for another identity').to.be.at.most(few);
    const toMany = (n: number): [RawClient, string] => [many[n]!, personDn(`nobody${n}`)];
    expect(await placeOf(right, personDn('bob'), toMany), 'of one who succeeded before').to.be.at.most(few);
  });

  it('a right one that is the first of its DN does not wait for 200 wrong ones of its network', async () => {
    await addRight('carol', 'dave');
    const many = await Promise.all(Array.from({ length: WRONG }, () => open()));
    const few = WRONG / 5;
    const toMany =
      (wave: string) =>
      (n: number): [RawClient, string] => [many[n]!, personDn(`${wave}${n}`)];
    expect(await placeOf(await open(), personDn('carol'), toMany('first')), 'of new connections').to.be.at.most(few);
    expect(await placeOf(await open(), personDn('dave'), toMany('next')), 'of those that failed').to.be.at.most(few);
  });

  it('passwords are few, and their hashes not dear', async () => {
    const admin = await open();
    await admin.bind(ADMIN.dn, ADMIN.password);
    const add = async (uid: string, userPassword: string | string[]) =>
      admin.request({ op: 'add', dn: personDn(uid), attributes: personAttributes(uid, { userPassword }) });
    const words = Array.from({ length: 9 }, (_, n) => `word ${n}`);
    const before = slowWork.totalCost;
    const many = await add('many', words);
    const tooMany = "'userPassword' would have 9 values; an entry has 8 passwords at most";
    expect([many.code, many.final.message]).to.deep.equal([19, tooMany]);
    expect(slowWork.totalCost, 'nothing is hashed').to.equal(before);
    expect((await add('many', words.slice(1))).code).to.equal(0);
    const modify = (operation: 'add' | 'delete' | 'replace', ...values: string[]) =>
      admin.request({
        op: 'modify',
        dn: personDn('many'),
        changes: [{ operation, attribute: attributes({ userPassword: values })[0]! }],
      });
    expect((await modify('add', 'one more')).code).to.equal(19);
    expect((await modify('delete', ...words)).code).to.equal(19);
    expect((await modify('delete', ...words.slice(1))).code).to.equal(0);
    const dear = '{PBKDF2-SHA512}1000000$c2FsdA$aGFzaA';
    const refused = await modify('add', dear);
    expect(refused.code).to.equal(19);
    expect(refused.final.message).to.match(/costs \d\d times what a hash should \(see passwords.maxCost\)/);
    expect((await add('dear', dear)).code).to.equal(19);
    expect((await modify('add', `{X-LONG}${'x'.repeat(2100)}`)).code).to.equal(19);
    expect((await modify('add', '{PBKDF2-SHA512}10000$c2FsdA$aGFzaA')).code).to.equal(0);
  });

  it('a hash above the bound that is stored all the same costs nothing and binds nobody', async () => {
    const dear = `{ARGON2}$argon2id$v=19$m=262144,t=16,p=1$${'A'.repeat(22)}$${'A'.repeat(43)}`;
    await addPerson(running.partition, 'dear', { userPassword: dear });
    const client = await open();
    const before = slowWork.totalCost;
    expect(await client.bind(personDn('dear'), 'x')).to.equal(49);
    expect(slowWork.totalCost - before).to.be.below(DEFAULT_ARGON2_COST);
  });

  it('the hashes of one entry are bounded together', async () => {
    const admin = await open();
    await admin.bind(ADMIN.dn, ADMIN.password);
    const hashes = Array.from({ length: 8 }, (_, n) => `{PBKDF2-SHA512}${100_000 + n}$c2FsdA$${'A'.repeat(86)}`);
    const change = (operation: 'add' | 'delete' | 'replace', ...userPassword: string[]) =>
      admin.request({
        op: 'modify',
        dn: personDn('p0'),
        changes: [{ operation, attribute: attributes({ userPassword })[0]! }],
      });
    const before = slowWork.totalCost;
    const all = await change('replace', ...hashes);
    expect(all.code).to.equal(19);
    expect(all.final.message).to.match(/these password hashes costs \d\d times what a hash should/);
    expect((await change('replace', ...hashes.slice(0, 5))).code).to.equal(0);
    expect((await change('add', hashes[5]!)).code).to.equal(19);
    expect((await change('delete', hashes[4]!)).code).to.equal(0);
    expect(slowWork.totalCost, 'nothing is worked on').to.equal(before);
    // Stored before the bound was lowered.
    await addPerson(running.partition, 'dear', { userPassword: hashes });
    const client = await open();
    expect(await client.bind(personDn('dear'), 'x')).to.equal(49);
    expect(await client.bind(personDn('dear'), 'y')).to.equal(49);
    expect(slowWork.totalCost - before).to.be.at.most(2 * 32 * DEFAULT_ARGON2_COST);
    expect(running.lines.filter((line) => line.includes('cost too much'))).to.have.length(1);
  });

  it('a network is an address of IPv4, and a /64 of IPv6', () => {
    for (const [address, network] of [
      ['10.1.2.3', '10.1.2.3'],
      ['::ffff:10.1.2.3', '10.1.2.3'],
      ['::1', '0:0:0:0::/64'],
      ['2001:db8::5', '2001:db8:0:0::/64'],
      ['2001:DB8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
      ['2001:db8:1:2::', '2001:db8:1:2::/64'],
      ['fe80::1%eth0', 'fe80:0:0:0::/64'],
      [undefined, 'local'],
    ] as const)
      expect(clientNetwork(address), address).to.equal(network);
  });
});
