import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { expect } from 'chai';
import { GrowthPolicy, growthRules } from '../../src/cli/workers/growth.js';
import { makeCertificate, needs } from '../require.js';
import { RawClient } from '../server/raw-client.js';
import {
  ADMIN,
  heard,
  PASSWORD,
  PEOPLE,
  PEOPLE_SCRIPT,
  type RunningServer,
  rowanDoes,
  run,
  Sandbox,
  SUFFIX,
} from './rowan.js';
import { addPerson, figures, lives, personDn, read, replace, workerOf } from './workers.js';

describe('cli: workers auto, when there are to be more', () => {
  const RULES = { maxProcesses: 3, startMs: 5000, endMs: 300_000 };

  /** What it says of so many seconds in which the processes are at work for these shares. */
  function said(growth: GrowthPolicy, from: number, seconds: number, ...shares: number[]): number[] {
    return Array.from({ length: seconds }, (_, s) => growth.decide(shares, (from + s) * 1000));
  }

  it('one more after five busy seconds, and again only after five more', () => {
    expect(said(new GrowthPolicy(RULES), 0, 12, 0.9)).to.deep.equal([0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1]);
  });

  it('a moment of rest begins the time anew', () => {
    const growth = new GrowthPolicy(RULES);
    said(growth, 0, 5, 1);
    expect(said(growth, 5, 1, 0.5)).to.deep.equal([0]);
    expect(said(growth, 6, 6, 1)).to.deep.equal([0, 0, 0, 0, 0, 1]);
  });

  it('none beyond the most, and none while some have time', () => {
    expect(said(new GrowthPolicy(RULES), 0, 20, 1, 1, 1)).not.to.include(1);
    expect(said(new GrowthPolicy(RULES), 0, 20, 1, 0.5)).not.to.include(1);
  });

  it('one fewer after minutes in which fewer could do the work, the last one never', () => {
    const growth = new GrowthPolicy(RULES);
    expect(said(growth, 0, 302, 0.1, 0.2).indexOf(-1)).to.equal(300);
    expect(said(new GrowthPolicy(RULES), 0, 400, 0)).not.to.include(-1);
    expect(said(new GrowthPolicy(RULES), 0, 400, 0.3, 0.2)).not.to.include(-1);
  });

  it('what made it grow never makes it shrink', () => {
    for (let work = 0; work <= 3; work += 0.01) {
      const [one, more] = [new GrowthPolicy(RULES), new GrowthPolicy(RULES)];
      const grows = said(one, 0, 400, ...Array(2).fill(work / 2)).includes(1);
      const shrinks = said(more, 0, 400, ...Array(3).fill(work / 3)).includes(-1);
      expect(grows && shrinks, `${work}`).to.equal(false);
    }
  });

  it('a core is left free, and eight are the most', () => {
    const { maxProcesses, startMs, endMs } = growthRules(undefined);
    expect(maxProcesses).to.be.within(1, 8);
    expect([startMs, endMs]).to.deep.equal([5000, 300_000]);
  });
});

