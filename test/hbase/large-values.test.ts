import { closeSync, openSync, writeSync } from 'node:fs';
import { expect } from 'chai';
import { MIB, manyBytes, sha256 } from '../cli/large-bytes.js';
import { ADMIN, PASSWORD, rowanDoes, Sandbox, SUFFIX, serve } from '../cli/rowan.js';
import { soakTest } from '../rounds.js';
import { attributes } from '../server/directory.js';
import { RawClient } from '../server/raw-client.js';
import { freshPrefix, hbase } from './server.js';

const SIZE = 48 * MIB;
const ANN = `uid=ann,${SUFFIX}`;
const BOB = `uid=bob,${SUFFIX}`;

describe('a value of 48 MiB over HBase', () => {
  const sandbox = new Sandbox();
  const value = manyBytes(SIZE);
  let url: string;

  before(async function () {
    url = (await hbase(this)).url(freshPrefix());
    const suffix = ['--suffix', SUFFIX, '--admin-dn', ADMIN, '--hbase-regions', '1'];
    await rowanDoes(['init', '--store', url, ...suffix], { env: { ROWAN_ADMIN_PASSWORD: PASSWORD } });
  });
  after(() => sandbox.remove());

  /** LDIF of the suffix and bob with the value. */
  function write(file: string): void {
    const fd = openSync(file, 'w');
    writeSync(fd, `dn: ${SUFFIX}\nobjectClass: domain\ndc: example\n\n`);
    writeSync(fd, `dn: ${BOB}\nobjectClass: inetOrgPerson\nuid: bob\ncn: bob\nsn: bob\njpegPhoto::`);
    for (let at = 0; at < SIZE; at += 3 * MIB) writeSync(fd, `\n ${value.toString('base64', at, at + 3 * MIB)}`);
    writeSync(fd, '\n');
    closeSync(fd);
  }

  soakTest('is imported, deleted, added, replaced and read', async () => {
    const file = sandbox.path('in.ldif');
    write(file);
    await rowanDoes(['import', '--store', url, file]);

    const server = await serve(url, ['--limits-message-bytes', '64 MiB']);
    const client = await RawClient.open(server.port);
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    const photo = { type: 'jpegPhoto', values: [value] };
    const person = attributes({ objectClass: 'inetOrgPerson', uid: 'ann', cn: 'ann', sn: 'ann' });
    expect((await client.request({ op: 'delete', dn: BOB })).code).to.equal(0);
    expect((await client.request({ op: 'add', dn: ANN, attributes: [...person, photo] })).code).to.equal(0);
    const change = { operation: 'replace', attribute: photo } as const;
    expect((await client.request({ op: 'modify', dn: ANN, changes: [change] })).code).to.equal(0);
    const { entries } = await client.search(ANN, { attributes: ['jpegPhoto'] });
    expect(sha256(entries[0]!.attributes.get('jpegPhoto')![0]!)).to.equal(sha256(value));
    client.close();
    await server.stop();
  });
});
