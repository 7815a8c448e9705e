import { existsSync, mkdirSync, readdirSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { expect } from 'chai';
import { Command } from 'commander';
import { ControlClient, controlCommand } from '../../src/cli/control-client.js';
import type { TopSample } from '../../src/server/processes/siblings.js';
import type { Counts } from '../../src/server/processes/statistics.js';
import { RawClient } from '../server/raw-client.js';
import { exited, heard, type RunningServer, rowanDoes, Sandbox, serve, startRowan } from './rowan.js';

/** The client that a command with these arguments gets. */
async function clientOf(args: readonly string[]): Promise<ControlClient> {
  const program = new Command();
  let client: Promise<ControlClient> | undefined;
  controlCommand(program, 'ask', 'asks').action((_options: object, command: Command) => {
    client = ControlClient.find(command);
  });
  program.parse(['ask', ...args], { from: 'user' });
  return client!;
}

async function failure(promise: Promise<unknown>): Promise<string> {
  return promise.then(
    () => 'no failure',
    (error: Error) => error.message,
  );
}

async function counts(client: ControlClient): Promise<Counts[]> {
  const samples = JSON.parse(await client.request('GET', '/top?watcher=test')) as TopSample[];
  return samples.map((sample) => sample.counts);
}

describe('cli: the control socket', () => {
  const sandbox = new Sandbox();
  const servers: RunningServer[] = [];

  async function start(args: readonly string[] = []): Promise<RunningServer> {
    const server = await serve(sandbox.data, args);
    servers.push(server);
    return server;
  }

  before(() => sandbox.initSample());
  afterEach(() => Promise.all(servers.splice(0).map((server) => server.stop())));
  after(() => sandbox.remove());

  const socketOf = (server: RunningServer): string => sandbox.path(`data/control-${server.process.pid}.sock`);

  it('answers for all processes, is for its user alone, and ends with the server', async () => {
    const server = await start(['--workers', '2']);
    expect(statSync(socketOf(server)).mode & 0o777).to.equal(0o600);
    const ldap = await RawClient.open(server.port);
    await ldap.search('', { scope: 'base' });
    const told = await counts(await clientOf(['--data', sandbox.data]));
    ldap.close();
    expect(told.map(({ workerNumber }) => workerNumber).sort()).to.deep.equal([1, 2]);
    expect(told.reduce((sum, { operations }) => sum + operations.search, 0)).to.equal(1);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
    expect(await server.stop()).to.equal(0);
    expect(existsSync(socketOf(server))).to.equal(false);
    expect(await failure(clientOf(['--data', sandbox.data]))).to.contain(`no server answers in ${sandbox.data}`);
  });

  it('is found by the process id where several servers run, and one that was killed leaves none', async () => {
    const [first, second] = [await start(), await start()];
    const pids = [first, second].map(({ process }) => process.pid!);
    const message = await failure(clientOf(['--data', sandbox.data]));
    expect(message).to.contain('choose by --pid');
    for (const pid of pids) {
      expect(message).to.contain(String(pid));
      const told = await counts(await clientOf(['--data', sandbox.data, '--pid', String(pid)]));
      expect(told.map((one) => one.pid)).to.deep.equal([pid]);
    }
    first.process.kill('SIGKILL');
    await exited(first.process);
    expect(existsSync(socketOf(first))).to.equal(true);
    expect((await counts(await clientOf(['--data', sandbox.data])))[0]!.pid).to.equal(pids[1]);
    const third = await start();
    const names = readdirSync(sandbox.data).filter((name) => name.endsWith('.sock'));
    expect(names.sort()).to.deep.equal([second, third].map(({ process }) => `control-${process.pid}.sock`).sort());
  });

  it('is in control.folder where the path of the data folder is too long', async () => {
    const long = new Sandbox();
    const data = long.path('d'.repeat(100));
    const init = ['init', '--data', data, '--suffix', 'dc=example,dc=com', '--admin-dn', 'cn=admin,dc=example,dc=com'];
    await rowanDoes(init, { env: { ROWAN_ADMIN_PASSWORD: 'correct horse' } });
    const without = startRowan(['serve', '--data', data, '--listen', 'ldap://127.0.0.1:0']);
    expect(await heard(without, 'rowan ready')).to.match(/WARN {2}no control socket.*set control\.folder to a folder/);
    without.kill('SIGTERM');
    expect(await exited(without)).to.equal(0);
    mkdirSync(sandbox.path('run'));
    const server = await serve(data, ['--control-folder', sandbox.path('run')]);
    const told = await counts(await clientOf(['--control-folder', sandbox.path('run')]));
    expect(told[0]!.pid).to.equal(server.process.pid);
    await server.stop();
    await long.remove();
  });

  it('refuses in words: an unknown page, another method, a body', async () => {
    const server = await start();
    const client = await clientOf(['--data', sandbox.data]);
    expect(await failure(client.request('GET', '/secrets'))).to.match(/^no such page; there are .*\/top/);
    expect(await failure(client.request('POST', '/top'))).to.equal('/top takes GET');
    const long = request({
      socketPath: socketOf(server),
      path: '/top',
      headers: { 'transfer-encoding': 'chunked' },
    });
    long.on('error', () => undefined);
    const answered = new Promise<string>((resolve) => {
      long.once('response', (response) => resolve(text(response).then((said) => `${response.statusCode} ${said}`)));
    });
    long.write('x'.repeat(1024));
    expect(await answered).to.equal('413 a request has no body here\n');
    long.destroy();
    expect(await counts(client)).to.have.length(1);
  });
});
