import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { expect } from 'chai';
import { firstTurn, Turns } from '../../src/partition/read/run/turns.js';
import { Output } from '../../src/server/connection/output.js';
import { Unsent } from '../../src/server/connection/unsent.js';
import { isPromise } from '../../src/server/words/maybe.js';
import { ADMIN, attributes, PEOPLE, personAttributes, personDn, type Running, start } from './directory.js';
import { RawClient, searchRequest } from './raw-client.js';

const MIB = 1024 * 1024;

/** Its socket, and the one at the other end, which reads nothing. */
async function pair(): Promise<[Socket, Socket]> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const far = connect((server.address() as { port: number }).port, '127.0.0.1').pause();
  const [near] = (await once(server, 'connection')) as [Socket];
  server.close();
  return [near, far];
}

describe('server: who waits for room', () => {
  /** Who waits at each way out. */
  const waiting = new Map<Output, number>();
  const room = Output.prototype.room;

  before(() => {
    Output.prototype.room = function (this: Output) {
      const promise = room.call(this);
      if (isPromise(promise)) {
        waiting.set(this, (waiting.get(this) ?? 0) + 1);
        void promise.then(() => waiting.set(this, waiting.get(this)! - 1));
      }
      return promise;
    };
  });
  after(() => {
    Output.prototype.room = room;
  });
  beforeEach(() => waiting.clear());

  it('long searches of one asker wait once, however many they are', async () => {
    const [near, far] = await pair();
    const output = new Output(near, 0, new Unsent(64 * MIB));
    output.writer.raw(Buffer.alloc(32 * MIB));
    expect(output.full).to.equal(true);
    const begun: Promise<void>[] = [];
    const search = async (): Promise<void> => {
      await firstTurn(output);
      const turns = new Turns(output);
      while (!turns.isOver);
      await turns.pass();
    };
    for (let n = 0; n < 50; n++) {
      begun.push(search());
      await new Promise(setImmediate);
    }
    expect(waiting.get(output)).to.equal(1);
    far.resume();
    await Promise.all(begun);
    expect(waiting.get(output)).to.equal(0);
    near.destroy();
    far.destroy();
  });

  it('requests that end while nothing is read leave nobody behind', async () => {
    const persons = 60;
    const adds = 40;
    const running: Running = await start({ 'limits.unsentBytes': 64 * 1024 }, persons);
    try {
      const [client, probe] = [await RawClient.open(running.port), await RawClient.open(running.port)];
      for (const one of [client, probe]) expect(await one.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
      const description = attributes({ description: 'x'.repeat(100_000) })[0]!;
      for (let n = 0; n < persons; n++) {
        const changes = [{ operation: 'replace', attribute: description }] as const;
        expect((await probe.request({ op: 'modify', dn: personDn(`p${n}`), changes })).code).to.equal(0);
      }
      client.socket.pause();
      const everything = searchRequest(PEOPLE, { scope: 'one' });
      // Passwords are hashed while the searches go on.
      const ids = client.sendTogether([
        ...Array.from({ length: adds }, (_, n) => ({
          op: 'add' as const,
          dn: personDn(`new${n}`),
          attributes: personAttributes(`new${n}`, { userPassword: `clear ${n}` }),
        })),
        ...Array.from({ length: 4 }, () => everything),
      ]);
      while (Math.max(0, ...waiting.values()) === 0) await new Promise(setImmediate);
      ids.push(client.send(everything));
      for (let n = 0; n < adds; n++)
        while ((await probe.search(personDn(`new${n}`), { attributes: ['1.1'] })).code !== 0);
      // The searches, the turns that they take, and the requests that are to come.
      expect(Math.max(...waiting.values())).to.be.within(1, 8);
      client.socket.resume();
      for (const id of ids) expect((await client.answer(id)).code).to.equal(0);
      client.close();
      probe.close();
    } finally {
      await running.stop();
    }
  }).timeout(20_000);
});
