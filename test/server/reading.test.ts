import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { PassThrough } from 'node:stream';
import { expect } from 'chai';
import { startReading } from '../../src/server/connection/reading.js';

describe('server: what a socket brings', () => {
  async function accepted(handle: (socket: Socket) => void): Promise<{ client: Socket; end(): Promise<void> }> {
    const server = createServer(handle).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const client = connect({ port: (server.address() as { port: number }).port, host: '127.0.0.1' });
    await once(client, 'connect');
    const end = async (): Promise<void> => {
      client.destroy();
      server.close();
      // Comes when no connection is counted any more.
      await once(server, 'close');
    };
    return { client, end };
  }

  it('a socket is read without a stream, into buffers that stay unchanged', async () => {
    const pieces: Buffer[] = [];
    let moved = false;
    let arrived = 0;
    const whole = Buffer.from(Array.from({ length: 300_000 }, (_, i) => (i * 7) & 0xff));
    let tell = (): void => {};
    const all = new Promise<void>((resolve) => {
      tell = resolve;
    });
    const { client, end } = await accepted((socket) => {
      const used = startReading(socket, (bytes) => {
        pieces.push(bytes);
        arrived += bytes.length;
        if (arrived === whole.length) tell();
      });
      moved = used !== socket;
    });
    client.write(whole);
    await all;
    expect(moved, 'this Node has no socket that reads into a buffer given').to.equal(true);
    expect(Buffer.concat(pieces).equals(whole)).to.equal(true);
    await end();
  });

  it('a socket is read with pauses, a response and both ends of the connection', async () => {
    let used: Socket | undefined;
    const got: string[] = [];
    const { client, end } = await accepted((socket) => {
      used = startReading(socket, (bytes) => {
        got.push(bytes.toString());
        used!.pause();
        used!.write('once');
      });
    });
    client.write('first');
    const [answer] = (await once(client, 'data')) as [Buffer];
    expect(answer.toString()).to.equal('once');
    client.write('second');
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    expect(got).to.deep.equal(['first']);
    expect(used!.remoteAddress).to.equal('127.0.0.1');
    used!.resume();
    await once(client, 'data');
    expect(got).to.deep.equal(['first', 'second']);
    used!.resume();
    const closed = once(used!, 'close');
    client.end();
    await closed;
    await end();
  });

  it('a connection without a system socket is read as a stream', async () => {
    const stream = new PassThrough();
    const got: Buffer[] = [];
    const used = startReading(stream as unknown as Socket, (bytes) => got.push(bytes));
    expect(used).to.equal(stream);
    stream.end('bytes');
    await once(stream, 'end');
    expect(Buffer.concat(got).toString()).to.equal('bytes');
  });
});
