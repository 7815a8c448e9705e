import { mkdirSync, writeFileSync } from 'node:fs';
import { expect } from 'chai';
import { ADA, ADMIN, type Ended, PASSWORD, PEOPLE, rowan, rowanDoes, run, Sandbox, SUFFIX } from '../cli/rowan.js';
import { startSlapd } from '../clients/slapd.js';
import { needs } from '../require.js';
import { Machine } from './servers.js';

/** An entry with a secret, and a referral. */
const MORE = `dn: uid=secret,${PEOPLE}
objectClass: inetOrgPerson
uid: secret
cn: Secret
sn: Secret
userPassword: one

dn: ou=elsewhere,${SUFFIX}
objectClass: referral
objectClass: extensibleObject
ou: elsewhere
ref: ldap://other.example.com/

`;

/** More entries than a page has. */
const DEVICES = Array.from(
  { length: 520 },
  (_, i) => `dn: cn=d${i},${SUFFIX}\nobjectClass: device\ncn: d${i}\n\n`,
).join('');

const SLAPD = (folder: string): string => `include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
sizelimit 5
pidfile ${folder}/slapd.pid
database mdb
suffix ${SUFFIX}
rootdn ${ADMIN}
rootpw "${PASSWORD}"
directory ${folder}/db
`;

