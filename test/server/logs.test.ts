import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { readLdif } from '../../src/ldif/index.js';
import { writeSequence } from '../../src/protocol/asn1.js';
import { ControlOid, ExtendedOid } from '../../src/protocol/oids.js';
import { contextTag, OCTET_STRING } from '../../src/protocol/tags.js';
import type { SettingValues } from '../../src/server/settings/index.js';
import { run } from '../cli/rowan.js';
import { encodeApplicationPasswords, encodeCancel, encodePasswordModify } from '../protocol/client-values.js';
import { ClientTransaction } from './client-transaction.js';
import { ADMIN, attributes, CHEAP, PEOPLE, personAttributes, personDn, start } from './directory.js';
import { RawClient, simpleBind } from './raw-client.js';

type Line = Record<string, unknown>;

/** Starts a server with these settings, lets `use` work with it, and gives the bytes of the log. */
async function logOf(
  folder: string,
  setting: 'accessLog.output' | 'auditLog.output',
  use: (client: RawClient) => Promise<void>,
  settings: Partial<SettingValues> = {},
): Promise<string> {
  const path = join(folder, 'log');
  rmSync(path, { force: true });
  const running = await start({ ...CHEAP, [setting]: path, ...settings }, 2);
  const client = await RawClient.open(running.port);
  try {
    await use(client);
  } finally {
    client.close();
    await running.stop();
  }
  return readFileSync(path, 'utf8');
}

function linesOf(log: string): Line[] {
  expect(log.endsWith('\n')).to.equal(true);
  // A reader may take any of these for the end of a line.
  return log
    .slice(0, -1)
    .split(/[\n\r\v\f\u0085\u2028\u2029]/)
    .map((line) => JSON.parse(line) as Line);
}

