import { readFileSync, writeFileSync } from 'node:fs';
import { expect } from 'chai';
import { freshPrefix, hbase } from '../hbase/server.js';
import { soakTest } from '../rounds.js';
import { exited, heard, PEOPLE, rowan, rowanDoes, Sandbox, startRowan } from './rowan.js';

const PHOTO = Buffer.alloc(300_000, 0xd8).toString('base64');

describe('cli: copy', () => {
  const sandbox = new Sandbox();
  let exported: Buffer;

  before(async () => {
    await sandbox.initSample();
    const file = sandbox.path('more.ldif');
    writeFileSync(
      file,
      `dn: uid=photo,${PEOPLE}\nobjectClass: inetOrgPerson\nuid: photo\ncn: Photo\nsn: Photo\njpegPhoto:: ${PHOTO}\n\n` +
        `dn: uid=ada,${PEOPLE}\nchangetype: delete\n`,
    );
    await rowanDoes(['import', '--data', sandbox.data, file]);
    exported = await exportOf('--data', sandbox.data);
  });
  after(() => sandbox.remove());

  async function exportOf(...where: string[]): Promise<Buffer> {
    const file = sandbox.path('export.ldif');
    await rowanDoes(['export', ...where, '--output', file]);
    return readFileSync(file);
  }

  async function expectSame(...where: string[]): Promise<void> {
    const commands = [['check'], ['deleted', 'list']].map((command) => rowanDoes([...command, ...where]));
    expect((await exportOf(...where)).equals(exported)).to.equal(true);
    const [check, deleted] = await Promise.all(commands);
    expect(check).to.equal('no breach found\n');
    expect(deleted).to.include('uid=ada');
  }

  it('makes the same directory in another folder, once', async () => {
    const to = sandbox.path('folder');
    expect(await rowanDoes(['copy', '--from', sandbox.data, '--to', to])).to.match(/^copied \d+ rows from /);
    await expectSame('--data', to);
    const again = await rowan(['copy', '--from', sandbox.data, '--to', to]);
    expect([again.code, again.stderr]).to.deep.equal([
      1,
      'rowan: the target has a directory already; a copy is made where there is none\n',
    ]);
    expect((await rowan(['copy', '--from', to, '--to', to])).code).to.equal(2);
  });

  soakTest('goes to HBase and back, also when it is killed', async function () {
    const server = await hbase(this);
    const url = server.url(freshPrefix());
    const copy = ['copy', '--from', sandbox.data, '--to', url, '--hbase-regions', '1'];
    const child = startRowan(copy);
    await heard(child, 'copy: master\n');
    child.kill('SIGKILL');
    await exited(child);
    expect((await rowan(['export', '--store', url])).code).to.equal(1);
    await rowanDoes(copy);
    await expectSame('--store', url);
    const back = sandbox.path('back');
    await rowanDoes(['copy', '--from', url, '--to', back]);
    await expectSame('--data', back);
  });
});
