import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { expect } from 'chai';
import { ADA, exited, heard, Sandbox, startRowan } from '../cli/rowan.js';
import { httpUrl, type Series, scrape } from '../cli/scrape.js';
import { addPerson, personDn, personRequest, read, replace, workerOf } from '../cli/workers.js';
import type { RawClient } from '../server/raw-client.js';
import { waitFor } from '../waits.js';
import { Machine } from './servers.js';

const ACKNOWLEDGE = '--replica-acknowledge';

/** Waits until the entry is there, which other clients see before its add is answered. */
function present(client: RawClient, uid: string): Promise<void> {
  const find = async (): Promise<void> => {
    while ((await client.search(personDn(uid))).code !== 0);
  };
  return waitFor(`${uid} at the server`, find());
}

/** Waits until a change is acknowledged. */
function acknowledging(client: RawClient): Promise<void> {
  const change = async (): Promise<void> => {
    while ((await replace(client, ADA, 'description', 'again')).code !== 0);
  };
  return waitFor('an acknowledged change', change());
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  return port;
}

describe('replica: acknowledged changes', () => {
  const sandbox = new Sandbox();
  const first = new Machine(sandbox, 'data');
  const second = new Machine(sandbox, 'second');
  const third = new Machine(sandbox, 'third');
  const clients: RawClient[] = [];

  async function connect(machine: Machine): Promise<RawClient> {
    const client = await machine.client();
    clients.push(client);
    return client;
  }

  function signal(machine: Machine, name: NodeJS.Signals): void {
    machine.server.process.kill(name);
  }

  before(async () => {
    await sandbox.initSample();
    await first.start();
    await second.follow(first);
    await third.follow(first);
    await first.stop();
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await first.stop();
  });
  after(() => sandbox.remove());

  it('are refused before anything is changed when no replica follows', async () => {
    await first.start(ACKNOWLEDGE, '1');
    const client = await connect(first);
    const { code, final } = await addPerson(client, 'refused');
    expect([code, final.message]).to.deep.equal([
      52,
      'nothing is changed: fewer replicas follow than replica.acknowledge: 1',
    ]);
    expect((await client.search(personDn('refused'))).code).to.equal(32);
    expect((await client.request({ op: 'delete', dn: ADA })).code).to.equal(52);
    expect(await client.bind(ADA, 'wrong')).to.equal(49);
  });

  it('go on without a replica, with one warning, where the setting says so', async () => {
    await first.start(ACKNOWLEDGE, '1', '--replica-acknowledge-missing', 'continue');
    const client = await connect(first);
    const warning = heard(first.server.process, 'too few replicas follow: changes are not acknowledged');
    for (const uid of ['alone1', 'alone2']) expect((await addPerson(client, uid)).code).to.equal(0);
    await warning;
  });

  describe('with two replicas', () => {
    before(async () => {
      await second.start();
      await third.start();
    });
    after(async () => {
      for (const machine of [second, third]) {
        signal(machine, 'SIGCONT');
        await machine.stop();
      }
    });

    /** Starts the primary, and waits until both replicas follow. */
    async function start(...args: string[]): Promise<RawClient> {
      await first.start('--replica-acknowledge-seconds', '60', ...args);
      for (const { name } of [second, third]) await first.says(`replica ${name}: follows`);
      return connect(first);
    }

    /** Adds people while the third machine stands still; none is answered before it goes on, all are then. */
    async function expectHeld(watcher: RawClient, adding: readonly (readonly [RawClient, string])[]): Promise<void> {
      signal(third, 'SIGSTOP');
      const ids = adding.map(([client, uid]) => client.send(personRequest(uid)));
      for (const [, uid] of adding) await present(watcher, uid);
      const atSecond = await connect(second);
      for (const [, uid] of adding) await present(atSecond, uid);
      for (const [i, [client]] of adding.entries()) expect(client.answered).not.to.include(ids[i]);
      signal(third, 'SIGCONT');
      for (const [i, [client]] of adding.entries()) expect((await client.answer(ids[i]!)).code).to.equal(0);
      const atThird = await connect(third);
      for (const [, uid] of adding) expect(await read(atThird, personDn(uid), 'uid')).to.equal(uid);
    }

    it('are answered when as many replicas as asked for have them, all that wait at the same time', async () => {
      const watcher = await start(ACKNOWLEDGE, '2');
      // The last one is handed on by a replica.
      const adding = [await connect(first), await connect(first), await connect(second)];
      await expectHeld(
        watcher,
        adding.map((client, i) => [client, `held${i}`]),
      );
    });

    it('wait for no more replicas than asked for', async () => {
      const client = await start(ACKNOWLEDGE, '1');
      signal(third, 'SIGSTOP');
      expect((await addPerson(client, 'one')).code).to.equal(0);
      expect(await read(await connect(second), personDn('one'), 'uid')).to.equal('one');
      signal(third, 'SIGCONT');
    });

    it('are in the audit log when replicas are too slow; later ones are refused until these have caught up', async () => {
      const log = sandbox.path('audit.log');
      const args = ['--replica-acknowledge-seconds', '1', '--audit-log-output', log];
      const client = await start(ACKNOWLEDGE, '2', ...args);
      signal(third, 'SIGSTOP');
      const late = await addPerson(client, 'late');
      expect([late.code, late.final.message]).to.deep.equal([
        52,
        'it is changed here, but fewer replicas than 2 have it after 1 s',
      ]);
      expect(await read(client, personDn('late'), 'uid')).to.equal('late');
      const refused = await addPerson(client, 'later');
      expect([refused.code, refused.final.message.split(':', 1)[0]]).to.deep.equal([52, 'nothing is changed']);
      signal(third, 'SIGCONT');
      await acknowledging(client);
      expect((await addPerson(client, 'later')).code).to.equal(0);
      expect(readFileSync(log, 'utf8')).to.match(/^dn: uid=late,.*\nchangetype: add$/m);
    });

    it('are acknowledged before the server ends', async () => {
      const client = await start(ACKNOWLEDGE, '2');
      const watcher = await connect(first);
      signal(third, 'SIGSTOP');
      const id = client.send(personRequest('last'));
      await present(watcher, 'last');
      const stopping = heard(first.server.process, 'stopping');
      const stop = first.stop();
      await stopping;
      signal(third, 'SIGCONT');
      expect((await client.answer(id)).code).to.equal(0);
      await stop;
    });

    it('wait in each of several processes for replicas that are connected to any', async () => {
      const watcher = await start(ACKNOWLEDGE, '2', '--workers', '2');
      const byWorker = new Map<number, RawClient>();
      while (byWorker.size < 2) {
        const client = await connect(first);
        byWorker.set(await workerOf(client), client);
      }
      await expectHeld(
        watcher,
        [...byWorker].map(([worker, client]) => [client, `worker${worker}`]),
      );
    });
  });
});

