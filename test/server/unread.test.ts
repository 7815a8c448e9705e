import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { counted, type StoreWork } from '../store/counted.js';
import { ADMIN, attributes, emptyPartition, fill, PEOPLE, personDn, type Running, SUFFIX, start } from './directory.js';
import { RawClient, searchRequest } from './raw-client.js';

const MIB = 1024 * 1024;
const PEOPLE_COUNT = 60;
const VALUE = 20_000;

/** Clients that ask and do not read. */
describe('server: answers that nobody reads', () => {
  let running: Running;
  let work: StoreWork;
  const clients: RawClient[] = [];
  const everything = searchRequest(PEOPLE, { scope: 'one' });

  before(async () => {
    const memory = counted(openMemoryStore());
    work = memory.work;
    const partition = await emptyPartition(memory.store);
    await fill(partition, PEOPLE_COUNT);
    running = await start({ 'limits.allUnsentBytes': MIB, 'limits.search.sizeLimit': 0 }, 0, partition);
    const description = attributes({ description: 'x'.repeat(VALUE) })[0]!;
    const admin = await open();
    for (let n = 0; n < PEOPLE_COUNT; n++) {
      const changes = [{ operation: 'replace', attribute: description }] as const;
      expect((await admin.request({ op: 'modify', dn: personDn(`p${n}`), changes })).code).to.equal(0);
    }
  });
  after(async () => {
    await running.stop();
    await running.partition.close();
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    while (running.server.services.statistics.connectionsCurrent > 0) await new Promise(setImmediate);
    expect(running.server.unsentTotal.bytes).to.equal(0);
    // Searches end when they next look up.
    while (running.server.requestBudget.usedBytes > 0) await new Promise(setImmediate);
  });

  async function open(): Promise<RawClient> {
    const client = await RawClient.open(running.port);
    clients.push(client);
    expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    return client;
  }

  /** Lets the server do what it can do for those who do not read; `own`: entries that were sent to others. */
  async function untilItRests(own: () => number = () => 0): Promise<void> {
    const sent = (): number => running.server.services.statistics.entriesSent - own();
    for (let before = -1, still = 0; still < 20; ) {
      await sleep(10);
      // One that is on its way may be in either count.
      still = Math.abs(sent() - before) <= 1 ? still + 1 : 0;
      before = sent();
    }
  }

  it('are bounded over all connections, do not run ahead, and others are answered meanwhile', async () => {
    const lazy = await Promise.all(Array.from({ length: 8 }, open));
    const probe = await open();
    const sent = running.server.services.statistics.entriesSent;
    for (const client of lazy) {
      client.socket.pause();
      client.sendTogether(Array.from({ length: 100 }, () => everything));
    }
    let most = 0;
    let answered = 0;
    const sampler = setInterval(() => (most = Math.max(most, running.server.unsentTotal.bytes)), 1);
    let rests = false;
    const resting = untilItRests(() => answered).then(() => {
      rests = true;
    });
    while (!rests) {
      const probing = probe.search(SUFFIX);
      answered++;
      expect((await probing).code).to.equal(0);
    }
    await resting;
    clearInterval(sampler);
    // One message each may go beyond the bound.
    expect(most).to.be.lessThan(MIB + lazy.length * 2 * VALUE);
    // What the sockets of the system take goes beyond it; 48,000 entries were asked for.
    expect(running.server.services.statistics.entriesSent - sent).to.be.lessThan(16_000);
    const rest = running.server.services.statistics.entriesSent;
    for (let i = 0; i < 5; i++) expect((await probe.search(PEOPLE, { scope: 'one' })).entries).to.have.length(60);
    expect(running.server.services.statistics.entriesSent - rest, 'nobody else has gone on').to.equal(5 * 60);
  });

  it('have their searches stand still: nothing is read for them', async () => {
    const lazy = await Promise.all(Array.from({ length: 4 }, open));
    let last = 0;
    for (const client of lazy) {
      client.socket.pause();
      last = client.sendTogether(Array.from({ length: 50 }, () => everything)).at(-1)!;
    }
    await untilItRests();
    const { rows } = work;
    for (let turn = 0; turn < 1000; turn++) await new Promise(setImmediate);
    expect(work.rows).to.equal(rows);
    const reading = lazy.at(-1)!;
    reading.socket.resume();
    expect((await reading.answer(last)).code).to.equal(0);
    expect(work.rows, 'there was something left to read').to.be.above(rows);
  });

  it('who reads again gets everything, in any number of searches', async () => {
    const client = await open();
    client.socket.pause();
    const ids = client.sendTogether(Array.from({ length: 50 }, () => everything));
    await untilItRests();
    client.socket.resume();
    for (const id of ids) {
      const answer = await client.answer(id);
      expect([answer.code, answer.entries.length]).to.deep.equal([0, PEOPLE_COUNT]);
    }
  });

  it('a search of one connection does not wait for the hundreds of another', async () => {
    const greedy = await open();
    const other = await open();
    const any = [Buffer.from('nobody')];
    const filter = { type: 'substring', attribute: 'sn', initial: undefined, any, final: undefined } as const;
    const slow = { scope: 'sub', filter } as const;
    const ids = greedy.sendTogether(Array.from({ length: 400 }, () => searchRequest(SUFFIX, slow)));
    await greedy.answer(ids[0]!);
    const heard = (): number => ids.filter((id) => greedy.hasHeardOf(id)).length;
    const before = heard();
    expect((await other.search(SUFFIX, slow)).code).to.equal(0);
    // They ride together, but no more than 32 of one connection at a time.
    expect(heard() - before).to.be.lessThan(200);
    for (const id of ids.slice(1)) await greedy.answer(id);
  });
});
