import { expect } from 'chai';
import { ADMIN, PASSWORD, PEOPLE, type RunningServer, rowanDoes, run, Sandbox, SUFFIX } from '../cli/rowan.js';
import { needs } from '../require.js';

const HANA = `uid=hana,${PEOPLE}`;
const BRAM = `uid=bram,${PEOPLE}`;
const GROUPS = `ou=groups,${SUFFIX}`;
const SALES = `cn=sales,${GROUPS}`;
const OUTER = `cn=outer,${GROUPS}`;
const IN_CHAIN = '1.2.840.113556.1.4.1941';

/** What applications ask about groups, as their documentation has it, asked by `ldapsearch`. */
describe('clients: group queries of applications', () => {
  const sandbox = new Sandbox();
  let server: RunningServer;

  before(async function () {
    needs(this, 'ldap-utils');
    await sandbox.initSample();
    const input = `dn: ${OUTER}\nobjectClass: groupOfNames\ncn: outer\nmember: ${SALES}\n`;
    await rowanDoes(['import', '--data', sandbox.data, '-'], { input });
    server = await sandbox.serve();
  });
  after(() => sandbox.remove());

  /** The LDIF of what is found, without its DNs where others are asked for. */
  async function search(filter: string, ...attributes: string[]): Promise<string[]> {
    const bind = ['-x', '-H', server.url, '-D', ADMIN, '-w', PASSWORD, '-LLL', '-o', 'ldif-wrap=no'];
    const ended = await run('ldapsearch', [...bind, '-b', SUFFIX, filter, ...attributes], { input: '' });
    expect(ended.code, `${filter}\n${ended.stderr}`).to.equal(0);
    return ended.stdout.split('\n').filter((line) => line !== '');
  }
  const found = async (filter: string): Promise<string[]> =>
    (await search(filter, '1.1')).map((line) => line.replace(/^dn: /, '')).sort();
  const memberOf = async (uid: string, ...attributes: string[]): Promise<string[]> =>
    (await search(`(uid=${uid})`, ...attributes)).filter((line) => /^memberOf: /i.test(line)).sort();

  it('Keycloak: by memberOf, by member, and by member recursively', async () => {
    expect(await memberOf('hana', 'memberOf')).to.include.members([`memberOf: ${SALES}`, `memberOf: ${OUTER}`]);
    expect(await found(`(&(objectClass=groupOfNames)(member=${HANA}))`))
      .to.include(SALES)
      .and.to.not.include(OUTER);
    expect(await found(`(&(member:${IN_CHAIN}:=${HANA})(objectclass=groupOfNames))`)).to.include.members([
      SALES,
      OUTER,
    ]);
    expect(
      await found(`(&(uid=hana)(memberOf=${OUTER})(objectclass=inetOrgPerson)(objectclass=organizationalPerson))`),
    ).to.deep.equal([HANA]);
  });

  it('GitLab: user_filter, nested groups, the members of a group', async () => {
    const user = (name: string, filter: string) => found(`(&(uid=${name})${filter})`);
    expect(await user('hana', `(memberOf=${SALES})`)).to.deep.equal([HANA]);
    expect(await user('bram', `(memberOf=${SALES})`)).to.deep.equal([]);
    expect(await user('hana', `(memberOf:${IN_CHAIN}:=${OUTER})`)).to.deep.equal([HANA]);
    expect(await user('hana', `(!(memberOf=${SALES}))`)).to.deep.equal([]);
    expect(await user('bram', `(!(memberOf=${SALES}))`)).to.deep.equal([BRAM]);
    const groups = '(|(objectClass=group)(objectClass=groupOfNames)(objectClass=groupOfUniqueNames))';
    expect(await found(`(&${groups}(member=${HANA}))`)).to.include(SALES);
    expect(await found(`(&${groups}(uniqueMember=${HANA}))`)).to.deep.equal([`cn=vpn,${GROUPS}`]);
    expect(await search(`(&(cn=sales)${groups})`, 'member', 'uniqueMember', 'memberUid')).to.include(`member: ${HANA}`);
    expect(await search('(cn=sales)', 'member;range=1-1')).to.include(`member;range=1-*: ${HANA}`);
  });

  it('Nextcloud: login filter, whether memberOf is there, groups of a user', async () => {
    const login = (uid: string) =>
      found(
        `(&(&(|(objectclass=inetOrgPerson))(|(memberof=${SALES})(memberof=${OUTER})))(|(uid=${uid})(mail=${uid})))`,
      );
    expect(await login('hana')).to.deep.equal([HANA]);
    expect(await login('bram')).to.deep.equal([]);
    expect(await found('(&(|(objectclass=inetOrgPerson))(memberof=*))')).to.include(HANA);
    expect(await found(`(&(|(objectclass=groupOfNames))(member=${HANA}))`)).to.include(SALES);
  });

  it('Grafana and Vaultwarden: the attribute member_of, nested groups, who is to be invited', async () => {
    expect(await memberOf('hana', 'uid', 'mail', 'sn', 'memberof')).to.include(`memberOf: ${SALES}`);
    expect(await found(`(member:${IN_CHAIN}:=${HANA})`)).to.include.members([SALES, OUTER]);
    expect(await found(`(&(objectClass=*)(memberOf=${OUTER}))`)).to.include.members([HANA, SALES]);
  });

  it('those that never name it get it with all attributes, where the setting says so', async () => {
    expect(await memberOf('hana')).to.deep.equal([]);
    expect(await memberOf('hana', '+')).to.include(`memberOf: ${SALES}`);
    await server.stop();
    server = await sandbox.serve(['--groups-member-of', 'all']);
    for (const asked of [[], ['*'], ['+'], ['*', '+']])
      expect(await memberOf('hana', ...asked), asked.join()).to.include.members([
        `memberOf: ${SALES}`,
        `memberOf: ${OUTER}`,
      ]);
    for (const asked of [['cn'], ['1.1']]) expect(await memberOf('hana', ...asked), asked.join()).to.deep.equal([]);
  });

  it('groups in groups count no more where the setting says so, but in chain', async () => {
    await server.stop();
    server = await sandbox.serve(['--groups-nested', 'false']);
    expect(await memberOf('hana', 'memberOf'))
      .to.include(`memberOf: ${SALES}`)
      .and.to.not.include(`memberOf: ${OUTER}`);
    expect(await found(`(&(uid=hana)(memberOf=${SALES}))`)).to.deep.equal([HANA]);
    expect(await found(`(&(uid=hana)(memberOf=${OUTER}))`)).to.deep.equal([]);
    expect(await found(`(memberOf=${OUTER})`)).to.deep.equal([SALES]);
    expect(await found(`(&(uid=hana)(!(memberOf=${OUTER})))`)).to.deep.equal([HANA]);
    expect(await found(`(&(uid=hana)(!(memberOf=${OUTER}))(memberOf:${IN_CHAIN}:=${OUTER}))`)).to.deep.equal([HANA]);
    expect(await found(`(&(uid=hana)(memberOf=*)(!(memberOf:dnSubtreeMatch:=${OUTER})))`)).to.deep.equal([HANA]);
    expect(await found(`(member:${IN_CHAIN}:=${HANA})`)).to.include.members([SALES, OUTER]);
    const compare = async (group: string) => {
      const args = ['-x', '-H', server.url, '-D', ADMIN, '-w', PASSWORD, HANA, `memberOf:${group}`];
      return (await run('ldapcompare', args, { input: '' })).code;
    };
    expect([await compare(SALES), await compare(OUTER)]).to.deep.equal([6, 5]);
  });
});