describe('replica: how far behind', () => {
  const sandbox = new Sandbox();
  const first = new Machine(sandbox, 'data');
  const second = new Machine(sandbox, 'second');
  const HTTP = ['--http', '127.0.0.1:0'];

  const series = async ({ server }: Machine, name: string): Promise<Series | undefined> =>
    (await scrape(server)).series.find((one) => one.name === `rowan_replica_${name}`);

  async function ready(url: string): Promise<string> {
    const response = await fetch(`${url}/ready`);
    return `${response.status} ${await response.text()}`;
  }

  async function monitored(machine: Machine): Promise<string> {
    const client = await machine.client();
    const { entries } = await client.search('cn=Replication,cn=Monitor', { attributes: ['description'] });
    client.close();
    return entries[0]!.attributes.get('description')!.map(String).join('\n');
  }

  before(async () => {
    await sandbox.initSample();
    await first.start(...HTTP);
    await second.follow(first);
    await second.start(...HTTP, '--workers', '2', '--replica-ready-behind-seconds', '1');
    await first.says('replica second: follows');
  });
  after(() => sandbox.remove());

  it('is told on both sides', async () => {
    await second.says(`replica of ${first.socketUrl}, change `);
    const lines = [
      /^replica of \S+, change \d+, 0 changes behind \(\d+\.\d s\)$/,
      /^replica second: follows, 0 changes/m,
    ];
    for (const [i, machine] of [second, first].entries()) {
      expect(await machine.status()).to.match(new RegExp(lines[i]!, 'm'));
      expect(await monitored(machine)).to.match(lines[i]!);
    }
    expect((await series(second, 'behind_changes'))?.value).to.equal(0);
    expect((await series(second, 'behind_seconds'))?.value).to.be.at.least(0);
    expect(await series(first, 'behind_seconds')).to.equal(undefined);
    expect((await series(first, 'follower_behind_changes'))?.labels).to.deep.equal({ replica: 'second' });
  });

  it('grows at the primary while a replica stands still', async () => {
    second.server.process.kill('SIGSTOP');
    const client = await first.client();
    for (const uid of ['one', 'two']) expect((await addPerson(client, uid)).code).to.equal(0);
    client.close();
    await first.says('replica second: follows, 2 changes behind');
    expect(await monitored(first)).to.include('2 changes behind');
    expect((await series(first, 'follower_behind_changes'))?.value).to.equal(2);
    second.server.process.kill('SIGCONT');
    await first.says('replica second: follows, 0 changes behind (0.0 s)');
  });

  it('tells since when the primary is away, and takes the replica out of service in time', async () => {
    const url = httpUrl(second.server);
    const whenReady = async (start: string): Promise<void> => {
      while (!(await ready(url)).startsWith(start));
    };
    await waitFor('the replica to be ready', whenReady('200 '));
    await first.stop();
    await second.says('the primary is not reached since ');
    expect(await monitored(second)).to.match(
      /^replica, change \d+, at least 0 changes .*\nthe primary is not .*: ldapi:/,
    );
    await waitFor('the replica not to be ready', whenReady('503 not ready: the replica is '));
    const client = await second.client();
    expect(await read(client, personDn('one'), 'uid')).to.equal('one');
    client.close();
  });

  it('takes a replica out of service while it copies', async () => {
    const third = new Machine(sandbox, 'third');
    const args = ['--of', first.socketUrl, '--password-file', sandbox.path('second.password')];
    const init = startRowan(['replica', 'init', '--data', third.data, '--name', 'third', ...args]);
    await heard(init, 'trying again');
    init.kill('SIGKILL');
    await exited(init);
    const port = await freePort();
    const child = startRowan(['serve', '--data', third.data, '--http', `127.0.0.1:${port}`]);
    await heard(child, 'the copy of the primary goes on');
    expect(await ready(`http://127.0.0.1:${port}`)).to.equal(
      '503 not ready: the copy of the primary is not complete\n',
    );
    child.kill('SIGKILL');
    await exited(child);
  });
});
