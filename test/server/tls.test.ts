import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type LookupFunction } from 'node:net';
import { networkInterfaces, tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { expect } from 'chai';
import { encodeRequest } from '../../src/protocol/encode.js';
import { ExtendedOid } from '../../src/protocol/oids.js';
import { makeCertificate, needs } from '../require.js';
import { StoppedClock } from './clock.js';
import { ADMIN, attributes, emptyPartition, personDn, type Running, SUFFIX, start } from './directory.js';
import { RawClient, searchRequest, simpleBind } from './raw-client.js';

const START_TLS = { op: 'extended', oid: ExtendedOid.startTls, value: undefined } as const;

/** The addresses of `localhost` that this machine has, with their families. */
function loopbackAddresses(): (readonly [string, 4 | 6])[] {
  const all = Object.values(networkInterfaces()).flatMap((list) => list!.map(({ address }) => address));
  const wanted = [
    ['127.0.0.1', 4],
    ['::1', 6],
  ] as const;
  return wanted.filter(([address]) => all.includes(address));
}

describe('server: TLS and ldapi', () => {
  const folder = mkdtempSync(join(tmpdir(), 'rowan-tls-'));
  const path = join(folder, 'socket');
  const ldapi = `ldapi://${encodeURIComponent(path)}`;
  let running: Running;
  let ca: Buffer;

  before(async function () {
    needs(this, 'openssl');
    const { cert, key } = makeCertificate(folder);
    ca = readFileSync(cert);
    const listen = ['ldap://127.0.0.1:0', 'ldaps://127.0.0.1:0', ldapi];
    running = await start({ listen, 'tls.cert': cert, 'tls.key': key, 'passwords.requireTls': true }, 2);
  });
  after(async () => {
    await running?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const ldapsPort = (): number => Number(new URL(running.urls[1]!).port);

  async function openTls(): Promise<RawClient> {
    const socket = connectTls({ host: '127.0.0.1', port: ldapsPort(), ca, servername: 'localhost' });
    await once(socket, 'secureConnect');
    return new RawClient(socket);
  }

  /** StartTLS on a plain connection. */
  async function upgrade(client: RawClient, trusted = ca): Promise<void> {
    expect((await client.request(START_TLS)).code).to.equal(0);
    const plain = client.socket;
    plain.removeAllListeners();
    const socket = connectTls({ socket: plain, ca: trusted, servername: 'localhost' });
    await once(socket, 'secureConnect');
    client.listenTo(socket);
  }

  it('ldaps connections are served', async () => {
    const client = await openTls();
    expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    expect((await client.search(SUFFIX, { scope: 'sub' })).entries).to.have.length(4);
    client.close();
  });

  it('ldapi sockets get the configured permissions', async () => {
    const other = join(folder, 'narrow');
    const narrow = await start({ listen: [`ldapi://${encodeURIComponent(other)}`], 'ldapi.mode': '660' });
    expect(statSync(other).mode & 0o777).to.equal(0o660);
    await narrow.stop();
  });

  it('files that do not serve for TLS are named at the start', async () => {
    const { cert, key } = makeCertificate(folder, 'right');
    const foreign = makeCertificate(folder, 'foreign', 'rsa:2048');
    const refused = async (certificate: string, privateKey: string, ca?: string): Promise<string> => {
      const files = { 'tls.cert': certificate, 'tls.key': privateKey, ...(ca ? { 'tls.ca': ca } : {}) };
      try {
        await (await start(files)).stop();
      } catch (error) {
        return (error as Error).message;
      }
      return 'nothing';
    };
    expect(await refused(cert, foreign.key)).to.equal(
      `tls.key: ${foreign.key} is not the key of the certificate in ${cert}`,
    );
    expect(await refused(key, key)).to.equal(`tls.cert: ${key} holds no certificate in PEM`);
    expect(await refused(cert, cert)).to.match(/^tls\.key: .*right\.crt holds no private key in PEM/);
    expect(await refused(cert, key, key)).to.equal(`tls.ca: ${key} holds no certificate in PEM`);
  });

  it('ldapi connections are served', async () => {
    const socket = connect(path);
    await once(socket, 'connect');
    const client = new RawClient(socket);
    expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    expect(statSync(path).mode & 0o777).to.equal(0o666);
    client.close();
  });

  it('StartTLS works and is listed in the root DSE', async () => {
    const client = await RawClient.open(running.port);
    const dse = await client.search('', { attributes: ['supportedExtension'] });
    expect(dse.entries[0]!.attributes.get('supportedExtension')!.map(String)).to.include(ExtendedOid.startTls);
    await upgrade(client);
    expect(await client.bind(personDn('p0'), 'secret-0')).to.equal(0);
    expect((await client.search(SUFFIX)).entries).to.have.length(1);
    expect((await client.request(START_TLS)).code, 'a second one').to.equal(1);
    client.close();
  });

  it('StartTLS is refused for other operations that are outstanding, not for itself when it has to wait', async () => {
    const { cert, key } = makeCertificate(folder, 'bound');
    const group = `cn=readers,${SUFFIX}`;
    const rules = `rules: [{ name: readers, who: { group: "${group}" }, allow: [view] }]`;
    const grouped = await start({ 'tls.cert': cert, 'tls.key': key }, 1, undefined, rules);
    const { partition } = grouped;
    const dn = partition.schema.parseDn(group);
    const member = { objectClass: 'groupOfNames', cn: 'readers', member: personDn('p0') };
    await partition.add(dn, attributes(member), { dn: ADMIN.dn });
    /** A user's connection, whose next request has to wait for the user's groups. */
    const outdated = async (newMember: string): Promise<RawClient> => {
      const client = await RawClient.open(grouped.port);
      expect(await client.bind(personDn('p0'), 'secret-0')).to.equal(0);
      const attribute = { type: 'member', values: [Buffer.from(newMember)] };
      await partition.modify(dn, [{ operation: 'add', attribute }], { dn: ADMIN.dn });
      return client;
    };
    const client = await outdated(ADMIN.dn);
    await upgrade(client, readFileSync(cert));
    expect((await client.search(personDn('p0'))).entries).to.have.length(1);
    client.close();

    const injected = await outdated(SUFFIX);
    const [, bind] = injected.sendTogether([START_TLS, simpleBind(ADMIN.dn, ADMIN.password)]);
    expect((await injected.notice())?.code).to.equal(2);
    await injected.ended();
    expect(injected.hasHeardOf(bind!)).to.equal(false);

    let release = (): void => undefined;
    const admin = await RawClient.open(grouped.port);
    expect(await admin.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    const deletion = { op: 'delete', dn: personDn('p0') } as const;
    // The delete goes on when StartTLS has been answered.
    const held = new Promise<void>((resolve) => {
      const remove = partition.delete.bind(partition);
      partition.delete = async (...args) => {
        await new Promise<void>((proceed) => {
          release = proceed;
          resolve();
        });
        return remove(...args);
      };
    });
    const [deleted, refused] = admin.sendTogether([deletion, START_TLS]);
    await held;
    expect((await admin.answer(refused!)).code).to.equal(1);
    release();
    expect((await admin.answer(deleted!)).code).to.equal(0);
    await upgrade(admin, readFileSync(cert));
    admin.close();
    await grouped.stop();
  });

  it('passwords.requireTls refuses a plain bind with 13', async () => {
    const client = await RawClient.open(running.port);
    expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(13);
    expect(running.lines.at(-1)).to.include('"msg":"failed bind: password in the clear"');
    expect(await client.bind('', '')).to.equal(0);
    client.close();
  });

  it('StartTLS with a value is refused with 2', async () => {
    const client = await RawClient.open(running.port);
    expect((await client.request({ ...START_TLS, value: Buffer.from('x') })).code).to.equal(2);
    client.close();
  });

  it('plain requests sent behind StartTLS are not taken as if they were encrypted', async () => {
    const client = await RawClient.open(running.port);
    const [, injected] = client.sendTogether([START_TLS, simpleBind(ADMIN.dn, ADMIN.password)]);
    expect((await client.notice())?.code).to.equal(2);
    await client.ended();
    expect(client.hasHeardOf(injected!)).to.equal(false);
  });

  it('plain requests sent after the response break the handshake', async () => {
    const client = await RawClient.open(running.port);
    expect((await client.request(START_TLS)).code).to.equal(0);
    client.socket.removeAllListeners('data');
    const heard: Buffer[] = [];
    client.socket.on('data', (chunk: Buffer) => heard.push(chunk));
    client.write(encodeRequest({ id: 9, request: searchRequest(''), controls: [] }));
    await client.ended();
    expect(Buffer.concat(heard).includes('objectClass')).to.equal(false);
  });

  it('the identity of before stays over StartTLS, and a bind replaces it', async () => {
    const plain = await start(
      { 'tls.cert': join(folder, 'server.crt'), 'tls.key': join(folder, 'server.key') },
      0,
      running.partition,
    );
    const client = await RawClient.open(plain.port);
    expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
    await upgrade(client);
    expect((await client.search(SUFFIX)).code).to.equal(0);
    expect(await client.bind(personDn('p1'), 'wrong')).to.equal(49);
    expect((await client.search(SUFFIX)).code).to.equal(50);
    client.close();
    await plain.stop();
  });

  it('half a handshake is ended after its time, ldaps and StartTLS', async () => {
    using clock = new StoppedClock();
    const [cert, key] = [join(folder, 'server.crt'), join(folder, 'server.key')];
    const listen = ['ldap://127.0.0.1:0', 'ldaps://127.0.0.1:0'];
    const settings = { listen, 'tls.cert': cert, 'tls.key': key, 'limits.bindSeconds': 1 };
    const hasty = await start(settings, 0, running.partition);
    const raw = connect(Number(new URL(hasty.urls[1]!).port), '127.0.0.1').resume();
    const closed = once(raw, 'close');
    raw.write(Buffer.from('1603010200010001fc0303', 'hex'));
    const client = await RawClient.open(hasty.port);
    expect((await client.request(START_TLS)).code).to.equal(0);
    client.write(Buffer.from('1603010200010001fc0303', 'hex'));
    clock.pass(1001);
    await Promise.all([closed, client.ended()]);
    await hasty.stop();
  });

  it('StartTLS without a certificate is not offered', async () => {
    const bare = await start({}, 0, running.partition);
    const client = await RawClient.open(bare.port);
    expect((await client.request(START_TLS)).code).to.equal(2);
    expect((await client.search('')).code, 'the connection goes on').to.equal(0);
    client.close();
    await bare.stop();
  });

  it('a stale socket file is replaced, a living one is not', async () => {
    const partition = await emptyPartition();
    await start({ listen: [ldapi] }, 0, partition).then(
      () => expect.fail('listened twice'),
      (error: Error) => expect(error.message).to.contain(ldapi).and.contain('in use'),
    );
    const stale = join(folder, 'stale');
    const listening = "require('net').createServer().listen(process.argv[1], () => console.log('listening'))";
    const child = spawn(process.execPath, ['-e', listening, stale], { stdio: ['ignore', 'pipe', 'inherit'] });
    const exit = once(child, 'exit');
    await once(child.stdout, 'data');
    child.kill('SIGKILL');
    await exit;
    expect(statSync(stale).isSocket()).to.equal(true);
    const again = await start({ listen: [`ldapi://${encodeURIComponent(stale)}`] }, 0, partition);
    const client = new RawClient(connect(stale));
    expect((await client.search('')).code).to.equal(0);
    client.close();
    await again.stop();
  });

  it('localhost is served by IPv4 and IPv6 at one port, with TLS and without', async () => {
    const { cert, key } = makeCertificate(folder, 'both');
    const trusted = readFileSync(cert);
    const listen = ['ldap://localhost:0', 'ldaps://localhost:0'];
    const both = await start({ listen, 'tls.cert': cert, 'tls.key': key });
    for (const url of both.urls) {
      expect(url).to.match(/^ldaps?:\/\/localhost:\d+$/);
      const { protocol, port } = new URL(url);
      for (const [address, family] of loopbackAddresses()) {
        // Not every system has both addresses under the name `localhost`.
        const lookup: LookupFunction = (_name, { all }, found) =>
          all ? found(null, [{ address, family }]) : found(null, address, family);
        const target = { host: 'localhost', port: Number(port), lookup };
        const socket = protocol === 'ldaps:' ? connectTls({ ...target, ca: trusted }) : connect(target);
        const client = new RawClient(socket);
        expect(await client.bind(ADMIN.dn, ADMIN.password), `${url} at ${address}`).to.equal(0);
        expect(socket.remoteAddress).to.equal(address);
        client.close();
      }
    }
    await both.stop();
    const again = await start({ listen: [both.urls[0]!] });
    expect(again.urls).to.deep.equal([both.urls[0]]);
    await again.stop();
  });

  it('localhost is refused where another program has the port at one of its addresses', async () => {
    const partition = await emptyPartition();
    for (const [address] of loopbackAddresses()) {
      const other = createServer().listen(0, address);
      await once(other, 'listening');
      const url = `ldap://localhost:${(other.address() as AddressInfo).port}`;
      await start({ listen: [url] }, 0, partition).then(
        () => expect.fail(`listened on ${url}`),
        (error: Error) => expect(error.message).to.contain(url).and.contain('in use'),
      );
      other.close();
    }
  });

  it('an address in use, an unknown one and a wrong URL are named', async () => {
    const partition = await emptyPartition();
    for (const [url, why] of [
      [running.url, 'in use'],
      ['ldap://192.0.2.1:1389', 'no such address'],
      ['ldap://127.0.0.1:99999', '65535'],
      ['ldapi://relative', 'absolute path'],
      [`ldapi://${encodeURIComponent(join(folder, 'none', 'socket'))}`, 'does not exist'],
    ] as const) {
      await start({ listen: [url] }, 0, partition).then(
        () => expect.fail(`listened on ${url}`),
        (error: Error) => expect(error.message).to.contain(url).and.contain(why),
      );
    }
  });
});
