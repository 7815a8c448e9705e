import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { expect } from 'chai';
import { ExtendedOid } from '../../src/protocol/oids.js';
import { SLAPD_ARGON2 } from '../password/vectors.js';
import { encodePasswordModify } from '../protocol/client-values.js';
import { RawClient } from '../server/raw-client.js';
import { ADA, ADMIN, PASSWORD, PEOPLE, type RunningServer, rowan, rowanDoes, Sandbox, SUFFIX, serve } from './rowan.js';

const POLICY = `cn=policy,${SUFFIX}`;
const SHADOW = ['--passwords-shadow', 'true'];
const dnOf = (uid: string): string => `uid=${uid},${PEOPLE}`;

/** As slapd stores it. */
function ssha(password: string): string {
  const salt = Buffer.from('salt');
  return `{SSHA}${Buffer.concat([createHash('sha1').update(password).update(salt).digest(), salt]).toString('base64')}`;
}

/** A value of pwdHistory as slapd writes it. */
function remembered(time: string, password: string): string {
  const stored = ssha(password);
  return `pwdHistory: ${time}#1.3.6.1.4.1.1466.115.121.1.40#${stored.length}#${stored}`;
}

function base64(value: string): string {
  return Buffer.from(value).toString('base64');
}

const today = Math.floor(Date.now() / 86_400_000);
/** libxcrypt's crypt("secret", …). */
const YESCRYPT = '{CRYPT}$y$j9T$abcdefgh$IUWJt2doU4Kf6E/JP1UkAT3S5O3Q7SSA8SJirXIlEu9';
const people: Readonly<Record<string, readonly string[]>> = {
  history: [
    'pwdChangedTime: 20260101000000Z',
    remembered('20240101000000Z', 'the first'),
    remembered('20250101000000.123456Z', 'the second'),
  ],
  argon2: [
    `userPassword:: ${base64(SLAPD_ARGON2.stored)}`,
    ...Object.values(SLAPD_ARGON2.history).map((value) => `pwdHistory:: ${base64(value)}`),
  ],
  reset: ['pwdReset: TRUE', 'pwdChangedTime: 20260101000000Z'],
  settled: ['pwdReset: FALSE'],
  failed: ['pwdFailureTime: 20260101000000Z', 'pwdFailureTime: 20260101000001Z'],
  disabled: ['loginDisabled: TRUE'],
  enabled: ['loginDisabled: FALSE'],
  closed: [`shadowExpire: ${today}`],
  open: [`shadowExpire: ${today + 1}`, 'shadowMax: 99999', 'shadowLastChange: 1'],
  endless: ['shadowExpire: -1', 'shadowMax: -1', 'shadowLastChange: 1'],
  aged: ['shadowMax: 30', 'shadowInactive: 7', `shadowLastChange: ${today - 40}`],
  young: ['shadowMax: 30', `shadowLastChange: ${today - 30}`],
  late: ['shadowMax: 30', `shadowLastChange: ${today - 31}`],
  known: ['shadowMax: 30', 'shadowLastChange: 1', `pwdChangedTime: ${new Date().getUTCFullYear() + 1}0101000000Z`],
};

const LDIF = `dn: ${POLICY}
objectClass: device
objectClass: pwdPolicy
objectClass: pwdPolicyChecker
cn: policy
pwdCheckModule: check_password.so
pwdUseCheckModule: TRUE
pwdCheckModuleArg: minQuality 3
pwdAttribute: userPassword
pwdInHistory: 5
pwdGraceAuthNLimit: 0

${Object.entries(people)
  .map(
    ([uid, lines]) => `dn: ${dnOf(uid)}
objectClass: inetOrgPerson
objectClass: shadowAccount
uid: ${uid}
cn: ${uid}
sn: ${uid}
${[...(uid === 'argon2' ? [] : [`userPassword: ${ssha('right')}`]), ...lines, ...(uid === 'late' ? [] : [`pwdPolicySubentry: ${POLICY}`])].join('\n')}
`,
  )
  .join('\n')}
dn: ${dnOf('gost')}
objectClass: inetOrgPerson
uid: gost
cn: gost
sn: gost
userPassword: ${YESCRYPT.replace('$y$', '$gy$')}

dn: ${dnOf('yescrypt')}
objectClass: inetOrgPerson
uid: yescrypt
cn: yescrypt
sn: yescrypt
userPassword: ${YESCRYPT}
`;

