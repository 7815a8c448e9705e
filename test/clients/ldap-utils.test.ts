import { writeFileSync } from 'node:fs';
import { expect } from 'chai';
import {
  ADA,
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
import { makeCertificate, needs } from '../require.js';

/** Debian's ldap-utils against a running server: each tool does its work. */
describe('clients: ldap-utils', () => {
  const sandbox = new Sandbox();
  let server: RunningServer;
  let socket: string;
  let certificate: string;

  before(async function () {
    needs(this, 'ldap-utils', 'openssl');
    await sandbox.initSample();
    const { cert, key } = makeCertificate(sandbox.folder);
    certificate = cert;
    socket = `ldapi://${encodeURIComponent(sandbox.path('ldapi'))}`;
    const listen = ['ldap://127.0.0.1:0', 'ldaps://127.0.0.1:0', socket].flatMap((url) => ['--listen', url]);
    server = await sandbox.serve([...listen, '--tls-cert', cert, '--tls-key', key]);
  });

  after(() => sandbox.remove());

  /** Runs a tool as the administrator, unless `dn` or other bind options are given. */
  function tool(
    name: string,
    args: readonly string[],
    options: { dn?: string; password?: string; url?: string; input?: string } = {},
  ): Promise<Ended> {
    const bind = ['-x', '-H', options.url ?? server.url, '-D', options.dn ?? ADMIN, '-w', options.password ?? PASSWORD];
    return run(name, [...bind, ...args], {
      input: options.input ?? '',
      env: { LDAPTLS_CACERT: certificate },
    });
  }

  async function does(
    name: string,
    args: readonly string[],
    options: Parameters<typeof tool>[2] = {},
  ): Promise<string> {
    const ended = await tool(name, args, options);
    expect(ended.code, `${name} ${args.join(' ')}\n${ended.stdout}${ended.stderr}`).to.equal(0);
    return ended.stdout;
  }

  function search(filter: string, ...attributes: string[]): Promise<string> {
    return does('ldapsearch', ['-LLL', '-o', 'ldif-wrap=no', '-b', SUFFIX, filter, ...attributes]);
  }

  it('ldapsearch finds by filter, and returns what is asked for', async () => {
    const found = await search('(&(objectClass=inetOrgPerson)(title=*engineer*))', 'uid');
    const uids = [...found.matchAll(/^uid: (.*)$/gm)].map((match) => match[1]).sort();
    expect(uids).to.deep.equal(['bram', 'chiara', 'dmitri', 'hana', 'imran']);
  });

  it('ldapsearch reads the root DSE and the schema without a bind', async () => {
    const anonymous = ['-x', '-H', server.url, '-LLL', '-o', 'ldif-wrap=no'];
    const dse = await run('ldapsearch', [...anonymous, '-s', 'base', '-b', '', '+']);
    expect(dse.stdout)
      .to.match(/^namingContexts: dc=example,dc=com$/m)
      .and.match(/^supportedLDAPVersion: 3$/m);
    const schema = await run('ldapsearch', [...anonymous, '-s', 'base', '-b', 'cn=Subschema', 'attributeTypes']);
    expect(schema.stdout).to.match(/^attributeTypes: \( 2\.5\.4\.3 /m);
  });

  it('ldapsearch pages through results', async () => {
    const found = await does('ldapsearch', ['-LLL', '-E', 'pr=5/noprompt', '-b', PEOPLE, '(uid=*)', '1.1']);
    expect(found.match(/^dn: uid=/gm)).to.have.length(12);
  });

  it('ldapsearch over StartTLS, ldaps and ldapi', async () => {
    const ldaps = server.urls.find((url) => url.startsWith('ldaps:'));
    const args = ['-LLL', '-s', 'base', '-b', ADA, 'mail'];
    for (const [url, options] of [
      [server.url, ['-ZZ']],
      [ldaps, []],
      [socket, []],
    ] as const) {
      const found = await does('ldapsearch', [...options, ...args], { url: url! });
      expect(found, url).to.match(/^mail: ada@example\.com$/m);
    }
  });

  it('ldapwhoami', async () => {
    expect(await does('ldapwhoami', [])).to.equal(`dn:${ADMIN}\n`);
    const anonymous = await run('ldapwhoami', ['-x', '-H', server.url]);
    expect(anonymous.stdout).to.equal('anonymous\n');
  });

  it('a wrong password is refused with 49', async () => {
    const refused = await tool('ldapwhoami', [], { password: 'wrong' });
    expect(refused.code).to.equal(49);
    expect(refused.stderr).to.contain('Invalid credentials (49)');
  });

  it('ldapcompare', async () => {
    expect((await tool('ldapcompare', [ADA, 'title:managing DIRECTOR'])).stdout).to.match(/^TRUE/);
    expect((await tool('ldapcompare', [ADA, 'title:apprentice'])).stdout).to.match(/^FALSE/);
  });

  it('ldapadd, ldapmodify, ldapmodrdn, ldapdelete', async () => {
    const dn = `uid=mara,${PEOPLE}`;
    await does('ldapadd', [], {
      input: `dn: ${dn}\nobjectClass: inetOrgPerson\nuid: mara\ncn: Mara Lind\nsn: Lind\n`,
    });
    await does('ldapmodify', [], {
      input: `dn: ${dn}\nchangetype: modify\nadd: mail\nmail: mara@example.com\n-\nreplace: sn\nsn: Lindh\n`,
    });
    expect(await search('(mail=mara@example.com)', 'sn')).to.equal(`dn: ${dn}\nsn: Lindh\n\n`);
    await does('ldapmodrdn', ['-r', dn, 'uid=mara.lindh']);
    expect(await search('(mail=mara@example.com)', 'uid')).to.equal(
      `dn: uid=mara.lindh,${PEOPLE}\nuid: mara.lindh\n\n`,
    );
    await does('ldapmodrdn', ['-s', `ou=services,${SUFFIX}`, `uid=mara.lindh,${PEOPLE}`, 'uid=mara.lindh']);
    expect(await search('(uid=mara.lindh)', '1.1')).to.equal(`dn: uid=mara.lindh,ou=services,${SUFFIX}\n\n`);
    await does('ldapdelete', [`uid=mara.lindh,ou=services,${SUFFIX}`]);
    expect(await search('(uid=mara.lindh)', '1.1')).to.equal('');
  });

  it('ldapadd of what is wrong says what', async () => {
    const refused = await tool('ldapadd', [], {
      input: `dn: uid=x,${PEOPLE}\nobjectClass: inetOrgPerson\nuid: x\ncn: X\nsn: X\nmial: x\n`,
    });
    expect(refused.code).to.equal(17);
    expect(refused.stderr).to.contain("did you mean 'mail'?");
    const present = await tool('ldapadd', [], {
      input: `dn: ${ADA}\nobjectClass: inetOrgPerson\nuid: ada\ncn: A\nsn: B\n`,
    });
    expect(present.code).to.equal(68);
  });

  it('ldappasswd sets a password that the owner binds with, changes, and nobody reads', async () => {
    await does('ldappasswd', ['-s', 'first secret', ADA]);
    expect(await does('ldapwhoami', [], { dn: ADA, password: 'first secret' })).to.equal(`dn:${ADA}\n`);
    await does('ldappasswd', ['-a', 'first secret', '-s', 'second secret'], { dn: ADA, password: 'first secret' });
    expect((await tool('ldapwhoami', [], { dn: ADA, password: 'first secret' })).code).to.equal(49);
    expect(await does('ldapwhoami', [], { dn: ADA, password: 'second secret' })).to.equal(`dn:${ADA}\n`);
    expect(await search('(uid=ada)', 'userPassword')).to.equal(`dn: ${ADA}\n\n`);
  });

  it('ldappasswd makes a password up', async () => {
    const made = /New password: (\S+)/.exec(await does('ldappasswd', [`uid=bram,${PEOPLE}`]))?.[1];
    expect(await does('ldapwhoami', [], { dn: `uid=bram,${PEOPLE}`, password: made! })).to.contain('uid=bram');
  });

  it('a user cannot write what is not its own', async () => {
    await does('ldappasswd', ['-s', 'chiara secret', `uid=chiara,${PEOPLE}`]);
    const refused = await tool('ldapmodify', [], {
      dn: `uid=chiara,${PEOPLE}`,
      password: 'chiara secret',
      input: `dn: ${ADA}\nchangetype: modify\nreplace: title\ntitle: none\n`,
    });
    expect(refused.code).to.equal(50);
  });

  it('what the tools wrote is in an export, and the directory is sound', async () => {
    const change = sandbox.path('change.ldif');
    writeFileSync(change, `dn: ${ADA}\nchangetype: modify\nreplace: title\ntitle: Founder\n`);
    await does('ldapmodify', ['-f', change]);
    const text = await rowanDoes(['export', '--data', sandbox.data, '--base', ADA]);
    expect(text)
      .to.match(/^title: Founder$/m)
      .and.match(/^modifiersName: cn=admin,dc=example,dc=com$/m);
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
  });
});
