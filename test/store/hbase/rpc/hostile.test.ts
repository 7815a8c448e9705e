import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { createServer, type Server, type Socket } from 'node:net';
import { expect } from 'chai';
import { HBaseClient } from '../../../../src/store/hbase/rpc/client.js';
import { MessageReader, MessageWriter } from '../../../../src/store/hbase/rpc/protobuf.js';
import type { RpcSettings } from '../../../../src/store/hbase/rpc/rpc-types.js';
import type { StoreError } from '../../../../src/store/store-error.js';
import { bytes, errorOf, random } from '../../suite/fixture.js';
import { rpcSettings } from './settings.js';

const TABLE = { name: 't', families: ['0'] };

function settings(port: number, changes: Partial<RpcSettings> = {}): RpcSettings {
  return rpcSettings({ masters: [`127.0.0.1:${port}`], operationTimeoutMs: 1_500, rpcTimeoutMs: 200, ...changes });
}

/** Bytes of an answer; undefined: none. */
type Reply = Buffer | 'hang up' | undefined;

interface Asked {
  readonly id: number;
  readonly method: string;
}

/** A listener that answers each request with the bytes that `answer` gives, and is no HBase in any other way. */
class Stranger {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  accepted = 0;

  private constructor(answer: (asked: Asked) => Reply) {
    this.#server = createServer((socket) => {
      this.accepted++;
      this.#sockets.add(socket);
      socket.on('error', () => socket.destroy());
      let have: Buffer = Buffer.alloc(0);
      let greeted = false;
      socket.on('data', (more: Buffer) => {
        have = Buffer.concat([have, more]);
        if (!greeted && have.length >= 10 && have.length >= 10 + have.readUInt32BE(6)) {
          expect(have.toString('latin1', 0, 4)).to.equal('HBas');
          have = have.subarray(10 + have.readUInt32BE(6));
          greeted = true;
        }
        while (greeted && have.length >= 4 && have.length >= 4 + have.readUInt32BE(0)) {
          const reply = answer(header(have.subarray(4, 4 + have.readUInt32BE(0))));
          have = have.subarray(4 + have.readUInt32BE(0));
          if (reply === 'hang up') socket.destroy();
          else if (reply) socket.write(reply);
        }
      });
    });
  }

  static async listen(answer: (asked: Asked) => Reply): Promise<Stranger> {
    const stranger = new Stranger(answer);
    await new Promise<void>((resolve) => stranger.#server.listen(0, '127.0.0.1', resolve));
    return stranger;
  }

  get port(): number {
    return (this.#server.address() as { port: number }).port;
  }

  close(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}

function header(frame: Buffer): Asked {
  const reader = new MessageReader(frame).delimitedMessage();
  let id = 0;
  let method = '';
  while (reader.next()) {
    if (reader.field === 1) id = reader.uint();
    else if (reader.field === 3) method = reader.string();
    else reader.skip();
  }
  return { id, method };
}

function delimited(message: Buffer): Buffer {
  const out = new MessageWriter().bytes(1, message).finish();
  return out.subarray(1);
}

function frame(...parts: Buffer[]): Buffer {
  const body = Buffer.concat(parts);
  const length = Buffer.alloc(4);
  length.writeUInt32BE(body.length);
  return Buffer.concat([length, body]);
}

const answering = (id: number) => delimited(new MessageWriter().uint(1, id).finish());

/** What it does, how it answers, and what is said of it once the operation's time is over. */
const STRANGE: readonly (readonly [what: string, answer: (asked: Asked) => Reply, said: RegExp])[] = [
  ['that never answers: gives up in time', () => undefined, /no answer|silent|no time/],
  ['that announces four gigabytes', () => Buffer.from('ffffffff00', 'hex'), /frame of 4294967295 bytes/],
  ['whose header is longer than its frame', () => frame(Buffer.from('ff7f08', 'hex')), /message of 16383 bytes/],
  [
    'whose message is longer than its frame',
    ({ id }) => frame(answering(id), Buffer.from('ff7f', 'hex')),
    /16383 bytes/,
  ],
  [
    'whose cell block is not as long as it says',
    ({ id }) => {
      const head = new MessageWriter().uint(1, id).message(3, new MessageWriter().uint(1, 1_000_000)).finish();
      return frame(delimited(head), delimited(Buffer.alloc(0)), Buffer.alloc(12));
    },
    /12 bytes where 1000000/,
  ],
  [
    'that answers what nobody asked: goes on waiting for what it asked',
    ({ id }) => frame(answering(id + 7)),
    /no answer|silent|no time/,
  ],
  [
    'that talks another protocol',
    () => bytes('HTTP/1.1 400 Bad Request\r\n\r\n'),
    /^masters: 127\.0\.0\.1:\d+: it speaks HTTP: this is another port than HBase's RPC$/,
  ],
  [
    'that hangs up without a word, as ZooKeeper does',
    () => 'hang up',
    /^masters: 127\.0\.0\.1:\d+: connection closed; is this the port of an HBase master\? ZooKeeper's is another$/,
  ],
];

describe('hbase/rpc against a server that is none', () => {
  const told = new Map<string, StoreError | undefined>();
  let stranger: Stranger | undefined;
  let client: HBaseClient | undefined;

  before(() => Promise.all(STRANGE.map(async ([what, answer]) => told.set(what, await failure(answer)))));
  afterEach(async () => {
    await client?.close();
    stranger?.close();
    stranger = undefined;
  });

  async function failure(answer: (asked: Asked) => Reply): Promise<StoreError | undefined> {
    const asked = await Stranger.listen(answer);
    const asking = new HBaseClient(settings(asked.port));
    const error = await errorOf(asking.get(TABLE, bytes('k')));
    await asking.close();
    asked.close();
    return error;
  }

  for (const [what, , said] of STRANGE)
    it(what, () => {
      expect(told.get(what)).to.include({ code: 'unavailable', applied: 'no' });
      expect(told.get(what)!.message).to.match(said);
    });

  it('that says it knows no such service: does not ask again', async () => {
    const exception = new MessageWriter()
      .string(1, 'org.apache.hadoop.hbase.ipc.FatalConnectionException')
      .string(2, 'org.apache.hadoop.hbase.ipc.FatalConnectionException: no')
      .bool(5, true);
    const head = new MessageWriter().uint(1, 0xffff_ffff).message(2, exception).finish();
    stranger = await Stranger.listen(() => frame(delimited(head)));
    client = new HBaseClient(settings(stranger.port));
    const error = await errorOf(client.get(TABLE, bytes('k')));
    expect(error).to.include({ code: 'unavailable', applied: 'no' });
    expect(error?.message).to.match(/FatalConnectionException: no/);
    expect(stranger.accepted).to.equal(1);
  });

  it('that sends random bytes in place of hbase:meta', async function () {
    const { seed, next } = random();
    this.test!.title += ` (seed ${seed})`;
    stranger = await Stranger.listen(({ id, method }) => {
      if (method === 'GetMetaRegionLocations') {
        const server = new MessageWriter().string(1, '127.0.0.1').uint(2, stranger!.port);
        const location = new MessageWriter().bytes(1, Buffer.alloc(0)).message(2, server).uint(3, 1);
        return frame(answering(id), delimited(new MessageWriter().message(1, location).finish()));
      }
      const cells = Buffer.from(Array.from({ length: next(120) }, () => next(next(2) === 0 ? 4 : 256)));
      const head = new MessageWriter().uint(1, id).message(3, new MessageWriter().uint(1, cells.length)).finish();
      return frame(delimited(head), delimited(new MessageWriter().uint(1, next(4)).bool(3, true).finish()), cells);
    });
    for (let round = 0; round < 60; round++) {
      client = new HBaseClient(settings(stranger.port, { operationTimeoutMs: 60 }));
      const code = (await errorOf(client.get(TABLE, bytes('k'))))?.code;
      expect(code, `round ${round}`).to.be.oneOf(['unavailable', 'corrupt', 'noTable']);
      await client.close();
    }
  });

  it('that nobody can connect to: refused at once, tried again until the deadline', async () => {
    stranger = await Stranger.listen(() => undefined);
    const { port } = stranger;
    stranger.close();
    client = new HBaseClient(settings(port));
    let attempts = 0;
    const count = (): void => {
      attempts++;
    };
    subscribe('net.client.socket', count);
    const error = await errorOf(client.get(TABLE, bytes('k')));
    unsubscribe('net.client.socket', count);
    expect(error).to.include({ code: 'unavailable', applied: 'no' });
    expect(error?.message).to.match(/^masters: .* ECONNREFUSED .*; is HBase's master running there\?$/);
    expect(attempts).to.be.greaterThan(1);
    expect(client.statistics.calls).to.deep.equal({});
  });

  it('whose address is none', async () => {
    const masters = ['nowhere', 'host:99999999', ':1', 'host:-1'];
    const clients = masters.map((master) => new HBaseClient(settings(1, { masters: [master] })));
    const errors = await Promise.all(clients.map((one) => errorOf(one.get(TABLE, bytes('k')))));
    await Promise.all(clients.map((one) => one.close()));
    for (const [i, error] of errors.entries()) {
      expect(error, masters[i]).to.include({ code: 'unavailable', applied: 'no' });
      expect(error?.message, masters[i]).to.match(/is no host:port/);
    }
  });

  it('and after close', async () => {
    stranger = await Stranger.listen(() => undefined);
    client = new HBaseClient(settings(stranger.port, { operationTimeoutMs: 10_000, rpcTimeoutMs: 10_000 }));
    const waiting = errorOf(client.get(TABLE, bytes('k')));
    while (stranger.accepted === 0) await new Promise(setImmediate);
    await client.close();
    expect((await waiting)?.code).to.equal('closed');
    expect((await errorOf(client.get(TABLE, bytes('k'))))?.code).to.equal('closed');
  });
});
