import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect as tlsConnect } from 'node:tls';
import { expect } from 'chai';
import { Attribute, Change, Client } from 'ldapts';
import { openSchema, Partition } from '../../src/partition/index.js';
import type { Request } from '../../src/protocol/ldap-messages.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { makeCertificate, needs } from '../require.js';
import { attributes } from '../server/directory.js';
import { RawClient, searchRequest } from '../server/raw-client.js';
import {
  ADA,
  ADMIN,
  exited,
  heard,
  LAUNCHER,
  PASSWORD,
  PEOPLE,
  type RunningServer,
  rowan,
  rowanDoes,
  run,
  Sandbox,
  SUFFIX,
  serve,
  startRowan,
} from './rowan.js';
import { personRequest, staysBusy, TAKES_LARGE } from './workers.js';

async function bound(url: string, dn = ADMIN, password = PASSWORD): Promise<Client> {
  const client = new Client({ url, timeout: 10_000 });
  await client.bind(dn, password);
  return client;
}

/** How many breaches a check finds in the directory. */
async function breaches(data: string): Promise<number> {
  const store = await openLmdbStore(data, { create: false });
  const partition = await Partition.open(store, await openSchema(store));
  try {
    return await partition.check(() => undefined);
  } finally {
    await partition.close();
  }
}

describe('cli: serve', () => {
  const sandbox = new Sandbox();

  before(() => sandbox.initSample());
  after(() => sandbox.remove());

  it('prints one line when ready, answers, leaves its port to no other, and ends in order at SIGTERM', async () => {
    const server = await serve(sandbox.data);
    let out = '';
    server.process.stdout?.on('data', (data) => (out += data));
    expect(server.ready).to.match(/^rowan ready: ldap:\/\/127\.0\.0\.1:\d+ pid \d+ suffixes dc=example,dc=com$/);
    expect(server.ready).to.contain(`pid ${server.process.pid} `);
    const client = await bound(server.url);
    await client.unbind();
    const second = await rowan(['serve', '--data', sandbox.data, '--listen', server.url]);
    expect(second).to.include({ code: 1, stdout: '' });
    expect(second.stderr).to.match(/^rowan: .*in use.*\n$/);
    expect(await server.stop()).to.equal(0);
    expect(out).to.equal('');
  });

  it('answers what it has begun before it ends', async () => {
    const server = await serve(sandbox.data);
    const client = await RawClient.open(server.port);
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    const uids = Array.from({ length: 8 }, (_, i) => `drain${i}`);
    // Each is hashed before it is stored, which takes its time.
    const ids = client.sendTogether([...uids.map((uid) => personRequest(uid)), searchRequest(PEOPLE)]);
    // Its answer shows that the server has read what was sent before.
    expect((await client.answer(ids.pop()!)).code).to.equal(0);
    expect(await server.stop()).to.equal(0);
    for (const id of ids) expect((await client.answer(id)).code).to.equal(0);
    const found = await rowanDoes(['export', '--data', sandbox.data, '--filter', '(uid=drain*)']);
    for (const uid of uids) expect(found).to.contain(`dn: uid=${uid},`);
    expect(await breaches(sandbox.data)).to.equal(0);
  });

  it('a mistake in the file is named with its line', async () => {
    const file = sandbox.path('wrong.yaml');
    writeFileSync(file, `data: ${sandbox.data}\nlisten:\n  - ldap://127.0.0.1:0\nlimit:\n  connections: 5\n`);
    const ended = await rowan(['serve', '--config', file]);
    expect(ended).to.include({ code: 2, stdout: '' });
    expect(ended.stderr).to.match(/^rowan: .*4.*limit.*\n/);
  });

  it('reads the certificate anew at SIGHUP', async function () {
    needs(this, 'openssl');
    const { cert, key } = makeCertificate(sandbox.folder);
    const server = await serve(sandbox.data, ['--listen', 'ldaps://127.0.0.1:0', '--tls-cert', cert, '--tls-key', key]);
    const serial = (): Promise<string> =>
      new Promise((resolve, reject) => {
        const socket = tlsConnect({ port: server.port, host: '127.0.0.1', ca: readFileSync(cert) }, () => {
          resolve(socket.getPeerCertificate().serialNumber);
          socket.destroy();
        });
        socket.once('error', reject);
      });
    const before = await serial();
    makeCertificate(sandbox.folder);
    const told = heard(server.process, 'the certificate was reloaded');
    server.process.kill('SIGHUP');
    await told;
    expect(await serial()).not.to.equal(before);
    const request = sandbox.path('request');
    for (const args of [
      ['req', '-new', '-key', key, '-subj', '/CN=localhost', '-out', request],
      ['x509', '-req', '-in', request, '-signkey', key, '-days', '-1', '-out', cert],
    ])
      await run('openssl', args);
    const warned = heard(server.process, 'the certificate has expired');
    server.process.kill('SIGHUP');
    await warned;
    await server.stop();
  });

  it('a second signal ends it at once', async () => {
    const child = startRowan([
      'serve',
      '--data',
      sandbox.data,
      '--listen',
      'ldap://127.0.0.1:0',
      '--shutdown-seconds',
      '600',
      ...TAKES_LARGE,
    ]);
    const ready = await heard(child, 'rowan ready');
    const client = await RawClient.open(Number(/:(\d+) /.exec(ready)?.[1]));
    await staysBusy(client);
    const stopping = heard(child, 'stopping');
    child.kill('SIGTERM');
    await stopping;
    child.kill('SIGTERM');
    expect(await exited(child)).to.equal('SIGKILL');
    client.close();
  });
});

