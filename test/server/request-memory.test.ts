import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { PRESETS } from '../../src/access/presets.js';
import { encodeRequest } from '../../src/protocol/encode.js';
import type { Request } from '../../src/protocol/ldap-messages.js';
import { ExtendedOid } from '../../src/protocol/oids.js';
import { Budget } from '../../src/server/connection/budget.js';
import { LongAdmission } from '../../src/server/connection/long-admission.js';
import type { Operation } from '../../src/server/request/operation.js';
import { gate } from '../password/hold.js';
import { encodeCancel } from '../protocol/client-values.js';
import { ADMIN, attributes, PEOPLE, personAttributes, personDn, type Running, SUFFIX, start } from './directory.js';
import { RawClient, searchRequest } from './raw-client.js';

const MIB = 1024 * 1024;
const USER = { dn: personDn('p0'), password: 'secret-0' };

function bytesOf(request: Request, id: number): Buffer {
  return encodeRequest({ id, request, controls: [] });
}

function addOf(uid: string, bytes: number): Request {
  return { op: 'add', dn: personDn(uid), attributes: personAttributes(uid, { description: 'x'.repeat(bytes) }) };
}

function modifyOf(dn: string, ...description: string[]): Request {
  return { op: 'modify', dn, changes: [{ operation: 'replace', attribute: attributes({ description })[0]! }] };
}

/** Writes as fast as the other side reads. */
async function pour(client: RawClient, bytes: Buffer): Promise<void> {
  for (let at = 0; at < bytes.length; at += 64 * 1024)
    if (!client.socket.write(bytes.subarray(at, at + 64 * 1024))) await once(client.socket, 'drain');
}

