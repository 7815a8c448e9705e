import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { connect, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { needs } from '../require.js';
import { RawClient } from '../server/raw-client.js';
import {
  exited,
  heard,
  type RunningServer,
  rowan,
  rowanDoes,
  Sandbox,
  SUFFIX,
  serve,
  startProgram,
  until,
} from './rowan.js';
import { staysBusy, TAKES_LARGE } from './workers.js';

const TOKEN = 'r2cNq8Zb5YxWm1uPvT7sKd0h';

interface Reply {
  readonly status: number;
  readonly body: string;
}

function get(url: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, agent: false }, (response) => {
      text(response).then((body) => resolve({ status: response.statusCode!, body }), reject);
    });
    sent.once('error', reject);
    sent.end();
  });
}

/** All that the server says to raw bytes until it ends the connection. */
function exchange(url: string, bytes: string): Promise<string> {
  const socket = connect(Number(new URL(url).port), '127.0.0.1', () => socket.write(bytes));
  return text(socket);
}

/** What HAProxy finds of its servers, once each has that state: `BACKEND STATE CHECK`. */
async function checkResults(stats: string, state: string): Promise<string[]> {
  for (;;) {
    const rows = (await statistics(stats)).split('\n').map((line) => line.split(','));
    const [names = [], ...servers] = rows;
    const field = (row: readonly string[], name: string): string => row[names.indexOf(name)]!;
    const found = servers.filter((row) => row[1] === 'rowan');
    if (
      found.length > 0 &&
      found.every((row) => `${field(row, 'status')} ${field(row, 'check_status')}`.startsWith(`${state} L7`))
    )
      return found.map((row) => `${row[0]} ${field(row, 'check_status')}`).sort();
    await sleep(20);
  }
}

/** The statistics as CSV; empty before HAProxy listens. */
async function statistics(path: string): Promise<string> {
  const socket = connect(path);
  try {
    await once(socket, 'connect');
    socket.write('show stat\n');
    return await text(socket);
  } catch {
    return '';
  }
}

