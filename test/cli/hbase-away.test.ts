import { createServer, type Server } from 'node:net';
import { expect } from 'chai';
import { describeError } from '../../src/cli/exit.js';
import { noTable } from '../../src/store/tables.js';
import { rowan } from './rowan.js';

describe('cli: HBase that does not answer', () => {
  let server: Server;
  let port: number;
  before(async () => {
    // It takes connections and says nothing.
    server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    port = (server.address() as { port: number }).port;
  });
  after(() => server.close());

  it('is waited for aloud', async () => {
    const env = { ROWAN_HBASE_OPERATION_SECONDS: '5' };
    const ended = await rowan(['check', '--store', `hbase://127.0.0.1:${port}`], { env });
    expect(ended.code).to.equal(1);
    expect(ended.stderr).to.match(/^rowan: hbase:\S+ does not answer yet; waiting for it, 5 s at most\nrowan: /);
  });

  it('is not waited for where something else answers', async () => {
    const http = createServer((socket) => socket.on('error', () => undefined).end('HTTP/1.1 400 Bad Request\r\n\r\n'));
    await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
    const address = `127.0.0.1:${(http.address() as { port: number }).port}`;
    // Longer than the test may take.
    const env = { ROWAN_HBASE_OPERATION_SECONDS: '3600' };
    const ended = await rowan(['check', '--store', `hbase://${address}`], { env });
    http.close();
    expect(ended.code).to.equal(1);
    expect(ended.stderr).to.contain(
      `rowan: masters: ${address}: it speaks HTTP: this is another port than HBase's RPC`,
    );
  });

  it('for want of a table is told with what makes it', () => {
    expect(describeError(noTable('index_2.5.4.50'))).to.match(
      /^table index_2\.5\.4\.50 does not exist; .*rowan hbase verify/,
    );
  });
});
