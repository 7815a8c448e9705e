import { readFileSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import type { Request } from '../../src/protocol/ldap-messages.js';
import { Random } from '../protocol/random.js';
import { rounds } from '../rounds.js';
import { attributes } from '../server/directory.js';
import { RawClient } from '../server/raw-client.js';
import { ADMIN, exited, heard, PASSWORD, type RunningServer, rowanDoes, Sandbox, SUFFIX } from './rowan.js';
import { figures } from './workers.js';

const seed = Number(process.env.ROWAN_SEED ?? Date.now() % 1_000_000);
const CLIENTS = 6;
/** Requests of a client in flight. */
const PIPELINED = 8;
const VALUE = 'x'.repeat(20 * 1024);

/**
 * Throws on SIGUSR2, or when a write transaction of LMDB begins and a file named like the process id is in the folder.
 * The thread that writes then waits for the thread that throws.
 */
const THROWER = `
  import { createHook } from 'node:async_hooks';
  import { existsSync } from 'node:fs';
  import { fileURLToPath } from 'node:url';
  const file = fileURLToPath(new URL(String(process.pid), import.meta.url));
  const fail = () => { throw new Error('out of the blue'); };
  process.on('SIGUSR2', fail);
  createHook({ init: (id, type) => void (type === 'write' && existsSync(file) && process.nextTick(fail)) }).enable();
`;

function addRequest(cn: string): Request {
  const values = { objectClass: ['device'], cn: [cn], description: [VALUE] };
  return { op: 'add', dn: `cn=${cn},${SUFFIX}`, attributes: attributes(values) };
}

describe(`cli: an uncaught error under write load (seed ${seed})`, () => {
  const sandbox = new Sandbox();
  const random = new Random(seed);
  /** The names of all entries whose add was answered with success. */
  const acknowledged = new Set<string>();
  let env: Record<string, string>;
  let server: RunningServer;
  let isStopping = false;
  let count = 0;

  before(async () => {
    await sandbox.init();
    await rowanDoes(['import', '--data', sandbox.data, '-'], {
      input: `dn: ${SUFFIX}\nobjectClass: organization\nobjectClass: dcObject\no: Example\ndc: example\n`,
    });
    const thrower = sandbox.path('thrower.mjs');
    writeFileSync(thrower, THROWER);
    env = { NODE_OPTIONS: `--import=${pathToFileURL(thrower).href}` };
  });
  after(() => sandbox.remove());

  /** Adds entries until the connection ends or the test stops it. Resolves with whether the connection has ended. */
  async function write(client: RawClient): Promise<boolean> {
    try {
      while (!isStopping) {
        const names = Array.from({ length: PIPELINED }, () => `e${count++}`);
        for (const [n, id] of client.sendTogether(names.map(addRequest)).entries()) {
          expect((await client.answer(id)).code, names[n]).to.equal(0);
          acknowledged.add(names[n]!);
        }
      }
    } catch (error) {
      if (!client.closed) throw error;
      return true;
    } finally {
      client.close();
    }
    return false;
  }

  /** Starts a server under load. `writing` resolves with what each `write` does. */
  async function serveWriters(workers: string): Promise<{ writing: Promise<boolean[]> }> {
    server = await sandbox.serve(['--workers', workers], { env });
    isStopping = false;
    const clients = await Promise.all(Array.from({ length: CLIENTS }, () => RawClient.open(server.port)));
    for (const client of clients) expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
    const writing = Promise.all(clients.map(write));
    await acknowledgedMore(20 + random.below(100));
    return { writing };
  }

  async function acknowledgedMore(more: number): Promise<void> {
    const goal = acknowledged.size + more;
    while (acknowledged.size < goal) await sleep(1);
  }

  /** Has the process throw at the begin of a commit, now and then at any moment. */
  function throwIn(pid: number): void {
    if (random.chance(4)) process.kill(pid, 'SIGUSR2');
    else writeFileSync(sandbox.path(`${pid}`), '');
  }

  it('ends a server of one process', async () => {
    for (let round = 0; round < rounds(3, 50); round++) {
      const { writing } = await serveWriters('1');
      const said = heard(server.process, 'uncaught error');
      throwIn(server.process.pid!);
      expect(await exited(server.process)).to.equal('SIGKILL');
      expect(await said).to.match(/FATAL an uncaught error ends the process err="out of the blue"/);
      expect(await writing).to.deep.equal(Array(CLIENTS).fill(true));
    }
  });

  it('ends one of two workers, which is started again while the other goes on', async () => {
    for (let round = 0; round < rounds(2, 50); round++) {
      const { writing } = await serveWriters('2');
      const client = await RawClient.open(server.port);
      expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
      const worker = 1 + random.below(2);
      const pid = Number((await figures(client)).get(`worker.${worker}.pid`));
      client.close();
      const said = heard(server.process, 'the worker serves');
      throwIn(pid);
      const text = await said;
      expect(text).to.contain('an uncaught error ends the process');
      expect(text).to.contain(`ERROR a worker ended; it is started again worker=${worker} reason="ended with SIGKILL"`);
      await acknowledgedMore(20);
      isStopping = true;
      expect((await writing).filter((hasEnded) => hasEnded)).to.have.length(CLIENTS / 2);
      expect(await server.stop()).to.equal(0);
    }
  });

  it('loses nothing that was acknowledged, and leaves no breach', async () => {
    expect(await rowanDoes(['check', '--data', sandbox.data])).to.equal('no breach found\n');
    const file = sandbox.path('all.ldif');
    await rowanDoes(['export', '--data', sandbox.data, '--output', file]);
    const found = new Set([...readFileSync(file, 'latin1').matchAll(/^cn: (e\d+)$/gm)].map(([, name]) => name));
    expect([...acknowledged].filter((name) => !found.has(name))).to.deep.equal([]);
  });
});
