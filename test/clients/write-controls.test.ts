import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { ADA, ADMIN, type Ended, PASSWORD, PEOPLE, type RunningServer, run, Sandbox, SUFFIX } from '../cli/rowan.js';
import { needs } from '../require.js';
import { unboundId, unboundIdJar } from './unboundid.js';

const SCRIPT = fileURLToPath(new URL('../../../test/clients/write-controls.py', import.meta.url));
const LDAP3_SCRIPT = SCRIPT.replace('.py', '-ldap3.py');
const BRAM = `uid=bram,${PEOPLE}`;
const PERMISSIVE = '1.2.840.113556.1.4.1413';
const change = (text: string): string => `dn: ${ADA}\nchangetype: modify\n${text}\n`;

/** The controls of writes, as clients of others send and read them. */
describe('clients: controls of writes', () => {
  const sandbox = new Sandbox();
  let server: RunningServer;

  before(async () => {
    await sandbox.initSample();
    server = await sandbox.serve();
  });
  after(() => sandbox.remove());

  describe('ldap-utils', () => {
    before(function () {
      needs(this, 'ldap-utils');
    });

    const tool = (name: string, args: readonly string[], input = ''): Promise<Ended> =>
      run(name, ['-x', '-H', server.url, '-D', ADMIN, '-w', PASSWORD, ...args], { input });
    const modify = (input: string, ...controls: string[]): Promise<Ended> =>
      tool(
        'ldapmodify',
        controls.flatMap((one) => ['-e', one]),
        input,
      );

    it('ldapmodify reads the entry before and after', async () => {
      const { stdout, code, stderr } = await modify(
        change('replace: title\ntitle: Countess\n'),
        '!preread=cn,userPassword',
        'postread=title,modifiersName',
      );
      expect(code, stderr).to.equal(0);
      expect(stdout)
        .to.match(/PreRead[\s\S]*cn: [\s\S]*PostRead[\s\S]*title: Countess/i)
        .and.include(`modifiersName: ${ADMIN}`);
      expect(stdout).to.not.include('userPassword');
    });

    it('an assertion ends a write, a search and a compare', async () => {
      const [holds, fails] = ['!assert=(uid=ada)', '!assert=(&(uid=bram)(!(cn=x)))'];
      for (const [control, code] of [
        [holds, 0],
        [fails, 122],
      ] as const) {
        expect((await modify(change('replace: title\ntitle: x\n'), control)).code).to.equal(code);
        expect((await tool('ldapsearch', ['-e', control, '-b', ADA])).code).to.equal(code);
        expect((await tool('ldapcompare', ['-e', control, ADA, 'uid:ada'])).code).to.equal(code === 0 ? 6 : 122);
      }
    });

    it('authzid makes a client another', async () => {
      const whoAmI = async (authzId: string) => (await tool('ldapwhoami', ['-e', `!authzid=${authzId}`])).stdout.trim();
      expect(await whoAmI(`dn:${ADA}`)).to.equal(`dn:${ADA}`);
      expect(await whoAmI('u:ada')).to.equal(`dn:${ADA}`);
      expect(await whoAmI('')).to.equal('anonymous');
      const refused = await modify(`dn: ${BRAM}\nchangetype: modify\nreplace: title\ntitle: x\n`, '!authzid=u:ada');
      expect(refused.code).to.equal(50);
    });

    it('noop and relax', async () => {
      const noOp = await modify(change('replace: title\ntitle: never\n'), '!noop');
      expect(noOp.stderr).to.match(/No Operation|16654|0x410e/i);
      const moment = change('replace: createTimestamp\ncreateTimestamp: 18151210000000Z\n');
      expect((await modify(moment)).code).to.equal(19);
      expect((await modify(moment, '!relax')).code).to.equal(0);
      const { stdout } = await tool('ldapsearch', ['-LLL', '-b', ADA, '-s', 'base', 'title', 'createTimestamp']);
      expect(stdout).to.include('createTimestamp: 18151210000000Z').and.not.include('never');
    });

    it("don't use copy is no matter to who has none", async () => {
      const { code, stderr } = await tool('ldapsearch', ['-E', '!dontUseCopy', '-b', ADA, '-s', 'base', '1.1']);
      expect(code, stderr).to.equal(0);
    });
  });

  it('python-ldap', async function () {
    needs(this, 'python3-ldap');
    const ended = await run('/usr/bin/python3', [SCRIPT, server.url, ADMIN, PASSWORD, SUFFIX]);
    expect(ended.stderr).to.equal('');
    expect(ended.stdout.trim().split('\n')).to.deep.equal([
      "read [[('cn', 'Ada Brandt')], [('title', 'Countess')]]",
      "asserted [[('title', 'Countess')]]",
      'not so 122',
      `as ada 50 dn:${ADA}`,
      'not relaxed 19',
      "relaxed [[('createTimestamp', '18151210000000Z')]]",
    ]);
  });

  it('python ldap3', async function () {
    needs(this, 'python3-ldap3');
    const ended = await run('/usr/bin/python3', [LDAP3_SCRIPT, server.url, ADMIN, PASSWORD, SUFFIX]);
    expect(ended.stderr).to.equal('');
    expect(ended.stdout.trim().split('\n')).to.deep.equal([
      "before ['Ada Brandt'] after ['Duchess']",
      `as ada dn:${ADA}`,
    ]);
  });

  it('ldapmodify of UnboundID', async function () {
    needs(this, 'unboundid');
    unboundIdJar();
    const { port, hostname } = new URL(server.url);
    const modify = (input: string, ...args: string[]): Promise<Ended> =>
      unboundId('ldapmodify', ['-h', hostname, '-p', port, '-D', ADMIN, '-w', PASSWORD, ...args], input);
    const twice = change('add: description\ndescription: one\n-\ndelete: street\n');
    const args = ['--assertionFilter', '(uid=ada)', '--preReadAttribute', 'cn', '--postReadAttribute', 'description'];
    const done = await modify(twice, ...args, '--permissiveModify', '--proxyAs', `dn:${ADMIN}`);
    expect(done.code, done.stdout + done.stderr).to.equal(0);
    expect(done.stdout).to.match(/Pre-Read[\s\S]*cn: [\s\S]*Post-Read[\s\S]*description: one/);
    expect((await modify(twice, '--control', `${PERMISSIVE}:true`)).code).to.equal(0);
    // The tool ends with 0 also where the server refuses a change.
    expect((await modify(twice, '--assertionFilter', '(uid=bram)')).stderr).to.include('122 (assertion failed)');
    expect((await modify(twice, '--noOperation', '--permissiveModify')).stderr).to.include('16654 (no operation)');
    expect((await modify(twice, '--proxyAs', 'u:nobody')).stderr).to.include('123 (authorization denied)');
  });
});