describe('cli: workers auto', () => {
  const sandbox = new Sandbox();
  const clients: RawClient[] = [];
  let server: RunningServer;

  before(async () => {
    await sandbox.init();
    const { stdout } = await run(process.execPath, [PEOPLE_SCRIPT, '1000']);
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input: stdout });
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await server?.stop();
  });
  after(() => sandbox.remove());

  /** Grows after half a second of work, up to `maxProcesses` processes, and shrinks after `endMs`. */
  async function start(maxProcesses: number, endMs: number, ...args: string[]): Promise<void> {
    server = await sandbox.serve(args, { env: { ROWAN_AUTO_WORKERS: `${maxProcesses},500,${endMs}` } });
  }

  async function bound(): Promise<RawClient> {
    const client = await RawClient.open(server.port);
    clients.push(client);
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    return client;
  }

  /** Work without end for one process: everything is looked at and nothing found. */
  function work(client: RawClient): { stop(): Promise<void> } {
    let stopped = false;
    const filter = { type: 'equal', attribute: 'street', value: Buffer.from('nowhere') } as const;
    const running = Array.from({ length: 8 }, async () => {
      while (!stopped)
        expect((await client.search(SUFFIX, { scope: 'sub', filter, attributes: ['1.1'] })).code).to.equal(0);
    });
    return {
      async stop() {
        stopped = true;
        await Promise.all(running);
      },
    };
  }

  const workers = async (client: RawClient): Promise<number[]> =>
    [...(await figures(client)).keys()].flatMap((name) => /^worker\.(\d+)\.pid$/.exec(name)?.[1] ?? []).map(Number);

  /** `then` is done while it is busy still. */
  async function busyUntil(said: string, then?: () => Promise<void>): Promise<RawClient> {
    const client = await bound();
    const told = heard(server.process, said);
    const busy = work(client);
    await told;
    await then?.();
    await busy.stop();
    return client;
  }

  it('is one process until it is busy; then all know at once what one writes, and all end at SIGTERM', async () => {
    await start(2, 600_000);
    const client = await bound();
    expect(server.ready).to.contain(` pid ${server.process.pid} `);
    expect((await figures(client)).has('worker')).to.equal(false);
    const told = heard(server.process, 'the worker serves');
    const busy = work(client);
    await told;
    await busy.stop();
    // It stays where it is; the next goes to the new one, which has fewer.
    expect(await workerOf(client)).to.equal(1);
    const next = await bound();
    expect(await workerOf(next)).to.equal(2);
    expect(await workers(client)).to.deep.equal([1, 2]);
    const third = await bound();
    const fourth = await bound();
    expect([await workerOf(third), await workerOf(fourth)].sort()).to.deep.equal([1, 2]);
    // What one process writes the others know at once, from the moment there are others.
    expect((await addPerson(client, 'shared')).code).to.equal(0);
    for (let n = 0; n < 200; n++) {
      const [writer, reader] = n % 2 === 0 ? [client, next] : [next, client];
      expect((await replace(writer, personDn('shared'), 'description', `${n}`)).code).to.equal(0);
      expect(await read(reader, personDn('shared'), 'description')).to.equal(`${n}`);
    }
    const pid = Number((await figures(client)).get('worker.2.pid'));
    expect(await server.stop()).to.equal(0);
    while (lives(pid)) await sleep(10);
  });

  it('one that is idle gets no more connections, and ends with the last that it has', async () => {
    await start(2, 1000);
    const leaves = heard(server.process, 'idle: a worker ends');
    let two!: RawClient;
    const one = await busyUntil('the worker serves', async () => {
      two = await bound();
      expect(await workerOf(two)).to.equal(2);
    });
    const pid = Number((await figures(two)).get('worker.2.pid'));
    const before = Number((await figures(two)).get('connectionsTotal'));
    await leaves;
    const three = await bound();
    expect(await workerOf(three)).to.equal(1);
    expect(await workerOf(two)).to.equal(2);
    two.close();
    while (lives(pid)) await sleep(10);
    while ((await figures(one)).has('worker')) await sleep(10);
    // What the ended one has counted is not lost.
    expect(Number((await figures(one)).get('connectionsTotal'))).to.equal(before + 1);
    expect(await workerOf(one).catch(() => 0)).to.be.NaN;
    // And when there is work again, it begins again.
    await busyUntil('the worker serves');
  });

  it('a worker that is killed takes its connections along; one that crashes has writes held until check has run', async () => {
    await start(2, 600_000);
    const one = await busyUntil('the worker serves');
    const two = await bound();
    expect((await addPerson(two, 'kept')).code).to.equal(0);
    const told = heard(server.process, 'a worker ended');
    process.kill(Number((await figures(one)).get('worker.2.pid')), 'SIGKILL');
    await told;
    await two.ended();
    expect(await read(one, personDn('kept'), 'cn')).to.equal('kept');
    const three = await bound();
    expect(await read(three, personDn('kept'), 'cn')).to.equal('kept');
    await busyUntil('the worker serves');
    const crashed = heard(server.process, 'a worker ended');
    process.kill(Number((await figures(one)).get('worker.2.pid')), 'SIGSEGV');
    expect(await crashed).to.match(/ERROR a worker crashed .*"rowan check" finds no breach worker=2/);
    const refused = await addPerson(one, 'after-the-crash');
    expect(refused.code).to.equal(53);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.contain('written to again');
    let answer = refused;
    while (answer.code === 53) answer = await addPerson(one, 'after-the-crash');
    expect(answer.code).to.equal(0);
  });

  it('ends all of them when the first process is killed', async () => {
    await start(2, 600_000);
    const one = await busyUntil('the worker serves');
    const pid = Number((await figures(one)).get('worker.2.pid'));
    server.process.kill('SIGKILL');
    await once(server.process, 'exit');
    while (lives(pid)) await sleep(10);
  });

  it('hands over connections of ldaps, too, and keeps one limit', async function () {
    needs(this, 'openssl');
    const { cert, key } = makeCertificate(sandbox.folder);
    const tls = ['--tls-cert', cert, '--tls-key', key, '--limits-connections', '4'];
    await start(2, 600_000, '--listen', 'ldap://127.0.0.1:0', '--listen', 'ldaps://127.0.0.1:0', ...tls);
    const port = Number(new URL(server.urls[1]!).port);
    const secure = async (): Promise<RawClient> => {
      const socket = connectTls({ host: '127.0.0.1', port, ca: readFileSync(cert) });
      await once(socket, 'secureConnect');
      const client = new RawClient(socket);
      clients.push(client);
      expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
      return client;
    };
    const alone = await secure();
    expect((await alone.search(PEOPLE)).code).to.equal(0);
    const one = await busyUntil('the worker serves');
    const [two, three] = [await secure(), await secure()];
    expect([await workerOf(two), await workerOf(three)]).to.deep.equal([2, 2]);
    const refused = await RawClient.open(server.port);
    expect((await refused.notice())?.code).to.equal(51);
    expect(await workerOf(one)).to.equal(1);
  });
});
