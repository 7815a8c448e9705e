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
      new RegExp(`^# change ${first}, \\d{4}-.*Z, by "${ADMIN}"\n# left out: userPassword, secret\n`),
    );
    const records = text.replace(/^# change .*Z, /gm, '# ').split('\n\n');
    expect(records[0]).to.include(`dn: uid=ann,${PEOPLE}\nchangetype: add\n`).and.include('sn:: w4Rubg==');
    expect(records.slice(1)).to.deep.equal([
      `# by "${ADMIN}"\n# left out: userPassword, secret\ndn: uid=ann,${PEOPLE}\nchangetype: modify\n` +
        'delete: mail\nmail: ann@example.com\n-\nadd: mail\nmail: a.lind@example.com\n-\nadd: l\nl: Kiel\n-',
      `# by "${ADMIN}"\ndn: uid=ann,${PEOPLE}\nchangetype: modrdn\nnewrdn: uid=lind\ndeleteoldrdn: 1\nnewsuperior: ${SUFFIX}`,
      `# by "${ADMIN}"\ndn: ${LIND}\nchangetype: delete`,
      '',
    ]);
    expect(text).to.not.match(/ARGON2|SSHA|words/);
    expect(await command('history', LIND)).to.equal(text);
  });

  it('history writes JSON lines, since a time, by entryUUID, with what purged entries leave', async () => {
    const lines = (await command('history', LIND, '--format', 'json')).trim().split('\n');
    const changes = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
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
      /^# change .*\n# left out: all values, purged\n# add "uid=gone,.*"\n\n# change .*\ndn: .*\nchangetype: delete\n\n$/,
    );
    const { code, stderr } = await rowan(['history', `uid=nobody,${PEOPLE}`, '--data', sandbox.data]);
    expect([code, stderr]).to.deep.equal([
      1,
      `rowan: no entry has the name 'uid=nobody,${PEOPLE}', and no change of one is kept\n`,
    ]);
    expect(await command('history', ADA)).to.include(`dn: ${ADA}\nchangetype: add\n`);
  });
});
