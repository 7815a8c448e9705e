import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { ADA, ADMIN, PEOPLE, rowan, rowanDoes, Sandbox, SUFFIX } from './rowan.js';

const LIND = `uid=lind,${SUFFIX}`;

/** Adds an entry, changes it in three ways, deletes it. */
const LIFE = `dn: uid=ann,${PEOPLE}
changetype: add
objectClass: inetOrgPerson
uid: ann
cn: Ann
sn: Änn
mail: ann@example.com
userPassword: secret words

dn: uid=ann,${PEOPLE}
changetype: modify
replace: mail
mail: a.lind@example.com
-
add: l
l: Kiel
-
replace: userPassword
userPassword: other words
-

dn: uid=ann,${PEOPLE}
changetype: modrdn
newrdn: uid=lind
deleteoldrdn: 1
newsuperior: ${SUFFIX}

dn: ${LIND}
changetype: delete
`;

describe('rowan history, diff and undo', () => {
  const sandbox = new Sandbox();
  let first = 0;

  const command = (name: string, ...args: string[]): Promise<string> =>
    rowanDoes([name, ...args, '--data', sandbox.data]);
  const change = (ldif: string): Promise<string> => rowanDoes(['import', '--data', sandbox.data, '-'], { input: ldif });
  const lastNumber = async (): Promise<number> =>
    (JSON.parse((await command('changes', '--format', 'json')).trim().split('\n').at(-1)!) as { number: number })
      .number;

  before(async () => {
    await sandbox.initSample();
    first = (await lastNumber()) + 1;
    await change(LIFE);
  });
  after(() => sandbox.remove());

  it('history writes old and new values and names as LDIF, of an entry that is gone, by each of its names', async () => {
    const text = await command('history', `uid=ann,${PEOPLE}`);
    expect(text).to.match(
      new RegExp(`\\n# change ${first}, \\d{4}-.*Z, by "${ADMIN}"\n# left out: userPassword, secret\n`),
    );
    const records = text
      .replace(/^# change .*Z, /gm, '# ')
      .split('\n\n')
      .slice(0, -1)
      .reverse();
    expect(records[0]).to.include(`dn: uid=ann,${PEOPLE}\nchangetype: add\n`).and.include('sn:: w4Rubg==');
    expect(records.slice(1)).to.deep.equal([
      `# by "${ADMIN}"\n# left out: userPassword, secret\ndn: uid=ann,${PEOPLE}\nchangetype: modify\n` +
        'delete: mail\nmail: ann@example.com\n-\nadd: mail\nmail: a.lind@example.com\n-\nadd: l\nl: Kiel\n-',
      `# by "${ADMIN}"\ndn: uid=ann,${PEOPLE}\nchangetype: modrdn\nnewrdn: uid=lind\ndeleteoldrdn: 1\nnewsuperior: ${SUFFIX}`,
      `# by "${ADMIN}"\ndn: ${LIND}\nchangetype: delete`,
    ]);
    expect(text).to.not.match(/ARGON2|SSHA|words/);
    expect(await command('history', LIND)).to.equal(text);
  });

  it('history writes JSON lines, since a time, by entryUUID, with what purged entries leave', async () => {
    const lines = (await command('history', LIND, '--format', 'json')).trim().split('\n');
    const changes = lines.map((line) => JSON.parse(line) as Record<string, unknown>).reverse();
    expect(changes.map(({ op }) => op)).to.deep.equal(['add', 'modify', 'rename', 'delete']);
    expect(changes[1]).to.deep.include({ number: first + 1, dn: `uid=ann,${PEOPLE}`, by: ADMIN });
    expect(changes[1]!.attributes).to.include.members(['l', 'mail', 'userPassword']);
    expect(changes[1]!.changes).to.match(
      /^delete: mail\nmail: ann@.*\n-\nadd: mail\nmail: a.lind@.*\n-\nadd: l\nl: Kiel\n-\n$/,
    );
    expect(changes[2]).to.deep.include({
      newDn: LIND,
      changes: `newrdn: uid=lind\ndeleteoldrdn: 1\nnewsuperior: ${SUFFIX}\n`,
    });
    const [id, since] = [String(changes[0]!.entryUUID), String(changes[3]!.time)];
    expect(await command('history', id, '--since', since)).to.equal('');

    await change(`dn: uid=gone,${PEOPLE}\nchangetype: add\nobjectClass: account\nuid: gone\n`);
    const time = new Date().toISOString();
    await change(`dn: uid=gone,${PEOPLE}\nchangetype: delete\n`);
    expect(await command('history', `uid=gone,${PEOPLE}`, '--since', time)).to.match(
      /^# change .*\ndn: .*\nchangetype: delete\n\n$/,
    );
    await command('deleted', 'purge', '--all');
    expect(await command('history', `uid=gone,${PEOPLE}`)).to.match(
      /^# change .*\ndn: .*\nchangetype: delete\n\n# change .*\n# left out: all values, purged\n# add "uid=gone,.*"\n\n$/,
    );
    const { code, stderr } = await rowan(['history', `uid=nobody,${PEOPLE}`, '--data', sandbox.data]);
    expect([code, stderr]).to.deep.equal([
      1,
      `rowan: no entry has the name 'uid=nobody,${PEOPLE}', and no change of one is kept\n`,
    ]);
    expect(await command('history', ADA)).to.include(`dn: ${ADA}\nchangetype: add\n`);
  });

  it('diff writes what brings the entry from one time to another, and ends with 1; with 0 where there is nothing', async () => {
    const { time } = JSON.parse((await command('history', LIND, '--format', 'json')).trim().split('\n').at(-1)!) as {
      time: string;
    };
    const gone = await rowan(['diff', LIND, '--from', time, '--data', sandbox.data]);
    expect(gone).to.deep.equal({ code: 2, stdout: '', stderr: gone.stderr });
    expect(gone.stderr).to.match(/^rowan: the entry, or one above it, was deleted since and is purged/);

    const from = new Date().toISOString();
    await change(
      `dn: ${ADA}\nchangetype: modify\nreplace: title\ntitle: boss\n-\nreplace: userPassword\nuserPassword: words\n-\n`,
    );
    const changed = await rowan(['diff', ADA, '--from', from, '--data', sandbox.data]);
    expect([changed.code, changed.stderr]).to.deep.equal([1, '']);
    expect(changed.stdout).to.match(
      new RegExp(
        `^# left out: userPassword, secret\ndn: ${ADA}\nchangetype: modify\n(delete: title\ntitle: .*\n-\n)?add: title\ntitle: boss\n-\n\n$`,
      ),
    );
    expect(await command('diff', ADA, '--from', new Date().toISOString())).to.equal('');
    for (const [args, text] of [
      [['--from', '2026-11-28T12:00Z', '--to', '2026-11-27T12:00Z'], "rowan: '--from' is later than '--to'\n"],
      [['--from', '2020-01-01T00:00Z'], /^rowan: change records are kept since 20/],
    ] as const) {
      const { code, stderr } = await rowan(['diff', ADA, ...args, '--data', sandbox.data]);
      expect(code, stderr).to.equal(2);
      expect(stderr).to.match(typeof text === 'string' ? new RegExp(`^${text}$`) : text);
    }
  });

  it('undo brings back what changes did, beside a server, and is in its audit log; --dry-run only writes LDIF', async () => {
    const audit = sandbox.path('audit.ldif');
    await sandbox.serve(['--audit-log-output', audit]);
    const before = await command('export');
    const start = (await lastNumber()) + 1;
    await change(LIFE.slice(0, LIFE.indexOf('\ndn:')));
    await change(
      `dn: ${ADA}\nchangetype: modify\nreplace: title\ntitle: chief\n-\nadd: carLicense\ncarLicense: KI-X 1\n-\n`,
    );
    await change(`dn: ${ADA}\nchangetype: modrdn\nnewrdn: uid=lovelace\ndeleteoldrdn: 1\nnewsuperior: ${SUFFIX}\n`);
    await change(`dn: uid=grace,${PEOPLE}\nchangetype: delete\n`);
    const after = await command('export');
    // References that follow are changes of the server's own.
    const made = (await command('changes', '--from', String(start), '--format', 'json')).trim().split('\n');
    const numbers = made.flatMap((line) => {
      const { number, by } = JSON.parse(line) as { number: number; by: string };
      return by === '' ? [] : [String(number)];
    });
    expect(numbers.length).to.equal(4);

    const refused = await rowan(['undo', numbers[1]!, numbers[0]!, '99999', '--data', sandbox.data]);
    expect([refused.code, refused.stdout, refused.stderr]).to.deep.equal([
      1,
      '',
      'rowan: change 99999 is not kept; see "rowan changes" (noSuchObject)\n',
    ]);
    const text = await command('undo', ...numbers, '--dry-run');
    expect(await command('export')).to.equal(after);
    const records = text.split('\n\n');
    expect(records[0]).to.match(new RegExp(`^# undoes change ${numbers[3]}\ndn: uid=grace,.*\nchangetype: add\n`));
    expect(records[1]).to.equal(
      `# undoes change ${numbers[2]}\ndn: uid=lovelace,${SUFFIX}\nchangetype: modrdn\nnewrdn: uid=ada\ndeleteoldrdn: 1\nnewsuperior: ${PEOPLE}`,
    );
    expect(records[2]).to.match(
      /changetype: modify\ndelete: carLicense\n.*\n-\ndelete: title\ntitle: chief\n-\nadd: title\ntitle: boss\n-$/,
    );
    expect(records[3]).to.equal(`# undoes change ${numbers[0]}\ndn: uid=ann,${PEOPLE}\nchangetype: delete`);

    expect(await command('undo', ...numbers)).to.equal(text);
    expect(sorted(await command('export'))).to.deep.equal(sorted(before));
    expect(readFileSync(audit, 'utf8')).to.match(new RegExp(`rowan undo ${numbers.join(' ')}`));
    expect(readFileSync(audit, 'utf8')).to.not.match(/rowan (history|diff) /);
  });

  it('undo changes nothing where the directory refuses a part of it', async () => {
    await change(`dn: ou=new,${SUFFIX}\nchangetype: add\nobjectClass: organizationalUnit\nou: new\n`);
    await change(`dn: ${ADA}\nchangetype: modify\nreplace: title\ntitle: chief\n-\n`);
    await change(`dn: uid=sub,ou=new,${SUFFIX}\nchangetype: add\nobjectClass: account\nuid: sub\n`);
    const numberOf = async (dn: string): Promise<string> => {
      const [last] = (await command('history', dn, '--format', 'json')).split('\n');
      return String((JSON.parse(last!) as { number: number }).number);
    };
    const [added, changed] = [await numberOf(`ou=new,${SUFFIX}`), await numberOf(ADA)];
    const { code, stderr } = await rowan(['undo', added, changed, '--data', sandbox.data]);
    expect([code, stderr]).to.deep.equal([
      1,
      `rowan: change ${added} cannot be undone: right below the entry there are others; delete them first (notAllowedOnNonLeaf)\n`,
    ]);
    expect(await numberOf(ADA)).to.equal(changed);
    expect(await command('search', '(title=chief)')).to.contain(`dn: ${ADA}`);
  });
});

/** The entries of LDIF without what each write changes. */
function sorted(ldif: string): string[] {
  const lines = ldif.split('\n').filter((line) => !/^(entryCSN|modifyTimestamp|modifiersName): /.test(line));
  return lines
    .join('\n')
    .split('\n\n')
    .map((entry) => entry.split('\n').sort().join('\n'))
    .sort();
}