describe('server: memory for requests', () => {
  let running: Running | undefined;
  const clients: RawClient[] = [];

  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await running?.stop();
    running = undefined;
  });

  async function open(who?: { readonly dn: string; readonly password: string }): Promise<RawClient> {
    const client = await RawClient.open(running!.port);
    clients.push(client);
    if (who) expect(await client.bind(who.dn, who.password)).to.equal(0);
    return client;
  }

  /** What the requests come to have at most while `work` goes on, as the server counts it. */
  async function mostUsed(work: () => Promise<unknown>): Promise<number> {
    const { requestBudget } = running!.server;
    let most = 0;
    const { reserve, claim } = Budget.prototype;
    const seen = <T>(result: T): T => {
      most = Math.max(most, requestBudget.usedBytes);
      return result;
    };
    requestBudget.reserve = (...args) => seen(reserve.apply(requestBudget, args));
    requestBudget.claim = (...args) => seen(claim.apply(requestBudget, args));
    await work();
    return most;
  }

  it('a write that its kind refuses is answered when its first bytes are there; the rest is passed over', async () => {
    running = await start({}, 2);
    const rdn = 'x'.repeat(200_000);
    const long = 'x'.repeat(100_000);
    const writes: Request[] = [
      addOf('new', 6 * MIB),
      { op: 'delete', dn: `cn=${rdn},${SUFFIX}` },
      { op: 'modifyDN', dn: personDn('p1'), newRdn: `cn=${rdn}`, deleteOldRdn: false, newSuperior: undefined },
      {
        op: 'modify',
        dn: personDn('p1'),
        changes: [{ operation: 'replace', attribute: attributes({ description: long })[0]! }],
      },
    ];
    for (const who of [undefined, USER]) {
      const client = await open(who);
      for (const request of writes) {
        const id = client.nextId();
        const bytes = bytesOf(request, id);
        const told = who && request.op === 'modify' ? bytes.length : 100;
        client.write(bytes.subarray(0, told));
        expect((await client.answer(id)).code, request.op).to.equal(50);
        await pour(client, bytes.subarray(told));
        expect((await client.search('')).code).to.equal(0);
      }
    }
  });

  it('twenty refused adds of 6.5 MiB, one connection or twenty, take nothing of the budget', async () => {
    running = await start({}, 1);
    const bytes = bytesOf(addOf('new', 6.5 * MIB), 7);
    const floods = [await open()];
    for (let i = 0; i < 20; i++) await pour(floods[0]!, bytes);
    for (let i = 0; i < 20; i++) floods.push(await open());
    const most = await mostUsed(async () => {
      await Promise.all(floods.map((client) => pour(client, bytes)));
      for (const client of floods) expect((await client.answer(7)).code).to.equal(50);
    });
    expect(most).to.equal(0);
  });

  it('a client that has not bound may send limits.unboundMessageBytes, a bound one limits.messageBytes', async () => {
    running = await start({}, 1, undefined, PRESETS['anybody-reads']);
    const terms = Array.from({ length: 3000 }, (_, i) => ({
      type: 'equal' as const,
      attribute: 'description',
      value: Buffer.from(`some longer value ${i}`),
    }));
    const wide = { scope: 'one', filter: { type: 'or', filters: terms } } as const;
    const client = await open();
    const refused = await client.search(PEOPLE, wide);
    expect(refused.code).to.equal(11);
    expect(refused.final.message).to.contain('before a bind (limits.unboundMessageBytes)');
    expect((await client.search(PEOPLE)).code).to.equal(0);
    expect(await client.bind(USER.dn, USER.password)).to.equal(0);
    expect((await client.search(PEOPLE, wide)).code).to.equal(0);
    const binding = await open();
    const answer = await binding.request({
      op: 'bind',
      version: 3,
      name: '',
      authentication: { method: 'simple', password: Buffer.alloc(100_000) },
    });
    expect(answer.code).to.equal(11);
  });

  it('large requests share one budget: they wait for room, one after another, and all are answered', async () => {
    running = await start({ 'limits.requestBytes': 16 * MIB, 'limits.messageBytes': 16 * MIB }, 0);
    const senders = await Promise.all(Array.from({ length: 6 }, () => open(ADMIN)));
    const send = async (client: RawClient, c: number): Promise<void> => {
      for (let i = 0; i < 3; i++) await pour(client, bytesOf(addOf(`big${c}-${i}`, 5 * MIB), 100 + i));
      for (let i = 0; i < 3; i++) expect((await client.answer(100 + i)).code).to.equal(0);
    };
    const most = await mostUsed(() => Promise.all(senders.map(send)));
    expect(most).to.be.greaterThan(5 * MIB);
    expect(most).to.be.lessThan(12.1 * MIB);
    expect(running.server.requestBudget.usedBytes).to.equal(0);
  });

  it('who sends large requests slowly keeps no others waiting; what he had is free when he is gone', async () => {
    running = await start({ 'limits.requestBytes': 16 * MIB }, 2);
    const { requestBudget } = running.server;
    const modify = (dn: string): Request => ({
      op: 'modify',
      dn,
      changes: [{ operation: 'replace', attribute: attributes({ userPassword: `{SSHA}${'x'.repeat(5 * MIB)}` })[0]! }],
    });
    const slow = await Promise.all(Array.from({ length: 10 }, () => open(USER)));
    for (const client of slow) client.write(bytesOf(modify(USER.dn), 50).subarray(0, 1000));
    while (requestBudget.usedBytes < 5 * MIB) await new Promise(setImmediate);
    // Half a budget of 16 MiB has room for one of these.
    const admin = await open(ADMIN);
    expect((await admin.request(addOf('big', 5 * MIB))).code).to.equal(0);
    for (const client of slow) client.close();
    while (requestBudget.usedBytes > 0) await new Promise(setImmediate);
  });

  /** Keeps searches from their work until `open` is called; `begun` are those that have come so far. */
  function holdSearches({ partition }: Running): { readonly begun: number; open(): void } {
    const { opened, open } = gate();
    const held = { begun: 0, open };
    const search = partition.search.bind(partition);
    partition.search = async (...args) => {
      held.begun++;
      await opened;
      return search(...args);
    };
    return held;
  }

  /** A search that takes almost 16 MiB, by the bound of what an element takes, and is 130 KB long. */
  const wide = searchRequest(PEOPLE, {
    scope: 'one',
    filter: {
      type: 'or',
      filters: Array.from({ length: 9998 }, (_, n) => ({
        type: 'equal' as const,
        attribute: n % 2 === 0 ? 'sn' : 'cn',
        value: Buffer.from(`${n}`),
      })),
    },
  });

  it('searches that take much memory once decoded begin within the share of their user, and end with him', async () => {
    running = await start({ 'limits.longRequests': 40 }, 2, undefined, PRESETS['anybody-reads']);
    const { longAdmission } = running.server;
    const until = async (condition: () => boolean): Promise<void> => {
      while (!condition()) await new Promise(setImmediate);
    };
    const admin = await open(ADMIN);
    const users = await Promise.all(Array.from({ length: 6 }, () => open(USER)));
    const held = holdSearches(running);
    let refused = 0;
    for (const user of users)
      for (const id of user.sendTogether(Array(5).fill(wide)))
        user.answer(id).then(
          ({ code }) => void (code === 51 && refused++),
          () => undefined,
        );
    await until(() => refused === 10 && longAdmission.requestCount === 20);
    expect(held.begun, 'a quarter of the budget has room for one').to.equal(1);
    const found = admin.request(wide);
    await until(() => held.begun === 2);
    const large = open(ADMIN).then((other) => other.request(wide));
    await until(() => longAdmission.requestCount === 22);
    const small = modifyOf(personDn('p1'), 'x');
    expect((await admin.request(small)).code, 'a small write does not wait').to.equal(0);
    for (const user of users) user.close();
    await until(() => longAdmission.requestCount === 3);
    held.open();
    for (const answer of [found, large]) expect((await answer).code).to.equal(0);
    await until(() => longAdmission.requestCount === 0);
    expect(held.begun, 'what waited was dropped').to.equal(3);
    expect([longAdmission.budget.usedBytes, longAdmission.budget.waitingCount]).to.deep.equal([0, 0]);
    await until(() => running!.server.requestBudget.usedBytes === 0);
  });

  it('long requests of anonymous clients count by network, and one of a user who has none is always admitted', async () => {
    running = await start({ 'limits.longRequests': 4 }, 2, undefined, PRESETS['anybody-reads']);
    const held = holdSearches(running);
    const many = searchRequest(PEOPLE, { attributes: Array.from({ length: 1500 }, (_, n) => `a${n}`) });
    const codes: Promise<number>[] = [];
    for (const localAddress of ['127.0.0.1', '127.0.0.2', '127.0.0.3']) {
      const socket = connect({ port: running.port, host: '127.0.0.1', localAddress });
      await once(socket, 'connect');
      const client = new RawClient(socket);
      clients.push(client);
      const [first, second, third] = client.sendTogether([many, many, many]).map((id) => client.answer(id));
      const most = localAddress === '127.0.0.3' ? second! : third!;
      expect((await most).code, localAddress).to.equal(51);
      codes.push(...[first!, ...(most === third ? [second!] : [])].map(async (answer) => (await answer).code));
    }
    expect(held.begun).to.equal(5);
    held.open();
    expect(await Promise.all(codes)).to.deep.equal([0, 0, 0, 0, 0]);
  });

  it('a search that waits for memory can be abandoned and canceled', async () => {
    running = await start({ 'limits.requestBytes': 16 * MIB }, 2, undefined, PRESETS['anybody-reads']);
    const user = await open(USER);
    const held = holdSearches(running);
    const [first, second, third, fourth] = user.sendTogether([wide, wide, wide, wide]);
    user.send({ op: 'abandon', target: second! });
    const cancel = { oid: ExtendedOid.cancel, value: encodeCancel(third!) };
    expect((await user.request({ op: 'extended', ...cancel })).code).to.equal(0);
    expect((await user.answer(third!)).code).to.equal(118);
    expect(held.begun).to.equal(1);
    held.open();
    for (const id of [first!, fourth!]) expect((await user.answer(id)).code).to.equal(0);
    expect([held.begun, user.hasHeardOf(second!)]).to.deep.equal([2, false]);
  });

  it('writes of many values and requests of many names count like filters', async () => {
    running = await start({}, 2);
    const { budget } = running.server.longAdmission;
    const claimed: number[] = [];
    const { claim } = Budget.prototype;
    budget.claim = (...args) => {
      claimed.push(args[2]);
      return claim.apply(budget, args);
    };
    const changes: (string | undefined)[] = [];
    running.server.services.observation.add({ onOperation: ({ changeText }) => void changes.push(changeText()) });
    const admin = await open(ADMIN);
    const texts = Array.from({ length: 2000 }, (_, n) => `text ${n}`);
    const requests = [
      modifyOf(personDn('p1'), ...texts),
      { op: 'add', dn: personDn('many'), attributes: personAttributes('many', { description: texts }) } as const,
      searchRequest(PEOPLE, { attributes: texts.map((_, n) => `x${n}`) }),
      modifyOf(personDn('p1'), ...Array.from({ length: 30_000 }, (_, n) => `text ${n}`)),
    ];
    for (const request of requests) expect((await admin.request(request)).code).to.equal(0);
    const units = claimed.map((bytes, n) => Math.round(bytes / 2000 / [1536, 1536, 512, 1024][n]!));
    expect(changes.at(-1), 'the audit log has what was decoded later').to.contain('changetype: modify');
    expect(units, 'the last one takes no more than the share of a user').to.deep.equal([1, 1, 1, 16]);
    expect(budget.usedBytes).to.equal(0);
  });

  it('a request is refused as busy that the heap of the thread has no room for', async () => {
    running = await start({}, 0);
    const admission = new LongAdmission(running.server.services.config.limits, MIB);
    const operation = { op: 'search' } as Operation;
    const run = (elements: number) => admission.run('ann', elements, operation, async () => 'done');
    expect(await run(2000)).to.equal('done');
    const error = await run(3000).catch((e: Error) => e);
    expect(error).to.include({
      result: 'busy',
      message: 'the request has 3000 elements, too many for the heap of the server',
    });
  });

  it('a budget: who has claimed less goes first', async () => {
    const woken: string[] = [];
    const budget = new Budget(100);
    const claimant = (name: string) => ({ isReady: true, wake: () => void woken.push(name) });
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map(claimant);
    expect(budget.claim(a!, 'ann', 20)).to.equal(true);
    expect(budget.claim(b!, 'bob', 50)).to.equal(true);
    expect(budget.claim(c!, 'ann', 30)).to.equal(false);
    expect(budget.claim(d!, 'dora', 10), 'does not fit').to.equal(false);
    budget.releaseClaim('bob', 50);
    await new Promise(setImmediate);
    expect(woken).to.deep.equal(['d']);
    expect(budget.claim(d!, 'dora', 10)).to.equal(true);
    await new Promise(setImmediate);
    expect(woken).to.deep.equal(['d', 'c']);
  });

  it('a budget: claims in turn, shares, small amounts beside them', () => {
    const woken: string[] = [];
    const budget = new Budget(100);
    const claimant = (name: string) => ({ isReady: true, wake: () => void woken.push(name) });
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map(claimant);
    expect(budget.claim(a!, 'ann', 50)).to.equal(true);
    expect(budget.claim(b!, 'ann', 10), 'over her share').to.equal(false);
    expect(budget.claim(c!, 'bob', 40), 'over three quarters').to.equal(false);
    expect(budget.claim(d!, 'bob', 5), 'behind c').to.equal(false);
    budget.reserve(60);
    expect(budget.freeBytes).to.equal(-10);
    budget.release(60);
    budget.releaseClaim('ann', 50);
    return new Promise<void>((resolve) => setImmediate(resolve)).then(() => {
      expect(woken).to.deep.equal(['b']);
      expect(budget.claim(b!, 'ann', 10)).to.equal(true);
      budget.cancelClaim(c!);
      expect(budget.claim(d!, 'bob', 5)).to.equal(true);
      expect(budget.usedBytes).to.equal(15);
    });
  });

  it('a budget: who is not ready is passed over, and keeps his place', async () => {
    const woken: string[] = [];
    const budget = new Budget(100);
    const claimant = (name: string) => ({ isReady: true, wake: () => void woken.push(name) });
    const [a, b, c, d] = ['a', 'b', 'c', 'd'].map(claimant);
    const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
    expect(budget.claim(a!, 'ann', 50)).to.equal(true);
    expect(budget.claim(b!, 'bob', 30)).to.equal(false);
    expect(budget.claim(c!, 'carol', 30)).to.equal(false);
    b!.isReady = false;
    budget.releaseClaim('ann', 50);
    await turn();
    expect(woken).to.deep.equal(['c']);
    expect(budget.claim(c!, 'carol', 30)).to.equal(true);
    expect(budget.claim(a!, 'ann', 40), 'nobody who is ready is before it').to.equal(true);
    expect(budget.claim(d!, 'dora', 30)).to.equal(false);
    b!.isReady = true;
    budget.releaseClaim('ann', 40);
    await turn();
    expect(woken).to.deep.equal(['c', 'b']);
    b!.isReady = false;
    budget.yieldClaim(b!);
    await turn();
    expect(woken, 'where it has been woken, too').to.deep.equal(['c', 'b', 'd']);
    b!.isReady = true;
    expect(budget.claim(b!, 'bob', 30), 'it came before d').to.equal(true);
  });

  it('who sends a large request and reads nothing keeps no others waiting, and is answered when he reads', async () => {
    const limits = { requestBytes: MIB, messageBytes: 900 * 1024, unsentBytes: 64 * 1024 };
    running = await start(
      Object.fromEntries(Object.entries(limits).map(([name, bytes]) => [`limits.${name}`, bytes])),
      1,
    );
    const { requestBudget, services } = running.server;
    const modify = (dn: string, bytes: number): Request => ({
      op: 'modify',
      dn,
      changes: [{ operation: 'replace', attribute: attributes({ description: 'x'.repeat(bytes) })[0]! }],
    });
    const until = async (condition: () => boolean): Promise<void> => {
      while (!condition()) await new Promise(setImmediate);
    };
    const admin = await open(ADMIN);
    for (let n = 0; n < 100; n++) expect((await admin.request(addOf(`long${n}`, 40_000))).code).to.equal(0);
    const first = await open(ADMIN);
    first.write(bytesOf(modify(USER.dn, 400 * 1024), 50).subarray(0, 1000));
    await until(() => requestBudget.usedBytes > 400 * 1024);
    const unread = await open(USER);
    unread.socket.pause();
    const large = bytesOf(modify(USER.dn, 450 * 1024), 99);
    const searches = Array.from({ length: 10 }, (_, n) => bytesOf(searchRequest(PEOPLE, { scope: 'one' }), n + 2));
    unread.write(Buffer.concat([...searches, large.subarray(0, 1000)]));
    await until(() => requestBudget.waitingCount === 1);
    // Nothing goes out any more when the system has taken what it takes.
    for (let before = -1, still = 0; still < 20; before = services.statistics.entriesSent) {
      await sleep(10);
      still = services.statistics.entriesSent === before ? still + 1 : 0;
    }
    first.close();
    expect((await admin.request(modify(personDn('long1'), 300 * 1024))).code).to.equal(0);
    expect(requestBudget.waitingCount, 'he has not begun').to.equal(1);
    unread.socket.resume();
    for (let n = 0; n < searches.length; n++) expect((await unread.answer(n + 2)).entries).to.have.length(101);
    unread.write(large.subarray(1000));
    expect((await unread.answer(99)).code).to.equal(50);
  });
});
