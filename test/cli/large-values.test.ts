import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { expect } from 'chai';
import type { PartialAttribute } from '../../src/ldap/types.js';
import { attributes } from '../server/directory.js';
import { RawClient } from '../server/raw-client.js';
import { ADMIN, exited, PASSWORD, PEOPLE, type RunningServer, rowanDoes, Sandbox, startRowan } from './rowan.js';

const MIB = 1024 * 1024;
const SIZE = 100 * MIB;
const UID = 'huge';
const DN = `uid=${UID},${PEOPLE}`;

/** Memory that a process has for itself, in bytes: without the pages of files that it maps. 0 when it is gone. */
function ownMemory(pid: number): number {
  try {
    const status = readFileSync(`/proc/${pid}/status`, 'latin1');
    return Number(/^RssAnon:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024;
  } catch {
    return 0;
  }
}

/** MiB that a process came to at most while `work` ran. */
async function peak(pid: number, work: () => Promise<unknown>): Promise<number> {
  let most = ownMemory(pid);
  const timer = setInterval(() => {
    most = Math.max(most, ownMemory(pid));
  }, 2);
  try {
    await work();
  } finally {
    clearInterval(timer);
  }
  return most / MIB;
}

/** 100 MiB that do not repeat. */
function manyBytes(): Buffer {
  const value = Buffer.alloc(SIZE);
  for (let at = 0; at < SIZE; at += 4) value.writeUInt32LE(Math.imul(at, 0x9e3779b1) >>> 0, at);
  return value;
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

describe('cli: a value of 100 MiB', () => {
  const sandbox = new Sandbox();
  const value = manyBytes();
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
    idle = ownMemory(server.process.pid!) / MIB;
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

  // The request is one copy, the pages that LMDB has changed and not yet written are another.
  it('is added and replaced with the request alone in memory, beside what LMDB writes', async () => {
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
    expect(most - idle).to.be.within(90, 300);
  }).timeout(60_000);

  it('is sent without ever being in memory as a whole', async () => {
    expect((await peakOf(readBack)) - idle).to.be.below(64);
  }).timeout(60_000);

  it('is exported without ever being in memory as a whole, and imported again', async () => {
    const file = sandbox.path('out.ldif');
    const child = startRowan(['export', '--data', sandbox.data, '--base', DN, '--output', file]);
    const most = await peak(child.pid!, async () => expect(await exited(child)).to.equal(0));
    expect(most - idle).to.be.within(-20, 90);
    const text = readFileSync(file, 'latin1').replaceAll('\n ', '');
    const from = text.indexOf('jpegPhoto:: ') + 'jpegPhoto:: '.length;
    expect(sha256(Buffer.from(text.slice(from, text.indexOf('\n', from)), 'base64'))).to.equal(sum);
    if (!process.env.ROWAN_SOAK) return;
    expect((await client.request({ op: 'delete', dn: DN })).code).to.equal(0);
    await rowanDoes(['deleted', 'purge', '--all', '--data', sandbox.data]);
    await rowanDoes(['import', '--data', sandbox.data, file]);
    await readBack();
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
  }).timeout(60_000);
});