describe('cli: health checks over HTTP', () => {
  const sandbox = new Sandbox();
  let server: RunningServer | undefined;
  let url = '';

  /** Starts a server with an HTTP listener on a free port of the address. */
  async function start(args: readonly string[] = [], on = sandbox, address = '127.0.0.1'): Promise<RunningServer> {
    server = await serve(on.data, ['--http', `${address}:0`, ...args]);
    url = /http:\S+/.exec(server.ready)![0];
    return server;
  }

  before(() => sandbox.initSample());
  after(() => sandbox.remove());

  describe('of one server', () => {
    let log = '';

    before(async () => {
      const { process: child } = await start();
      child.stderr!.on('data', (data: Buffer) => {
        log += data;
      });
    });
    after(() => server?.stop());

    it('tell that the server lives, and that a search would be answered', async () => {
      expect(await get(`${url}/live`)).to.deep.equal({ status: 200, body: 'live\n' });
      expect(await get(`${url}/ready`)).to.deep.equal({ status: 200, body: 'ready\n' });
      expect(await get(`${url}/ready`, {}, 'OPTIONS')).to.include({ status: 200 });
      expect(await get(`${url}/ready`, {}, 'HEAD')).to.deep.equal({ status: 200, body: '' });
      expect(await get(`${url}/ready`, {}, 'POST')).to.deep.equal({ status: 405, body: '/ready takes GET\n' });
      expect(await get(`${url}/top`)).to.include({ status: 404 });
      expect(await get(`${url}/live`, { x: 'x'.repeat(10_000) })).to.include({ status: 431 });
    });

    it('leave all else to programs that name this machine where there is no token', async () => {
      const { port } = new URL(url);
      for (const host of [`127.0.0.1:${port}`, 'LOCALHOST', `localhost:${port}`, `[::1]:${port}`])
        expect(await get(`${url}/metrics`, { host }), host).to.include({ status: 200 });
      for (const host of ['evil.example', `evil.example:${port}`, 'localhost.evil.example', '127.0.0.1.evil.example'])
        expect(await get(`${url}/metrics`, { host }), host).to.include({ status: 421 });
      expect(await get(`${url}/ready`, { host: 'lb.example' })).to.include({ status: 200 });
    });

    it('answer OPTIONS for health alone, and invite no body', async () => {
      const refusal = await exchange(url, 'OPTIONS /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
      expect(refusal).to.match(/^HTTP\/1\.1 405 .*\r\nallow: GET\r\n.*\/metrics takes GET\n$/s);
      const expecting = 'GET /live HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: ';
      expect(await exchange(url, `${expecting}5\r\n\r\n`)).to.match(/^HTTP\/1\.1 413 /);
      const without = await exchange(url, `${expecting}0\r\nConnection: close\r\n\r\n`);
      expect(without).to.match(/^HTTP\/1\.1 200 .*live\n$/s);
    });

    it('are answered whatever others hold open: an idle connection gives way to a new one', async () => {
      const { port } = new URL(url);
      const sockets: Socket[] = [];
      let closedCount = 0;
      const hold = async (localAddress: string): Promise<void> => {
        const socket = connect({ port: Number(port), host: '127.0.0.1', localAddress });
        sockets.push(socket);
        socket.on('error', () => undefined).once('close', () => closedCount++);
        await once(socket, 'connect');
      };
      for (let address = 2; address <= 33; address++)
        await Promise.all(Array.from({ length: 16 }, () => hold(`127.0.0.${address}`)));
      expect(await get(`${url}/live`)).to.include({ status: 200 });
      await until(server!.process, () => closedCount === 1);
      expect(sockets.findIndex(({ destroyed }) => destroyed)).to.be.lessThan(16);
      for (let count = 1; count <= 17; count++) await hold('127.0.0.1');
      expect(await get(`${url}/live`)).to.include({ status: 200 });
      for (const socket of sockets) socket.destroy();
    });

    it("work for HAProxy's option httpchk and ldap-check", async function () {
      needs(this, 'haproxy');
      const { port } = server!;
      const config = sandbox.path('haproxy.cfg');
      const stats = sandbox.path('stats.sock');
      const check = 'check inter 100ms fastinter 100ms rise 1 fall 1';
      writeFileSync(
        config,
        `global
  stats socket ${stats} mode 600 level user
defaults
  mode tcp
  timeout connect 2s
  timeout check 1s
  timeout client 5s
  timeout server 5s
backend http-check
  option httpchk GET /ready
  server rowan 127.0.0.1:${port} port ${new URL(url).port} ${check}
backend ldap-check
  option ldap-check
  server rowan 127.0.0.1:${port} ${check}
`,
      );
      const haproxy = startProgram('haproxy', ['-db', '-f', config]);
      const { pid } = server!.process;
      try {
        expect(await checkResults(stats, 'UP')).to.deep.equal(['http-check L7OK', 'ldap-check L7OK']);
        process.kill(pid!, 'SIGSTOP');
        expect(await checkResults(stats, 'DOWN')).to.deep.equal(['http-check L7TOUT', 'ldap-check L7TOUT']);
        process.kill(pid!, 'SIGCONT');
        expect(await checkResults(stats, 'UP')).to.have.length(2);
      } finally {
        process.kill(pid!, 'SIGCONT');
        haproxy.kill('SIGTERM');
        await exited(haproxy);
      }
    });

    it('say nothing in the log of clients that leave before their request has arrived', async () => {
      for (const length of ['Content-Length: 5', 'Transfer-Encoding: chunked']) {
        const socket = connect(Number(new URL(url).port), '127.0.0.1');
        await once(socket, 'connect');
        socket.end(`GET /live?${'A'.repeat(7000)} HTTP/1.1\r\nHost: localhost\r\n${length}\r\n\r\n`);
        await text(socket);
      }
      expect(await get(`${url}/live`)).to.include({ status: 200 });
      await Promise.all([once(server!.process, 'close'), server!.stop()]);
      expect(log).to.not.match(/ERROR|AAAA/);
    });
  });

  describe('of a server of its own', () => {
    afterEach(() => server?.stop());

    it('are not ready while no process serves', async () => {
      const { process: first } = await start(['--workers', '2']);
      expect(await get(`${url}/ready`)).to.deep.equal({ status: 200, body: 'ready\n' });
      const workers = readFileSync(`/proc/${first.pid}/task/${first.pid}/children`, 'utf8')
        .trim()
        .split(' ')
        .map(Number);
      // A stopped process answers nothing, and is for some time no reason to start another.
      for (const pid of workers) process.kill(pid, 'SIGSTOP');
      expect(await get(`${url}/ready`)).to.deep.equal({ status: 503, body: 'not ready: no process serves\n' });
      expect(await get(`${url}/live`)).to.deep.equal({ status: 200, body: 'live\n' });
      for (const pid of workers) process.kill(pid, 'SIGCONT');
      expect(await get(`${url}/ready`)).to.deep.equal({ status: 200, body: 'ready\n' });
    });

    it('are not ready while the server stops', async () => {
      const { port, process: child } = await start(TAKES_LARGE);
      const client = await RawClient.open(port);
      await staysBusy(client);
      const stopping = heard(child, 'stopping');
      child.kill('SIGTERM');
      await stopping;
      expect(await get(`${url}/ready`)).to.deep.equal({ status: 503, body: 'not ready: the server is stopping\n' });
      client.close();
      expect(await exited(child)).to.equal(0);
    });

    it('are not ready where the entry of the suffix is damaged', async () => {
      const damaged = new Sandbox();
      await damaged.initSample();
      const ldif = damaged.path('mark.ldif');
      writeFileSync(ldif, `dn: ${SUFFIX}\nchangetype: modify\nadd: description\ndescription: Mark-suffix\n`);
      await rowanDoes(['import', '--data', damaged.data, ldif]);
      const file = `${damaged.data}/data.mdb`;
      const bytes = readFileSync(file);
      const mark = 'Mark-suffix';
      for (let at = bytes.indexOf(mark); at >= 0; at = bytes.indexOf(mark, at + 1))
        bytes[at + mark.length - 1]! ^= 0x40;
      writeFileSync(file, bytes);
      await start([], damaged);
      const { status, body } = await get(`${url}/ready`);
      expect(status).to.equal(503);
      expect(body).to.match(/^not ready: the store does not answer: .*damaged/);
      await server!.stop();
      await damaged.remove();
    });

    it('are open to other machines, and nothing else is without the token, on this machine either', async () => {
      const file = sandbox.path('token');
      const args = ['serve', '--data', sandbox.data, '--listen', 'ldap://127.0.0.1:0', '--http', '0.0.0.0:0'];
      const without = await rowan(args);
      expect(without.code).to.equal(2);
      expect(without.stderr).to.contain('rowan: --http-listen is an address that other machines reach; set http');
      writeFileSync(file, 'short\n');
      const short = await rowan([...args, '--http-token-file', file]);
      expect(short.stderr).to.contain(`rowan: http.tokenFile: ${file} must hold one token of at least 22 characters`);
      writeFileSync(file, `${TOKEN}\n`);
      await start(['--http-token-file', file]);
      expect(await get(`${url}/metrics`)).to.include({ status: 401 });
      expect(await get(`${url}/metrics`, { authorization: `Bearer ${TOKEN}` })).to.include({ status: 200 });
      await server!.stop();
      await start(['--http-token-file', file], sandbox, '0.0.0.0');
      url = url.replace('0.0.0.0', '127.0.0.1');
      expect(await get(`${url}/live`)).to.include({ status: 200 });
      expect(await get(`${url}/ready`)).to.include({ status: 200 });
      expect(await get(`${url}/unknown`)).to.include({ status: 401 });
      for (const authorization of ['', `Bearer ${TOKEN}x`, `Bearer ${TOKEN.slice(1)}`, `Basic ${TOKEN}`, 'Bearer'])
        expect(await get(`${url}/metrics`, { authorization }), authorization).to.include({ status: 401 });
      expect(await get(`${url}/metrics`, { authorization: `Bearer ${TOKEN}` })).to.include({ status: 200 });
      expect(await get(`${url}/metrics`)).to.include({ status: 401 });
      expect(await get(`${url}/metrics`, { host: 'ldap.example', authorization: `Bearer ${TOKEN}` })).to.include({
        status: 200,
      });
    });
  });
});
