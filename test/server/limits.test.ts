import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { encodeRequest } from '../../src/protocol/encode.js';
import { rounds } from '../rounds.js';
import { StoppedClock } from './clock.js';
import { ADMIN, PEOPLE, personDn, type Running, SUFFIX, start } from './directory.js';
import { RawClient, searchRequest, simpleBind } from './raw-client.js';

/** Opened at once. */
const CONNECTIONS = rounds(250, 10_000);
const SMALL_SERVER = fileURLToPath(new URL('./small-server.js', import.meta.url));
const large = { type: 'present', attribute: 'objectClass' } as const;

describe('server: limits', () => {
  let running: Running | undefined;
  afterEach(async () => {
    await running?.stop();
    running = undefined;
  });

  async function open(): Promise<RawClient> {
    return RawClient.open(running!.port);
  }

  async function admin(): Promise<RawClient> {
    const client = await open();
    expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    return client;
  }

  it('connections above the number are refused with busy; when one goes, another may come', async () => {
    running = await start({ 'limits.connections': 3 });
    const clients = [await open(), await open(), await open()];
    for (const client of clients) expect((await client.search('')).code).to.equal(0);
    const refused = await open();
    expect((await refused.notice())?.code).to.equal(51);
    await refused.ended();
    const gone = clients.pop()!;
    gone.socket.end();
    await gone.ended();
    while (running.server.services.statistics.connectionsCurrent > 2) await new Promise(setImmediate);
    const next = await open();
    expect((await next.search('')).code).to.equal(0);
    for (const client of [...clients, next]) client.close();
  });

  it('an idle connection is closed without a notice, which libraries take for the answer to their next request', async () => {
    using clock = new StoppedClock();
    running = await start({ 'limits.idleSeconds': 1 });
    const client = await admin();
    clock.pass(1001);
    expect(await client.notice()).to.equal(undefined);
    expect(running.lines.join('')).to.contain('idle for too long');
  });

  it('a connection that never sends anything is closed without a notice; one that has, is not', async () => {
    using clock = new StoppedClock();
    running = await start({ 'limits.bindSeconds': 1 });
    const quiet = await open();
    const used = await open();
    expect((await used.search('')).code).to.equal(0);
    clock.pass(1001);
    expect(await quiet.notice()).to.equal(undefined);
    expect(running.lines.join('')).to.contain('no request came');
    expect((await used.search('')).code).to.equal(0);
    used.close();
  });

  it('a byte a second, and half a message, end after their time', async () => {
    using clock = new StoppedClock();
    running = await start({ 'limits.bindSeconds': 1 });
    const dripping = await admin();
    const halved = await admin();
    const bytes = encodeRequest({ id: 99, request: searchRequest(''), controls: [] });
    halved.write(bytes.subarray(0, 10));
    dripping.write(bytes.subarray(0, 1));
    let sent = 1;
    const timer = setInterval(() => {
      dripping.write(bytes.subarray(sent, ++sent));
      clock.pass(100);
    }, 20);
    expect((await halved.notice())?.message).to.contain('not finished');
    expect((await dripping.notice())?.message).to.contain('not finished');
    clearInterval(timer);
    expect(dripping.hasHeardOf(99)).to.equal(false);
  });

  it('a client that does not read pauses its search; memory stays bounded; others are served; then it is dropped', async () => {
    const unsentBytes = 64 * 1024;
    running = await start({ 'limits.unsentBytes': unsentBytes, 'limits.slowReaderSeconds': 1 }, 10);
    const value = 'x'.repeat(50_000);
    const changes = [{ operation: 'add', attribute: { type: 'description', values: [Buffer.from(value)] } } as const];
    const writer = await admin();
    for (let n = 0; n < 10; n++)
      expect((await writer.request({ op: 'modify', dn: personDn(`p${n}`), changes })).code).to.equal(0);
    const lazy = connect(running.port, '127.0.0.1');
    lazy.pause();
    const searches = Array.from({ length: 200 }, (_, i) =>
      encodeRequest({ id: i + 2, request: searchRequest(PEOPLE, { scope: 'one', filter: large }), controls: [] }),
    );
    const bind = encodeRequest({ id: 1, request: simpleBind(ADMIN.dn, ADMIN.password), controls: [] });
    lazy.write(Buffer.concat([bind, ...searches]));
    lazy.on('error', () => undefined);
    let most = 0;
    const dropped = (): boolean => running!.server.services.statistics.connectionsCurrent === 1;
    while (dropped()) await new Promise(setImmediate);
    while (!dropped()) {
      expect((await writer.search(SUFFIX)).code).to.equal(0);
      most = Math.max(most, running.server.unsentTotal.bytes);
    }
    // The entry that went beyond the limit, and one more; 2,000 were asked for.
    expect(most).to.be.within(unsentBytes / 2, unsentBytes + 2 * value.length);
    lazy.destroy();
    writer.close();
  });

  it('a client that takes a byte now and then is dropped as one that takes nothing', async () => {
    using clock = new StoppedClock();
    running = await start({ 'limits.unsentBytes': 64 * 1024, 'limits.slowReaderSeconds': 1 }, 10);
    const changes = [
      { operation: 'add', attribute: { type: 'description', values: [Buffer.from('x'.repeat(60_000))] } } as const,
    ];
    const writer = await admin();
    for (let n = 0; n < 10; n++) await writer.request({ op: 'modify', dn: personDn(`p${n}`), changes });
    // Time passes for every connection: none else is there to be dropped.
    writer.close();
    let taken = 0;
    // Stops reading after every 2 KiB; the server gives the socket pieces of 48 KiB.
    const onread = {
      buffer: Buffer.alloc(2048),
      callback: (bytes: number): boolean => {
        taken += bytes;
        return false;
      },
    };
    const sipping = connect({ port: running.port, host: '127.0.0.1', onread });
    sipping.on('error', () => undefined);
    const searches = Array.from({ length: 200 }, (_, i) =>
      encodeRequest({ id: i + 2, request: searchRequest(PEOPLE, { scope: 'one', filter: large }), controls: [] }),
    );
    const bind = encodeRequest({ id: 1, request: simpleBind(ADMIN.dn, ADMIN.password), controls: [] });
    sipping.write(Buffer.concat([bind, ...searches]));
    for (; taken === 0; await new Promise(setImmediate)) sipping.resume();
    const early = taken;
    const { statistics } = running.server.services;
    // It takes some in the midst of its time, and goes on as the rest of it passes.
    clock.pass(500);
    for (; taken <= early + 2048; await new Promise(setImmediate)) sipping.resume();
    for (; statistics.connectionsCurrent > 0; await new Promise(setImmediate)) {
      sipping.resume();
      clock.pass(100);
    }
    expect(running.lines.join('')).to.contain('the client does not read');
    sipping.destroy();
    const after = await admin();
    expect((await after.search(SUFFIX)).code).to.equal(0);
    after.close();
  });

  it('a client that reads slowly gets everything', async () => {
    running = await start({ 'limits.unsentBytes': 64 * 1024 }, 10);
    const changes = [
      { operation: 'add', attribute: { type: 'description', values: [Buffer.from('x'.repeat(60_000))] } } as const,
    ];
    const client = await admin();
    for (let n = 0; n < 10; n++) await client.request({ op: 'modify', dn: personDn(`p${n}`), changes });
    const ids = client.sendTogether(Array.from({ length: 20 }, () => searchRequest(PEOPLE, { scope: 'one' })));
    const timer = setInterval(() => (client.socket.isPaused() ? client.socket.resume() : client.socket.pause()), 5);
    for (const id of ids) expect((await client.answer(id)).entries).to.have.length(10);
    clearInterval(timer);
    client.close();
  });

  it('two thousand requests at once are all answered, while others keep their share', async () => {
    running = await start({ 'limits.requestsInFlight': 50 }, 5);
    const greedy = await admin();
    const other = await admin();
    const requests = Array.from({ length: 2000 }, (_, i) => searchRequest(personDn(`p${i % 5}`)));
    const ids = greedy.sendTogether(requests);
    let rounds = 0;
    const last = greedy.answer(ids.at(-1)!).then(() => true);
    let done = false;
    void last.then(() => {
      done = true;
    });
    while (!done) {
      expect((await other.search(SUFFIX)).code).to.equal(0);
      rounds++;
    }
    expect(rounds).to.be.greaterThan(1);
    for (const id of ids.slice(0, 5)) expect((await greedy.answer(id)).entries).to.have.length(1);
    greedy.close();
    other.close();
  });

  it('unbind with requests in flight ends the connection', async () => {
    running = await start({}, 5);
    const client = await admin();
    client.sendTogether([searchRequest(SUFFIX, { scope: 'sub' }), { op: 'unbind' }, searchRequest('')]);
    await client.ended();
    expect(client.hasHeardOf(4)).to.equal(false);
  });

  it(`${CONNECTIONS} connections at once, or as many as this process may have`, async function () {
    // Node raises its own limit to the hard one, the server's in the same way.
    const descriptors = Number(execFileSync('sh', ['-c', 'ulimit -H -n'], { encoding: 'utf8' })) || 1_000_000;
    const count = Math.min(CONNECTIONS, descriptors - 500);
    if (count < CONNECTIONS) this.test!.title += ` (${count}: ulimit -n is ${descriptors})`;
    const child = spawn(process.execPath, [SMALL_SERVER], { stdio: ['pipe', 'pipe', 'inherit'] });
    const clients: RawClient[] = [];
    try {
      const port = Number(String((await once(child.stdout, 'data'))[0]));
      const first = await RawClient.open(port);
      expect(await first.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
      while (clients.length < count - 1) {
        const more = Array.from({ length: Math.min(250, count - 1 - clients.length) }, () => RawClient.open(port));
        clients.push(...(await Promise.all(more)));
      }
      const codes = await Promise.all(clients.map((client) => client.bind(personDn('p0'), 'secret-0')));
      expect(codes.every((code) => code === 0)).to.equal(true);
      const answers = await Promise.all(clients.map((client) => client.search(SUFFIX)));
      expect(answers.every((answer) => answer.entries.length === 1)).to.equal(true);
      expect((await first.search(SUFFIX)).code).to.equal(0);
      clients.push(first);
    } finally {
      for (const client of clients) client.close();
      child.kill();
    }
  });

  it('used-up file descriptors: old connections are served, accepting goes on afterwards', async () => {
    const child = spawn('sh', ['-c', 'ulimit -n 250 && exec "$0" "$1"', process.execPath, SMALL_SERVER], {
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    try {
      const port = Number(String((await once(child.stdout, 'data'))[0]));
      const old = await RawClient.open(port);
      expect(await old.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
      const crowd: Socket[] = Array.from({ length: 400 }, () =>
        connect(port, '127.0.0.1').on('error', () => undefined),
      );
      const refused = crowd.map(
        (socket) => new Promise<void>((resolve) => socket.resume().once('close', () => resolve())),
      );
      await Promise.race(refused);
      expect((await old.search(SUFFIX)).code).to.equal(0);
      for (const socket of crowd) socket.destroy();
      await Promise.all(refused);
      for (let code: number | undefined; code !== 0; ) {
        const fresh = await RawClient.open(port).catch(() => undefined);
        code = await fresh?.bind(ADMIN.dn, ADMIN.password).catch(() => undefined);
        fresh?.close();
      }
      old.close();
    } finally {
      child.kill();
    }
  });
});