describe('cli: accounts from elsewhere', () => {
  const [sandbox, idle] = [new Sandbox(), new Sandbox()];
  let server: RunningServer;
  let said: string;
  before(async () => {
    await sandbox.initSample();
    const file = sandbox.path('people.ldif');
    writeFileSync(file, LDIF);
    said = await rowanDoes(['import', file, '--data', sandbox.data]);
    server = await serve(sandbox.data, SHADOW);
  });
  after(async () => {
    await server.stop();
    await sandbox.remove();
    await idle.remove();
  });

  async function bind(dn: string, password: string, { port } = server): Promise<number> {
    const client = await RawClient.open(port);
    const code = await client.bind(dn, password);
    client.close();
    return code;
  }

  it('import tells what it took over, and whose passwords nobody can verify', async () => {
    expect(said).to.match(/^1 account is locked by what the file says /m);
    expect(said).to.match(
      /^taken over: pwdChangedTime of 3 accounts, pwdFailureTime of 1 account, pwdHistory of 2 accounts, pwdReset of 1 account$/m,
    );
    expect(said).to.match(/^1 password cannot be verified here \(\{CRYPT\}\$gy\$\): .*\n {2}uid=gost,ou=people,.*\n/m);
    expect(said).not.to.contain('names all of them');
    expect(await bind(dnOf('yescrypt'), 'wrong')).to.equal(49);
    expect(await bind(dnOf('yescrypt'), 'secret')).to.equal(0);
  });

  it('import refuses a policy whose numbers make no sense', async () => {
    const file = sandbox.path('policy.ldif');
    const policy = LDIF.slice(0, LDIF.indexOf('\n\n') + 1).replaceAll('cn=policy', 'cn=other');
    writeFileSync(file, `${policy.replace('cn: policy', 'cn: other')}pwdMinLength: 9\npwdMaxLength: 8\n`);
    const { stdout, stderr } = await rowan(['import', file, '--data', sandbox.data]);
    expect(stdout + stderr).to.contain("constraintViolation: 'pwdMinLength' is 9, more than 'pwdMaxLength'");
  });

  it('a password of slapd’s history is refused, another is taken', async () => {
    for (const [uid, right, ...former] of [
      ['history', 'right', 'the first', 'the second'],
      ['argon2', SLAPD_ARGON2.clear, ...Object.keys(SLAPD_ARGON2.history)],
    ] as const) {
      const client = await RawClient.open(server.port);
      expect(await client.bind(dnOf(uid), right), uid).to.equal(0);
      const change = (password: string) =>
        client.request({
          op: 'extended',
          oid: ExtendedOid.passwordModify,
          value: encodePasswordModify({
            userIdentity: undefined,
            oldPassword: Buffer.from(right),
            newPassword: Buffer.from(password),
          }),
        });
      for (const password of [...former, right]) {
        const { code } = await change(password);
        expect(code, password).to.equal(19);
      }
      expect((await change('the third')).code).to.equal(0);
      client.close();
    }
  });

  it('values that slapd ends with a NUL are stored without it, and a change record of slapd deletes them', async () => {
    const dn = dnOf('nul');
    const entry = (lines: string) => `dn: ${dn}\n${lines}\n\n`;
    const write = (name: string, text: string) => {
      writeFileSync(sandbox.path(name), text);
      return rowanDoes(['import', sandbox.path(name), '--data', sandbox.data]);
    };
    const [former] = Object.values(SLAPD_ARGON2.history);
    const value = base64(SLAPD_ARGON2.stored);
    const person = 'objectClass: inetOrgPerson\nuid: nul\ncn: nul\nsn: nul';
    await write('nul.ldif', entry(`${person}\nuserPassword:: ${value}\npwdHistory:: ${base64(former!)}`));
    const exported = (await rowanDoes(['export', '--base', dn, '--data', sandbox.data])).replaceAll('\n ', '');
    expect(exported).to.contain(`\nuserPassword: ${SLAPD_ARGON2.stored.slice(0, -2)}\n`);
    expect(exported).to.contain(`\npwdHistory: ${former!.slice(0, -2).replace('#105#', '#103#')}\n`);
    await write('delete.ldif', entry(`changetype: modify\ndelete: userPassword\nuserPassword:: ${value}\n-`));
    expect(await bind(dn, SLAPD_ARGON2.clear)).to.equal(49);
  });

  it('account list tells of whom it is asked, and why', async () => {
    const list = async (...args: string[]) =>
      (await rowanDoes(['account', 'list', ...args, ...SHADOW, '--data', sandbox.data])).trim().split('\n').sort();
    expect(await list('--must-change')).to.deep.equal([
      `${dnOf('aged')}: the password has to be changed`,
      `${dnOf('late')}: the password has to be changed`,
      `${dnOf('reset')}: the password has to be changed`,
    ]);
    expect(await list('--unverifiable')).to.deep.equal([`${dnOf('gost')}: scheme {CRYPT}$gy$ cannot be verified here`]);
    const day = (n: number) => `${new Date(n * 86_400_000).toISOString().slice(0, 10)}T00:00:00Z`;
    expect(await list('--locked', '--expired')).to.deep.equal([
      `${dnOf('aged')}: no bind since ${day(today - 2)}, password expired ${day(today - 9)}`,
      `${dnOf('closed')}: no bind since ${day(today)}`,
      `${dnOf('disabled')}: locked by loginDisabled until it is unlocked`,
      `${dnOf('late')}: password expired ${day(today)}`,
    ]);
  });

  it('account list tells of failed binds and idleness under the policy, and of whom no bind is recorded', async () => {
    await idle.initSample();
    const policy = idle.path('policy.ldif');
    writeFileSync(
      policy,
      `dn: ${POLICY}
objectClass: device
objectClass: pwdPolicy
cn: policy
pwdAttribute: userPassword
pwdLockout: TRUE
pwdMaxFailure: 1
pwdMaxIdle: 100000000

dn: ${ADA}
changetype: modify
replace: userPassword
userPassword: {CLEARTEXT}right
-
replace: pwdPolicySubentry
pwdPolicySubentry: ${POLICY}
-
replace: pwdLastSuccess
pwdLastSuccess: 20260101000000Z
-

dn: uid=bram,${PEOPLE}
changetype: modify
replace: userPassword
userPassword: {CLEARTEXT}right
-
`,
    );
    await rowanDoes(['import', policy, '--data', idle.data]);
    const list = (...args: string[]) => rowan(['account', 'list', ...args, '--data', idle.data]);
    const { stdout, stderr } = await list('--inactive', '30');
    expect(stdout).to.equal(`${ADA}: last bind 2026-01-01T00:00:00Z\n`);
    expect(stderr).to.match(/^rowan: \d+ accounts? under no policy with pwdMaxIdle/);
    expect((await list()).code, 'of whom?').to.equal(2);
    const running = await serve(idle.data);
    expect(await bind(ADA, 'wrong', running)).to.equal(49);
    // Beside the server that runs.
    expect((await list('--locked')).stdout).to.match(
      new RegExp(`^${ADA}: locked by failed binds since 20\\S+Z until it is unlocked\n$`),
    );
    await running.stop();
  });

  it('loginDisabled locks, until it is unlocked', async () => {
    expect(await bind(dnOf('enabled'), 'right')).to.equal(0);
    expect(await bind(dnOf('disabled'), 'right')).to.equal(49);
    await rowanDoes(['account', 'unlock', dnOf('disabled'), '--data', sandbox.data]);
    expect(await bind(dnOf('disabled'), 'right')).to.equal(0);
  });

  it('shadowExpire and shadowMax hold where the setting says so, and a new password begins anew', async () => {
    const codes = async (from = server) => {
      const found: Record<string, number> = {};
      for (const uid of ['closed', 'open', 'endless', 'aged', 'young', 'known'])
        found[uid] = await bind(dnOf(uid), 'right', from);
      return found;
    };
    const none = { closed: 0, open: 0, endless: 0, aged: 0, young: 0, known: 0 };
    expect(await codes()).to.deep.equal({ ...none, closed: 49, aged: 49 });
    for (let i = 0; i < 5; i++) expect(await bind(dnOf('late'), 'right'), 'to change the password').to.equal(0);
    const without = await serve(sandbox.data);
    expect(await codes(without)).to.deep.equal(none);
    await without.stop();
    const show = ['account', 'show', dnOf('aged'), '--data', sandbox.data];
    expect(await rowanDoes([...show, ...SHADOW])).to.match(/password expired 20/);
    await rowanDoes(['passwd', dnOf('aged'), '--data', sandbox.data, ...SHADOW], { input: 'new one' });
    expect(await bind(dnOf('aged'), 'new one')).to.equal(0);
    expect(await bind(ADMIN, PASSWORD)).to.equal(0);
  });
});
