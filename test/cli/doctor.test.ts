import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import { Schema } from '../../src/schema/index.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { needs } from '../require.js';
import { ADMIN, type Ended, rowan, rowanDoes, Sandbox, SUFFIX } from './rowan.js';

interface Finding {
  readonly check: string;
  readonly state: string;
  readonly text: string;
  readonly remedy: string;
}

const CHECKS =
  'ports files memory disk permissions settings certificate store schema administrator clock indexes backup history history'.split(
    ' ',
  );
const FREE = ['--listen', 'ldap://127.0.0.1:0'];

describe('rowan doctor', () => {
  const sandbox = new Sandbox();
  beforeEach(() => sandbox.init());
  afterEach(() => sandbox.remove());

  const doctor = (args: readonly string[] = FREE): Promise<Ended> =>
    rowan(['doctor', '--data', sandbox.data, '--json', ...args]);

  /** The findings of a run, of which `faults` are faults. */
  async function findings(args: readonly string[], ...faults: string[]): Promise<readonly Finding[]> {
    const { code, stdout, stderr } = await doctor(args);
    const found = JSON.parse(stdout) as Finding[];
    expect(found.flatMap(({ check, state }) => (state === 'fault' ? [check] : []), stdout)).to.deep.equal(faults);
    expect([code, stderr]).to.deep.equal(faults.length === 0 ? [0, ''] : [1, `rowan: ${faults.length} fault\n`]);
    return found;
  }

  const of = (check: string, found: readonly Finding[]): Finding => found.find((one) => one.check === check)!;

  function certificate(...more: string[]): string[] {
    const [cert, key] = [sandbox.path('server.crt'), sandbox.path('server.key')];
    const kind = [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-subj',
      '/CN=ldap.example.com',
    ];
    execFileSync('openssl', [...kind, '-keyout', key, '-out', cert, ...more], { stdio: 'ignore' });
    return ['--tls-cert', cert, '--tls-key', key];
  }

  it('finds no fault where a server can be started, and beside the server', async () => {
    const found = await findings(FREE);
    expect(found.map(({ check }) => check)).to.deep.equal(CHECKS);
    for (const check of [
      'ports',
      'permissions',
      'settings',
      'certificate',
      'store',
      'schema',
      'administrator',
      'clock',
      'indexes',
    ])
      expect(of(check, found)).to.include({ state: 'ok', remedy: '' });
    const server = await sandbox.serve(['--limits-connections', '1000']);
    const large = ['--limits-connections', '1000000', '--workers', '1', '--limits-request-bytes', '64GiB'];
    const beside = await findings(['--listen', server.url, ...large]);
    expect(of('ports', beside)).to.include({ state: 'ok', text: `a Rowan server listens on ${server.url}` });
    expect(of('files', beside).text).to.match(new RegExp(`^the server with pid ${server.process.pid} may open `));
    expect(of('memory', found).text).to.match(
      /^the limits let \d+ process(?:es)? take [\d,]+ MiB at most; the (?:machine has|cgroup allows) [\d,]+ MiB$/,
    );
    const { state, text, remedy } = of('memory', beside);
    expect([state, text.split(' at most', 1)[0]!.replace(/,\d{3} MiB/, '')]).to.deep.equal([
      'warning',
      'the limits let 1 process take 131',
    ]);
    expect(remedy).to.contain('smaller limits.requestBytes');
    const { code, stdout } = await rowan(['doctor', '--data', sandbox.data, '--listen', server.url]);
    expect(code).to.equal(0);
    expect(stdout).to.match(/^ok +ports +a Rowan server listens on ldap/m);
  });

  it('finds the port that another program has, and the address that is not of this machine', async () => {
    const other = createServer((socket) => socket.end('no LDAP')).listen(0, '127.0.0.1');
    await once(other, 'listening');
    const url = `ldap://127.0.0.1:${(other.address() as AddressInfo).port}`;
    const held = of('ports', await findings(['--listen', url], 'ports'));
    expect(held.text).to.equal(`cannot listen on '${url}': the address is in use by another program`);
    expect(held.remedy).to.match(/^end the other program/);
    other.close();
    const strange = of('ports', await findings(['--listen', 'ldap://203.0.113.7:1389'], 'ports'));
    expect(strange.remedy).to.equal('name an address of this machine');
  });

  it('finds certificates that have expired, expire soon, have another key or do not name the host', async function () {
    needs(this, 'openssl');
    const listen = ['--listen', 'ldaps://127.0.0.1:0'];
    const good = certificate('-days', '100');
    expect(of('certificate', await findings([...listen, ...good])).text).to.match(/expires in 99 days/);
    const [, cert] = good;
    const otherKey = sandbox.path('other.key');
    execFileSync('openssl', ['ecparam', '-genkey', '-name', 'prime256v1', '-out', otherKey], { stdio: 'ignore' });
    const wrong = await findings([...listen, '--tls-cert', cert!, '--tls-key', otherKey], 'certificate');
    expect(of('certificate', wrong).text).to.match(/is not the key of the certificate/);
    const soon = of('certificate', await findings([...listen, ...certificate('-days', '3')]));
    expect(soon).to.include({ state: 'warning', remedy: 'replace it and send SIGHUP' });
    const everywhere = ['--listen', 'ldaps://0.0.0.0:0'];
    const found = await findings([...everywhere, ...certificate('-days', '100')]);
    expect(found.filter(({ check }) => check === 'certificate').map(({ state }) => state)).to.deep.equal([
      'ok',
      'warning',
    ]);
    expect((await findings(['--listen', 'ldap://0.0.0.0:0'])).find(({ check }) => check === 'certificate')).to.include({
      text: 'passwords cross the network in the clear',
    });
  });

  it('finds a folder that all may read, a schema of the settings that differs, and an unfinished index', async () => {
    chmodSync(sandbox.data, 0o705);
    const { partition } = await open();
    await partition.addIndex('description');
    await partition.close();
    const found = await findings([...FREE, '--schema-nis', 'rfc2307bis'], 'schema');
    expect(of('permissions', found)).to.include({ state: 'warning', remedy: `run "chmod o= ${sandbox.data}"` });
    expect(of('schema', found).text).to.match(/^schema.nis is rfc2307bis, and the directory's NIS schema rfc2307$/);
    expect(of('indexes', found).text).to.equal('the index on description is not complete');
  });

  it('finds files and folders of the settings that are missing, each with its setting', async () => {
    const settings = ['accessLog.output', 'auditLog.output', 'passwords.totpKey', 'passwords.breached'];
    const flags = settings.flatMap((name) => [
      `--${name.replace('.', '-').replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
      sandbox.path('none/file'),
    ]);
    const { code, stdout } = await doctor([...FREE, ...flags, '--dropfolder-folder', sandbox.path('none')]);
    const faults = (JSON.parse(stdout) as Finding[]).filter(({ state }) => state === 'fault');
    expect([code, ...faults.map(({ check, text }) => `${check} ${text.split(':', 1)[0]}`)]).to.deep.equal([
      1,
      ...[...settings, 'dropfolder.folder'].map((name) => `settings ${name}`),
    ]);
    await findings([...FREE, '--audit-log-output', sandbox.path('audit')]);
    expect(existsSync(sandbox.path('audit'))).to.equal(false);
  });

  it('finds the indexes that the mapping of the drop folder lacks', async () => {
    const mapping = sandbox.path('mapping.yaml');
    writeFileSync(
      mapping,
      `key: { column: id, attribute: employeeNumber }\nbase: ${SUFFIX}\ndn: uid={id},${SUFFIX}\nattributes: {}\n`,
    );
    expect(of('indexes', await findings([...FREE, '--dropfolder-mapping', mapping]))).to.deep.equal({
      check: 'indexes',
      state: 'warning',
      text: "dropfolder.mapping: 'employeeNumber' has no index, and each row reads all entries",
      remedy: 'rowan index add employeeNumber',
    });
    writeFileSync(mapping, 'key: 1\n');
    expect(of('indexes', await findings([...FREE, '--dropfolder-mapping', mapping], 'indexes')).text).to.match(
      /mapping.yaml: key has to be a map/,
    );
  });

  it('finds the HTTP port that another program has, and the token file that is missing', async () => {
    const other = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1');
    await once(other, 'listening');
    const http = `127.0.0.1:${(other.address() as AddressInfo).port}`;
    const texts = async (listen: string, ...faults: string[]) =>
      (await findings([...FREE, '--http', listen], ...faults))
        .filter(({ check }) => check === 'ports')
        .map(({ text }) => text);
    expect((await texts(http, 'ports'))[1]).to.match(/^cannot listen on http\.listen 127.*in use/);
    await new Promise((resolve) => other.close(resolve));
    const token = ['--http', '0.0.0.0:0', '--http-token-file', sandbox.path('none')];
    expect((await findings([...FREE, ...token], 'ports'))[1]!.text).to.match(/^http\.tokenFile: .*no such file/);
    const server = await sandbox.serve(['--http', http]);
    expect(await texts(http)).to.include(`a Rowan server listens on http://${http}`);
    await server.stop();
  });

  it('the administrator has two passwords, as import and check tell, too', async () => {
    const top = `dn: ${SUFFIX}\nobjectClass: organization\nobjectClass: dcObject\ndc: example\no: Example\n\n`;
    const role = `dn: ${ADMIN}\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\ncn: admin\n`;
    const input = sandbox.path('admin.ldif');
    writeFileSync(input, `${top}${role}userPassword: second\n`);
    const told = `there are two: the one that "rowan passwd" sets, and userPassword of the entry '${ADMIN}'`;
    const imported = await rowanDoes(['import', '--data', sandbox.data, input]);
    expect(imported).to.contain(`passwords of the administrator: ${told}\n`);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.contain(
      `note password of the administrator: ${told}\n`,
    );
    expect(of('administrator', await findings(FREE))).to.deep.equal({
      check: 'administrator',
      state: 'warning',
      text: told,
      remedy: 'remove userPassword from the entry if one is enough',
    });
  });

  it('finds a clock behind the newest change', async () => {
    const { partition, dn } = await open(() => Date.now() + 3_600_000);
    const values = { objectClass: ['organization', 'dcObject'], dc: ['example'], o: ['Example'] };
    const attributes = Object.entries(values).map(([type, texts]) => ({
      type,
      values: texts.map((v) => Buffer.from(v)),
    }));
    await partition.add(dn(SUFFIX), attributes, { dn: ADMIN });
    await partition.close();
    expect(of('clock', await findings(FREE, 'clock')).remedy).to.match(/^set the clocks/);
  });

  it('says what is wrong with the data folder', async () => {
    const found = JSON.parse((await rowan(['doctor', '--data', sandbox.path('none'), '--json', ...FREE])).stdout);
    expect(of('store', found as Finding[])).to.include({ state: 'fault' });
    expect(of('store', found as Finding[]).text).to.match(/holds no Rowan store; create one with "rowan init/);
  });

  async function open(now?: () => number) {
    const schema = Schema.load();
    const partition = await Partition.open(await openLmdbStore(sandbox.data), schema, now ? { now } : {});
    return { partition, dn: (text: string) => schema.parseDn(text) };
  }
});
