import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { ADA, heard, Sandbox } from '../cli/rowan.js';
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
