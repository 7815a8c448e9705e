import { expect } from 'chai';
import { heard, PEOPLE, rowanDoes, Sandbox, SUFFIX, startRowan } from './rowan.js';

const LDIF = `dn: uid=ann,${PEOPLE}
changetype: add
objectClass: inetOrgPerson
uid: ann
cn: Ann
sn: Ann
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
delete: l
-

dn: uid=ann,${PEOPLE}
changetype: modrdn
newrdn: uid=lind
deleteoldrdn: 1
newsuperior: ${SUFFIX}

dn: uid=bob,${PEOPLE}
changetype: add
objectClass: account
uid: bob

dn: uid=bob,${PEOPLE}
changetype: delete
`;

describe('rowan changes', () => {
  const sandbox = new Sandbox();
  let first = 0;

  before(async () => {
    await sandbox.initSample();
    const before = await rowanDoes(['changes', '--data', sandbox.data, '--format', 'json']);
    first = (JSON.parse(before.trim().split('\n').at(-1)!) as { number: number }).number + 1;
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input: LDIF });
  });
  after(() => sandbox.remove());

  const changes = (...args: string[]): Promise<string> =>
    rowanDoes(['changes', '--data', sandbox.data, '--from', String(first), ...args]);

  it('writes what changed as LDIF, with present values, without secrets', async () => {
    const text = await changes();
    const records = text
      .replace(/^# change .*\n/gm, '')
      .replace(/^entry.*\n|^(create|modif|creators).*\n|^structural.*\n/gm, '');
    expect(text).to.match(
      new RegExp(`^# change ${first}, \\d{4}-.*Z, by "cn=admin,${SUFFIX}"\n# left out: userPassword, secret\n`),
    );
    expect(text).to.not.include('ARGON2');
    expect(records).to.include(`dn: uid=ann,${PEOPLE}\nchangetype: add\n`);
    expect(records).to.include('mail: a.lind@example.com\n');
    expect(records).to.match(/replace: mail\nmail: a.lind@example.com\n-\n/);
    expect(records).to.include(
      `dn: uid=ann,${PEOPLE}\nchangetype: modrdn\nnewrdn: uid=lind\ndeleteoldrdn: 1\nnewsuperior: ${SUFFIX}\n`,
    );
    expect(records).to.include(`dn: uid=bob,${PEOPLE}\nchangetype: add\n\n`);
    expect(records).to.include(`dn: uid=bob,${PEOPLE}\nchangetype: delete\n`);
  });

  it('writes JSON lines, of one branch', async () => {
    const lines = (await changes('--format', 'json', '--base', `uid=lind,${SUFFIX}`)).trim().split('\n');
    const [renamed] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines.length).to.equal(1);
    expect(renamed).to.deep.include({
      number: first + 2,
      op: 'rename',
      dn: `uid=ann,${PEOPLE}`,
      newDn: `uid=lind,${SUFFIX}`,
    });
    expect(renamed!.changes).to.equal(`newrdn: uid=lind\ndeleteoldrdn: 1\nnewsuperior: ${SUFFIX}\n`);
  });

  it('--follow goes on with the changes of other processes', async () => {
    const child = startRowan([
      'changes',
      '--data',
      sandbox.data,
      '--follow',
      '--format',
      'json',
      '--from',
      String(first),
    ]);
    await heard(child, 'uid=bob');
    const said = heard(child, 'uid=new');
    const ldif = `dn: uid=new,${PEOPLE}\nchangetype: add\nobjectClass: account\nuid: new\n`;
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input: ldif });
    expect((await said).match(/"op":"add"/g)!.length).to.be.at.least(1);
    child.kill('SIGINT');
  });
});
