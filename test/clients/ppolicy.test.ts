import { expect } from 'chai';
import {
  ADMIN,
  type Ended,
  PASSWORD,
  PEOPLE,
  type RunningServer,
  rowanDoes,
  run,
  Sandbox,
  SUFFIX,
} from '../cli/rowan.js';
import { needs } from '../require.js';

const POLICY = `cn=policy,${SUFFIX}`;

/** What Debian's ldap-utils say of accounts under a password policy, asked with `-e ppolicy`. */
describe('clients: ldap-utils with -e ppolicy', () => {
  const sandbox = new Sandbox();
  let server: RunningServer;
  let n = 0;

  before(async function () {
    needs(this, 'ldap-utils');
    await sandbox.initSample();
    server = await sandbox.serve(['--passwords-policy', POLICY]);
    await adds(`dn: ${POLICY}
objectClass: device
objectClass: pwdPolicy
cn: policy
pwdAttribute: userPassword
pwdLockout: TRUE
pwdMaxFailure: 3
pwdMaxAge: 1000000
pwdExpireWarning: 1000000
pwdGraceAuthNLimit: 3
pwdMustChange: TRUE
pwdCheckQuality: 2
pwdMinLength: 8
pwdInHistory: 2
`);
  });
  after(() => sandbox.remove());

  const tool = (name: string, dn: string, password: string, args: readonly string[] = [], input = ''): Promise<Ended> =>
    run(name, ['-x', '-H', server.url, '-D', dn, '-w', password, '-e', 'ppolicy', ...args], { input });

  async function adds(ldif: string): Promise<void> {
    const ended = await tool('ldapadd', ADMIN, PASSWORD, [], ldif);
    expect(ended.code, ended.stderr).to.equal(0);
  }

  /** A user who has set this password. */
  async function user(password = 'sesame open'): Promise<string> {
    const dn = `uid=user${++n},${PEOPLE}`;
    await adds(
      `dn: ${dn}\nobjectClass: inetOrgPerson\nuid: user${n}\ncn: user\nsn: user\nuserPassword: first secret\n`,
    );
    const first = await tool('ldappasswd', dn, 'first secret', ['-a', 'first secret', '-s', password]);
    expect(first.code, first.stderr).to.equal(0);
    return dn;
  }

  const whoami = (dn: string, password: string): Promise<Ended> => tool('ldapwhoami', dn, password);
  const says = ({ stdout, stderr }: Ended): string => `${stdout}${stderr}`;

  it('how long the password is good for', async () => {
    const { code, stdout, stderr } = await whoami(await user(), 'sesame open');
    expect([code, stdout]).to.deep.equal([0, `dn:uid=user${n},${PEOPLE}\n`]);
    expect(stderr).to.match(/^ldap_bind: Success \(0\) \(Password expires in (1000000|9999\d\d) seconds\)$/m);
  });

  it('a password that somebody else has set is to be changed first', async () => {
    const dn = await user();
    await rowanDoes(['passwd', dn, '--data', sandbox.data], { input: 'set by helpdesk\n' });
    await rowanDoes(['account', 'must-change', dn, '--data', sandbox.data]);
    expect(says(await whoami(dn, 'set by helpdesk'))).to.contain('ldap_bind: Success (0); Password must be changed');
    const search = await tool('ldapsearch', dn, 'set by helpdesk', ['-b', PEOPLE, '-s', 'base']);
    expect([search.code, says(search)].join(' ')).to.match(/^50 .*result: 50 Insufficient access.*change/s);
    expect(
      (await tool('ldappasswd', dn, 'set by helpdesk', ['-a', 'set by helpdesk', '-s', 'my own secret'])).code,
    ).to.equal(0);
    expect(says(await whoami(dn, 'my own secret'))).to.not.include('must be changed');
  });

  it('an expired password opens a few times more, and then no more', async () => {
    const dn = await user();
    await rowanDoes(['account', 'expire', dn, '--passwords-policy', POLICY, '--data', sandbox.data]);
    for (const left of [2, 1, 0]) {
      const ended = await whoami(dn, 'sesame open');
      expect([ended.code, says(ended)].join(' ')).to.contain(`(Password expired, ${left} grace logins remain)`);
    }
    const ended = await whoami(dn, 'sesame open');
    expect([ended.code, says(ended)].join(' ')).to.match(/^49 ldap_bind: Invalid credentials \(49\); Password expired/);
  });

  it('nobody is told that an account is locked', async () => {
    const dn = await user();
    for (let i = 0; i < 3; i++) expect((await whoami(dn, 'no')).code).to.equal(49);
    const ended = await whoami(dn, 'sesame open');
    expect(ended.code).to.equal(49);
    expect(says(ended)).to.not.include('locked');
    await rowanDoes(['account', 'unlock', dn, '--data', sandbox.data]);
    expect((await whoami(dn, 'sesame open')).code).to.equal(0);
  });

  it('why a new password is refused', async () => {
    const dn = await user();
    const change = (to: string) => tool('ldappasswd', dn, 'sesame open', ['-a', 'sesame open', '-s', to]);
    expect(says(await change('short'))).to.contain('Result: Constraint violation (19)');
    expect(says(await change('short'))).to.contain('ppolicy: error=6 (Password is too short for policy)');
    expect(says(await change('first secret'))).to.contain(
      'ppolicy: error=8 (New password is in list of old passwords)',
    );
  });
});