describe('server: logs', () => {
  let folder: string;
  before(() => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-logs-'));
  });
  after(() => rmSync(folder, { recursive: true, force: true }));

  const accessLog = async (use: (client: RawClient) => Promise<void>, settings: Partial<SettingValues> = {}) =>
    linesOf(await logOf(folder, 'accessLog.output', use, settings));

  it('a request with proxied authorization has both identities', async () => {
    const [ada, nobody] = [`dn:${personDn('p1')}`, ''].map((authzId) => ({
      ...{ oid: ControlOid.proxiedAuthorization, critical: true, value: Buffer.from(authzId) },
    }));
    const lines = await accessLog(async (client) => {
      await client.bind(ADMIN.dn, ADMIN.password);
      for (const controls of [[ada!], [nobody!], []]) await client.search(PEOPLE, {}, controls);
    });
    const searches = lines.filter(({ operation }) => operation === 'SRCH');
    expect(searches.map(({ bind_dn, authzid, err }) => [bind_dn, authzid, err])).to.deep.equal([
      [ADMIN.dn, personDn('p1'), 0],
      [ADMIN.dn, '', 50],
      [ADMIN.dn, undefined, 0],
    ]);
  });

  it('an operation is one line, with who, what, result and session', async () => {
    const texts = ['192.0.2.9', 'gateway', '1.2.3', 'ada'];
    const value = writeSequence((writer) => {
      for (const text of texts) writer.octetString(OCTET_STRING, Buffer.from(text));
    });
    const tracking = { oid: ControlOid.sessionTracking, critical: true, value };
    const lines = await accessLog(async (client) => {
      await client.request(simpleBind(personDn('p1'), 'wrong'));
      await client.bind(ADMIN.dn, ADMIN.password);
      const filter = { type: 'equal', attribute: 'userPassword', value: Buffer.from('hush') } as const;
      const searched = await client.search(PEOPLE, { scope: 'one', attributes: ['cn'], filter }, [tracking]);
      expect(searched.code).to.equal(0);
      const malformed = { ...tracking, value: Buffer.from('x') };
      expect((await client.search(PEOPLE, {}, [malformed])).code).to.equal(2);
      await client.request({
        op: 'modifyDN',
        dn: personDn('p1'),
        newRdn: 'uid=p9',
        deleteOldRdn: true,
        newSuperior: PEOPLE,
      });
    });
    expect(lines.map(({ operation }) => operation)).to.deep.equal([
      'CONNECTION',
      'BIND',
      'BIND',
      'SRCH',
      'SRCH',
      'MODRDN',
      'DISCONNECT',
    ]);
    const [connection, failed, bound, search, refused, renamed] = lines as [Line, Line, Line, Line, Line, Line];
    const client = { client_ip: '127.0.0.1', conn_id: connection.conn_id, tls: false };
    expect(failed).to.include({
      ...client,
      bind_dn: personDn('p1'),
      method: 'simple',
      err: 49,
      reason: 'wrong password',
    });
    expect(bound).to.include({ ...client, op_id: 2, bind_dn: ADMIN.dn, err: 0 });
    expect(search).to.deep.include({
      bind_dn: ADMIN.dn,
      base_dn: PEOPLE,
      scope: 1,
      attrs: ['cn'],
      nentries: 0,
      err: 0,
    });
    expect(search).to.include({
      filter: '(userPassword=hidden)',
      sid: 'ada',
      sid_name: 'gateway',
      sid_ip: '192.0.2.9',
    });
    expect(search.request_controls).to.deep.equal([ControlOid.sessionTracking]);
    expect(search.etime).to.be.closeTo((search.wtime as number) + (search.optime as number), 2e-6);
    expect(new Date(search.local_time as string).toISOString()).to.equal(search.local_time);
    expect(refused).to.include({ err: 2 }).and.not.to.have.property('sid');
    expect(renamed).to.include({ target_dn: personDn('p1'), newrdn: 'uid=p9', newsup: PEOPLE, err: 0 });
  });

  it('an extended operation names its target', async () => {
    const identified = (name: string): Buffer =>
      writeSequence((writer) => writer.octetString(contextTag(0), Buffer.from(name)));
    const lines = await accessLog(async (client) => {
      const extended = async (oid: string, value?: Buffer): Promise<void> => {
        await client.request({ op: 'extended', oid, value });
      };
      await client.bind(ADMIN.dn, ADMIN.password);
      await extended(ExtendedOid.passwordModify, identified(`dn:${personDn('p1')}`));
      await extended(ExtendedOid.passwordModify, identified('hush hush'));
      await extended(ExtendedOid.passwordModify);
      await extended(ExtendedOid.passwordModify, Buffer.from('malformed'));
      await extended(
        ExtendedOid.applicationPasswords,
        encodeApplicationPasswords({ action: 'list', entry: personDn('p0') }),
      );
      await extended(ExtendedOid.cancel, encodeCancel(77));
      await extended(ExtendedOid.whoAmI);
    });
    const targets = lines
      .filter(({ operation }) => operation === 'EXT')
      .map(({ target_dn: dn, target_op: messageId, err }) => [dn, messageId, err]);
    expect(targets).to.deep.equal([
      [personDn('p1'), undefined, 0],
      ['hidden', undefined, 34],
      [ADMIN.dn, undefined, 0],
      [undefined, undefined, 2],
      [personDn('p0'), undefined, 0],
      [undefined, 77, 119],
      [undefined, undefined, 0],
    ]);
  });

  it('whatever a client sends, each line is one JSON object in one line', async () => {
    const hostile = ['a\n{"err":0}\r', 'b\u2028\u2029\u0085\u0000\u001b[2J', '\\"', '\ud83d\ude00'.repeat(4000)];
    const huge = 'x'.repeat(1024 * 1024);
    const lines = await accessLog(async (client) => {
      await client.bind(ADMIN.dn, ADMIN.password);
      for (const text of [...hostile, huge]) {
        await client.search(`cn=${text}`, { attributes: [text] });
        await client.request({ op: 'compare', dn: PEOPLE, attribute: text, value: Buffer.from(text) });
        await client.request({ op: 'extended', oid: text, value: undefined });
        await client.request(simpleBind(`cn=${text}`, 'x'));
        await client.bind(ADMIN.dn, ADMIN.password);
      }
      for (const size of [40, 4000]) await client.search('', { attributes: Array(60).fill('\u0001'.repeat(size)) });
      const invalid = { type: 'equal', attribute: 'cn', value: Buffer.from('ff0afe', 'hex') } as const;
      await client.search(PEOPLE, { filter: invalid });
      const long = { type: 'equal', attribute: 'cn', value: Buffer.alloc(1024 * 1024, 0xff) } as const;
      await client.search(PEOPLE, { filter: long });
    });
    const searches = lines.filter(({ operation }) => operation === 'SRCH');
    const bases = hostile.slice(0, 3).map((text) => `cn=${text}`);
    expect(searches.slice(0, 3).map(({ base_dn }) => base_dn)).to.deep.equal(bases);
    expect(searches[7]!.filter).to.equal('(cn=\\ff\\0a\\fe)');
    for (const { base_dn, filter } of [searches[4]!, searches[8]!])
      expect([base_dn, filter].some((text) => (text as string).endsWith('…'))).to.equal(true);
    for (const { attrs } of [searches[5]!, searches[6]!]) expect((attrs as string[]).at(-1)).to.equal('…');
    for (const line of lines) expect(JSON.stringify(line).length).to.be.lessThan(20_000);
  });

  it('failures are always there, successes only when slow or drawn', async () => {
    const use = async (client: RawClient): Promise<void> => {
      await client.bind(ADMIN.dn, ADMIN.password);
      for (let i = 0; i < 20; i++) await client.search('');
      expect((await client.search('dc=nowhere')).code).to.equal(32);
    };
    const drawn = await accessLog(use, { 'accessLog.sample': 7 });
    expect(drawn.filter(({ err }) => err === 0).length).to.be.within(2, 4);
    const slow = await accessLog(use, { 'accessLog.slowerThan': 3_600_000 });
    expect(slow.map(({ err, matched_dn: matched }) => [err, matched])).to.deep.equal([[32, undefined]]);
  });

  it('a change is an LDIF record of which no value makes a line, and which has no secret', async () => {
    const injected = '\n\ndn: dc=evil\nchangetype: delete\n';
    const passwordModify = writeSequence((writer) => {
      writer.octetString(contextTag(0), Buffer.from(`dn:${personDn('p1')}`));
      writer.octetString(contextTag(2), Buffer.from('top secret 3'));
    });
    const log = await logOf(folder, 'auditLog.output', async (client) => {
      await client.bind(ADMIN.dn, ADMIN.password);
      const extra = { description: `text${injected}`, userPassword: 'top secret 1' };
      const answers = [
        await client.request({ op: 'add', dn: personDn('new'), attributes: personAttributes('new', extra) }),
        await client.request({
          op: 'modify',
          dn: personDn('new'),
          changes: [
            ...attributes({ userPassword: 'top secret 2', title: ['y'.repeat(9000), 'short'] }).map(
              (attribute) => ({ operation: 'replace', attribute }) as const,
            ),
            { operation: 'delete', attribute: { type: 'description', values: [] } },
          ],
        }),
        await client.request({ op: 'extended', oid: ExtendedOid.passwordModify, value: passwordModify }),
        await client.request({ op: 'delete', dn: personDn('new') }),
      ];
      expect(answers.map(({ code }) => code)).to.deep.equal([0, 0, 0, 0]);
      expect((await client.request({ op: 'delete', dn: personDn('new') })).code).to.equal(32);
      await client.search(PEOPLE);
    });
    expect(log)
      .to.not.include('top secret')
      .and.not.to.match(/^dn: dc=evil/m);
    expect(log.match(/^# left out: .*$/gm)).to.deep.equal([
      '# left out: userPassword, secret',
      '# left out: replace: userPassword, secret',
      '# left out: replace: title, a value of 9000 bytes',
      '# left out: replace: userPassword, secret',
    ]);
    expect(
      log.match(new RegExp(`^# who: ${ADMIN.dn}\n# client: 127.0.0.1\n# connection: \\d+, operation \\d`, 'gm')),
    ).to.have.length(4);
    const records = [];
    for await (const some of readLdif([Buffer.from(log)])) records.push(...some);
    // The record of a new password has no change, and is a comment.
    expect(log).to.include(`# dn: ${personDn('p1')}\n# changetype: modify\n\n`);
    expect(records.map((record) => record.kind)).to.deep.equal(['add', 'modify', 'delete']);
    const [added, modified] = records;
    if (added?.kind !== 'add' || modified?.kind !== 'modify') throw new TypeError();
    const valuesOf = (type: string) => added.attributes.find((one) => one.type === type)?.values.map(String);
    expect(valuesOf('description')).to.deep.equal([`text${injected}`]);
    expect(valuesOf('userPassword')).to.equal(undefined);
    const changes = modified.changes.map(({ operation, attribute }) => [operation, ...attribute.values.map(String)]);
    expect(changes).to.deep.equal([['replace', 'short'], ['delete']]);
  });

  it('a number that the server gave is there as the number, and "auto" that gave none is not', async () => {
    const path = join(folder, 'numbers');
    const running = await start({ ...CHEAP, 'auditLog.output': path }, 2);
    for (const type of ['uidNumber', 'gidNumber']) await running.partition.setNumbers(type, 7000, 7999);
    const client = await RawClient.open(running.port);
    await client.bind(ADMIN.dn, ADMIN.password);
    const account = { objectClass: ['inetOrgPerson', 'posixAccount'], homeDirectory: '/', title: 'auto' };
    const change = (operation: 'add' | 'replace', type: string, value: string) =>
      ({ operation, attribute: { type, values: [Buffer.from(value)] } }) as const;
    const added = personAttributes('n', { ...account, uidNumber: 'auto', GIDNumber: ['auto', '12'] });
    const dn = personDn('n');
    const modified = [change('add', 'uidNumber', 'auto'), change('replace', '1.3.6.1.1.1.1.0', 'auto')];
    const answers = [
      await client.request({ op: 'add', dn, attributes: added }),
      await client.request({ op: 'modify', dn, changes: modified.slice(0, 1) }),
      await client.request({ op: 'modify', dn, changes: modified.slice(1) }),
      await client.request({
        op: 'modify',
        dn,
        changes: [change('replace', 'userPassword', 'x'), ...modified.slice(1)],
      }),
    ];
    expect(answers.map(({ code }) => code)).to.deep.equal([0, 0, 0, 0]);
    const { entries } = await client.search(dn, { scope: 'base', attributes: ['uidNumber'] });
    client.close();
    await running.stop();
    const log = readFileSync(path, 'utf8');
    expect(log.match(/^.*(?:auto|7\d{3}|12)$/gm)).to.deep.equal([
      'title: auto',
      'uidNumber: 7000',
      'GIDNumber: 12',
      '1.3.6.1.1.1.1.0: 7001',
      '1.3.6.1.1.1.1.0: 7002',
    ]);
    expect(entries[0]!.attributes.get('uidNumber')!.map(String)).to.deep.equal(['7002']);
    expect(log).to.include(`# dn: ${dn}\n# changetype: modify\n\n`);
  });

  it('a transaction is the records of its operations when it has ended, and none without that', async () => {
    const description = (text: string) => attributes({ description: text })[0]!;
    const log = await logOf(folder, 'auditLog.output', async (client) => {
      await client.bind(ADMIN.dn, ADMIN.password);
      const aborted = await ClientTransaction.begin(client);
      await aborted.add({ op: 'delete', dn: personDn('p1') });
      await aborted.end(false);
      const transaction = await ClientTransaction.begin(client);
      const changes = [{ operation: 'add', attribute: description('text') }] as const;
      await transaction.add({ op: 'modify', dn: personDn('p1'), changes });
      await transaction.add({ op: 'delete', dn: personDn('p0') });
      await transaction.commit();
    });
    const records = [];
    for await (const some of readLdif([Buffer.from(log)])) records.push(...some);
    expect(records.map((record) => `${record.kind} ${'dn' in record && record.dn}`)).to.deep.equal([
      `modify ${personDn('p1')}`,
      `delete ${personDn('p0')}`,
    ]);
  });

  it('a transaction that fails tells which entry is at fault', async () => {
    const lines = await accessLog(async (client) => {
      await client.bind(ADMIN.dn, ADMIN.password);
      const transaction = await ClientTransaction.begin(client);
      await transaction.add({ op: 'delete', dn: personDn('p0') });
      await transaction.add({ op: 'delete', dn: personDn('nobody') });
      expect((await transaction.end()).code).to.equal(32);
    });
    const end = lines.find(({ operation, err }) => operation === 'EXT' && err === 32);
    expect(end).to.include({ target_dn: personDn('nobody') });
  });

  it('a refused change is comments with code and reason, if the setting says so, and has no value', async () => {
    const use = async (client: RawClient): Promise<void> => {
      await client.bind(personDn('p0'), 'wrong');
      await client.bind(ADMIN.dn, ADMIN.password);
      const secrets = attributes({ userPassword: 'top secret', description: 'top secret' });
      const changes = secrets.map((attribute) => ({ operation: 'replace', attribute }) as const);
      const missing = `cn=a\nchangetype: delete,${PEOPLE}`;
      await client.request({ op: 'modify', dn: missing, changes });
      await client.request({ op: 'add', dn: personDn('p1'), attributes: personAttributes('p1', { title: 'x' }) });
      await client.request({ op: 'delete', dn: 'top secret' });
      const newPerson = (values: Record<string, string>) =>
        client.request({ op: 'add', dn: personDn('new'), attributes: personAttributes('new', values) });
      await newPerson({ manager: 'top secret' });
      await newPerson({ objectClass: 'top secret' });
      await client.request({
        op: 'add',
        dn: 'uid=x,userPassword=top secret,dc=example,dc=com',
        attributes: personAttributes('x'),
      });
      await client.request({
        op: 'modifyDN',
        dn: personDn('p1'),
        newRdn: 'uid=p0',
        deleteOldRdn: true,
        newSuperior: undefined,
      });
      await client.request({ op: 'extended', oid: ExtendedOid.passwordModify, value: Buffer.from('top secret') });
      const value = encodePasswordModify({
        userIdentity: personDn('none'),
        oldPassword: undefined,
        newPassword: undefined,
      });
      await client.request({ op: 'extended', oid: ExtendedOid.passwordModify, value });
      await client.request({ op: 'extended', oid: ExtendedOid.cancel, value: encodeCancel(77) });
      await client.search('cn=none');
    };
    expect(await logOf(folder, 'auditLog.output', use)).to.equal('');
    const log = await logOf(folder, 'auditLog.output', use, { 'auditLog.refused': true });
    expect(log).not.to.include('top secret');
    for (const line of log.split('\n')) expect(line).to.match(/^(?:# |$)/);
    expect(log).to.match(/^(?:# time: .*\n# who: cn=admin,.*\n# client: .*\n# connection: .*\n# dn: .*\n)/);
    const told = [...log.matchAll(/^# changetype: (.*)\n# what: (.*)\n# refused: (\d+) /gm)].map((found) =>
      found.slice(1),
    );
    expect(told.map(([op, , code]) => `${op} ${code}`)).to.deep.equal([
      'modify 32',
      'add 68',
      'delete 34',
      'add 21',
      'add 65',
      'add 32',
      'modifyDN 68',
      'extended 32',
    ]);
    expect(told[0]![1]).to.equal('replace: userPassword, replace: description');
    expect(told[1]![1]).to.include('title');
    expect([told[6]![1], told[7]![1]]).to.deep.equal(['uid=p0', ExtendedOid.passwordModify]);
  });

  it('a file that cannot be opened is an error before the first line', async () => {
    const settings = { 'accessLog.output': '/nonexistent/access', 'auditLog.output': '/nonexistent/audit' };
    const running = await start(settings, 1);
    const told = running.lines.filter((line) => /cannot be written.*ENOENT/.test(line));
    expect(told).to.have.length(2);
    await running.stop();
  });

  it('a device without room costs lines, which are counted, and nothing else', async () => {
    const running = await start({ 'auditLog.output': '/dev/full', 'accessLog.output': '/dev/full' }, 1);
    const client = await RawClient.open(running.port);
    await client.bind(ADMIN.dn, ADMIN.password);
    const description = (n: number) =>
      ({ operation: 'replace', attribute: attributes({ description: `${n}` })[0]! }) as const;
    for (let n = 0; n < 3; n++)
      expect((await client.request({ op: 'modify', dn: personDn('p0'), changes: [description(n)] })).code).to.equal(0);
    client.close();
    await running.stop();
    const told = running.lines.filter((line) => /cannot be written.*ENOSPC/.test(line));
    expect(told).to.have.length(2);
    expect(running.server.services.statistics.logLinesDropped).to.be.greaterThan(6);
  });

  it('lines that wait are written by a process that exits while its log ends', async () => {
    const path = join(folder, 'exit.log');
    const module = new URL('../../src/server/logs/line-file.js', import.meta.url).href;
    const program = `import { LineFile } from '${module}';
      const options = { name: 'log', output: '${path}', mode: 0o600, delayMs: 0, log: console, statistics: {} };
      const file = new LineFile(options);
      file.append(Buffer.from('a'.repeat(70_000) + '\\n'));
      file.append(Buffer.from('second\\n'));
      void file.close();
      process.exit();`;
    const ended = await run(process.execPath, ['--input-type=module', '-e', program]);
    expect(ended).to.deep.equal({ code: 0, stdout: '', stderr: '' });
    expect(readFileSync(path, 'utf8')).to.match(/^second$/m);
  });
});
