import { existsSync, readFileSync } from 'node:fs';
import { expect } from 'chai';
import type { PartialAttribute } from '../../src/ldap/ldap-types.js';
import { inSoak } from '../rounds.js';
import { attributes } from '../server/directory.js';
import { RawClient } from '../server/raw-client.js';
import { MIB, manyBytes, memoryOf, peak, sha256 } from './memory.js';
import { ADMIN, exited, PASSWORD, PEOPLE, type RunningServer, rowanDoes, Sandbox, startRowan } from './rowan.js';

const SIZE = 100 * MIB;
const UID = 'huge';
const DN = `uid=${UID},${PEOPLE}`;

describe('cli: a value of 100 MiB', () => {
  const sandbox = new Sandbox();
  const value = manyBytes(SIZE);
  const sum = sha256(value);
  const photo: PartialAttribute = { type: 'jpegPhoto', values: [value] };
  let server: RunningServer;
  let client: RawClient;
  /** Of the server that has done nothing yet, MiB. */
  let idle: number;

  before(async function () {
    if (!existsSync('/proc/self/status')) this.skip();
    await sandbox.initSample();
  });
  beforeEach(async () => {
    server = await sandbox.serve(['--limits-message-bytes', '128 MiB']);
    client = await RawClient.open(server.port);
    expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    idle = memoryOf(server.process.pid!);
  });
  afterEach(async () => {
    client.close();
    await server.stop();
  });
  after(() => sandbox.remove());

  const peakOf = (work: () => Promise<unknown>): Promise<number> => peak(server.process.pid!, work);

  async function readBack(): Promise<void> {
    const { entries } = await client.search(DN, { attributes: ['jpegPhoto'] });
    expect(sha256(entries[0]!.attributes.get('jpegPhoto')![0]!)).to.equal(sum);
  }

  it('is added and replaced with the request alone in memory', async () => {
    const person = attributes({ objectClass: 'inetOrgPerson', uid: UID, cn: UID, sn: UID });
    const add = {
      op: 'add',
      dn: DN,
      attributes: [...person, { type: 'jpegPhoto', values: [Buffer.alloc(MIB)] }],
    } as const;
    expect((await client.request(add)).code).to.equal(0);
    const change = { operation: 'replace', attribute: photo } as const;
    const most = await peakOf(async () => {
      expect((await client.request({ op: 'modify', dn: DN, changes: [change] })).code).to.equal(0);
    });
    expect(most - idle).to.be.within(90, 205);
  }).timeout(60_000);

  it('is sent without ever being in memory as a whole', async () => {
    expect((await peakOf(readBack)) - idle).to.be.below(64);
  }).timeout(60_000);

  /** MiB that a command came to at most. */
  async function peakOfCommand(...args: string[]): Promise<number> {
    const child = startRowan([...args.slice(0, 1), '--data', sandbox.data, ...args.slice(1)]);
    return peak(child.pid!, async () => expect(await exited(child)).to.equal(0));
  }

  it('is checked, deleted and brought back without ever being in memory as a whole', async () => {
    expect((await peakOfCommand('check')) - idle).to.be.below(90);
    const remove = async () => expect((await client.request({ op: 'delete', dn: DN })).code).to.equal(0);
    expect((await peakOf(remove)) - idle).to.be.below(90);
    const [, id] = /([0-9a-f]{8}-[0-9a-f-]{27})/.exec(await rowanDoes(['deleted', 'list', '--data', sandbox.data]))!;
    const child = startRowan(['deleted', 'restore', '--data', sandbox.data, id!]);
    const most = await peak(child.pid!, async () => expect(await exited(child)).to.equal(0));
    expect(most - idle).to.be.below(90);
  }).timeout(60_000);

  it('is exported without ever being in memory as a whole, and imported again with it there once', async () => {
    const file = sandbox.path('out.ldif');
    // It is read twice, and leaves up to 100 MiB to the collector; a copy of it would stand above that.
    expect((await peakOfCommand('export', '--base', DN, '--output', file)) - idle).to.be.within(-20, 135);
    const text = readFileSync(file, 'latin1').replaceAll('\n ', '');
    const from = text.indexOf('jpegPhoto:: ') + 'jpegPhoto:: '.length;
    expect(sha256(Buffer.from(text.slice(from, text.indexOf('\n', from)), 'base64'))).to.equal(sum);
    expect((await client.request({ op: 'delete', dn: DN })).code).to.equal(0);
    await rowanDoes(['deleted', 'purge', '--all', '--data', sandbox.data]);
    expect((await peakOfCommand('import', file)) - idle).to.be.within(60, 185);
    await readBack();
    if (!inSoak) return;
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
  }).timeout(60_000);
});
