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

  it('for want of a table is told with what makes it', () => {
    expect(describeError(noTable('index_2.5.4.50'))).to.match(
      /^table index_2\.5\.4\.50 does not exist; .*rowan hbase verify/,
    );
  });
});
