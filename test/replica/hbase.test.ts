import { expect } from 'chai';
import { ADA, ADMIN, PASSWORD, rowanDoes, Sandbox, SUFFIX, serve } from '../cli/rowan.js';
import { addPerson, personDn, read, replace } from '../cli/workers.js';
import { borrowTables, returnTables } from '../hbase/recycled.js';
import { hbase } from '../hbase/server.js';
import { soakTest } from '../rounds.js';
import { RawClient } from '../server/raw-client.js';
import { Machine } from './servers.js';

describe('replica: of a directory in HBase', () => {
  const sandbox = new Sandbox();
  const branch = new Machine(sandbox, 'branch');
  after(() => sandbox.remove());

  soakTest('follows one front end, reads what another one has written, and hands changes on', async function () {
    const server = await hbase(this);
    const settings = await borrowTables(this);
    const url = server.url(settings.prefix);
    await rowanDoes(['init', '--store', url, '--suffix', SUFFIX, '--admin-dn', ADMIN, '--hbase-regions', '1'], {
      env: { ROWAN_ADMIN_PASSWORD: PASSWORD },
    });
    const password = sandbox.path('branch.password');
    const socket = `ldapi://${encodeURIComponent(sandbox.path('front.sock'))}`;
    const args = ['--hbase-regions', '1', '--listen', 'ldap://127.0.0.1:0'];
    await rowanDoes(['replica', 'grant', 'branch', '--store', url, '--password-file', password]);
    const [front, other] = await Promise.all([serve(url, [...args, '--listen', socket]), serve(url, args)]);
    await rowanDoes(['import', '--store', url, 'scripts/sample.ldif']);
    const access = ['--of', socket, '--name', 'branch', '--password-file', password];
    await rowanDoes(['replica', 'init', '--data', branch.data, ...access]);
    await branch.start();
    const atOther = await RawClient.open(other.port);
    expect(await atOther.bind(ADMIN, PASSWORD)).to.equal(0);
    const atBranch = await branch.client();
    expect((await addPerson(atOther, 'far')).code).to.equal(0);
    while ((await atBranch.search(personDn('far'))).code !== 0);
    expect((await replace(atBranch, ADA, 'description', 'from the branch')).code).to.equal(0);
    expect(await read(atBranch, ADA, 'description')).to.equal('from the branch');
    expect(await read(atOther, ADA, 'description')).to.equal('from the branch');
    for (const client of [atOther, atBranch]) client.close();
    await Promise.all([front.stop(), other.stop()]);
    await branch.says('is not reached since');
    await branch.stop();
    const [ours, theirs] = await Promise.all([
      rowanDoes(['export', '--data', branch.data]),
      rowanDoes(['export', '--store', url]),
    ]);
    expect(ours.split('\n\n').sort()).to.deep.equal(theirs.split('\n\n').sort());
    expect(await rowanDoes(['check', '--data', branch.data])).to.include('no breach found');
    returnTables(settings);
  });
});
