import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type RequestOptions, request } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { needs } from '../require.js';
import { RawClient } from '../server/raw-client.js';
import { ADA, ADMIN, MAIN, PASSWORD, PEOPLE, rowan, rowanDoes, run, Sandbox, SUFFIX } from './rowan.js';
import { addPerson, personDn, replace, TwoWorkers } from './workers.js';

const OPERATIONS = fileURLToPath(new URL('../../../docs/operations.md', import.meta.url));

async function fulfilled(condition: () => boolean): Promise<void> {
  while (!condition()) await sleep(10);
}

function linesOf(path: string): Record<string, unknown>[] {
  const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
  return lines.map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Status and text of the answer to a POST of this body, or of the headers of a body of so many bytes. */
async function posted(options: RequestOptions, body: string | number): Promise<string> {
  const headers = typeof body === 'number' ? { 'content-length': body } : {};
  const sent = request({ ...options, method: 'POST', headers });
  if (typeof body === 'number') sent.flushHeaders();
  else sent.end(body);
  const [response] = (await once(sent, 'response')) as [IncomingMessage];
  const answer = `${response.statusCode} ${await text(response)}`;
  sent.destroy();
  return answer;
}

describe('cli: logs', () => {
  let sandbox: Sandbox;
  beforeEach(async () => {
    sandbox = new Sandbox();
    await sandbox.initSample();
  });
  afterEach(() => sandbox.remove());

  it('workers share one file, which is renamed by size while they go on', async () => {
    const path = sandbox.path('access.log');
    const flags = ['--access-log-output', path, '--access-log-max-bytes', '4 KiB', '--access-log-keep', '100'];
    const workers = await TwoWorkers.start(sandbox, flags);
    const former = () => readdirSync(sandbox.folder).filter((name) => name.startsWith('access.log.'));
    const clients = await workers.both();
    let count = 0;
    while (former().length < 2) {
      for (const client of clients) await client.search(SUFFIX);
      count++;
    }
    workers.close();
    await workers.server.stop();
    const lines = [...former().map((name) => sandbox.path(name)), path].filter(existsSync).flatMap(linesOf);
    const searches = lines.filter(({ operation, base_dn: base }) => operation === 'SRCH' && base === SUFFIX);
    for (const worker of [1, 2]) expect(searches.filter((line) => line.worker === worker)).to.have.length(count);
    expect(statSync(sandbox.path(former()[0]!)).mode & 0o777).to.equal(0o640);
  });

  it('a file that another program renames is opened anew, and an old one is renamed by its first line', async () => {
    const path = sandbox.path('audit.ldif');
    writeFileSync(path, '# time: 2020-01-01T00:00:00.000Z\n\n');
    const server = await sandbox.serve(['--audit-log-output', path, '--audit-log-days', '1', '--audit-log-keep', '1']);
    await fulfilled(() => !existsSync(path));
    const client = await RawClient.open(server.port);
    await client.bind(ADMIN, PASSWORD);
    await replace(client, ADA, 'description', 'first');
    await fulfilled(() => existsSync(path) && readFileSync(path, 'utf8').includes('first'));
    expect(statSync(path).mode & 0o777).to.equal(0o600);
    renameSync(path, sandbox.path('moved'));
    do await replace(client, ADA, 'description', 'second');
    while (!existsSync(path));
    await fulfilled(() => readFileSync(path, 'utf8').includes('description: second'));
    client.close();
  });

  it('a request that runs in a thread is in the audit log, and a replay of the log sets no password', async () => {
    const path = sandbox.path('audit.ldif');
    await rowanDoes(['number', 'set', 'uidNumber', '5000', '5999', '--data', sandbox.data]);
    const server = await sandbox.serve(['--audit-log-output', path]);
    const client = await RawClient.open(server.port);
    await client.bind(ADMIN, PASSWORD);
    expect((await addPerson(client, 'new', 'hush hush')).code).to.equal(0);
    const values = Array.from({ length: 600 }, (_, i) => Buffer.from(`value ${i}`));
    const change = (type: string, some: Buffer[]) =>
      ({ operation: 'replace', attribute: { type, values: some } }) as const;
    const account = { gidNumber: '1', homeDirectory: '/', uidNumber: 'auto' };
    const changes = [
      change('description', values),
      change('userPassword', [Buffer.from('hush again')]),
      { ...change('objectClass', [Buffer.from('posixAccount')]), operation: 'add' as const },
      ...Object.entries(account).map(([type, value]) => change(type, [Buffer.from(value)])),
    ];
    expect((await client.request({ op: 'modify', dn: personDn('new'), changes })).code).to.equal(0);
    await fulfilled(() => readFileSync(path, 'utf8').includes('changetype: modify'));
    const log = readFileSync(path, 'utf8');
    expect(log).to.include('description: value 599\n').and.not.include('hush');
    expect(log).to.include('uidNumber: 5000\n').and.not.include('auto');
    expect(log.match(/^# left out: (?:replace: )?userPassword, secret$/gm)).to.have.length(2);
    expect((await replace(client, ADA, 'userPassword', 'hush once more')).code).to.equal(0);
    await fulfilled(() => readFileSync(path, 'utf8').includes(`# dn: ${ADA}\n`));
    client.close();
    await server.stop();
    const other = new Sandbox();
    await other.initSample();
    const told = await rowanDoes(['import', '--data', other.data, path]);
    expect(told).to.match(/^loaded 0 entries, applied 2 changes in /);
    expect(told).to.include('3 lines "# left out: …": secret and long values that an audit log lacks');
    const exported = await rowanDoes(['export', '--data', other.data, '--base', personDn('new')]);
    expect(exported).to.include('description: value 599\n').and.not.include('userPassword');
    expect(exported).to.include('uidNumber: 5000\n');
    await other.remove();
  });

  it('commands that change the directory are audited from begin to end, and so are settings', async () => {
    const path = sandbox.path('audit.ldif');
    const config = sandbox.path('rowan.yaml');
    const settings = `data: ${sandbox.data}\nauditLog: { output: ${path} }\n`;
    writeFileSync(config, settings);
    const server = await sandbox.serve(['--config', config]);
    await rowanDoes(['index', 'list', '--config', config]);
    expect(readFileSync(path, 'utf8')).to.equal('');
    await rowanDoes(['passwd', ADA, '--generate', '--config', config]);
    expect((await rowan(['index', 'add', 'no such\nattribute', '--config', config])).code).to.equal(1);
    writeFileSync(config, `${settings}log: { level: debug }\n`);
    server.process.kill('SIGHUP');
    await fulfilled(() => readFileSync(path, 'utf8').includes('log.level'));
    const log = readFileSync(path, 'utf8');
    const results = [...log.matchAll(/^# command: rowan (.*)\n# result: (.{0,6})/gm)].map((found) => found.slice(1));
    const [passwd, index] = [`passwd ${ADA} --generate`, 'index add "no such\\nattribute"'];
    expect(results).to.deep.equal(
      [passwd, index].flatMap((words, i) =>
        ['begins', i === 0 ? 'done' : 'failed'].map((result) => [`${words} --config ${config}`, result]),
      ),
    );
    expect(log).to.match(/^# by: SIGHUP\n# setting: log.level: info → debug \(at once\)$/m);
    for (const line of log.split('\n')) expect(line).to.match(/^(?:# |$)/);
  });

  it('a command that knows the folder alone has its records in the audit log of the server', async () => {
    const path = sandbox.path('audit.ldif');
    const server = await sandbox.serve(['--workers', '2', '--audit-log-output', path]);
    const [ada, missing] = [
      ['passwd', ADA, '--generate'],
      ['index', 'add', `no such\n\u001b[2J\u202e${'x'.repeat(9000)}`],
    ];
    await rowanDoes([...ada, '--data', sandbox.data]);
    renameSync(path, sandbox.path('former'));
    const { code, stderr } = await rowan([...missing, '--data', sandbox.data]);
    expect([code, stderr]).to.deep.equal([1, stderr.split('\n', 1)[0] + '\n']);
    const former = readFileSync(sandbox.path('former'), 'utf8');
    const comments = `# time: .*\n# user: .*, pid \\d+\n# command: rowan passwd ${ADA} --generate --data .*\n# result: `;
    expect(former).to.match(new RegExp(`^${comments}begins\n\n${comments}done\n\n$`));
    const log = readFileSync(path, 'utf8');
    expect(log.match(/^# result: (?:begins|failed: )/gm)).to.have.length(2);
    expect(log).to.match(/^[ -~…\n]*$/);
    for (const line of log.split('\n')) expect(line).to.match(/^(?:# .{1,8300}|)$/);
    const control = { socketPath: sandbox.path(`data/control-${server.process.pid}.sock`), path: '/audit' };
    const body = 'dn: dc=x\u0000\r\nchangetype: delete\u001b[2J\n\n';
    expect(await posted(control, body)).to.equal('200 written');
    expect(readFileSync(path, 'utf8').slice(log.length)).to.match(
      /^# time: .*\ndn: dc=x\\u0000\\u000d\nchangetype: delete\\u001b\[2J\n\n$/,
    );
    expect(await posted(control, 17 * 1024 ** 2)).to.equal('413 a request has a shorter body here\n');
  });

  it('what the drop folder changes is in the audit log of the server, with file and record, and can be replayed', async () => {
    const path = sandbox.path('audit.ldif');
    const fresh = new Sandbox();
    await fresh.initSample();
    await rowanDoes(['number', 'set', 'uidNumber', '5000', '5999', '--data', sandbox.data]);
    await sandbox.serve(['--audit-log-output', path]);
    const target = sandbox.path('drop/incoming/target');
    mkdirSync(target, { recursive: true });
    const rename = `dn: ${personDn('new')}\nchangetype: modrdn\nnewrdn: uid=newer\ndeleteoldrdn: 1\n\n`;
    const modify = `dn: ${ADA}\nchangetype: modify\nreplace: userPassword\nuserPassword: hush\n-\nreplace: title\ntitle: new\n-\n\n`;
    const remove = `dn: ${personDn('gone')}\nchangetype: delete\n\n`;
    const add = (uid: string) =>
      `dn: ${personDn(uid)}\nobjectClass: inetOrgPerson\nuid: ${uid}\ncn: ${uid}\nsn: ${uid}\n\n`;
    writeFileSync(join(target, '9.a\u202e.T'), add('new') + add('gone') + remove + remove + rename + modify);
    const mapping = sandbox.path('mapping.yaml');
    writeFileSync(
      mapping,
      `key: { column: id, attribute: employeeNumber }\nbase: ${PEOPLE}\ndn: uid={id},${PEOPLE}\n` +
        'attributes: { uid: id, cn: id, sn: id, userPassword: secret }\n' +
        'constants: { objectClass: [inetOrgPerson, posixAccount], uidNumber: auto, gidNumber: 1, homeDirectory: / }\n',
    );
    writeFileSync(join(target, 'hr.csv'), 'id,secret\nc1,hush hush\nc2,\n');
    const args = ['dropfolder', sandbox.path('drop'), '--data', sandbox.data, '--mapping', mapping, '--once'];
    expect((await rowan(args)).code).to.equal(1);
    const log = readFileSync(path, 'utf8');
    expect(log).to.not.match(/hush|auto/);
    const records = log.match(
      /^# who: .*\n# file: .*\n# delivery: .*\n# record: .*\n(?:# left out: .*\n)?dn: .*\nchangetype: .*$/gm,
    );
    const shown = (file: string, record: string, dn: string, kind: string, leftOut?: string) =>
      `# who: ${ADMIN}\n# file: ${file}\n# record: ${record}\n` +
      `${leftOut ? `# left out: ${leftOut}userPassword, secret\n` : ''}dn: ${dn}\nchangetype: ${kind}`;
    expect(records?.map((text) => text.replace(/# delivery: [0-9a-f]{32}\n/, ''))).to.deep.equal([
      shown('9.a\\u202e.T', '1, line 1', personDn('new'), 'add'),
      shown('9.a\\u202e.T', '2, line 7', personDn('gone'), 'add'),
      shown('9.a\\u202e.T', '3, line 13', personDn('gone'), 'delete'),
      shown('9.a\\u202e.T', '5, line 19', personDn('new'), 'modrdn'),
      shown('9.a\\u202e.T', '6, line 24', ADA, 'modify', 'replace: '),
      shown('hr.csv', '1, line 2', personDn('c1'), 'add', ' ').replace('out:  ', 'out: '),
      shown('hr.csv', '2, line 3', personDn('c2'), 'add'),
    ]);
    expect(await rowanDoes(['import', '--data', fresh.data, path])).to.match(/applied 7 changes/);
    // The audit log lacks the passwords.
    const exported = async ({ data }: Sandbox) =>
      (await rowanDoes(['export', '--data', data, '--base', PEOPLE, '--no-operational'])).replaceAll(
        /^userPassword.*\n(?: .*\n)*/gm,
        '',
      );
    expect(await exported(fresh))
      .to.equal(await exported(sandbox))
      .and.to.include('uidNumber: 5001\n');
    await fresh.remove();
  });

  it('a job that applies the drop folder writes to the audit log of its settings', async () => {
    const output = sandbox.path('audit.ldif');
    const target = sandbox.path('drop/incoming/target');
    mkdirSync(target, { recursive: true });
    const config = sandbox.path('rowan.yaml');
    writeFileSync(
      config,
      `data: ${sandbox.data}\nauditLog: { output: ${output} }\ndropfolder: { folder: ${sandbox.path('drop')} }\n`,
    );
    writeFileSync(join(target, 'a.ldif'), `dn: ${ADA}\nchangetype: delete\n\n`);
    await rowanDoes(['jobs', 'run', 'dropfolder', '--config', config]);
    const record = new RegExp(
      `^# file: a.ldif\n# delivery: .*\n# record: 1, line 1\ndn: ${ADA}\nchangetype: delete\n\n`,
      'm',
    );
    expect(readFileSync(output, 'utf8')).to.match(record);
  });

  it('a command has its records in its own audit log when no server writes them, and says why', async () => {
    const own = sandbox.path('own.ldif');
    const enable = async (): Promise<string> => {
      const args = ['jobs', 'enable', 'purge', '--data', sandbox.data];
      const { code, stderr } = await rowan(args, { env: { ROWAN_AUDIT_LOG_OUTPUT: own } });
      expect(code).to.equal(0);
      expect(readFileSync(own, 'utf8').match(/^# result: (?:begins|done)$/gm)).to.have.length(2);
      rmSync(own);
      return stderr;
    };
    expect(await enable()).to.equal('');
    const server = await sandbox.serve();
    expect(await enable()).to.equal('');
    await server.stop();
    // A folder cannot be opened as a file.
    const failing = await sandbox.serve(['--audit-log-output', sandbox.path('audit.ldif')]);
    rmSync(sandbox.path('audit.ldif'));
    mkdirSync(sandbox.path('audit.ldif'));
    expect(await enable()).to.match(
      /^rowan: the audit record is not with the server: the audit log cannot be written: .*\n/,
    );
    failing.process.kill('SIGSTOP');
    const silent = await enable().finally(() => failing.process.kill('SIGCONT'));
    expect(silent).to.match(
      /^rowan: the audit record is not with the server: .* cannot be asked: it does not answer\n/,
    );
    await failing.stop();
    // A server of a version without the route.
    const older = createServer((_request, response) => response.writeHead(404).end('no such page; there are /top\n'));
    older.listen(sandbox.path('data/control-1.sock'));
    await once(older, 'listening');
    expect(await enable()).to.equal('');
    older.close();
  });

  it('a server with too few open files says so, and does not start without its audit log', async () => {
    const path = sandbox.path('none/audit.ldif');
    const args = [MAIN, 'serve', '--data', sandbox.data, '--listen', 'ldap://127.0.0.1:0', '--audit-log-output', path];
    const { code, stderr } = await run('sh', ['-c', 'ulimit -n 500; exec "$0" "$@"', process.execPath, ...args]);
    const [warning, ...others] = stderr.split('\n');
    expect(warning).to.match(
      /WARN .*this process may open 500 files; limits.connections \(10000\) needs \d+; set LimitNOFILE/,
    );
    expect([code, others.join('\n')]).to.deep.equal([
      1,
      `rowan: auditLog.output: ${path} cannot be written: ${sandbox.path('none')}: no such file or folder\n`,
    ]);
  });

  it('no log takes the file of the store: no server starts, and no command writes to it', async () => {
    const file = `${sandbox.data}/data.mdb`;
    const told = `${file}: is in the data folder; choose another file`;
    for (const setting of ['accessLog.output', 'auditLog.output']) {
      const config = sandbox.path('mistaken.yaml');
      writeFileSync(config, `data: ${sandbox.data}\n${setting}: ${file}\nlisten: ldap://127.0.0.1:0\n`);
      expect(await rowan(['serve', '--config', config])).to.include({
        code: 1,
        stderr: `rowan: ${setting}: ${told}\n`,
      });
      const { code, stdout } = await rowan(['doctor', '--config', config]);
      expect(code).to.equal(1);
      expect(stdout).to.include(`fault    settings     ${setting}: ${told}\n`);
      const changed = await rowan(['passwd', ADA, '--generate', '--config', config]);
      expect(changed.code).to.equal(0);
      const mistake = `the audit log cannot be written: ${file}: is no text, so no log; choose another file`;
      expect(changed.stderr.includes(mistake)).to.equal(setting === 'auditLog.output');
      expect(readFileSync(file).includes('# command:')).to.equal(false);
    }
  });

  it('fail2ban counts each failed bind with its address, by the documented filter', async function () {
    needs(this, 'fail2ban');
    const filter = sandbox.path('rowan.conf');
    writeFileSync(filter, /```ini\n(.*?)```/s.exec(readFileSync(OPERATIONS, 'utf8'))![1]!);
    for (const format of ['pretty', 'json']) {
      const server = await sandbox.serve(['--log-format', format]);
      let told = '';
      server.process.stderr!.on('data', (data: Buffer) => {
        told += data;
      });
      const client = await RawClient.open(server.port);
      await client.bind(ADMIN, 'wrong');
      const names = [
        '\n2026-01-01T00:00:00.000Z INFO  failed bind: x address=192.0.2.66 connection=1 dn=',
        '"}{","address":"192.0.2.66"',
      ];
      for (const name of names)
        await client.bind(`cn=${name.replaceAll('"', '\\"').replaceAll(',', '\\,')},${SUFFIX}`, 'x');
      await client.bind('no name', 'x');
      await client.bind(ADA, '');
      client.close();
      await Promise.all([once(server.process, 'close'), server.stop()]);
      const log = sandbox.path(`${format}.log`);
      writeFileSync(log, told);
      const { stdout } = await run('fail2ban-regex', ['-v', log, filter]);
      const addresses = [...stdout.matchAll(/^\| {6}(\S+) {2}/gm)].map((found) => found[1]);
      expect(addresses, stdout).to.deep.equal(Array(5).fill('127.0.0.1'));
    }
  });
});
