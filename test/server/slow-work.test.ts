import { expect } from 'chai';
import type { Request } from '../../src/protocol/ldap-messages.js';
import { hold } from '../password/hold.js';
import { attributes, CHEAP, PEOPLE, personDn, type Running, start } from './directory.js';
import { RawClient, simpleBind } from './raw-client.js';

/** What one network may have waiting. */
const ROOM = 2048;
const MANY = 2100;
const CLIENTS = 3;

describe('server: slow work', () => {
  let running: Running;
  const clients: RawClient[] = [];
  beforeEach(async () => {
    running = await start({ ...CHEAP, 'credentialCache.enabled': false }, 2);
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await running.stop();
  });

  async function open(uid?: string, password?: string): Promise<RawClient> {
    const client = await RawClient.open(running.port);
    clients.push(client);
    if (uid) expect(await client.bind(personDn(uid), password!)).to.equal(0);
    return client;
  }

  function addPassword(uid: string, ...values: string[]): Request {
    const attribute = attributes({ userPassword: values })[0]!;
    return { op: 'modify', dn: personDn(uid), changes: [{ operation: 'add', attribute }] };
  }

  async function passwordsOf(uid: string): Promise<number> {
    const entry = await running.partition.read(running.partition.schema.parseDn(personDn(uid)));
    return entry.attributes.find((a) => a.description === 'userPassword')?.values.length ?? 0;
  }

  it('slow work of one user leaves room for others in the same network, and ends with the connection', async () => {
    const users = await Promise.all(Array.from({ length: CLIENTS }, () => open('p0', 'secret-0')));
    const victim = await open();
    const held = hold();
    const each = MANY / CLIENTS;
    const more = (n: number) => addPassword('p0', ...'abcdefg'.split('').map((letter) => `${n}${letter}`));
    let refused = 0;
    for (const user of users) {
      for (const id of user.sendTogether(Array.from({ length: each }, (_, n) => more(n)))) {
        user.answer(id).then(
          ({ code }) => {
            if (code === 51) refused++;
          },
          () => undefined,
        );
      }
    }
    await held.until(() => refused === MANY - ROOM);
    let code: number | undefined;
    const bound = victim.bind(personDn('p1'), 'wrong').then((answer) => {
      code = answer;
    });
    await held.until(() => refused > MANY - ROOM || code !== undefined);
    expect(code, 'it waits in the place of one of the user’s').to.equal(undefined);
    for (const user of users) user.close();
    await held.until(1);
    held.goOn();
    await bound;
    expect(code).to.equal(49);
    expect(await passwordsOf('p0')).to.equal(1);
  });

  it('slow work of an abandoned operation is not done', async () => {
    const user = await open('p0', 'secret-0');
    const held = hold();
    const [modify] = user.sendTogether([addPassword('p0', 'one', 'two')]);
    await held.until(1);
    user.send({ op: 'abandon', target: modify! });
    await held.until(0);
    held.goOn();
    expect((await user.search(PEOPLE)).code).to.equal(0);
    expect(user.hasHeardOf(modify!)).to.equal(false);
    expect(await passwordsOf('p0')).to.equal(1);
  });

  it('slow work of a bind ends with the connection, and cannot be abandoned', async () => {
    const [leaving, staying] = [await open(), await open()];
    const held = hold();
    leaving.send(simpleBind(personDn('p0'), 'wrong'));
    const bind = staying.send(simpleBind(personDn('p0'), 'wrong'));
    staying.send({ op: 'abandon', target: bind });
    await held.until(2);
    leaving.close();
    await held.until(1);
    held.goOn();
    expect((await staying.answer(bind)).code).to.equal(49);
  });
});
