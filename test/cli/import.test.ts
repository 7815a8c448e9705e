import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import { Client } from 'ldapts';
import {
  ADA,
  ADMIN,
  exited,
  MAIN,
  PASSWORD,
  PEOPLE,
  PEOPLE_SCRIPT,
  rowan,
  rowanDoes,
  run,
  Sandbox,
  SUFFIX,
  startRowan,
  until,
} from './rowan.js';

function person(uid: string, more = ''): string {
  return `dn: uid=${uid},${PEOPLE}\nobjectClass: inetOrgPerson\nuid: ${uid}\ncn: ${uid}\nsn: ${uid}\n${more}\n`;
}

describe('cli: import', () => {
  let sandbox: Sandbox;

  beforeEach(async () => {
    sandbox = new Sandbox();
    await sandbox.initSample();
  });

  afterEach(() => sandbox.remove());

  function file(name: string, text: string): string {
    const path = sandbox.path(name);
    writeFileSync(path, text);
    return path;
  }

  const exported = (...args: string[]): Promise<string> =>
    rowanDoes(['export', '--data', sandbox.data, '--no-operational', ...args]);

  async function expectSound(): Promise<void> {
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
  }

  it('loads folded lines, base64, comments, options and names in any case', async () => {
    const text = [
      '\ufeffversion: 1\n# a comment\n#  that goes on\n\n',
      person('one', 'descr\n iption;lang-de: ein\n  Text\ncn:: w6TDtsO8\n'),
      person('two', 'MAIL: two@example.com\n').replaceAll('\n', '\r\n'),
    ];
    expect(await rowanDoes(['import', '--data', sandbox.data, file('a.ldif', text.join(''))])).to.match(
      /^loaded 2 entries in /,
    );
    expect(await exported('--filter', '(cn=äöü)'))
      .to.contain('description;lang-de: ein Text\n')
      .and.contain('cn:: w6TDtsO8\n');
    expect(await exported('--filter', '(mail=two@example.com)')).to.contain(`dn: uid=two,${PEOPLE}\n`);
    await expectSound();
  });

  it('reads standard input', async () => {
    const out = await rowanDoes(['import', '--data', sandbox.data, '-'], { input: person('piped') });
    expect(out).to.match(/^loaded 1 entry/);
  });

  it('applies change records, among entries', async () => {
    const text = `${person('a')}dn: uid=a,${PEOPLE}
changetype: modify
add: mail
mail: a@example.com
-
replace: sn
sn: Aa
-

dn: uid=a,${PEOPLE}
changetype: modrdn
newrdn: uid=b
deleteoldrdn: 1
newsuperior: ou=services,${SUFFIX}

${person('c')}dn: ${ADA}
changetype: delete

dn: uid=d,${PEOPLE}
changetype: add
objectClass: inetOrgPerson
uid: d
cn: d
sn: d
`;
    const out = await rowanDoes(['import', '--data', sandbox.data, file('changes.ldif', text)]);
    expect(out).to.match(/^loaded 2 entries, applied 4 changes in /);
    const all = await exported();
    expect(all)
      .to.contain(`dn: uid=b,ou=services,${SUFFIX}\n`)
      .and.contain(`dn: uid=c,${PEOPLE}\n`)
      .and.contain(`dn: uid=d,${PEOPLE}\n`);
    expect(all).not.to.contain(`dn: ${ADA}\n`);
    expect(await exported('--filter', '(sn=Aa)')).to.contain('mail: a@example.com\n');
    await expectSound();
  });

  it('hashes passwords that come in the clear, says so, and keeps others as they are', async () => {
    const stored = '{SSHA}f5AYt2AtdUAyVjbMyeiSJbs5XTRyb3dhbmFkZA==';
    const text = `${person('clear', 'userPassword: in the clear\n')}${person('hashed', `userPassword: ${stored}\n`)}${person('other', 'userPassword: {X-VENDOR}abc\n')}`;
    const out = await rowanDoes(['import', '--data', sandbox.data, file('pw.ldif', text)]);
    expect(out).to.contain('1 password came in the clear, now stored as {SSHA512}');
    expect(out).to.contain('1 password kept under a {SCHEME} that is not verified here');
    const all = await exported('--base', PEOPLE, '--filter', '(|(uid=clear)(uid=hashed)(uid=other))');
    const values = [...all.replaceAll('\n ', '').matchAll(/^userPassword: (.*)$/gm)].map((match) => match[1]!);
    expect(values).to.have.length(3);
    expect(values[2]).to.equal('{X-VENDOR}abc');
    expect(values[0]).to.match(/^\{SSHA512\}[A-Za-z0-9+/=]{80,}$/);
    expect(values[1]).to.equal(stored);
    const server = await sandbox.serve();
    const client = new Client({ url: server.url });
    await client.bind(`uid=clear,${PEOPLE}`, 'in the clear');
    await client.unbind();
  });

  it('ends at the first record that is refused, and says where and why', async () => {
    const path = file('bad.ldif', `${person('good')}\n${person('bad', 'mial: x\n')}\n${person('later')}`);
    const ended = await rowan(['import', '--data', sandbox.data, path]);
    expect(ended.code).to.equal(1);
    expect(ended.stderr).to.match(/^rowan: .*bad\.ldif, record at line 8: .*did you mean 'mail'\?.*--continue.*\n$/m);
    expect(await exported('--filter', '(|(uid=good)(uid=bad)(uid=later))'))
      .to.contain('dn: uid=good,')
      .and.not.contain('dn: uid=bad,');
    await expectSound();
  });

  it('--continue goes on, and the rejects can be corrected and imported', async () => {
    const orphan = `dn: uid=orphan,ou=nowhere,${SUFFIX}\nobjectClass: inetOrgPerson\nuid: orphan\ncn: o\nsn: o\n\n`;
    const broken = `dn: uid=broken,${PEOPLE}\nobjectClass: inetOrgPerson\nthis is no line\n\n`;
    const text =
      person('first') +
      person('bad', 'mial: x@example.com\nuserPassword: secret\n') +
      orphan +
      broken +
      person('ada') +
      person('last');
    const path = file('mixed.ldif', text);
    const ended = await rowan(['import', '--data', sandbox.data, '--continue', path]);
    expect(ended.code).to.equal(1);
    expect(ended.stdout).to.match(/^loaded 2 entries, refused 4 in /);
    expect(ended.stderr).to.contain(`rowan: 4 records refused: see ${path}.rejects`);
    const rejects = readFileSync(`${path}.rejects`, 'utf8');
    expect(statSync(`${path}.rejects`).mode & 0o777).to.equal(0o600);
    expect(rejects)
      .to.match(/^# line 7: .*mail/m)
      .and.match(/^# line 15: /m)
      .and.match(/^# line 21: .*line 23/m)
      .and.match(/^# line 25: .*already/m);
    const corrected = rejects
      .replace('mial:', 'mail:')
      .replaceAll(`ou=nowhere,${SUFFIX}`, PEOPLE)
      .replace('this is no line', 'uid: broken\ncn: b\nsn: b');
    const again = await rowan([
      'import',
      '--data',
      sandbox.data,
      '--continue',
      '--rejects',
      sandbox.path('second'),
      file('again.ldif', corrected),
    ]);
    expect(again.stdout).to.match(/^loaded 3 entries, refused 1 in /);
    expect(existsSync(sandbox.path('second'))).to.equal(true);
    await expectSound();
  });

  it('the same file twice: every entry is refused as present, and nothing changes', async () => {
    const path = file('twice.ldif', person('x') + person('y'));
    await rowanDoes(['import', '--data', sandbox.data, path]);
    const before = await rowanDoes(['export', '--data', sandbox.data]);
    const ended = await rowan(['import', '--data', sandbox.data, '--continue', path]);
    expect(ended).to.include({ code: 1 });
    expect(ended.stdout).to.match(/^loaded 0 entries, refused 2 in /);
    expect(await rowanDoes(['export', '--data', sandbox.data])).to.equal(before);
    expect(await rowanDoes(['import', '--data', sandbox.data, '--resume', path])).to.match(
      /^loaded 0 entries, 2 were there already/,
    );
    await expectSound();
  });

  it('reads URLs only when allowed', async () => {
    const note = file('note.txt', 'from a file');
    const path = file('url.ldif', person('url', `description:< file://${note}\n`));
    const refused = await rowan(['import', '--data', sandbox.data, path]);
    expect(refused.code).to.equal(1);
    expect(refused.stderr).to.match(/URL/);
    await rowanDoes(['import', '--data', sandbox.data, '--allow-urls', path]);
    expect(await exported('--filter', '(uid=url)')).to.contain('description: from a file\n');
  });

  it('what it exports, another directory imports to the same', async () => {
    const all = await rowanDoes(['export', '--data', sandbox.data]);
    const other = sandbox.path('other');
    await rowanDoes(['init', '--data', other, '--suffix', SUFFIX, '--admin-dn', ADMIN]);
    await rowanDoes(['import', '--data', other, file('all.ldif', all)]);
    expect(await rowanDoes(['export', '--data', other])).to.equal(all);
    const output = sandbox.path('out.ldif');
    expect(await rowanDoes(['export', '--data', other, '--output', output])).to.equal(
      `exported 21 entries to ${output}\n`,
    );
    expect(readFileSync(output, 'utf8')).to.equal(all);
    expect(statSync(output).mode & 0o777).to.equal(0o600);
  });

  it('works beside a running server, which answers with what is loaded', async () => {
    const server = await sandbox.serve();
    const client = new Client({ url: server.url });
    await client.bind(ADMIN, PASSWORD);
    const find = async (filter: string): Promise<unknown[]> =>
      (await client.search(PEOPLE, { filter })).searchEntries.map((entry) => entry.dn);
    expect(await find('(uid=beside)')).to.deep.equal([]);
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input: person('beside', 'mail: beside@example.com\n') });
    expect(await find('(mail=beside@example.com)')).to.deep.equal([`uid=beside,${PEOPLE}`]);
    await client.unbind();
    await expectSound();
  });
});

describe('cli: an import that is killed', () => {
  const sandbox = new Sandbox();
  const count = 12_000;

  before(() => sandbox.init());
  after(() => sandbox.remove());

  it('goes on where it ended, and nothing is missing or twice', async () => {
    const path = sandbox.path('people.ldif');
    const made = await run(process.execPath, [PEOPLE_SCRIPT, String(count)]);
    writeFileSync(path, made.stdout);
    const first = startRowan(['import', '--data', sandbox.data, path]);
    const record = `${sandbox.data}/import.json`;
    await until(first, () => existsSync(record));
    await sleep(100);
    first.kill('SIGKILL');
    expect(await exited(first)).to.equal('SIGKILL');
    const again = await rowan(['import', '--data', sandbox.data, path]);
    expect(again.code, again.stderr).to.equal(0);
    expect(again.stderr).to.contain('an earlier import of this file was interrupted');
    const [loaded, existing] = [/^loaded ([\d,]+) entries/, /([\d,]+) were there already/].map((pattern) =>
      Number((pattern.exec(again.stdout)?.[1] ?? '0').replaceAll(',', '')),
    );
    expect(loaded! + existing!).to.equal(count + 2);
    expect(existsSync(record)).to.equal(false);
    const dns = (await rowanDoes(['export', '--data', sandbox.data])).match(/^dn: uid=.*$/gm);
    expect(new Set(dns).size).to.equal(count);
    expect(dns).to.have.length(count);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
  });

  it('of changes, does none of them twice', async () => {
    const changed = 2000;
    const change = (i: number): string =>
      `dn: uid=user.${i},${PEOPLE}\nchangetype: modify\nadd: description\ndescription: once more\n\n`;
    const path = sandbox.path('changes.ldif');
    writeFileSync(path, Array.from({ length: changed }, (_, i) => change(i)).join(''));
    const first = startRowan(['import', '--data', sandbox.data, path]);
    const record = `${sandbox.data}/import.json`;
    await until(
      first,
      () => existsSync(record) && (JSON.parse(readFileSync(record, 'utf8')) as { done: number }).done > 0,
    );
    first.kill('SIGKILL');
    expect(await exited(first)).to.equal('SIGKILL');
    const again = await rowan(['import', '--data', sandbox.data, '--continue', path]);
    // Those that were applied after the last note of how far it was are refused now.
    expect(again.stderr.replaceAll(/^(?:import|changes): .*\n/gm, '')).to.match(
      /^(?:rowan: \d+ records? refused: see .*\n)?$/,
    );
    const found = await rowanDoes(['export', '--data', sandbox.data, '--filter', '(description=once more)']);
    expect(found.match(/^description: once more$/gm)).to.have.length(changed);
  });
});

describe('cli: an import that has no room', () => {
  let sandbox: Sandbox;
  beforeEach(async () => {
    sandbox = new Sandbox();
    await sandbox.init();
  });
  afterEach(() => sandbox.remove());

  /** With files that may not grow beyond so many KiB. */
  async function importLimited(path: string, kib: number): Promise<string> {
    const words = [process.execPath, MAIN, 'import', '--data', sandbox.data, path];
    const ended = await run('sh', ['-c', `ulimit -f ${kib * 2}; exec "$0" "$@"`, ...words]);
    expect(ended.code, ended.stderr).to.equal(1);
    // What LMDB's own C code prints is not ours to keep back.
    return ended.stderr.replaceAll(/Write error: [^\n]*?, size \d+/g, '').replaceAll(/^(?:import|changes): .*\n/gm, '');
  }

  const clear = /^rowan: (?:no room left to write to|input\/output error in) \S+\/data; [^\n]*\n$/;

  it('says so in one line, of entries, and goes on with them when there is some', async () => {
    const path = sandbox.path('people.ldif');
    writeFileSync(path, (await run(process.execPath, [PEOPLE_SCRIPT, '3000'])).stdout);
    expect(await importLimited(path, 2000)).to.match(clear);
    await rowanDoes(['import', '--data', sandbox.data, path]);
    expect((await rowanDoes(['export', '--data', sandbox.data])).match(/^dn: uid=/gm)).to.have.length(3000);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
  });

  it('says so in one line, of changes, and refuses none of them for it', async () => {
    const path = sandbox.path('changes.ldif');
    const more = `description: ${'x'.repeat(9000)}\n`;
    const suffix = `dn: ${SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: x\n\n`;
    const change = (i: number): string =>
      `dn: cn=p${i},${SUFFIX}\nchangetype: add\nobjectClass: person\ncn: p${i}\nsn: x\n${more}\n`;
    writeFileSync(path, suffix + Array.from({ length: 300 }, (_, i) => change(i)).join(''));
    expect(await importLimited(path, 1500)).to.match(clear);
    expect(existsSync(`${path}.rejects`)).to.equal(false);
    await rowan(['import', '--data', sandbox.data, '--continue', path]);
    expect((await rowanDoes(['export', '--data', sandbox.data])).match(/^dn: cn=p/gm)).to.have.length(300);
  });
});

describe('cli: scripts/people.mjs', () => {
  it('writes the same bytes for the same number', async () => {
    const { createHash } = await import('node:crypto');
    const made = await run(process.execPath, [PEOPLE_SCRIPT, '1000']);
    expect(createHash('sha256').update(made.stdout).digest('hex')).to.equal(
      'e91407ccaa11813a38d427211d181899b8e726af5fcc4d4382432fbdefcaf900',
    );
  });
});

describe('cli: files that are none', () => {
  const sandbox = new Sandbox();
  before(() => sandbox.init());
  after(() => sandbox.remove());

  it('are one clear line', async () => {
    const missing = await rowan(['import', '--data', sandbox.data, sandbox.path('missing.ldif')]);
    expect(missing).to.include({ code: 1, stderr: `rowan: ${sandbox.path('missing.ldif')}: no such file or folder\n` });
    mkdirSync(sandbox.path('folder'));
    const folder = await rowan(['import', '--data', sandbox.data, sandbox.path('folder')]);
    expect(folder).to.include({ code: 1, stderr: `rowan: ${sandbox.path('folder')}: is a folder, not an LDIF file\n` });
  });
});
