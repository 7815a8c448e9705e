import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { Worker } from 'node:worker_threads';
import { expect } from 'chai';
import { Failure } from '../../../../src/store/hbase/rpc/failure.js';
import { type Server, Servers } from '../../../../src/store/hbase/rpc/server.js';
import { noStatistics, rpcSettings } from './settings.js';

const NOTHING = Buffer.alloc(0);

/** Those of a client whose operations have `operationTimeoutMs`. */
function servers(operationTimeoutMs: number): Servers {
  return new Servers(rpcSettings({ operationTimeoutMs }), noStatistics());
}

/** Listens, and takes no connection: one that is made waits, the next ones do not come about. */
const DEAF = `
const { parentPort } = require('node:worker_threads');
const server = require('node:net').createServer();
server.listen({ port: 0, host: '127.0.0.1', backlog: 1 }, () => {
  parentPort.postMessage(server.address().port);
  setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
});`;

/** Nobody listens there, or ever did. */
async function refused(server: Server): Promise<Failure> {
  try {
    await server.call('Get', NOTHING, [], performance.now() + 60_000);
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
  throw new Error('nothing was thrown');
}

describe('hbase/rpc servers', () => {
  it('that are gone are forgotten when another comes, and who still has one looks again', async () => {
    const all = servers(0);
    const gone = all.get('127.0.0.1:1');
    expect((await refused(gone)).message).to.include('ECONNREFUSED');
    expect(all.get('127.0.0.1:1')).to.equal(gone);
    all.get('127.0.0.1:2');
    expect((await refused(gone)).traits).to.deep.equal({ isNotApplied: true, isRegionMoved: true });
    expect(all.get('127.0.0.1:1')).to.not.equal(gone);
    all.close();
  });

  it('that are connected, are asked something, or were so an operation ago are kept', async () => {
    const listener = createServer((socket) => socket.on('error', () => socket.destroy()));
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
    const address = `127.0.0.1:${(listener.address() as { port: number }).port}`;
    const all = servers(0);
    const silent = all.get(address);
    const asking = refused(silent);
    const held = all.get('127.0.0.1:1');
    held.reserve(10);
    all.get('127.0.0.1:2');
    expect([all.get(address), all.get('127.0.0.1:1')]).to.deep.equal([silent, held]);
    all.close();
    expect((await asking).message).to.include('closed');
    const patient = servers(3_600_000);
    const late = patient.get('127.0.0.1:1');
    await refused(late);
    patient.get('127.0.0.1:2');
    expect(patient.get('127.0.0.1:1')).to.equal(late);
    listener.close();
  });

  it('that take no connection are not waited for when they are closed', async () => {
    const deaf = new Worker(DEAF, { eval: true });
    const [port] = (await once(deaf, 'message')) as [number];
    const filling = Array.from({ length: 4 }, () => connect(port, '127.0.0.1').on('error', () => undefined));
    await once(filling[0]!, 'connect');
    const sockets = () => process.getActiveResourcesInfo().filter((kind) => kind.startsWith('TCP')).length;
    const before = sockets();
    const all = servers(3_600_000);
    const asking = refused(all.get(`127.0.0.1:${port}`));
    while (sockets() === before) await new Promise(setImmediate);
    all.close();
    expect((await asking).message).to.include('closed');
    for (let turns = 100; turns > 0 && sockets() > before; turns--) await new Promise(setImmediate);
    expect(sockets()).to.equal(before);
    for (const socket of filling) socket.destroy();
    await deaf.terminate();
  });
});