describe('rowan compare', () => {
  const sandbox = new Sandbox();
  const first = new Machine(sandbox, 'data');
  const second = new Machine(sandbox, 'second');
  let credentials: string[];

  before(async () => {
    await sandbox.initSample();
    await rowanDoes(['import', '--data', first.data, '-'], { input: MORE + DEVICES });
    writeFileSync(sandbox.path('password'), PASSWORD);
    credentials = ['--bind-dn', ADMIN, '--password-file', sandbox.path('password')];
    await first.start();
    await second.follow(first);
    await second.start();
  });
  after(() => sandbox.remove());

  const changeSecond = (input: string): Promise<string> =>
    rowanDoes(['import', '--data', sandbox.path('copy'), '-'], { input });
  const differences = ({ code, stdout, stderr }: Ended): string => {
    expect([code, stderr]).to.deep.equal([1, '']);
    return stdout;
  };

  it('finds a folder, its server, and those of a replica equal', async () => {
    await second.says('0 changes behind');
    const count = /^exported (\d+) /.exec(
      await rowanDoes(['export', '--data', first.data, '--output', sandbox.path('all.ldif')]),
    )![1];
    const pairs = [
      [first.data, second.data, '--full'],
      [first.data, first.server.url, ...credentials],
      [first.data, second.socketUrl, ...credentials],
      [second.server.url, first.socketUrl, ...credentials],
    ];
    for (const pair of pairs) expect(await rowanDoes(['compare', ...pair])).to.equal(`equal: ${count} entries\n`);
  });

  it('prints each difference, secrets without their values', async () => {
    const copy = sandbox.path('copy');
    await rowanDoes(['copy', '--from', first.data, '--to', copy]);
    await changeSecond(`dn: ${ADA}
changetype: modify
replace: cn
cn: ADA  brandt
-
add: description
description: Grüße
-

dn: uid=secret,${PEOPLE}
changetype: modify
replace: userPassword
userPassword: two
-

dn: uid=new,${PEOPLE}
changetype: add
objectClass: account
uid: new

dn: ou=elsewhere,${SUFFIX}
changetype: delete
`);
    expect(differences(await rowan(['compare', first.data, copy, '--ignore', 'entryUUID']))).to.equal(`\
  dn: ${ADA}
+ description:: R3LDvMOfZQ==

+ dn: uid=new,${PEOPLE}
+ objectClass: account
+ objectClass: top
+ uid: new

  dn: uid=secret,${PEOPLE}
- userPassword: (a secret)
+ userPassword: (a secret)

- dn: ou=elsewhere,${SUFFIX}
- objectClass: referral
- objectClass: extensibleObject
- objectClass: top
- ou: elsewhere
- ref: ldap://other.example.com/

different: 4 entries
`);
    expect(differences(await rowan(['compare', first.data, copy, '--base', `uid=new,${PEOPLE}`]))).to.match(
      /^\+ dn: .*\n(\+ .*\n)*\+ entryUUID: \S+\n(\+ .*\n)*\ndifferent: 1 entry\n$/,
    );
  });

  it('--full prints what only folders show', async () => {
    const copy = sandbox.path('full');
    await rowanDoes(['copy', '--from', first.data, '--to', copy]);
    expect(await rowanDoes(['compare', first.data, copy, '--full'])).to.match(/^equal: /);
    await rowanDoes(['number', 'set', 'uidNumber', '1', '9', '--data', copy]);
    await rowanDoes(['index', 'add', 'description', '--data', copy]);
    writeFileSync(sandbox.path('rules.yaml'), 'rules:\n- { name: all, who: { users: true }, allow: [view] }\n');
    await rowanDoes(['access', 'apply', sandbox.path('rules.yaml'), '--data', copy]);
    await rowanDoes(['import', '--data', copy, '-'], {
      input: `dn: ${ADA}\nchangetype: modify\nadd: description\ndescription: x\n-\nreplace: description\n-\n\ndn: ou=elsewhere,${SUFFIX}\nchangetype: delete\n`,
    });
    const found = differences(await rowan(['compare', first.data, copy, '--full']));
    expect(found).to.match(/^- modifyTimestamp|^- entryCSN: .*\n\+ entryCSN: /m);
    const kinds = [...found.matchAll(/^(\S.*): (none|\d+ \(\w+\)) and (none|\d+ \(\w+\))$/gm)].map(([, kind]) => kind);
    expect(kinds).to.include.members(['change records', 'deleted entries', 'index description', 'settings']);
    expect(kinds).to.include('versions of access rules');
    expect(found).to.match(/^different: 2 entries, .*change records/m);
    // Content is equal but for the deleted entry.
    expect(differences(await rowan(['compare', first.data, copy]))).to.match(/\ndifferent: 1 entry\n$/);
  });

  it('compares with slapd', async function () {
    needs(this, 'slapd');
    const folder = sandbox.path('slapd');
    mkdirSync(`${folder}/db`, { recursive: true });
    writeFileSync(`${folder}/conf`, SLAPD(folder));
    const ldif = await rowanDoes(['export', '--data', first.data]);
    const input = `${folder}/all.ldif`;
    const changed = ldif.replace('l: Budapest', 'l: Pécs').replace('title: Accountant', 'title: ACCOUNTANT');
    writeFileSync(input, changed.replace(/^version: 1\n|^pwd.*\n/gm, ''));
    const added = await run('slapadd', ['-q', '-f', `${folder}/conf`, '-l', input]);
    expect(added.code, added.stderr).to.equal(0);
    const slapd = await startSlapd(`${folder}/conf`);
    const found = differences(await rowan(['compare', first.server.url, slapd.url, ...credentials]));
    expect(found).to.equal(`  dn: uid=eszter,${PEOPLE}\n- l: Budapest\n+ l:: UMOpY3M=\n\ndifferent: 1 entry\n`);
    const ignoring = ['--ignore', 'l', '--base', PEOPLE];
    expect(await rowanDoes(['compare', slapd.url, first.data, ...credentials, ...ignoring])).to.match(/^equal: /);
    await slapd.stop();
  });

  it('ends with 2 when it has not compared', async () => {
    const away = `ldapi://${encodeURIComponent(sandbox.path('away.sock'))}`;
    const unreached = await rowan(['compare', first.data, away]);
    expect([unreached.code, unreached.stdout]).to.deep.equal([2, '']);
    expect(unreached.stderr).to.include(`rowan: ${away}: `);
    const hidden = await rowan(['compare', first.data, second.data, '--base', 'ou=none,dc=example,dc=com']);
    expect([hidden.code, hidden.stderr]).to.deep.equal([
      2,
      'rowan: neither directory shows an entry; see --base and --bind-dn\n',
    ]);
    const wrong = await rowan(['compare', first.data, second.server.url, '--full']);
    expect([wrong.code, wrong.stderr]).to.deep.equal([2, 'rowan: --full compares two folders\n']);
  });
});
