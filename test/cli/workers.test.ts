import { once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { networkInterfaces } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as connectTls } from 'node:tls';
import { expect } from 'chai';
import { makeCertificate, needs } from '../require.js';
import { RawClient, searchRequest } from '../server/raw-client.js';
import { ADMIN, exited, heard, PASSWORD, PEOPLE, rowan, rowanDoes, Sandbox, serve, startRowan } from './rowan.js';
import { addPerson, figures, lives, personRequest, staysBusy, TAKES_LARGE, TwoWorkers, workerOf } from './workers.js';

/** Of no password that anybody knows, and quickly stored. */
const HASHED = '{SSHA}AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA';

describe('cli: workers', () => {
  const sandbox = new Sandbox();
  let two: TwoWorkers | undefined;

  before(() => sandbox.initSample());
  afterEach(async () => {
    two?.close();
    await two?.server.stop();
    two = undefined;
  });
  after(() => sandbox.remove());

  it('are ready together, take connections in turn, and are counted together', async () => {
    two = await TwoWorkers.start(sandbox);
    expect(two.server.ready).to.match(/^rowan ready: ldap:\/\/127\.0\.0\.1:\d+ pid \d+ suffixes dc=example,dc=com$/);
    expect(two.server.ready).to.contain(`pid ${two.server.process.pid} `);
    const clients: RawClient[] = [];
    for (let n = 0; n < 6; n++) {
      const client = await two.open();
      expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
      clients.push(client);
    }
    const served = await Promise.all(clients.map(workerOf));
    expect(served.filter((worker) => worker === 1)).to.have.length(3);
    expect(served.filter((worker) => worker === 2)).to.have.length(3);
    const before = await figures(clients[0]!);
    for (const client of clients) for (let n = 0; n < 5; n++) await client.search(PEOPLE);
    const after = await figures(clients[1]!);
    const gained = (name: string): number => Number(after.get(name)) - Number(before.get(name));
    // The search of cn=Monitor counts itself.
    expect(gained('operations.search')).to.equal(31);
    expect(after.get('connectionsCurrent')).to.equal('6');
    expect(gained('worker.1.operations') + gained('worker.2.operations')).to.equal(31);
    const pids = [after.get('worker.1.pid'), after.get('worker.2.pid')].map(Number);
    expect(new Set([...pids, two.server.process.pid]).size).to.equal(3);
  });

  it('one that is killed loses nothing and is replaced; where one crashes, writes are held until check has run', async () => {
    two = await TwoWorkers.start(sandbox);
    const writers = await Promise.all([two.admin(1), two.admin(1), two.admin(2), two.admin(2)]);
    const watch = await two.admin(2);
    const pid = Number((await figures(watch)).get('worker.1.pid'));
    const acknowledged: string[] = [];
    let stop = false;
    const writing = writers.map(async (client, w) => {
      for (let n = 0; !stop; n++) {
        const uid = `kill${w}-${n}`;
        const answer = await addPerson(client, uid, HASHED).catch(() => undefined);
        if (!answer) return 'ended';
        expect(answer.code).to.equal(0);
        acknowledged.push(uid);
      }
      return 'goes on';
    });
    while (acknowledged.length < 100) await sleep(1);
    const again = heard(two.server.process, 'the worker serves');
    process.kill(pid, 'SIGKILL');
    const said = await again;
    expect(said).to.match(/ERROR a worker ended; it is started again worker=1 reason="ended with SIGKILL"/);
    const before = acknowledged.length;
    while (acknowledged.length < before + 50) await sleep(1);
    stop = true;
    expect(await Promise.all(writing)).to.deep.equal(['ended', 'ended', 'goes on', 'goes on']);
    const present = await rowanDoes(['export', '--data', sandbox.data, '--filter', '(uid=kill*)']);
    const found = new Set([...present.matchAll(/^uid: (kill.*)$/gm)].map((match) => match[1]));
    expect(acknowledged.filter((uid) => !found.has(uid))).to.deep.equal([]);
    const fresh = await two.admin(1);
    const now = await figures(fresh);
    expect(Number(now.get('worker.1.pid'))).not.to.equal(pid);
    expect((await addPerson(fresh, 'after-the-kill')).code).to.equal(0);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
    const after = heard(two.server.process, 'the worker serves');
    process.kill(Number(now.get('worker.1.pid')), 'SIGSEGV');
    expect(await after).to.match(/ERROR a worker crashed .*"rowan check" finds no breach worker=1/);
    const client = await two.admin(1);
    const refused = await addPerson(client, 'after-the-crash');
    expect(refused.code).to.equal(53);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.contain('written to again');
    let answer = refused;
    while (answer.code === 53) answer = await addPerson(client, 'after-the-crash');
    expect(answer.code).to.equal(0);
  });

  it('one that cannot be started is tried until it can be, and the other goes on', async () => {
    const [bin, away] = [sandbox.path('bin'), sandbox.path('away')];
    mkdirSync(bin);
    copyFileSync(process.execPath, `${bin}/node`);
    two = await TwoWorkers.start(sandbox, [], { node: `${bin}/node` });
    const { process: supervisor } = two.server;
    const other = await two.admin(2);
    const pid = Number((await figures(other)).get('worker.1.pid'));
    renameSync(bin, away);
    const missing = heard(supervisor, 'ENOENT');
    process.kill(pid, 'SIGKILL');
    await missing;
    // Node tells of one failure by an event, and throws the other.
    const odd = heard(supervisor, 'ENOTDIR');
    writeFileSync(bin, 'no folder');
    expect(await odd).to.match(/ERROR a worker ended; it is started again worker=1 reason="spawn ENOTDIR"/);
    expect((await addPerson(other, 'meanwhile')).code).to.equal(0);
    const again = heard(supervisor, 'the worker serves');
    rmSync(bin);
    renameSync(away, bin);
    await again;
    const fresh = await two.admin(1);
    const now = await figures(fresh);
    const workers = [now.get('worker.1.pid'), now.get('worker.2.pid')].map(Number).sort();
    const children = readFileSync(`/proc/${supervisor.pid}/task/${supervisor.pid}/children`, 'utf8');
    expect(children.trim().split(' ').map(Number).sort()).to.deep.equal(workers);
    expect((await addPerson(fresh, 'afterwards')).code).to.equal(0);
  });

  it('answer what they have begun before they end', async () => {
    two = await TwoWorkers.start(sandbox, ['--shutdown-seconds', '600']);
    const clients = await two.both();
    const uids = clients.map((_, c) => Array.from({ length: 8 }, (_, n) => `drain${c}-${n}`));
    // Each is hashed before it is stored, which takes its time.
    const sent = clients.map((client, c) =>
      client.sendTogether([...uids[c]!.map((uid) => personRequest(uid)), searchRequest(PEOPLE)]),
    );
    // Their answers show that the workers have read what was sent before.
    for (const [c, client] of clients.entries()) expect((await client.answer(sent[c]!.pop()!)).code).to.equal(0);
    const stopped = two.server.stop();
    for (const [c, client] of clients.entries()) {
      for (const id of sent[c]!) expect((await client.answer(id)).code).to.equal(0);
      expect((await client.notice())?.code).to.equal(52);
    }
    expect(await stopped).to.equal(0);
    const present = await rowanDoes(['export', '--data', sandbox.data, '--filter', '(uid=drain*)']);
    for (const uid of uids.flat()) expect(present).to.contain(`dn: uid=${uid},`);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
  });

  it('end when the first process is killed, or told twice', async () => {
    for (const signals of [['SIGKILL'], ['SIGTERM', 'SIGTERM']] as const) {
      two = await TwoWorkers.start(sandbox, ['--shutdown-seconds', '600', ...TAKES_LARGE]);
      const [one] = await two.both();
      const now = await figures(one);
      const pids = [now.get('worker.1.pid'), now.get('worker.2.pid')].map(Number);
      if (signals.length === 2) await staysBusy(one);
      const { process: child } = two.server;
      for (const signal of signals) {
        const stopping = heard(child, 'stopping').catch(() => '');
        child.kill(signal);
        await stopping;
      }
      expect(await exited(child)).to.equal('SIGKILL');
      while (pids.some(lives)) await sleep(5);
      two.close();
    }
  });

  it('share one limit of connections', async () => {
    two = await TwoWorkers.start(sandbox, ['--limits-connections', '3']);
    const clients = [await two.open(), await two.open(), await two.open()];
    for (const client of clients) expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    const refused = await two.open();
    expect((await refused.notice())?.code).to.equal(51);
    await refused.ended();
    clients.pop()!.close();
    while (Number((await figures(clients[0]!)).get('connectionsCurrent')) > 2);
    const serves = async (): Promise<boolean> => {
      const next = await RawClient.open(two!.server.port);
      const code = await next.bind(ADMIN, PASSWORD).catch(() => undefined);
      next.close();
      return code === 0;
    };
    while (!(await serves()));
    expect(Number((await figures(clients[0]!)).get('connectionsRefused'))).to.be.greaterThan(0);
  });

  it('serve ldaps and ldapi, and read the certificate anew', async function () {
    needs(this, 'openssl');
    const { cert, key } = makeCertificate(sandbox.folder);
    // One worker may still have the old one when the other has the new.
    const trusted = [readFileSync(cert)];
    const path = sandbox.path('socket');
    const listen = ['ldap://127.0.0.1:0', 'ldaps://127.0.0.1:0', `ldapi://${encodeURIComponent(path)}`];
    const tls = ['--tls-cert', cert, '--tls-key', key, '--limits-connections', '4'];
    two = await TwoWorkers.start(sandbox, [...listen.flatMap((url) => ['--listen', url]), ...tls]);
    const ldapsPort = Number(new URL(two.server.urls[1]!).port);
    const secure = async (): Promise<{ client: RawClient; serial: string; worker: number }> => {
      const socket = connectTls({ host: '127.0.0.1', port: ldapsPort, ca: trusted });
      await once(socket, 'secureConnect');
      const client = new RawClient(socket);
      expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
      return { client, serial: socket.getPeerCertificate().serialNumber, worker: await workerOf(client) };
    };
    // Of both workers. One that has not heard yet that a connection is closed is passed over.
    const both = async (): Promise<Set<string>> => {
      const first = await secure();
      let second = await secure();
      while (second.worker === first.worker) {
        second.client.close();
        second = await secure();
      }
      for (const { client } of [first, second]) client.close();
      return new Set([first.serial, second.serial]);
    };
    for (let n = 0; n < 20; n++) {
      // Handshakes that fail leave nothing behind that would count as a connection.
      const socket = connect(ldapsPort, '127.0.0.1', () => (n % 2 === 0 ? socket.destroy() : socket.write('no TLS\n')));
      socket.on('error', () => undefined).resume();
      await new Promise((resolve) => socket.once('close', resolve));
    }
    const [before] = await both();
    const local = new RawClient(connect(path));
    expect(await local.bind(ADMIN, PASSWORD)).to.equal(0);
    while ((await figures(local)).get('connectionsCurrent') !== '1');
    local.close();
    makeCertificate(sandbox.folder);
    trusted.push(readFileSync(cert));
    const told = heard(two.server.process, 'each worker reloads the certificate');
    two.server.process.kill('SIGHUP');
    await told;
    while ((await both()).has(before!));
  });

  it('take the connections of both addresses of localhost', async () => {
    const server = await serve(sandbox.data, ['--workers', '2', '--listen', 'ldap://localhost:0']);
    const hosts = Object.values(networkInterfaces()).flatMap((list) => list!.map(({ address }) => address));
    for (const host of ['127.0.0.1', '::1'].filter((address) => hosts.includes(address))) {
      const client = new RawClient(connect({ host, port: server.port }));
      expect(await client.bind(ADMIN, PASSWORD), host).to.equal(0);
      client.close();
    }
    expect(await server.stop()).to.equal(0);
  });

  it('are not there with one, and those that cannot serve are one clear line', async () => {
    const child = startRowan(['serve', '--data', sandbox.data, '--listen', 'ldap://127.0.0.1:0', '--workers', '1']);
    const ready = await heard(child, ' suffixes ');
    const port = Number(/:(\d+) /.exec(ready)![1]);
    const client = await RawClient.open(port);
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    expect([...(await figures(client)).keys()].filter((name) => name.startsWith('worker'))).to.deep.equal([]);
    client.close();
    const args = ['serve', '--data', sandbox.data, '--workers', '2', '--listen'];
    const taken = await rowan([...args, `ldap://127.0.0.1:${port}`]);
    expect(taken).to.include({ code: 1, stdout: '' });
    expect(taken.stderr).to.match(/^rowan: .*in use.*\n$/);
    child.kill('SIGTERM');
    expect(await exited(child)).to.equal(0);
    const tls = ['--tls-cert', sandbox.path('nowhere.crt'), '--tls-key', sandbox.path('nowhere.key')];
    const lacking = await rowan([...args, 'ldap://127.0.0.1:0', ...tls]);
    expect(lacking).to.include({ code: 1, stdout: '' });
    expect(lacking.stderr).to.match(/^rowan: .*nowhere.*\n$/);
  });
});
