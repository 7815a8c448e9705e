import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { ADMIN, PASSWORD, PEOPLE, type RunningServer, rowanDoes, run, Sandbox } from '../cli/rowan.js';
import { needs } from '../require.js';
import { unboundId, unboundIdJar } from './unboundid.js';

const SCRIPT = fileURLToPath(new URL('../../../test/clients/sorted.py', import.meta.url));
const FILTER = '(objectClass=inetOrgPerson)';

/** Sorted searches, pages of them and windows by clients of others. */
describe('clients: sorted searches', () => {
  const sandbox = new Sandbox();
  let server: RunningServer;
  /** All of them, in the order of uid. */
  let uids: string[];

  before(async function () {
    needs(this, 'ldap-utils');
    await sandbox.initSample();
    server = await sandbox.serve(['--workers', '2']);
    uids = uidsOf(await search([])).sort();
    expect(uids).to.have.length(12);
  });
  after(() => sandbox.remove());

  const uidsOf = (text: string): string[] => [...text.matchAll(/^uid: (.*)$/gm)].map((match) => match[1]!);

  async function search(args: readonly string[], input = ''): Promise<string> {
    const bind = ['-x', '-H', server.url, '-D', ADMIN, '-w', PASSWORD, '-o', 'ldif-wrap=no'];
    return (await run('ldapsearch', [...bind, '-b', PEOPLE, ...args, FILTER, 'uid'], { input })).stdout;
  }

  it('ldapsearch -E sss, with pages', async () => {
    expect(uidsOf(await search(['-E', '!sss=uid']))).to.deep.equal(uids);
    const paged = await search(['-E', '!sss=-uid:caseIgnoreOrderingMatch', '-E', 'pr=5/noprompt']);
    expect(uidsOf(paged)).to.deep.equal([...uids].reverse());
    expect(paged).to.contain('sortResult: (0) Success');
    expect(await search(['-E', 'sss=userPassword'])).to.contain('sortResult: (18) Inappropriate matching');
  });

  it('ldapsearch -E vlv, by offset and by value', async () => {
    // What is no window ends it when it asks for the next one.
    const byOffset = await search(['-E', '!sss=uid', '-E', '!vlv=1/2/5/0'], 'none\n');
    expect(uidsOf(byOffset)).to.deep.equal(uids.slice(3, 7));
    expect(byOffset).to.match(/^vlvResult: pos=5 count=12 context=\S+ \(0\) Success$/m);
    const byValue = await search(['-E', '!sss=uid', '-E', `!vlv=0/1:${uids[8]}`], 'none\n');
    expect(uidsOf(byValue)).to.deep.equal(uids.slice(8, 10));
    expect(byValue).to.match(/^vlvResult: pos=9 count=12 /m);
  });

  it('rowan explain --sort says where the order comes from', async () => {
    const explain = async (keys: string): Promise<string> => {
      const told = await rowanDoes(['explain', '--data', sandbox.path('data'), `--sort=${keys}`, FILTER]);
      return told.slice(told.indexOf('sort  '));
    };
    expect(await explain('uid')).to.equal('sort        all entries are collected and sorted\n');
    expect(await explain('title')).to.match(/sorted\nadvice {6}rowan index add title\n$/);
    expect(await explain('-sn/uid')).to.match(/sorted: no index has this order\n$/);
    expect(await explain('userPassword')).to.equal('sort        not possible by userPassword: inappropriateMatching\n');
  });

  it('python-ldap', async function () {
    needs(this, 'python3-ldap');
    const ended = await run('/usr/bin/python3', [SCRIPT, 'python-ldap', server.url, ADMIN, PASSWORD, PEOPLE]);
    expect(ended.stderr).to.equal('');
    const reversed = [...uids].reverse();
    expect(ended.stdout.split('\n')).to.deep.equal([
      `pages ${reversed.join(' ')}`,
      `window 4 12 ${reversed.slice(2, 6).join(' ')}`,
      '',
    ]);
  });

  it('python ldap3', async function () {
    needs(this, 'python3-ldap3');
    const ended = await run('/usr/bin/python3', [SCRIPT, 'ldap3', server.url, ADMIN, PASSWORD, PEOPLE]);
    expect(ended.stderr).to.equal('');
    expect(ended.stdout).to.equal(`pages ${[...uids].reverse().join(' ')}\n`);
  });

  it('ldapsearch of UnboundID', async function () {
    needs(this, 'unboundid');
    unboundIdJar();
    const { hostname, port } = new URL(server.url);
    const bind = ['-h', hostname, '-p', port, '-D', ADMIN, '-w', PASSWORD, '-b', PEOPLE];
    const sorted = await unboundId('ldapsearch', [...bind, '-S', '-uid', '--simplePageSize', '5', FILTER, 'uid']);
    expect(uidsOf(sorted.stdout), sorted.stderr).to.deep.equal([...uids].reverse());
    const window = await unboundId('ldapsearch', [...bind, '-S', 'uid', '-G', '1:2:5:0', FILTER, 'uid']);
    expect(uidsOf(window.stdout), window.stderr).to.deep.equal(uids.slice(3, 7));
  });
});
