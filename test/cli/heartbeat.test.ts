import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { pino } from 'pino';
import { loadConfig } from '../../src/cli/config/index.js';
import { Supervisor } from '../../src/cli/workers/supervisor.js';
import { needs } from '../require.js';
import { RawClient } from '../server/raw-client.js';
import {
  ADMIN,
  exited,
  heard,
  PASSWORD,
  type RunningServer,
  Sandbox,
  startProgram,
  startRowan,
  until,
} from './rowan.js';
import { addPerson } from './workers.js';

describe('cli: a process that hangs', () => {
  const sandbox = new Sandbox();

  before(() => sandbox.initSample());
  after(() => sandbox.remove());

  describe('of two workers', () => {
    const heartbeat = { intervalMs: 50, misses: 50 };
    const lines: string[] = [];
    let supervisor: Supervisor;
    let port: number;

    before(async () => {
      const { config } = loadConfig({ flags: { listen: ['ldap://127.0.0.1:0'] }, env: {} });
      const log = pino({}, { write: (line: string) => void lines.push(line) });
      supervisor = new Supervisor({ config, store: sandbox.data }, log, 2, heartbeat);
      const [url] = await supervisor.listen();
      port = Number(new URL(url!).port);
    });
    after(() => supervisor.close());

    /** The process ids of the workers, by number, once both have answered. */
    async function workers(): Promise<Map<number, number>> {
      const pids = new Map<number, number>();
      while (pids.size < 2)
        for (const { counts } of await supervisor.askAll({ about: 'counts' }))
          if (counts?.workerNumber && counts.pid) pids.set(counts.workerNumber, counts.pid);
      return pids;
    }

    it('is not killed for time in which the first process itself stood still', async () => {
      const before = await workers();
      const standsMs = (heartbeat.misses + 5) * heartbeat.intervalMs;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, standsMs);
      expect(await workers()).to.deep.equal(before);
      expect(lines.filter((line) => line.includes('killed'))).to.deep.equal([]);
    });

    it('is killed and replaced, and clients that wait for it are served', async () => {
      const pid = (await workers()).get(1)!;
      process.kill(pid, 'SIGSTOP');
      const clients = await Promise.all(Array.from({ length: 4 }, () => RawClient.open(port)));
      for (const [n, client] of clients.entries()) {
        expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
        expect((await addPerson(client, `waits${n}`)).code).to.equal(0);
        client.close();
      }
      while (!lines.some((line) => line.includes('the worker serves'))) await sleep(5);
      const said = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
      const killed = said.find(({ msg }) => msg === 'a worker does not answer; it is killed');
      expect(killed).to.include({ level: 50, worker: 1, pid });
      const ended = said.find(({ msg }) => msg === 'a worker ended; it is started again');
      expect(ended).to.include({ worker: 1, reason: 'ended with SIGKILL' });
      expect((await workers()).get(1)).to.not.equal(pid);
    });
  });

  describe('under systemd', () => {
    const usual = { WATCHDOG_USEC: '100000' };
    const program = `
import socket, sys
receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
receiver.bind(sys.argv[1])
print('listens', flush=True)
while True: print(receiver.recv(4096).decode(), flush=True)
`;
    let receiver: ChildProcess;
    let received = '';

    before(async function () {
      needs(this, 'systemd', 'python3-ldap3');
      receiver = startProgram('/usr/bin/python3', ['-c', program, sandbox.path('notify')]);
      receiver.stdout!.on('data', (data: Buffer) => {
        received += data;
      });
      await until(receiver, () => received.includes('listens\n'));
    });
    beforeEach(() => {
      received = '';
    });
    after(async () => {
      receiver?.kill();
    });

    function start(env: Readonly<Record<string, string>>): Promise<RunningServer> {
      return sandbox.serve(['--workers', '1'], { env: { NOTIFY_SOCKET: sandbox.path('notify'), ...env } });
    }

    it('tells when it is ready, and feeds the watchdog from then on', async () => {
      const server = await start(usual);
      await until(server.process, () => received.split('WATCHDOG=1\n').length > 3);
      expect(received).to.match(/^READY=1\n/);
      expect(received.match(/READY=1/g)).to.have.length(1);
      expect(await server.stop()).to.equal(0);
    });

    it('feeds no watchdog of another process, and says when systemd cannot be told', async () => {
      const server = await start({ ...usual, WATCHDOG_PID: '1' });
      await until(server.process, () => received.includes('READY=1\n'));
      expect(await server.stop()).to.equal(0);
      const args = ['serve', '--data', sandbox.data, '--listen', 'ldap://127.0.0.1:0'];
      const untold = startRowan(args, { env: { NOTIFY_SOCKET: sandbox.path('nowhere') } });
      await heard(untold, 'ERROR systemd could not be told READY=1');
      untold.kill('SIGTERM');
      expect(await exited(untold)).to.equal(0);
      expect(received).to.not.contain('WATCHDOG');
    });
  });
});
