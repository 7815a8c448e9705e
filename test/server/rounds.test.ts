import { expect } from 'chai';
import type { Request } from '../../src/protocol/ldap-messages.js';
import { ExtendedOid } from '../../src/protocol/oids.js';
import { Rounds, type Sender } from '../../src/server/connection/rounds.js';
import { encodeApplicationPasswords } from '../protocol/client-values.js';
import { turns } from '../turns.js';
import { personDn, type Running, start } from './directory.js';
import { RawClient } from './raw-client.js';

const round = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('server: rounds of requests', () => {
  it('users take turns, then the connections of each, and none is forgotten', async () => {
    const rounds = new Rounds();
    const begun: string[] = [];
    const sender = (name: string, identity: string, count: number): Sender => ({
      identity,
      beginRequests(): void {
        begun.push(name);
        if (--count > 0) rounds.enqueue(this);
      },
    });
    expect(rounds.isOver(performance.now())).to.equal(false);
    for (const name of ['a', 'b', 'c', 'd']) rounds.enqueue(sender(name, 'one', 3));
    rounds.enqueue(sender('x', 'other', 3));
    expect(rounds.isOver(performance.now()), 'who comes now begins one request').to.equal(true);
    while (begun.length < 15) await round();
    expect(begun.join('')).to.equal('axbxcxdabcdabcd');
    await round();
    expect(rounds.isOver(performance.now())).to.equal(false);
  });

  it('what requests do after their first promise counts as time of the round', async () => {
    const rounds = new Rounds();
    const begun: number[] = [];
    let turn = 0;
    const sender: Sender = {
      identity: 'one',
      beginRequests: async () => {
        begun.push(turn);
        // Each look at the clock takes 1 ms, and a round has 4.
        for (let n = 0; n < 4; n++) {
          await Promise.resolve();
          performance.now();
        }
      },
    };
    const serve = async (): Promise<void> => {
      for (let n = 0; n < 10; n++) rounds.enqueue(sender);
      while (begun.length < 10) await round();
    };
    await turns(serve, () => {
      turn++;
    });
    expect(new Set(begun).size, 'turns in which one was served').to.equal(10);
  });
});

/** Requests of application passwords, which are never answered at once. */
describe('server: requests that are not answered at once', () => {
  const request: Request = {
    op: 'extended',
    oid: ExtendedOid.applicationPasswords,
    value: encodeApplicationPasswords({ action: 'list' }),
  };
  const requests = (count: number): Request[] => Array.from({ length: count }, () => request);
  const clients: RawClient[] = [];
  let running: Running;
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await running.stop();
  });

  async function bound(n: number): Promise<RawClient> {
    const client = await RawClient.open(running.port);
    clients.push(client);
    expect(await client.bind(personDn(`p${n}`), `secret-${n}`)).to.equal(0);
    return client;
  }

  const begun = (): number => running.server.services.statistics.operations.extended;

  it('begin in turns when each has to wait for the end of another', async () => {
    running = await start({ 'limits.requestsInFlight': 1 }, 1);
    const client = await bound(0);
    let before = 0;
    let mostInTurn = 0;
    const ask = async (): Promise<void> => {
      const ids = client.sendTogether(requests(300));
      await client.answer(ids.at(-1)!);
    };
    await turns(ask, () => {
      mostInTurn = Math.max(mostInTurn, begun() - before);
      before = begun();
    });
    expect(begun()).to.equal(300);
    expect(mostInTurn).to.be.at.most(10);
  });

  it('twenty connections of one user have as many turns as one of another', async () => {
    running = await start({}, 2);
    const flood = await Promise.all(Array.from({ length: 20 }, () => bound(0)));
    const other = await bound(1);
    for (const client of flood) client.sendTogether(requests(100));
    const ids = other.sendTogether(requests(50));
    await other.answer(ids.at(-1)!);
    // A connection begins some requests when they arrive, and the client learns of its last answer late.
    expect(begun() - ids.length, 'requests of the twenty').to.be.at.most(400);
    for (const client of flood) expect((await client.search('')).code).to.equal(0);
    expect(begun()).to.equal(20 * 100 + ids.length);
  });
});
