import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { expect } from 'chai';
import { ControlClient } from '../../src/cli/control-client.js';
import type { ReloadReport } from '../../src/cli/reload.js';
import type { Filter } from '../../src/ldap/ldap-types.js';
import { ExtendedOid } from '../../src/protocol/oids.js';
import {
  type AnyValue,
  applySettings,
  type LiveValues,
  makeConfig,
  type SettingName,
  type SettingSpec,
  settingNames,
  settings,
  settingValue,
} from '../../src/server/settings/index.js';
import { makeCertificate, needs } from '../require.js';
import { ADMIN as ADMINISTRATOR, attributes, CHEAP, personDn, start, testSchema } from '../server/directory.js';
import { RawClient } from '../server/raw-client.js';
import {
  ADMIN,
  exited,
  heard,
  PASSWORD,
  PEOPLE,
  type RunningServer,
  rowan,
  rowanDoes,
  run,
  Sandbox,
  startRowan,
  until,
} from './rowan.js';
import { figures, replace, TwoWorkers } from './workers.js';

const LIVE = settingNames.filter((name) => (settings[name] as SettingSpec).live !== undefined);

/** A value of the setting that is not its default. `path` is for settings of paths. */
function anotherValue(name: SettingName, path: string): AnyValue {
  const spec: SettingSpec = settings[name];
  switch (spec.kind) {
    case 'integer':
    case 'size':
    case 'duration':
      return spec.default < spec.max ? spec.default + 1 : spec.default - 1;
    case 'boolean':
      return !spec.default;
    case 'choice':
      return spec.choices.findLast((choice) => choice !== spec.default);
    case 'schedule':
      return '1 2 3 4 5';
    case 'output':
      return `${path}/${name}.log`;
    case 'path':
      return path;
    case 'text':
      return 'cn=somebody';
    default:
      throw new Error(`${name} needs a value here`);
  }
}

/** Files and folders that settings may name, and none of them can use. */
interface UnusablePaths {
  readonly folder: string;
  readonly none: string;
  readonly empty: string;
  /** Files that are there for something else than a log: the store's, a link to it, the configuration, the key. */
  readonly storeFile: string;
  readonly storeLink: string;
  readonly config: string;
  readonly key: string;
  /** Host and port on which the test listens. */
  readonly taken: string;
  /** Certificate and key in DER. */
  readonly derCert: string;
  readonly derKey: string;
}

/**
 * Values that the setting must refuse, as texts, each with the reason.
 */
