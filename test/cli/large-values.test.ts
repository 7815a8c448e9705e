import { readFileSync } from 'node:fs';
import { expect } from 'chai';
import { rounds } from '../rounds.js';
import { attributes } from '../server/directory.js';
import { RawClient } from '../server/raw-client.js';
import { MIB, manyBytes, sha256 } from './large-bytes.js';
import { ADMIN, PASSWORD, PEOPLE, type RunningServer, rowanDoes, Sandbox } from './rowan.js';

const SIZE = rounds(8, 100);
const UID = 'huge';
const DN = `uid=${UID},${PEOPLE}`;

describe(`cli: a value of ${SIZE} MiB`, () => {
  const sandbox = new Sandbox();
  const value = manyBytes(SIZE * MIB);
  const sum = sha256(value);
  let server: RunningServer;
  let client: RawClient;

  before(async () => {
    await sandbox.initSample();
    server = await sandbox.serve(['--limits-message-bytes', `${SIZE + 28} MiB`]);
    client = await RawClient.open(server.port);
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
  });
  after(async () => {
    client?.close();
    await sandbox.remove();
  });

  async function readBack(): Promise<void> {
    const { entries } = await client.search(DN, { attributes: ['jpegPhoto'] });
    expect(sha256(entries[0]!.attributes.get('jpegPhoto')![0]!)).to.equal(sum);
  }

  async function remove(): Promise<void> {
    expect((await client.request({ op: 'delete', dn: DN })).code).to.equal(0);
  }

  it('takes the place of another, and is read', async () => {
    const person = attributes({ objectClass: 'inetOrgPerson', uid: UID, cn: UID, sn: UID });
    const small = { type: 'jpegPhoto', values: [Buffer.alloc(MIB)] };
    expect((await client.request({ op: 'add', dn: DN, attributes: [...person, small] })).code).to.equal(0);
    const change = { operation: 'replace', attribute: { type: 'jpegPhoto', values: [value] } } as const;
    expect((await client.request({ op: 'modify', dn: DN, changes: [change] })).code).to.equal(0);
    await readBack();
  });

  it('is checked, deleted and brought back', async () => {
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
    await remove();
    const [, id] = /([0-9a-f]{8}-[0-9a-f-]{27})/.exec(await rowanDoes(['deleted', 'list', '--data', sandbox.data]))!;
    await rowanDoes(['deleted', 'restore', '--data', sandbox.data, id!]);
    await readBack();
  });

  it('is exported, and imported again', async () => {
    const file = sandbox.path('out.ldif');
    await rowanDoes(['export', '--data', sandbox.data, '--base', DN, '--output', file]);
    const text = readFileSync(file, 'latin1').replaceAll('\n ', '');
    const from = text.indexOf('jpegPhoto:: ') + 'jpegPhoto:: '.length;
    expect(sha256(Buffer.from(text.slice(from, text.indexOf('\n', from)), 'base64'))).to.equal(sum);
    await remove();
    await rowanDoes(['deleted', 'purge', '--all', '--data', sandbox.data]);
    await rowanDoes(['import', '--data', sandbox.data, file]);
    await readBack();
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
  });
});
