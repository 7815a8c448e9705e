import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { expect } from 'chai';
import { removeOld } from '../../src/cli/backup/backup.js';
import { ADA, ADMIN, exited, PASSWORD, PEOPLE, rowan, rowanDoes, Sandbox, SUFFIX, startRowan } from './rowan.js';

const RULES = `rules:
  - name: nobody but ada reads
    who: { dn: "${ADA}" }
    allow: [view]
`;

const modify = (dn: string, type: string, value: string): string =>
  `dn: ${dn}\nchangetype: modify\nreplace: ${type}\n${type}: ${value}\n-\n\n`;

describe('rowan backup, verify and restore', () => {
  const sandbox = new Sandbox();
  const data = ['--data', sandbox.data];
  let count = 0;

  before(async () => {
    await sandbox.initSample();
    await rowanDoes(['import', ...data, '-'], { input: modify(ADA, 'userPassword', PASSWORD) });
    await rowanDoes(['index', 'add', 'description', ...data]);
    writeFileSync(sandbox.path('rules.yaml'), RULES);
    await rowanDoes(['access', 'apply', sandbox.path('rules.yaml'), ...data]);
    await rowanDoes(['import', ...data, '-'], { input: `dn: uid=hana,${PEOPLE}\nchangetype: delete\n` });
  });
  after(() => sandbox.remove());

  const fresh = (name: string): string => sandbox.path(`${name}${count++}`);

  function edit(file: string, change: (text: string) => string): void {
    writeFileSync(file, change(readFileSync(file, 'utf8')));
  }

  async function change(text: string): Promise<void> {
    await rowanDoes(['import', ...data, '-'], { input: text });
  }

  /** Expects both folders to have the same rows in all tables. */
  async function expectSame(a: string, b: string): Promise<void> {
    expect(await rowanDoes(['compare', a, b, '--full', '--base', SUFFIX])).to.match(/^equal/);
    await rowanDoes(['check', '--data', b]);
  }

  it('has all of the directory, and restores it, access rules, states and deleted entries included', async () => {
    const [backup, restored] = [fresh('backup'), fresh('restored')];
    writeFileSync(sandbox.path('rowan.yaml'), `data: ${sandbox.data}\n`);
    const said = await rowanDoes(['backup', '--config', sandbox.path('rowan.yaml'), '--to', backup]);
    expect(said).to.match(/^made and read: .*, \d+ entries\n$/);
    expect(statSync(backup).mode & 0o777).to.equal(0o700);
    expect(readFileSync(`${backup}/settings.yaml`, 'utf8')).to.contain(sandbox.data);
    expect(await rowanDoes(['verify', backup])).to.match(/^sound: .* entries of .* at 20/);
    expect(await rowanDoes(['restore', backup, '--data', restored])).to.contain('settings.yaml');
    await expectSame(sandbox.data, restored);
    expect(await rowanDoes(['access', 'show', '--data', restored])).to.contain('nobody but ada');
    expect(await rowanDoes(['deleted', 'list', '--data', restored])).to.contain('uid=hana');
  });

  it('is of one moment, while a server and clients write on', async () => {
    const [backup, restored] = [fresh('backup'), fresh('restored')];
    const server = await sandbox.serve(['--listen', 'ldap://127.0.0.1:0']);
    const { Client, Attribute, Change } = await import('ldapts');
    const client = new Client({ url: server.url });
    await client.bind(ADMIN, PASSWORD);
    let isOver = false;
    let n = 0;
    const write = async (): Promise<void> => {
      for (; !isOver; n++) {
        const modification = new Attribute({ type: 'description', values: [String(n)] });
        await client.modify(ADA, new Change({ operation: 'replace', modification }));
        const dn = `uid=n${n},${PEOPLE}`;
        await client.add(dn, { objectClass: 'account', uid: `n${n}` });
        if (n % 3 === 0) await client.del(dn);
      }
    };
    const writing = write();
    while (n < 5) await new Promise(setImmediate);
    await rowanDoes(['backup', ...data, '--to', backup]);
    await rowanDoes(['backup', ...data, '--to', fresh('another')]);
    isOver = true;
    await writing;
    await client.unbind();
    await server.stop();
    await rowanDoes(['restore', backup, '--data', restored]);
    await rowanDoes(['check', '--data', restored]);
    // The entries are those that had been added up to the description.
    const ldif = await rowanDoes(['export', '--data', restored, '--no-operational']);
    const last = Number(/^description: (\d+)$/m.exec(ldif)![1]);
    const added = [...ldif.matchAll(/^dn: uid=n(\d+),/gm)].map((match) => Number(match[1]));
    for (let i = 0; i < last; i++) expect(added.includes(i), `n${i}`).to.equal(i % 3 !== 0);
    expect(Math.max(...added)).to.be.at.most(last);
  });

  it('takes up the changes since, with --incremental', async () => {
    const [backup, restored] = [fresh('backup'), fresh('restored')];
    await rowanDoes(['backup', ...data, '--to', backup, '--incremental']);
    await change(
      modify(ADA, 'l', 'Kiel') + `dn: uid=late,${PEOPLE}\nchangetype: add\nobjectClass: account\nuid: late\n`,
    );
    await rowanDoes(['index', 'add', 'l', ...data]);
    expect(await rowanDoes(['backup', ...data, '--to', backup, '--incremental'])).to.match(/^brought up to date/);
    await change(modify(ADA, 'l', 'Bonn'));
    await rowanDoes(['backup', ...data, '--to', backup, '--incremental']);
    await rowanDoes(['restore', backup, '--data', restored]);
    await expectSame(sandbox.data, restored);
    const other = await rowan(['backup', ...data, '--to', backup]);
    expect(other.stderr).to.contain('exists already; name another folder');
    // The log began anew meanwhile.
    await rowanDoes(['replica', 'grant', 'x', ...data, '--password-file', sandbox.path('x')]);
    await rowanDoes(['replica', 'revoke', 'x', ...data]);
    await change(modify(ADA, 'l', 'Ulm'));
    const { code, stderr } = await rowan(['backup', ...data, '--to', backup, '--incremental']);
    expect([code, stderr]).to.satisfy(([c, text]: [number, string]) => c === 1 && /does not go back/.test(text));
  });

  it('tells of each damaged byte, and of which table', async () => {
    const backup = fresh('backup');
    await rowanDoes(['backup', ...data, '--to', backup]);
    const bytes = readFileSync(`${backup}/data.mdb`);
    const offsets = [bytes.indexOf('cn=admin,dc=example'), bytes.lastIndexOf('ada@example'), bytes.indexOf('=grace')];
    for (const offset of [...offsets, bytes.length - 100]) {
      expect(offset).to.be.greaterThan(0);
      const copy = fresh('damaged');
      cpSync(backup, copy, { recursive: true });
      const damaged = Buffer.from(bytes);
      damaged[offset]! ^= 1;
      writeFileSync(`${copy}/data.mdb`, damaged);
      const { code, stderr } = await rowan(['verify', copy]);
      expect(code, stderr).to.equal(1);
      expect(stderr).to.match(offset === bytes.length - 100 ? /table|data\.mdb is not as it was/ : /table|index/i);
      const target = fresh('never');
      expect((await rowan(['restore', copy, '--data', target])).code).to.equal(1);
      expect(existsSync(target)).to.equal(false);
    }
  });

  it('tells of a damaged manifest, other settings, an empty data file, and of what is no plain file', async () => {
    const backup = fresh('backup');
    writeFileSync(sandbox.path('rowan.yaml'), `data: ${sandbox.data}\n`);
    await rowanDoes(['backup', '--config', sandbox.path('rowan.yaml'), '--to', backup]);
    const victim = sandbox.path('victim');
    writeFileSync(victim, 'mine');
    const damages: [RegExp, (copy: string) => void][] = [
      [
        /backup\.json is damaged/,
        (copy) => edit(`${copy}/backup.json`, (text) => text.replace('"time": "2', '"time": "3')),
      ],
      [/backup\.json is damaged/, (copy) => edit(`${copy}/backup.json`, () => '{')],
      [/settings\.yaml is not as it was/, (copy) => edit(`${copy}/settings.yaml`, (text) => `${text} `)],
      [/settings\.yaml is not as it was/, (copy) => rmSync(`${copy}/settings.yaml`)],
      [/data\.mdb is missing or empty/, (copy) => truncateSync(`${copy}/data.mdb`)],
      [/"lock\.mdb" is no plain file/, (copy) => symlinkSync(victim, `${copy}/lock.mdb`)],
    ];
    for (const [message, damage] of damages) {
      const copy = fresh('damaged');
      cpSync(backup, copy, { recursive: true });
      rmSync(`${copy}/lock.mdb`, { force: true });
      damage(copy);
      for (const args of [
        ['verify', copy],
        ['restore', copy, '--data', fresh('never')],
        ['backup', ...data, '--to', copy, '--incremental'],
      ]) {
        if (args[0] === 'backup' && /settings/.test(message.source)) continue;
        const { code, stderr } = await rowan(args);
        expect(code, stderr).to.be.oneOf([1, 2]);
        expect(stderr).to.match(message);
      }
    }
    expect(readFileSync(victim, 'utf8')).to.equal('mine');
    expect((await rowan(['backup', ...data, '--to', sandbox.path('missing/folder')])).code).to.equal(1);
    expect(existsSync(sandbox.path('missing'))).to.equal(false);
  });

  it('that is killed is no backup, and the next one is whole', async () => {
    const backup = fresh('backup');
    for (let n = 0; n < 4; n++) {
      const child = startRowan(['backup', ...data, '--to', backup]);
      const isBegun = (): boolean => existsSync(`${backup}.part/data.mdb`) || existsSync(backup);
      while (!isBegun() && child.exitCode === null) await new Promise(setImmediate);
      for (let turn = 0; turn < n * 2000; turn++) await new Promise(setImmediate);
      child.kill('SIGKILL');
      await exited(child);
      if (existsSync(backup)) expect(await rowanDoes(['verify', backup])).to.match(/^sound/);
      else expect((await rowan(['verify', `${backup}.part`])).stderr).to.contain('is no backup');
    }
    if (!existsSync(backup)) await rowanDoes(['backup', ...data, '--to', backup]);
    expect(existsSync(`${backup}.part`)).to.equal(false);
    expect((await rowan(['restore', backup, ...data])).stderr).to.contain('is not empty');
  });

  it('that is old goes with what killed jobs have left, and nothing else goes', () => {
    const folder = fresh('backups');
    const names = ['20200101T010700Z', '20200102T010700Z.part', '20200103T010700Z', 'mine', '20200104T010700Z'];
    for (const name of names) mkdirSync(`${folder}/${name}`, { recursive: true });
    for (const name of ['20200101T010700Z', '20200104T010700Z']) writeFileSync(`${folder}/${name}/backup.json`, '');
    expect(removeOld(folder, 14)).to.deep.equal(['20200104T010700Z']);
    expect(readdirSync(folder)).to.deep.equal(['20200103T010700Z', '20200104T010700Z', 'mine']);
  });

  it('is restored as it was at a time before it', async () => {
    const [backup, restored] = [fresh('backup'), fresh('restored')];
    const plain = async (folder: string): Promise<string> =>
      (await rowanDoes(['export', '--data', folder]))
        .replaceAll('\n ', '')
        .replaceAll(/^(modif\w+|entryCSN|userPassword|pwd\w+):.*\n/gm, '');
    const before = await plain(sandbox.data);
    const at = new Date().toISOString();
    await change(
      modify(ADA, 'description', 'later') +
        modify(ADA, 'userPassword', 'another secret') +
        `dn: uid=later,${PEOPLE}\nchangetype: add\nobjectClass: account\nuid: later\n\n` +
        `dn: ${PEOPLE}\nchangetype: modrdn\nnewrdn: ou=staff\ndeleteoldrdn: 1\n\n` +
        `dn: uid=grace,ou=staff,${SUFFIX}\nchangetype: delete\n`,
    );
    await rowanDoes(['backup', ...data, '--to', backup]);
    const early = await rowan(['restore', backup, '--data', restored, '--as-of', '2020-01-01T00:00Z']);
    expect(early.stderr).to.contain('change records are kept since');
    expect(existsSync(restored)).to.equal(false);
    const late = await rowan(['restore', backup, '--data', restored, '--as-of', '2999-01-01T00:00Z']);
    expect(late.stderr).to.contain('before the time of --as-of');
    const purged = fresh('purged');
    await rowanDoes(['restore', backup, '--data', purged]);
    await rowanDoes(['deleted', 'purge', '--all', '--data', purged]);
    const lost = fresh('backup');
    await rowanDoes(['backup', '--data', purged, '--to', lost]);
    expect((await rowan(['restore', lost, '--data', restored, '--as-of', at])).stderr).to.contain('purged');
    expect([existsSync(restored), existsSync(`${restored}.part`)]).to.deep.equal([false, false]);
    const { stderr, stdout } = await rowan(['restore', backup, '--data', restored, '--as-of', at]);
    expect(stderr).to.contain('not set back, of').and.contain('userPassword');
    expect(stdout).to.match(/^undone: \d+ changes after/m);
    expect(stdout).to.match(/all else as at .*: access rules/);
    expect(await plain(restored)).to.equal(before);
    await rowanDoes(['check', '--data', restored]);
    await rowanDoes(['import', ...data, '-'], {
      input: `dn: ou=staff,${SUFFIX}\nchangetype: modrdn\nnewrdn: ou=people\ndeleteoldrdn: 1\n`,
    });
    await rowanDoes(['deleted', 'restore', `uid=grace,ou=staff,${SUFFIX}`, ...data]);
  });

  it('gives one branch as LDIF that an import applies', async () => {
    const [backup, ldif] = [fresh('backup'), sandbox.path('branch.ldif')];
    await change(
      `dn: ou=inner,${PEOPLE}\nchangetype: add\nobjectClass: organizationalUnit\nou: inner\n\n` +
        ['leaf', 'other']
          .map((uid) => `dn: uid=${uid},ou=inner,${PEOPLE}\nchangetype: add\nobjectClass: account\nuid: ${uid}\n`)
          .join('\n'),
    );
    await rowanDoes(['backup', ...data, '--to', backup]);
    const before = await rowanDoes(['export', ...data, '--base', PEOPLE, '--no-operational']);
    await change(
      modify(ADA, 'description', 'wrong') +
        `dn: ${ADA}\nchangetype: modrdn\nnewrdn: uid=adam\ndeleteoldrdn: 1\n\n` +
        `dn: uid=grace,${PEOPLE}\nchangetype: delete\n\n` +
        `dn: uid=extra,${PEOPLE}\nchangetype: add\nobjectClass: account\nuid: extra\n\n` +
        `dn: ou=inner,${PEOPLE}\nchangetype: modrdn\nnewrdn: ou=renamed\ndeleteoldrdn: 1\n\n` +
        `dn: uid=leaf,ou=renamed,${PEOPLE}\nchangetype: modrdn\nnewrdn: uid=leaves\ndeleteoldrdn: 1\n`,
    );
    const typo = await rowan(['restore', backup, ...data, '--base', `ou=peple,${SUFFIX}`, '--ldif', ldif]);
    expect(typo.stderr).to.contain('the backup has no entry');
    const said = await rowanDoes(['restore', backup, ...data, '--base', PEOPLE, '--ldif', ldif]);
    expect(said).to.match(/: 1 to add, [1-9] to change, 1 that the backup lacks/);
    expect(readFileSync(ldif, 'utf8')).to.contain(`# not in the backup: uid=extra,${PEOPLE}`);
    await rowanDoes(['import', ...data, ldif]);
    await change(`dn: uid=extra,${PEOPLE}\nchangetype: delete\n`);
    expect(await rowanDoes(['export', ...data, '--base', PEOPLE, '--no-operational'])).to.equal(before);
  });
});