function refusedValues(name: SettingName, paths: UnusablePaths): readonly (readonly [string, RegExp])[] {
  const { folder, none, empty, storeFile, storeLink, config, key, taken, derCert, derKey } = paths;
  const noFolder = [
    [none, /no such file or folder/],
    [empty, /is not a folder/],
  ] as const;
  const noFile = [
    [none, /no such file or folder/],
    [folder, /is a folder, not a file/],
  ] as const;
  switch (name) {
    case 'data':
      return [[folder, /holds no Rowan store/], ...noFolder.slice(1)];
    case 'control.folder':
    case 'backup.folder':
    case 'dropfolder.folder':
      return noFolder;
    case 'schema.folders':
      return [
        [none, /schema folder .*nowhere/],
        [folder, /unusable' holds no \.ldif file; put files/],
      ];
    case 'schema.nis':
      return [
        ['rfc2306', /schema\.nis must be one of rfc2307, rfc2307bis$/],
        ['rfc2307bis', /the directory's NIS schema rfc2307; "rowan schema set" gives/],
      ];
    case 'passwords.breached':
      return [
        [none, /^passwords\.breached: \S+nowhere: no such file or folder \(other\)$/],
        [derCert, /cert\.der: a line is no upper-case hex of a SHA-1/],
      ];
    case 'passwords.check':
      return [[none, /nowhere cannot be used: it throws Error \(ERR_MODULE_NOT_FOUND\)/]];
    case 'passwords.totpKey':
      return [...noFile, [empty, /has 0 bytes, and a key has 32/]];
    case 'http.tokenFile':
      return [...noFile, [empty, /must hold one token/]];
    case 'hbase.site':
      return [...noFile, [empty, /hbase-site.xml: line 1: document must contain a root element/]];
    case 'dropfolder.mapping':
      return [
        [none, /^dropfolder\.mapping: \S+nowhere: no such file or folder$/],
        [folder, /^dropfolder\.mapping: \S+unusable: is a folder, not a file$/],
        [empty, /has to be a map/],
      ];
    case 'tls.cert':
      return [...noFile, [empty, /no certificate in PEM/], [derCert, /it is DER, which "openssl x509/]];
    case 'tls.ca':
      return [...noFile, [empty, /no certificate in PEM/], [derCert, /it is DER, which "openssl x509/]];
    case 'tls.key':
      return [...noFile, [empty, /no private key/], [derKey, /it is DER, which "openssl pkey/]];
    case 'accessLog.output':
    case 'auditLog.output':
      return [
        [folder, /is a folder, not a file/],
        [`${none}/x`, /no such file or folder/],
        [storeFile, /data\.mdb: is in the data folder; choose another file$/],
        [`${storeFile}.new`, /data\.mdb\.new: is in the data folder/],
        [storeLink, /: is no text, so no log; choose another file$/],
        [config, /each\.yaml: is the configuration file; choose another file$/],
        [key, /: is the file of tls\.key; choose another file$/],
        [derCert, /cert\.der: is no text, so no log; choose another file$/],
      ];
    case 'passwords.policy':
    case 'dropfolder.as':
      return [['nonsense=x', /nonsense/]];
    case 'listen':
      return [
        ['http://127.0.0.1', /listen must be URLs like .*, not "http:\/\/127\.0\.0\.1"$/],
        [`ldapi://${encodeURIComponent(`${none}/x`)}`, /cannot listen on.*; correct the setting$/],
      ];
    case 'http.listen':
      return [
        ['127.0.0.1:99999', /a port of 65535 at most$/],
        [taken, new RegExp(`${taken}.*: the address is in use`)],
      ];
    case 'store':
      return [
        ['nonsense', /store must be an address like hbase:/],
        ['hbase://h:1/p', /store cannot stand beside data$/],
      ];
    default:
      return [[(settings[name] as SettingSpec).kind === 'text' ? ' ' : 'nonsense', new RegExp(`${name} must be `)]];
  }
}

/** A search for all people; 4 is `sizeLimitExceeded`. */
async function searchCode(client: RawClient, filter?: Filter): Promise<number> {
  return (await client.search(PEOPLE, { scope: 'sub', ...(filter ? { filter } : {}) })).code;
}

/** More terms than the serving thread takes upon itself. */
const LONG_FILTER: Filter = {
  type: 'or',
  filters: ['person', ...Array.from({ length: 1000 }, (_, n) => `no${n}`)].map((value) => ({
    type: 'equal',
    attribute: 'objectClass',
    value: Buffer.from(value),
  })),
};

describe('settings that change while the server runs', () => {
  it('those that components have made something of hold for the next request or connection', async () => {
    const running = await start({ ...CHEAP, 'limits.filterDepth': 20 }, 3);
    const { server, port } = running;
    const client = await RawClient.open(port);
    expect(await client.bind(ADMINISTRATOR.dn, ADMINISTRATOR.password)).to.equal(0);
    const apply = (values: LiveValues) => server.answer({ about: 'settings', values });
    const dn = personDn('p0');
    const store = async (): Promise<string> => {
      expect((await replace(client, dn, 'userPassword', 'new secret')).code).to.equal(0);
      const { attributes: stored } = await running.partition.read(testSchema().parseDn(dn));
      return stored
        .find(({ description }) => description === 'userPassword')!
        .values[0]!.toString()
        .slice(0, 9);
    };
    expect(await store()).to.equal('{ARGON2}$');
    apply({ 'passwords.scheme': 'ssha512' });
    expect(await store()).to.equal('{SSHA512}');
    const deep = (depth: number): Filter =>
      depth === 0 ? { type: 'present', attribute: 'cn' } : { type: 'not', filter: deep(depth - 1) };
    expect((await client.search(dn, { filter: deep(18) })).code).to.equal(0);
    apply({ 'limits.filterDepth': 8 });
    expect((await client.search(dn, { filter: deep(18) })).code).to.equal(2);
    const group = `cn=group,${PEOPLE}`;
    const values = attributes({ objectClass: 'groupOfNames', cn: 'group', member: dn });
    expect((await client.request({ op: 'add', dn: group, attributes: values })).code).to.equal(0);
    const isMemberOf = async () => (await client.search(dn)).entries[0]!.attributes.has('memberOf');
    expect(await isMemberOf()).to.equal(false);
    apply({ 'groups.memberOf': 'all' });
    expect(await isMemberOf()).to.equal(true);
    apply({ 'limits.connections': 1, 'credentialCache.enabled': false });
    const refused = await RawClient.open(port);
    expect((await refused.notice())?.message).to.equal('too many connections');
    expect(await client.bind(ADMINISTRATOR.dn, ADMINISTRATOR.password)).to.equal(0);
    client.close();
    await running.stop();
  });

  it('each reaches the configuration that the components of a process share', async () => {
    const running = await start();
    const values = Object.fromEntries(LIVE.map((name) => [name, anotherValue(name, '/nowhere')])) as LiveValues;
    running.server.answer({ about: 'settings', values });
    for (const name of LIVE) expect(settingValue(running.server.services.config, name), name).to.equal(values[name]);
    await running.stop();
    const refusal = await applySettings(makeConfig(), { workers: 2 }).catch((error: Error) => error.message);
    expect(refusal).to.equal('workers cannot change while the server runs');
  });
});

describe('cli: settings that change while the server runs', () => {
  const sandbox = new Sandbox();
  const clients: RawClient[] = [];
  let file: string;
  let server: RunningServer;
  let log: string;
  /** Ends a server that a test has started by other settings. */
  let ending: (() => Promise<void>) | undefined;

  async function serve(text: string, args: readonly string[] = []): Promise<void> {
    writeFileSync(file, text);
    server = await sandbox.serve(['--config', file, ...args]);
    log = '';
    server.process.stderr!.on('data', (data: Buffer) => {
      log += data;
    });
  }

  async function admin(): Promise<RawClient> {
    const client = await RawClient.open(server.port);
    clients.push(client);
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    return client;
  }

  const edit = (...args: string[]): Promise<string> =>
    rowanDoes(['config', ...args, '--config', file, '--data', sandbox.data]);

  before(async () => {
    await sandbox.initSample();
    file = sandbox.path('rowan.yaml');
  });
  afterEach(async () => {
    for (const client of clients.splice(0)) client.close();
    await server?.stop();
    await ending?.();
    ending = undefined;
  });
  after(() => sandbox.remove());

  it('hold for open connections, for the thread of long requests and for jobs', async () => {
    const audit = sandbox.path('audit.ldif');
    await serve('log: {level: info} # as always\n', ['--audit-log-output', audit]);
    const client = await admin();
    expect([await searchCode(client), await searchCode(client, LONG_FILTER)]).to.deep.equal([0, 0]);
    expect(await edit('set', 'limits.admin.sizeLimit', '1')).to.equal(
      `limits.admin.sizeLimit: 0 → 1: applied (at once), server (pid ${server.process.pid})\n`,
    );
    expect([await searchCode(client), await searchCode(client, LONG_FILTER)]).to.deep.equal([4, 4]);
    await edit('unset', 'limits.admin.sizeLimit');
    expect([await searchCode(client), await searchCode(client, LONG_FILTER)]).to.deep.equal([0, 0]);
    await edit('set', 'jobs.purge.schedule', '1 2 3 4 5');
    const { entries } = await client.search('cn=Jobs,cn=Monitor', { attributes: ['description'] });
    expect(entries[0]!.attributes.get('description')!.map(String)).to.include('purge.schedule: 1 2 3 4 5');
    const access = sandbox.path('access.log');
    await edit('set', 'accessLog.output', access);
    expect(await searchCode(client)).to.equal(0);
    await edit('unset', 'accessLog.output');
    await until(server.process, () => existsSync(access) && readFileSync(access, 'utf8').includes('SRCH'));
    await edit('set', 'log.slowSearchRows', '1');
    const slow = heard(server.process, 'slow search');
    const street: Filter = { type: 'equal', attribute: 'street', value: Buffer.from('x') };
    expect(await searchCode(client, street)).to.equal(0);
    await slow;
    expect(log).to.match(
      /INFO {2}a setting is changed by="uid \d+, pid \d+" setting=jobs\.purge\.schedule old="17 \* \* \* \*" new="1 2 3 4 5" effect="next run"/,
    );
    expect(readFileSync(audit, 'utf8')).to.match(
      /# by: uid \d+, pid \d+\n# setting: limits\.admin\.sizeLimit: 0 → 1 \(at once\)\n/,
    );
    expect(readFileSync(file, 'utf8'))
      .to.match(/^log: *\{ *level: info/)
      .and.include('# as always');
  });

  it('change although the audit log is a FIFO that no program reads', async () => {
    const fifo = sandbox.path('fifo');
    expect((await run('mkfifo', [fifo])).code).to.equal(0);
    await serve('{}\n', ['--audit-log-output', fifo]);
    expect(await edit('set', 'limits.admin.sizeLimit', '1')).to.contain('applied (at once)');
    expect(await searchCode(await admin())).to.equal(4);
    await until(server.process, () =>
      log.includes(`the audit log cannot be written: ${fifo}: no such device, or a FIFO that no program reads`),
    );
    await edit('unset', 'limits.admin.sizeLimit');
  });

  it('hold in each worker and its thread, in one that is started later, and for new connections', async () => {
    const two = await TwoWorkers.start(sandbox, ['--config', file]);
    ({ server } = two);
    const both = await two.both();
    for (const client of both) expect(await searchCode(client, LONG_FILTER)).to.equal(0);
    await edit('set', 'limits.admin.sizeLimit', '1');
    for (const client of both)
      expect([await searchCode(client), await searchCode(client, LONG_FILTER)]).to.deep.equal([4, 4]);
    const served = heard(server.process, 'the worker serves');
    process.kill(Number((await figures(both[1])).get('worker.1.pid')), 'SIGKILL');
    await served;
    expect(await searchCode(await two.admin(1))).to.equal(4);
    await edit('set', 'passwords.requireTls', 'true');
    const unbound = await two.open();
    expect(await unbound.bind(ADMIN, PASSWORD)).to.equal(13);
    await edit('unset', 'passwords.requireTls');
    two.close();
  });

  it('reach every process and thread, one by one in the table', async function () {
    needs(this, 'openssl');
    const { cert, key } = makeCertificate(sandbox.folder);
    const mapping = sandbox.path('mapping.yaml');
    writeFileSync(
      mapping,
      `key: {column: id, attribute: uid}\nbase: ${PEOPLE}\ndn: 'uid={id},${PEOPLE}'\nattributes: {cn: id}\n`,
    );
    const paths: Partial<Record<SettingName, string>> = {
      'tls.cert': cert,
      'tls.key': key,
      'tls.ca': cert,
      'dropfolder.mapping': mapping,
    };
    mkdirSync(sandbox.path('drop'), { recursive: true });
    writeFileSync(file, 'log.level: debug\n');
    const two = await TwoWorkers.start(sandbox, ['--config', file]);
    ({ server } = two);
    for (const client of await two.both()) expect(await searchCode(client, LONG_FILTER)).to.equal(0);
    const changed = LIVE.filter((name) => name !== 'log.level');
    const lines = changed.map(
      (name) => `${name}: ${JSON.stringify(anotherValue(name, paths[name] ?? sandbox.path('drop')))}`,
    );
    writeFileSync(file, ['log.level: debug', ...lines, ''].join('\n'));
    let said = '';
    server.process.stderr!.on('data', (data: Buffer) => {
      said += data;
    });
    const told = () =>
      said
        .split('\n')
        .filter((line) => line.startsWith('{') && line.includes('changed settings are in force here'))
        .map((line) => JSON.parse(line) as { worker?: number; settings: string[] });
    server.process.kill('SIGHUP');
    await until(server.process, () => told().length === 5);
    expect(
      told()
        .map(({ worker }) => worker ?? 0)
        .sort(),
    ).to.deep.equal([0, 1, 1, 2, 2]);
    for (const line of told()) expect([...line.settings].sort()).to.deep.equal([...changed].sort());
    two.close();
  });

  it('a file with mistakes changes nothing, and each mistake is logged', async () => {
    await serve('limits:\n  admin:\n    sizeLimit: 1\n');
    const client = await admin();
    writeFileSync(file, 'limits:\n  admin:\n    sizeLimit: 0\n  conections: 5\n  controls: 1\n');
    server.process.kill('SIGHUP');
    await until(server.process, () => log.includes('limits.controls must be'));
    expect(log).to.match(
      /ERROR a mistake in the configuration: no setting is changed by=SIGHUP problem="rowan.yaml:4: limits.conections is/,
    );
    expect(await searchCode(client)).to.equal(4);
    writeFileSync(file, 'tls: {cert: nowhere.crt, key: nowhere.key}\n');
    server.process.kill('SIGHUP');
    await until(server.process, () => log.includes('nowhere.crt: no such file'));
    expect(await searchCode(client)).to.equal(4);
    const refused = await rowan([
      'config',
      'set',
      'limits.admin.sizeLimit',
      '5',
      '--config',
      file,
      '--data',
      sandbox.data,
    ]);
    expect(refused).to.include({ code: 1, stdout: '' });
    expect(refused.stderr).to.match(
      /the server \(pid \d+\) refuses the change, .*rowan.yaml is as it was before: .*nowhere/,
    );
    expect(readFileSync(file, 'utf8')).to.equal('tls: {cert: nowhere.crt, key: nowhere.key}\n');
  });

  it('each refuses what it cannot use: the server says why, and the file is as it was', async function () {
    needs(this, 'openssl');
    const { cert, key } = makeCertificate(sandbox.folder);
    const folder = sandbox.path('unusable');
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    const config = sandbox.path('each.yaml');
    const paths: UnusablePaths = {
      folder,
      none: sandbox.path('nowhere'),
      empty: sandbox.path('empty'),
      storeFile: `${sandbox.data}/data.mdb`,
      storeLink: sandbox.path('link'),
      config,
      key,
      taken: `127.0.0.1:${(other.address() as AddressInfo).port}`,
      derCert: sandbox.path('cert.der'),
      derKey: sandbox.path('key.der'),
    };
    mkdirSync(folder);
    writeFileSync(paths.empty, '');
    for (const [command, pem, der] of [
      ['x509', cert, paths.derCert],
      ['pkey', key, paths.derKey],
    ] as const)
      expect(await run('openssl', [command, '-in', pem, '-out', der, '-outform', 'DER'])).to.include({ code: 0 });
    symlinkSync(paths.storeFile, paths.storeLink);
    const lines = [`data: ${sandbox.data}`, 'listen: ldap://127.0.0.1:0', `tls.cert: ${cert}`, `tls.key: ${key}`];
    const text = `${lines.join('\n')}\n`;
    writeFileSync(config, text);
    const child = startRowan(['serve', '--config', config]);
    ending = async () => {
      other.close();
      child.kill('SIGTERM');
      expect(await exited(child)).to.equal(0);
    };
    await heard(child, ' suffixes ');
    const [client] = await ControlClient.findAll(makeConfig({ data: sandbox.data }));
    const problemsOf = async (name: SettingName, value: string): Promise<string> => {
      const others = lines.filter((line) => !line.startsWith(`${name}:`));
      writeFileSync(config, [...others, `${name}: ${JSON.stringify(value)}`, ''].join('\n'));
      return (JSON.parse(await client!.request('POST', '/reload')) as ReloadReport).problems.join('\n');
    };
    for (const name of settingNames) {
      for (const [value, reason] of refusedValues(name, paths)) {
        expect(await problemsOf(name, value), name)
          .to.match(reason)
          .and.include(name);
      }
    }
    writeFileSync(config, `${lines.slice(1).join('\n')}\n`);
    const { problems } = JSON.parse(await client!.request('POST', '/reload')) as ReloadReport;
    expect(problems.join('\n')).to.match(/^data: nothing else gives the data folder; set data or store/);
    writeFileSync(config, text);
    const unset = await rowan(['config', 'unset', 'data', '--config', config]);
    expect(`${unset.code} ${unset.stderr}`).to.match(/^2 rowan: data: nothing else gives the data folder; .* changed/);
    expect(readFileSync(config, 'utf8')).to.equal(text);
    // The command asks the same server.
    const asked: readonly [SettingName, string][] = [
      ['auditLog.output', folder],
      ['tls.cert', paths.derCert],
      ['passwords.totpKey', paths.empty],
      ['data', folder],
      ['schema.nis', 'rfc2307bis'],
    ];
    for (const [name, value] of asked) {
      const { code, stdout, stderr } = await rowan(['config', 'set', name, value, '--force', '--config', config]);
      expect([code, stdout, readFileSync(config, 'utf8')], stderr).to.deep.equal([1, '', text]);
      expect(stderr).to.match(/^rowan: the server \(pid \d+\) refuses the change, .*each.yaml is as it was before: /);
      expect(stderr).to.include(`before: ${name}`);
    }
    const both = ['accessLog.output', paths.none, 'auditLog.output', paths.none];
    // Without --force the command finds the same before it asks.
    expect((await rowan(['config', 'set', ...both, '--config', config])).stderr).to.match(
      /^rowan: accessLog.output: .*nowhere: is the file of auditLog.output; choose another file; nothing is changed/,
    );
    const refused = await rowan(['config', 'set', 'auditLog.output', folder, '--config', config]);
    expect(`${refused.code} ${refused.stderr}`).to.match(
      /^2 rowan: auditLog.output: .* is a folder, not a file; nothing/,
    );
    child.kill('SIGTERM');
    expect(await exited(child)).to.equal(0);
  });

  it('a certificate that the server had not before is used', async function () {
    needs(this, 'openssl');
    await serve('');
    const client = await admin();
    const offersTls = async () => {
      const { entries } = await client.search('', { attributes: ['supportedExtension'] });
      return entries[0]!.attributes.get('supportedExtension')!.map(String).includes(ExtendedOid.startTls);
    };
    expect(await offersTls()).to.equal(false);
    const { cert, key } = makeCertificate(sandbox.folder);
    expect(await edit('set', 'tls.cert', cert, 'tls.key', key)).to.match(/^tls.cert: .*\ntls.key: .*\n$/);
    await until(server.process, () => log.includes('the certificate was reloaded'));
    expect(await offersTls()).to.equal(true);
    const wrongKey = sandbox.path('wrong.key');
    writeFileSync(wrongKey, 'no key');
    const text = readFileSync(file, 'utf8');
    for (const [force, told] of [
      [[], /^2 rowan: tls.key: .* holds no private key in PEM.*; nothing is changed/],
      [['--force'], /^1 rowan: the server \(pid \d+\) refuses the change, .*rowan.yaml is as it was before: tls.key/],
    ] as const) {
      const place = ['--config', file, '--data', sandbox.data];
      const { code, stderr } = await rowan(['config', 'set', 'tls.key', wrongKey, ...force, ...place]);
      expect(`${code} ${stderr}`).to.match(told);
      expect(readFileSync(file, 'utf8')).to.equal(text);
    }
    await edit('set', 'limits.controls', '50');
    await until(server.process, () => log.includes('setting=limits.controls'));
    expect(log.match(/the certificate was reloaded/g)).to.have.length(1);
    const answer = await client.request({ op: 'extended', oid: ExtendedOid.startTls, value: undefined });
    expect(answer.code).to.equal(0);
  });

  it('a certificate that a listener needs is not taken away', async function () {
    needs(this, 'openssl');
    const { cert, key } = makeCertificate(sandbox.folder);
    const listen = sandbox.path('listen.yaml');
    writeFileSync(listen, `listen: ldaps://127.0.0.1:0\ntls:\n  cert: ${cert}\n  key: ${key}\n`);
    const child = startRowan(['serve', '--config', listen, '--data', sandbox.data]);
    await heard(child, ' suffixes ');
    writeFileSync(listen, 'listen: ldap://127.0.0.1:0\n');
    const told = heard(child, 'no setting is changed');
    child.kill('SIGHUP');
    expect(await told).to.include('listen has an ldaps:// URL, which needs tls.cert and tls.key while the server runs');
    child.kill('SIGTERM');
    expect(await exited(child)).to.equal(0);
  });

  it('those that need a restart are named, as is what goes before the file', async () => {
    await serve('', ['--limits-controls', '40']);
    writeFileSync(file, 'workers: 3\nshutdownSeconds: 9\n');
    server.process.kill('SIGHUP');
    await until(server.process, () => log.includes('take effect after a restart'));
    expect(log).to.match(
      /WARN {2}settings in the configuration take effect after a restart by=SIGHUP settings="workers: auto → 3"/,
    );
    expect(await edit('set', 'ldapi.mode', '660')).to.equal(
      `ldapi.mode: 666 → 660: needs a restart, server (pid ${server.process.pid})\n` +
        `a restart is also needed for workers, server (pid ${server.process.pid})\n`,
    );
    await until(server.process, () => log.includes('settings="ldapi.mode: 666 → 660"'));
    const other = sandbox.path('other.yaml');
    writeFileSync(other, '');
    for (const [path, reason] of [
      [file, 'has it from --limits-controls, which goes before the file'],
      [other, 'reads another file, '],
    ] as const) {
      const place = ['--config', path, '--data', sandbox.data];
      const { code, stderr } = await rowan(['config', 'set', 'limits.controls', '50', ...place]);
      expect(`${code} ${stderr}`).to.match(/^1 rowan: .* is changed, but limits.controls is not applied: the server/);
      expect(stderr).to.include(reason);
    }
  });

  it('without a server, the file alone is changed', async () => {
    writeFileSync(
      file,
      '# first\n\nlimits:\n  # of all\n  connections: 5 # few\n  idleSeconds: 60\nlisten:\n- ldap://127.0.0.1\n',
    );
    chmodSync(file, 0o640);
    expect(await edit('set', 'limits.connections', '7')).to.match(
      /rowan.yaml is changed; no server was found that runs/,
    );
    await edit('set', 'limits.search.sizeLimit', '9');
    await edit('set', 'limits.idleSeconds', '15 m');
    await edit('set', 'listen', 'ldap://127.0.0.1:1,ldap://127.0.0.1:2');
    await edit('set', 'ldapi.mode', '660');
    expect(readFileSync(file, 'utf8')).to.equal(
      '# first\n\nlimits:\n  # of all\n  connections: 7 # few\n  idleSeconds: 15 m\n  search:\n    sizeLimit: 9\n' +
        'listen:\n- ldap://127.0.0.1:1\n- ldap://127.0.0.1:2\nldapi:\n  mode: "660"\n',
    );
    expect(statSync(file).mode & 0o777).to.equal(0o640);
    await edit('unset', 'limits.search.sizeLimit');
    expect(readFileSync(file, 'utf8')).to.include('idleSeconds: 15 m\nlisten:');
    expect(await edit('get', 'limits.idleSeconds')).to.equal('900\n');
  });

  it('changes at the same time all reach file and server, past the lock of a dead process', async () => {
    await serve('');
    const dead = startRowan(['--version']);
    await exited(dead);
    symlinkSync(String(dead.pid), `${file}.lock`);
    const names = LIVE.filter((name) => (settings[name] as SettingSpec).kind === 'integer').slice(0, 4);
    await Promise.all(names.map((name) => edit('set', name, String(anotherValue(name, '')))));
    for (const name of names) {
      expect(await edit('get', name)).to.equal(`${anotherValue(name, '')}\n`);
      expect(log).to.include(`setting=${name} `);
    }
    expect(readdirSync(sandbox.folder).filter((name) => name.includes('.lock'))).to.deep.equal([]);
  });

  it('a wrong name, value or file is one sentence, and changes nothing', async () => {
    const text = 'limits:\n  controls: 40\n# the end\n';
    writeFileSync(file, text);
    const here = ['--config', file];
    const refusals: [string[], RegExp][] = [
      [
        ['set', 'limits.control', '5', ...here],
        /^2 rowan: limits.control is not .*; did you mean 'limits.controls'\?\n$/,
      ],
      [['set', 'limits.controls', 'many', ...here], /^2 rowan: limits.controls must be a whole number\n$/],
      [
        ['set', 'tls.cert', 'a.pem', ...here],
        /^2 rowan: rowan.yaml:\d: tls.cert needs tls.key\nrowan: .* together: rowan config set tls.cert <file> tls.key/,
      ],
      [['set', 'tls.cert', 'a.pem', 'tls.key', ...here], /^2 rowan: tls.key has no value; give NAME VALUE pairs\n$/],
      [['set', 'log.level', 'info', 'log.level', 'warn', ...here], /^2 rowan: log.level is given twice\n$/],
      [
        ['set', 'passwords.totpKey', '/nonexist', ...here],
        /^2 rowan: passwords.totpKey: \/nonexist: no such file or folder; nothing is changed \(--force .*\)\n$/,
      ],
      [['set', 'http.listen', '0.0.0.0:1', ...here], /^2 rowan: rowan.yaml:\d: http.listen is .*; set http.tokenFile/],
      [
        ['set', 'http.listen', '127.0.0.1:99999', ...here],
        /^2 rowan: http.listen must be .* a port of 65535 at most\n$/,
      ],
      [['set', 'limits.controls', '5'], /^2 rowan: no configuration file to change: give --config/],
      [['unset', 'log.level', ...here], /^1 rowan: .*rowan.yaml does not set log.level\n$/],
      [['set', 'log.level', 'debug', '--config', sandbox.path('none.yaml')], /^1 rowan: .*none.yaml: no such file/],
    ];
    const ends = await Promise.all(refusals.map(([args]) => rowan(['config', ...args])));
    for (const [i, { code, stderr }] of ends.entries()) expect(`${code} ${stderr}`).to.match(refusals[i]![1]);
    expect(readFileSync(file, 'utf8')).to.equal(text);
  });
});
