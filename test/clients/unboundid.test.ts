import { expect } from 'chai';
import { ADA, ADMIN, PASSWORD, PEOPLE, type RunningServer, rowanDoes, Sandbox, SUFFIX } from '../cli/rowan.js';
import { needs } from '../require.js';
import { unboundId, unboundIdJar } from './unboundid.js';

const POLICY = `cn=policy,${SUFFIX}`;
const ANN = `uid=ann,${PEOPLE}`;

const LDIF = `dn: ${POLICY}
objectClass: device
objectClass: pwdPolicy
cn: policy
pwdAttribute: userPassword
pwdMaxAge: 1000000
pwdGraceAuthNLimit: 2

dn: ${ANN}
objectClass: inetOrgPerson
uid: ann
cn: Ann
sn: Ann
userPassword: sesame open
`;

/** The command-line tools of the UnboundID LDAP SDK for Java, as they come. */
describe('clients: UnboundID', () => {
  const sandbox = new Sandbox();
  let server: RunningServer;

  before(async function () {
    needs(this, 'unboundid');
    unboundIdJar();
    await sandbox.initSample();
    server = await sandbox.serve(['--passwords-policy', POLICY]);
  });
  after(() => sandbox.remove());

  async function does(name: string, args: readonly string[], { dn = ADMIN, password = PASSWORD, input = '' } = {}) {
    const { port, hostname } = new URL(server.url);
    const ended = await unboundId(name, ['-h', hostname, '-p', port, '-D', dn, '-w', password, ...args], input);
    expect(ended.code, `${name} ${args.join(' ')}\n${ended.stdout}${ended.stderr}`).to.equal(0);
    return ended.stdout;
  }

  const ofEntry = (dn: string, ...args: string[]): string[] => ['-b', dn, '-s', 'base', ...args, '(objectClass=*)'];

  it('ldapmodify adds what LDIF has, and ldapsearch pages through it', async () => {
    await does('ldapmodify', ['-a'], { input: LDIF });
    const found = await does('ldapsearch', ['-b', PEOPLE, '--simplePageSize', '3', '(uid=*)', 'uid']);
    expect(found).to.include(`dn: ${ANN}\nuid: ann\n`);
    expect(found).to.include(`dn: ${ADA}\nuid: ada\n`);
  });

  it('ldapsearch --getEffectiveRightsAuthzID tells who may do what', async () => {
    const asked = ['-g', `dn:${ANN}`, '-e', 'mail'];
    const found = await does('ldapsearch', [...ofEntry(ADA, ...asked), 'cn', 'aclRights']);
    const lines = found.replaceAll('\n ', '').split('\n');
    expect(lines).to.include(
      'aclRights;entryLevel: add:0,delete:0,read:1,write:0,see:1,create:0,remove:0,rename:0,moveIn:0,moveOut:0,proxy:0,manage:0',
    );
    for (const attribute of ['cn', 'mail'])
      expect(lines.join('\n')).to.include(`aclRights;attributeLevel;${attribute}: read:1,search:1,compare:1,add:0,`);
  });

  it('ldappasswordmodify and ldapcompare', async () => {
    await does('ldappasswordmodify', ['-a', `dn:${ANN}`, '-n', 'new secret']);
    expect(await does('ldapcompare', ['uid:ann', ANN])).to.include('compare true');
  });

  it('ldapsearch --accountUsable tells whether one could bind', async () => {
    expect(await does('ldapsearch', ofEntry(ANN, '--accountUsable'))).to.match(/Account Is Usable: +true/);
    await rowanDoes(['account', 'lock', ANN, '--data', sandbox.data]);
    expect(await does('ldapsearch', ofEntry(ANN, '--accountUsable'))).to.match(/Account Is Inactive: +true/);
    await rowanDoes(['account', 'unlock', ANN, '--data', sandbox.data]);
  });

  it('ldapsearch --usePasswordPolicyControl tells of an expired password', async () => {
    await rowanDoes(['account', 'expire', ANN, '--passwords-policy', POLICY, '--data', sandbox.data]);
    const asked = ofEntry(ANN, '--usePasswordPolicyControl');
    const told = await does('ldapsearch', asked, { dn: ANN, password: 'new secret' });
    expect(told).to.match(/Warning Type: +grace logins remaining\n# +Warning Value: +1\n/);
  });

  it('ldapmodify --useTransaction changes all or nothing', async () => {
    const modify = (dn: string, type: string, value: string): string =>
      `dn: ${dn}\nchangetype: modify\nreplace: ${type}\n${type}: ${value}\n\n`;
    const { port, hostname } = new URL(server.url);
    const change = (input: string) =>
      unboundId('ldapmodify', ['-h', hostname, '-p', port, '-D', ADMIN, '-w', PASSWORD, '--useTransaction'], input);
    const wrong = await change(modify(ANN, 'title', 'first') + modify(ADA, 'noSuchThing', 'x'));
    expect(wrong.stderr).to.match(/Result Code: +17 .*Failed Operation Message ID: +\d+/s);
    expect(await does('ldapsearch', [...ofEntry(ANN), 'title'])).to.not.include('title: first');
    const right = await change(modify(ANN, 'title', 'second') + modify(ADA, 'title', 'third'));
    expect([right.code, right.stderr.trim()]).to.deep.equal([0, '']);
    expect(await does('ldapsearch', [...ofEntry(ANN), 'title'])).to.include('title: second');
    expect(await does('ldapsearch', [...ofEntry(ADA), 'title'])).to.include('title: third');
  });

  it('ldapdelete', async () => {
    await does('ldapdelete', [ANN]);
    expect(await does('ldapsearch', ['-b', PEOPLE, '(uid=ann)'])).to.match(/Entries Returned: +0/);
  });
});
