import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { ADA, ADMIN, PASSWORD, PEOPLE, type RunningServer, rowanDoes, run, Sandbox, SUFFIX } from '../cli/rowan.js';
import { needs } from '../require.js';

const SCRIPT = fileURLToPath(new URL('../../../test/clients/tree-controls.py', import.meta.url));

/** Debian's ldap-utils, ldap3 and python-ldap: tree delete, and the controls of searches. */
describe('clients: tree delete and controls of searches', () => {
  const sandbox = new Sandbox();
  let server: RunningServer;

  before(async function () {
    needs(this, 'ldap-utils');
    await sandbox.initSample();
    server = await sandbox.serve(['--listen', 'ldap://127.0.0.1:0']);
  });
  after(() => sandbox.remove());

  async function does(name: string, args: readonly string[], input = ''): Promise<string> {
    const ended = await run(name, ['-x', '-H', server.url, '-D', ADMIN, '-w', PASSWORD, ...args], { input });
    expect(ended.code, `${name} ${args.join(' ')}\n${ended.stdout}${ended.stderr}`).to.equal(0);
    return ended.stdout;
  }

  const search = (base: string, ...args: string[]): Promise<string> =>
    does('ldapsearch', ['-LLL', '-o', 'ldif-wrap=no', '-b', base, ...args]);

  async function addTree(ou: string): Promise<string> {
    const top = `ou=${ou},${SUFFIX}`;
    const units = [top, `ou=below,${top}`, `ou=deep,ou=below,${top}`];
    const ldif = units.map((dn) => `dn: ${dn}\nobjectClass: organizationalUnit\nou: ${/ou=([^,]+)/.exec(dn)![1]}\n\n`);
    await does('ldapadd', [], ldif.join(''));
    return top;
  }

  it('ldapdelete deletes a tree, ldapsearch shows it, and rowan restores it', async () => {
    const top = await addTree('tools');
    await does('ldapdelete', ['-e', '!1.2.840.113556.1.4.805', top]);
    expect(await search(SUFFIX, '(ou=below)')).to.equal('');
    const deleted = await search(SUFFIX, '-e', '!1.2.840.113556.1.4.417', '(&(isDeleted=TRUE)(ou=below))', 'isDeleted');
    expect(deleted).to.equal(`dn: ou=below,${top}\nisDeleted: TRUE\n\n`);
    await rowanDoes(['deleted', 'restore', '--subtree', top, '--data', sandbox.data]);
    expect(await search(top, '1.1')).to.include(`dn: ou=deep,ou=below,${top}\n`);
    await does('ldapdelete', ['-r', top]);
    expect(await search(SUFFIX, '(ou=below)')).to.equal('');
  });

  it('ldapsearch: matched values, subentries, domain scope, memberOf by +', async () => {
    const group = `cn=matched,${SUFFIX}`;
    await does(
      'ldapadd',
      ['-M'],
      `dn: ${group}\nobjectClass: groupOfNames\ncn: matched\nmember: ${ADA}\nmember: ${PEOPLE}\n\n` +
        `dn: cn=sub,${PEOPLE}\nobjectClass: subentry\nobjectClass: extensibleObject\ncn: sub\nsubtreeSpecification: {}\n\n` +
        `dn: ou=away,${SUFFIX}\nobjectClass: referral\nobjectClass: extensibleObject\nou: away\nref: ldap://other/\n\n`,
    );
    const matched = await search(group, '-E', `!mv=(member=${ADA})`, 'member', 'cn');
    expect(matched).to.equal(`dn: ${group}\nmember: ${ADA}\n\n`);
    expect(await search(SUFFIX, '(cn=sub)', '1.1')).to.not.include('dn:');
    const only = await search(SUFFIX, '-E', '!subentries=true', '-E', '!domainScope', '(cn=*)', '1.1');
    expect(only).to.equal(`dn: cn=sub,${PEOPLE}\n\n`);
    expect(await search(SUFFIX, '-E', 'pr=3/noprompt', '(cn=sub)', '1.1')).to.include('# refldap://other');
    expect(await search(ADA, '-s', 'base', '+')).to.include(`memberOf: ${group}\n`);
  });

  it('ldap3 and python-ldap delete trees', async function () {
    needs(this, 'python3-ldap', 'python3-ldap3');
    const trees = [await addTree('first'), await addTree('second')];
    const ended = await run('/usr/bin/python3', [SCRIPT, server.url, ADMIN, PASSWORD, ...trees]);
    expect(ended.stdout, ended.stderr).to.equal('gone\n');
    await server.stop();
    await rowanDoes(['check', '--data', sandbox.data]);
  });
});
