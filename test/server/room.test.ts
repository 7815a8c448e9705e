import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { expect } from 'chai';
import { TimeSlice, waitForFirstSlice } from '../../src/fair/time-slice.js';
import { isPromise } from '../../src/partition/index.js';
import { hadManySlabs } from '../../src/protocol/slabs.js';
import { RESPONSE_CHUNK } from '../../src/protocol/writer.js';
import { Output } from '../../src/server/connection/output.js';
import { SendQueue, UnsentTotal } from '../../src/server/connection/send-queue.js';
import { MIB, manyBytes } from '../cli/large-bytes.js';
import { random } from '../store/suite/fixture.js';
import { ADMIN, attributes, PEOPLE, personAttributes, personDn, type Running, start } from './directory.js';
import { RawClient, searchRequest } from './raw-client.js';

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
  const room = Output.prototype.waitForDrain;

  before(() => {
    Output.prototype.waitForDrain = function (this: Output) {
      const promise = room.call(this);
      if (isPromise(promise)) {
        waiting.set(this, (waiting.get(this) ?? 0) + 1);
        void promise.then(() => waiting.set(this, waiting.get(this)! - 1));
      }
      return promise;
    };
  });
  after(() => {
    Output.prototype.waitForDrain = room;
  });
  beforeEach(() => waiting.clear());

  it('long searches of one client wait once, however many they are', async () => {
    const [near, far] = await pair();
    const output = new Output(near, 0, new UnsentTotal(64 * MIB));
    output.writer.raw(Buffer.alloc(32 * MIB));
    expect(output.isFull).to.equal(true);
    const begun: Promise<void>[] = [];
    const search = async (): Promise<void> => {
      await waitForFirstSlice(output);
      const slice = new TimeSlice(output);
      while (!slice.isOver);
      await slice.yieldIfOver();
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
  });
});

/** What each peer is sent over and over, from a place of its own. */
const STREAM = manyBytes(MIB + 4);

function stretch(whose: number, from: number, length: number): Buffer {
  const start = (from + whose * 10_007) % STREAM.length;
  const first = STREAM.subarray(start, start + length);
  return first.length === length ? first : Buffer.concat([first, STREAM.subarray(0, length - first.length)]);
}

describe('server: what goes out', () => {
  it('is what was written, though its buffers are used again and some peers go', async function () {
    const { seed, next } = random();
    this.test!.title += ` (seed ${seed})`;
    const all = new UnsentTotal(64 * MIB);
    const peers = await Promise.all(
      Array.from({ length: 6 }, async (_, whose) => {
        const [near, far] = await pair();
        const peer = { whose, near, far, output: new Output(near, 16 * MIB, all), written: 0, read: 0, wrong: -1 };
        for (const socket of [near, far]) socket.on('error', () => undefined);
        near.on('close', () => peer.output.close());
        far.on('data', (bytes: Buffer) => {
          if (peer.wrong < 0 && !bytes.equals(stretch(whose, peer.read, bytes.length))) peer.wrong = peer.read;
          peer.read += bytes.length;
        });
        far.pause();
        return peer;
      }),
    );
    try {
      let many = false;
      for (let step = 0; step < 15_000; step++) {
        const peer = peers[next(peers.length)]!;
        const what = next(120);
        if (what === 0 && many) peer.far.resume();
        else if (what < 3) peer.far.pause();
        else if (what === 3 && next(30) === 0) (next(2) === 0 ? peer.near : peer.far).destroy();
        else if (!peer.near.destroyed && !peer.output.isFull) {
          for (let messages = next(20); messages > 0; messages--) {
            const length = next(100) === 0 ? next(100_000) : next(4_000);
            peer.output.writer.raw(stretch(peer.whose, peer.written, length));
            peer.written += length;
            if (peer.output.writer.length >= RESPONSE_CHUNK) peer.output.flush();
          }
        }
        many ||= hadManySlabs();
        if (next(10) === 0) await new Promise(setImmediate);
      }
      expect(many, 'many at once').to.equal(true);
      for (const { far } of peers) far.resume();
      for (const peer of peers) {
        await peer.output.waitUntilSent();
        while (peer.read < peer.written && !peer.near.destroyed && !peer.far.destroyed) await new Promise(setImmediate);
        expect(peer.wrong, `peer ${peer.whose}`).to.equal(-1);
      }
      while (all.bytes > 0) await new Promise(setImmediate);
      expect(hadManySlabs(), 'many are left').to.equal(false);
    } finally {
      for (const { near, far } of peers) {
        near.destroy();
        far.destroy();
      }
    }
  });

  it('is told to be taken once a piece, of which the socket may read until then; an empty piece is none', async () => {
    const [near, far] = await pair();
    const all = new UnsentTotal(64 * MIB);
    let taken = 0;
    const queue = new SendQueue(near, all, () => taken++);
    const pieces = [Buffer.alloc(32 * MIB), Buffer.alloc(0), Buffer.alloc(10), Buffer.alloc(0)];
    for (const piece of pieces) queue.push(piece);
    expect([taken, all.bytes, queue.unsentBytes]).to.deep.equal([0, 32 * MIB + 10, 32 * MIB + 10]);
    far.resume();
    while (all.bytes > 0) await new Promise(setImmediate);
    queue.push(Buffer.alloc(0));
    await new Promise(setImmediate);
    expect([taken, queue.unsentBytes]).to.deep.equal([2, 0]);
    near.destroy();
    far.destroy();
  });

  it('takes few buffers, however many go out in one turn of the event loop, again and again', async () => {
    const all = new UnsentTotal(64 * MIB);
    const peers = await Promise.all(Array.from({ length: 40 }, pair));
    const outputs = peers.map(([near]) => new Output(near, MIB, all));
    for (const [, far] of peers) far.resume();
    // While it has something unsent no buffer is left for another.
    const [stuck, unread] = await pair();
    peers.push([stuck, unread]);
    const held = new Output(stuck, MIB, all);
    held.writer.raw(Buffer.alloc(32 * MIB));
    held.flush();
    for (let turn = 0; turn < 20; turn++) {
      for (const output of outputs) output.writer.raw(STREAM.subarray(0, 1000));
      for (const output of outputs) await output.waitUntilSent();
      expect(hadManySlabs(), `turn ${turn}`).to.equal(false);
    }
    for (const sockets of peers) for (const socket of sockets) socket.destroy();
  });
});
