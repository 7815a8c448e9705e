import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { startProgram } from '../cli/rowan.js';
import { needs } from '../require.js';
import { ADMIN, addPerson, PEOPLE, personDn, type Running, start, testSchema } from '../server/directory.js';

const SCRIPT = fileURLToPath(new URL('../../../test/clients/syncrepl.py', import.meta.url));

describe('clients: python-ldap syncrepl', () => {
  let running: Running;
  before(async function () {
    needs(this, 'python3-ldap');
    running = await start({}, 2);
  });
  after(() => running?.stop());

  it('has a copy of what there is after each refresh', async () => {
    const child = startProgram('/usr/bin/python3', [SCRIPT, running.url, ADMIN.dn, ADMIN.password, PEOPLE]);
    child.stderr!.pipe(process.stderr);
    const lines = createInterface({ input: child.stdout! })[Symbol.asyncIterator]();
    const copy = async (): Promise<string[]> => {
      child.stdin!.write('\n');
      return String((await lines.next()).value).split(' ');
    };
    const actor = { dn: ADMIN.dn };
    const parse = (dn: string) => testSchema().parseDn(dn);
    expect(await copy()).to.deep.equal([PEOPLE, personDn('p0'), personDn('p1')].sort());
    await addPerson(running.partition, 'new');
    await running.partition.delete(parse(personDn('p0')), actor);
    const target = { newRdn: 'uid=p2', deleteOldRdn: true, newSuperior: undefined };
    await running.partition.rename(parse(personDn('p1')), target, actor);
    expect(await copy()).to.deep.equal([PEOPLE, personDn('new'), personDn('p2')].sort());
    await running.partition.trimChanges(Date.now() + 1000);
    await running.partition.delete(parse(personDn('new')), actor);
    await running.partition.trimChanges(Date.now() + 1000);
    expect(await copy()).to.deep.equal([PEOPLE, personDn('p2')].sort());
    child.stdin!.end();
  });
});