describe('cli: a server with a configuration file', () => {
  const sandbox = new Sandbox();
  const policy = `cn=policy,${SUFFIX}`;
  const file = () => sandbox.path('rowan.yaml');
  let server: RunningServer;

  before(async () => {
    await sandbox.initSample();
    writeFileSync(
      file(),
      `aliases:\n  dereference: false\nlog:\n  level: warn\nlimits:\n  connections: 50\npasswords:\n  policy: ${policy}\n`,
    );
    server = await sandbox.serve(['--config', file()]);
  });
  after(() => sandbox.remove());

  it('takes settings from file, variable and flag, in rising order', async () => {
    const env = { ROWAN_LOG_LEVEL: 'error', ROWAN_LIMITS_CONNECTIONS: '6' };
    const shown = await rowanDoes(['config', '--config', file(), '--limits-connections', '7'], { env });
    expect(shown).to.match(/^ {2}dereference: false # rowan\.yaml:2$/m);
    expect(shown).to.match(/^ {2}level: error # ROWAN_LOG_LEVEL$/m);
    expect(shown).to.match(/^ {2}connections: 7 # --limits-connections$/m);
  });

  it('an account that is locked while it runs ends its sessions, and binds again when it is unlocked', async () => {
    const account = (...args: string[]) => rowanDoes(['account', ...args, '--data', sandbox.data]);
    await rowanDoes(['passwd', '--data', sandbox.data, ADA], { input: 'of ada\n' });
    expect(await account('show', ADA)).to.equal(`${ADA}\n  not locked\n  no password policy\n  1 password\n`);
    const open = await bound(server.url, ADA, 'of ada');
    expect(await account('lock', ADA)).to.equal(`${ADA} is locked\n`);
    expect(await account('lock', ADA)).to.equal(`${ADA} is locked already, by pwdAccountLockedTime\n`);
    expect(await account('show', ADA)).to.include('locked by pwdAccountLockedTime until it is unlocked\n');
    const ended = async (work: () => Promise<unknown>) =>
      work().then(
        () => undefined,
        (error: Error) => error,
      );
    expect(await ended(() => open.search(ADA, { scope: 'base' }))).to.be.instanceOf(Error);
    expect(await ended(() => bound(server.url, ADA, 'of ada'))).to.be.instanceOf(Error);
    expect(await account('unlock', ADA)).to.equal(`${ADA} is unlocked\n`);
    expect(await account('unlock', ADA)).to.equal(`${ADA} is not locked\n`);
    await (await bound(server.url, ADA, 'of ada')).unbind();
    const refused = await rowan(['account', 'lock', ADMIN, '--data', sandbox.data]);
    expect(refused).to.deep.include({ code: 1, stdout: '' });
    expect(refused.stderr).to.match(/above locks/);
  });

  it('an account under a policy is unlocked, let expire and asked for another password while it runs', async () => {
    const under = ['--passwords-policy', policy];
    const account = (...args: string[]) => rowanDoes(['account', ...args, ...under, '--data', sandbox.data]);
    const admin = await bound(server.url, ADMIN, PASSWORD);
    const cn = 'policy';
    await admin.add(policy, {
      objectClass: ['device', 'pwdPolicy'],
      cn,
      pwdAttribute: 'userPassword',
      pwdMaxFailure: '2',
    });
    await rowanDoes(['passwd', ...under, '--data', sandbox.data, ADA], { input: 'of ada\n' });
    const tries = async (password: string): Promise<boolean> =>
      bound(server.url, ADA, password).then(
        async (client) => {
          await client.unbind();
          return true;
        },
        () => false,
      );
    const set = (type: string, ...values: string[]) =>
      admin.modify(policy, new Change({ operation: 'replace', modification: new Attribute({ type, values }) }));
    await set('pwdLockout', 'TRUE');
    for (const password of ['no', 'no', 'of ada']) expect(await tries(password)).to.equal(false);
    expect(await account('show', ADA)).to.match(/locked by failed binds since \S+ until it is unlocked\n/);
    expect(await account('unlock', ADA)).to.equal(`${ADA} is unlocked\n`);
    expect(await tries('of ada')).to.equal(true);
    expect(await account('show', ADA)).to.match(
      /not locked\n {2}policy cn=policy,.*\n {2}password changed 20\d\d-.*Z\n/,
    );
    const refused = await rowan(['account', 'expire', ADA, ...under, '--data', sandbox.data]);
    expect(refused.stderr).to.match(/has no pwdMaxAge/);
    await set('pwdMaxAge', '86400');
    await set('pwdGraceAuthNLimit', '0');
    expect(await tries('of ada')).to.equal(true);
    expect(await account('expire', ADA)).to.equal(`the password of ${ADA} has expired\n`);
    expect(await tries('of ada')).to.equal(false);
    // The command need not know of the policy.
    await rowanDoes(['passwd', '--data', sandbox.data, ADA], { input: 'another of ada\n' });
    expect(await account('must-change', ADA)).to.equal(`the password of ${ADA} has to be changed\n`);
    expect(await account('must-change', ADA)).to.match(/already\n$/);
    const open = await bound(server.url, ADA, 'another of ada');
    const search = await open.search(ADA, { scope: 'base' }).then(
      () => undefined,
      (error: Error) => error.message,
    );
    expect(search).to.match(/has been reset/);
    await open.unbind();
    await admin.unbind();
  });

  it('a password that is set while it runs counts at once', async () => {
    await rowanDoes(['passwd', '--data', sandbox.data, ADA], { input: 'new secret\n' });
    await (await bound(server.url, ADA, 'new secret')).unbind();
    writeFileSync(sandbox.path('pw'), 'another\n');
    await rowanDoes(['passwd', '--data', sandbox.data, '--password-file', sandbox.path('pw')]);
    await (await bound(server.url, ADMIN, 'another')).unbind();
    const refused = await bound(server.url, ADMIN, PASSWORD).then(
      () => undefined,
      (error: Error) => error,
    );
    expect(refused).to.be.instanceOf(Error);
  });
});

describe('cli: beside a server', () => {
  const sandbox = new Sandbox();
  let client: RawClient;

  before(async () => {
    await sandbox.initSample();
    client = await RawClient.open((await sandbox.serve()).port);
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
  });
  after(async () => {
    client?.close();
    await sandbox.remove();
  });

  const unit = (ou: string): Request => ({
    op: 'add',
    dn: `ou=${ou},${SUFFIX}`,
    attributes: attributes({ objectClass: 'organizationalUnit', ou }),
  });

  async function answered(request: Request): Promise<void> {
    expect((await client.request(request)).code, JSON.stringify(request)).to.equal(0);
  }

  /** The entries at and below, with every attribute but those that a change leaves its time in. */
  async function entriesOf(base: string, types: readonly string[]): Promise<Map<string, string>> {
    const { entries } = await client.search(base, { scope: 'sub', attributes: types });
    const text = (all: ReadonlyMap<string, readonly Buffer[]>): string =>
      Array.from(all, ([type, values]) => `${type}: ${values.map((value) => value.toString('hex')).sort()}\n`)
        .filter((line) => !/^(?:entryCSN|modif)/.test(line))
        .sort()
        .join('');
    return new Map(entries.map((entry) => [entry.dn, text(entry.attributes)]));
  }

  const does = (...args: string[]): Promise<string> => rowanDoes([...args, '--data', sandbox.data]);

  it('explain says how a search is answered, and which attributes are unknown', async () => {
    const indexed = await does('explain', '--base', SUFFIX, '(&(objectClass=person)(uid=ada))');
    expect(indexed)
      .to.match(/^plan +index/m)
      .and.match(/^ +taken +uid.*: 1 /m)
      .and.match(/^entries +1$/m);
    // Below the only suffix.
    const unknown = await does('explain', '(|(uid=ada)(!(employeNumber=7))(!(nosuch-a=*)))');
    expect(unknown)
      .to.match(
        /^note +attribute 'employeNumber' is not in the schema; did you mean 'employeeNumber'\? "rowan schema set" defines others; its term is/m,
      )
      .and.match(
        /^note +attribute 'nosuch-a' is not in the schema; "rowan schema set" defines others; its term is never true, and neither is the opposite$/m,
      )
      .and.match(/^entries +1$/m);
  });

  it('explain asks below which suffix it looks where there are several', async () => {
    const two = sandbox.path('two');
    await rowanDoes(['init', '--data', two, '--suffix', 'o=a', '--suffix', 'o=b', '--admin-dn', 'cn=admin,o=a']);
    const { code, stderr } = await rowan(['explain', '--data', two, '(uid=ada)']);
    expect(stderr).to.equal("rowan: where does the search start? give --base: this directory holds 'o=a', 'o=b'\n");
    expect(code).to.equal(2);
  });

  it('warm reads every entry and the rows of every index', async () => {
    const entries = (await does('export')).match(/^dn:/gm)!.length;
    const [, read, rows] = /^read ([\d,]+) entries and ([\d,]+) index rows$/m.exec(await does('warm'))!;
    expect(read).to.equal(String(entries));
    // Each has at least classes, of which top is one, and an entryCSN; most have names.
    expect(Number(rows!.replace(',', ''))).to.be.above(5 * entries);
  });

  it('index add, list and drop', async () => {
    expect(await does('index', 'add', 'employeeNumber')).to.match(/^index on employeeNumber is ready/);
    const list = await does('index', 'list');
    expect(list).to.match(/^employeeNumber +2\.16\.840\.1\.113730\.3\.1\.3 +ready +equality, presence$/m);
    const byDefault = [
      'uid',
      'mail',
      'cn',
      'sn',
      'givenName',
      'member',
      'uniqueMember',
      'manager',
      'owner',
      'memberUid',
      'uidNumber',
    ];
    for (const name of [...byDefault, 'gidNumber']) expect(list).to.match(new RegExp(`^${name} +[\\d.]+ +ready `, 'm'));
    for (const everywhere of ['entryUUID', 'objectClass', 'entryCSN']) {
      expect(list).to.match(new RegExp(`^${everywhere} +[\\d.]+ +ready +equality$`, 'm'));
    }
    expect(await does('explain', '--base', SUFFIX, '(employeeNumber=7)')).to.match(/^plan +index/m);
    expect(await breaches(sandbox.data)).to.equal(0);
    await does('index', 'drop', 'employeeNumber');
    expect(await does('index', 'list')).not.to.contain('employeeNumber');
    const unknown = await rowan(['index', 'add', 'employeNumber', '--data', sandbox.data]);
    expect(unknown.code).to.equal(1);
    expect(unknown.stderr).to.contain("did you mean 'employeeNumber'?");
  });

  it('unique add, show and remove', async () => {
    const conflicts = await rowan(['unique', 'add', 'objectClass', '--data', sandbox.data]);
    expect(conflicts.code).to.equal(1);
    expect(conflicts.stdout).to.match(/^'[^']+' is the value of\n {2}\S/);
    expect(conflicts.stderr).to.contain('not in force').and.to.contain('rowan unique remove 1');
    expect(await does('unique', 'add', 'uid', '--subtree', SUFFIX, '--filter', '(objectClass=person)')).to.match(
      /^constraint 2 is in force \([\d,]+ entries read\)$/m,
    );
    expect(await does('unique', 'show')).to.equal(
      `1    not in force  'objectClass'\n2    in force      'uid' in the subtree '${SUFFIX}' of (objectClass=person)\n`,
    );
    expect(await breaches(sandbox.data)).to.equal(0);
    const second = await rowan(['import', '--data', sandbox.data, '-'], {
      cwd: sandbox.folder,
      input: `dn: cn=second,${SUFFIX}\nobjectClass: inetOrgPerson\ncn: second\nsn: x\nuid: ADA\n`,
    });
    expect(second.code).to.equal(1);
    expect(second.stderr).to.contain("another entry has this value already, which is to be unique: 'uid'");
    for (const number of ['1', '2']) await does('unique', 'remove', number);
    expect(await does('unique', 'show')).to.equal('');
    expect((await rowan(['unique', 'remove', '0', '--data', sandbox.data])).code).to.equal(2);
  });

  it('references show and set', async () => {
    const refused = await rowan(['references', 'set', 'secretary', '--data', sandbox.data]);
    expect(refused.code).to.equal(1);
    expect(refused.stderr).to.contain('it needs an index; first: rowan index add secretary');
    expect((await rowan(['references', 'set', 'uid', '--data', sandbox.data])).stderr).to.contain('they are no DNs');
    expect(await does('references', 'show')).to.equal('member\nuniqueMember\nmanager\nowner\n');
    expect(await does('references', 'set', '--none')).to.equal('attributes that follow names: none\n');
    expect(await does('references', 'show')).to.equal('');
    for (const wrong of [[], ['--none', 'manager']])
      expect((await rowan(['references', 'set', ...wrong, '--data', sandbox.data])).code).to.equal(2);
    await does('references', 'set', 'manager');
    expect(await does('references', 'show')).to.equal('manager\n');
    await does('references', 'set', 'member', 'uniqueMember', 'manager');
    await does('index', 'drop', 'manager');
    expect(await does('references', 'show')).to.equal('member\nuniqueMember\n');
  });

  it('number set, show and remove', async () => {
    await does('number', 'set', 'uidNumber', '70000', '70001');
    const account = (n: number) =>
      `dn: uid=auto${n},${SUFFIX}\nobjectClass: account\nobjectClass: posixAccount\nuid: auto${n}\ncn: x\nuidNumber: auto\ngidNumber: 5\nhomeDirectory: /\n\n`;
    const imported = await rowan(['import', '--data', sandbox.data, '-'], {
      cwd: sandbox.folder,
      input: [1, 2, 3].map(account).join(''),
    });
    expect(imported.code).to.equal(1);
    expect(imported.stderr).to.contain("all numbers for 'uidNumber' from 70000 to 70001 are given out");
    const exported = await does('export', '--filter', '(uid=auto*)');
    expect(exported.match(/^uidNumber: .*$/gm)).to.have.members(['uidNumber: 70000', 'uidNumber: 70001']);
    expect(await does('number', 'show')).to.equal('uidNumber            70000 to 70001, none is left\n');
    await does('number', 'set', 'uidNumber', '70000', '79999', '--except', '70002', '79999');
    expect(await does('number', 'show')).to.equal(
      'uidNumber            70000 to 79999 except 70002, 79999, next 70003, 9996 left\n',
    );
    await does('number', 'remove', 'uidNumber');
    expect(await does('number', 'show')).to.equal('');
    expect(await breaches(sandbox.data)).to.equal(0);
  });

  it('deleted list, restore and purge', async () => {
    const dn = `uid=kwame,${PEOPLE}`;
    const before = await entriesOf(dn, ['*', '+']);
    await answered({ op: 'delete', dn });
    const listed = await does('deleted', 'list');
    expect(listed).to.contain(dn).and.contain(`(by ${ADMIN})`);
    const id = /^\S+/.exec(listed)![0];
    expect(await does('deleted', 'restore', id)).to.equal(`restored ${dn}\n`);
    expect(await entriesOf(dn, ['*', '+'])).to.deep.equal(before);
    await answered({ op: 'delete', dn });
    expect(await does('deleted', 'purge', '--older-than', '1')).to.equal('purged: 0\n');
    expect(await does('deleted', 'purge', '--all')).to.equal('purged: 1\n');
    expect(await does('deleted', 'list')).to.equal('');
    expect(await breaches(sandbox.data)).to.equal(0);
  });

  it('deleted restore of a DN brings back what was deleted last, or by a time', async () => {
    const dn = `cn=again,${PEOPLE}`;
    const times: number[] = [];
    for (const sn of ['one', 'two']) {
      await answered({ op: 'add', dn, attributes: attributes({ objectClass: 'person', cn: 'again', sn }) });
      await answered({ op: 'delete', dn });
      times.push(Date.now());
      // The next deletion is later by the clock of the list.
      while (Date.now() === times.at(-1));
    }
    const sn = async () => (await entriesOf(dn, ['sn'])).get(dn);
    expect(await does('deleted', 'restore', dn.toUpperCase())).to.equal(`restored ${dn}\n`);
    expect(await sn()).to.equal(`sn: ${Buffer.from('two').toString('hex')}\n`);
    await answered({ op: 'delete', dn });
    expect(await does('deleted', 'restore', dn, '--at', new Date(times[0]!).toISOString())).to.equal(
      `restored ${dn}\n`,
    );
    expect(await sn()).to.equal(`sn: ${Buffer.from('one').toString('hex')}\n`);
    for (const [args, code, told] of [
      [[`cn=none,${PEOPLE}`], 1, `no entry 'cn=none,${PEOPLE}' was deleted`],
      [[dn, '--at', '2020-01-01'], 1, 'was deleted by then'],
      [['nonsense'], 2, 'is neither an entryUUID nor a DN'],
      [['00000000-0000-7000-8000-000000000001', '--at', '2020-01-01'], 2, "'--at' goes with a DN"],
    ] as const) {
      const refused = await rowan(['deleted', 'restore', ...args, '--data', sandbox.data]);
      expect([refused.code, refused.stderr.includes(told)], refused.stderr).to.deep.equal([code, true]);
    }
    await answered({ op: 'delete', dn });
    await does('deleted', 'purge', '--all');
  });

  it('deleted restore --subtree', async () => {
    const before = await entriesOf(PEOPLE, []);
    const dns = [...before.keys()].sort((a, b) => a.length - b.length);
    expect(dns.length).to.be.greaterThan(3);
    for (const dn of dns.toReversed()) await answered({ op: 'delete', dn });
    const listed = await does('deleted', 'list');
    const [, id, time] = new RegExp(`^(\\S+)  (\\S+)  ${PEOPLE} `, 'm').exec(listed)!;
    const later = new Date(Date.parse(time!) + 1).toISOString();
    expect(await does('deleted', 'restore', id!, '--subtree', '--since', later)).to.equal(
      `restored 1 entry at and below ${PEOPLE}\n`,
    );
    const taken = attributes({ objectClass: 'inetOrgPerson', cn: 'x', sn: 'x' });
    await answered({ op: 'add', dn: dns[1]!, attributes: taken });
    const some = await rowan(['deleted', 'restore', id!, '--subtree', '--data', sandbox.data]);
    expect(some.code).to.equal(1);
    expect(some.stderr).to.equal('rowan: 1 entry stays deleted: see the lines above\n');
    expect(some.stdout).to.contain(`  ${dns[1]}: there is an entry '${dns[1]}' already; rename or delete it first\n`);
    expect(some.stdout).to.match(new RegExp(`^restored ${dns.length - 2} entries at and below ${PEOPLE}$`, 'm'));
    expect(some.stdout.split('\n')).to.have.length(3);
    await answered({ op: 'modifyDN', dn: dns[1]!, newRdn: 'uid=away', deleteOldRdn: true, newSuperior: undefined });
    expect(await does('deleted', 'restore', PEOPLE.toUpperCase(), '--subtree')).to.equal(
      `restored 1 entry at and below ${PEOPLE}\n`,
    );
    await answered({ op: 'delete', dn: `uid=away,${PEOPLE}` });
    expect(await entriesOf(PEOPLE, [])).to.deep.equal(before);
    await does('deleted', 'purge', '--all');
    expect(await breaches(sandbox.data)).to.equal(0);
  });

  it('repair of what is sound has nothing to do', async () => {
    expect(await does('repair')).to.equal('nothing to repair\n');
  });

  it('export writes parents before children, whatever moved', async () => {
    await answered(unit('new'));
    const to = { newRdn: 'ou=groups', deleteOldRdn: false, newSuperior: `ou=new,${SUFFIX}` };
    await answered({ op: 'modifyDN', dn: `ou=groups,${SUFFIX}`, ...to });
    for (const filter of [[], ['--filter', '(objectClass=*)']]) {
      const dns = [...(await does('export', ...filter)).replaceAll('\n ', '').matchAll(/^dn: (.*)$/gm)].map(
        (match) => match[1]!,
      );
      expect(dns.length).to.be.greaterThan(20);
      for (const [i, dn] of dns.entries()) {
        const parent = dn.slice(dn.indexOf(',') + 1);
        if (dn !== SUFFIX) expect(dns.indexOf(parent), dn).to.be.within(0, i - 1);
      }
    }
  });

  it('explain names the index that spares a search most of what it reads', async () => {
    const ids = client.sendTogether(Array.from({ length: 100 }, (_, n) => unit(`unit${n}`)));
    for (const id of ids) expect((await client.answer(id)).code).to.equal(0);
    expect(await does('explain', '(employeeNumber=7)'))
      .to.match(/^entries +1$/m)
      .and.match(/^advice +.*rowan index add employeeNumber/m);
  });
});

describe('cli: npm start and the launcher', () => {
  const sandbox = new Sandbox();
  after(() => sandbox.remove());

  it('quickstart makes a sample directory once, and says how to bind', async () => {
    const args = ['quickstart', '--data', sandbox.data, '--listen', 'ldap://127.0.0.1:0'];
    const say = async (): Promise<string> => {
      const child = startRowan(args);
      const said = await heard(child, 'Ctrl-C ends it.');
      expect(said).to.match(/^rowan ready: ldap:\/\/127\.0\.0\.1:\d+ pid \d+ suffixes dc=example,dc=com$/m);
      const password = /password +(\S{20}) /.exec(said)?.[1];
      if (password) {
        const client = new Client({ url: /ldap:\/\/\S+/.exec(said)![0] });
        await client.bind(ADMIN, password);
        expect((await client.search(SUFFIX, { filter: '(uid=*)' })).searchEntries).to.have.length(12);
        await client.unbind();
      }
      child.kill('SIGINT');
      expect(await exited(child)).to.equal(0);
      return said;
    };
    expect(await say())
      .to.match(/^Created /)
      .and.match(/shown this once/);
    expect(await say())
      .to.include(`(npx rowan passwd --data ${sandbox.data} sets another)`)
      .and.not.match(/Created|this once/);
  });

  it('scripts/rowan.cjs starts it from any folder', async () => {
    const ended = await run(process.execPath, [LAUNCHER, '--version'], { cwd: sandbox.folder });
    const { version } = JSON.parse(readFileSync(new URL('../../../package.json', import.meta.url), 'utf8')) as {
      version: string;
    };
    expect(ended).to.include({ code: 0, stdout: `${version}\n` });
    expect(execFileSync('sh', ['-c', 'test -x "$0" && head -c 19 "$0"', LAUNCHER]).toString()).to.equal(
      '#!/usr/bin/env node',
    );
  });
});
