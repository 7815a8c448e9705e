import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { TableAdmin } from '../../../src/store/hbase/schema/admin.js';
import { Gateway } from '../../../src/store/hbase/schema/gateway.js';
import { errorOf } from '../suite/fixture.js';

const NOBODY = 'http://127.0.0.1:1';

/** What the gateway says where a server in its place answers all requests like this. */
async function says(status: number, body: string): Promise<{ address: string; message: string }> {
  const server = createServer((_request, response) => response.writeHead(status).end(body));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  try {
    return { address, message: (await errorOf(new Gateway(address, false).countServers()))!.message };
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

describe('the gateway to HBase tables', () => {
  it('that does not answer is named with the option that names it, and whether it was guessed', async () => {
    const silent = `HBase's REST gateway ${NOBODY} does not answer (ECONNREFUSED); `;
    expect((await errorOf(new Gateway(NOBODY, false).tables()))!.message).to.equal(
      `${silent}--hbase-rest (setting hbase.rest) gives another address`,
    );
    expect((await errorOf(new Gateway(NOBODY, true).tables()))!.message).to.equal(
      `${silent}its address was guessed from the first master's: --hbase-rest (setting hbase.rest) gives another address`,
    );
  });

  it('that does not answer drops no table: how it is dropped by hand is said', async () => {
    const admin = new TableAdmin({ restUrl: NOBODY, isRestUrlGuessed: false }, () => {
      throw new Error('the master is not asked');
    });
    expect((await errorOf(admin.drop('ns:one')))!.message).to.match(
      /^.* does not answer .*; HBase's shell drops the table, too:\ndisable 'ns:one'\ndrop 'ns:one'$/,
    );
  });

  it('that is another server is told by its not speaking of HBase', async () => {
    const { address, message } = await says(404, '<html>Not Found</html>');
    expect(message).to.equal(
      `HBase's REST gateway ${address}: the state of the cluster: 404 <html>Not Found</html>; ` +
        '--hbase-rest (setting hbase.rest) gives another address',
    );
  });

  it("tells an exception once, without Java's stack", async () => {
    const exception = 'org.apache.hadoop.hbase.PleaseHoldException';
    const { address, message } = await says(
      503,
      `Unavailable\r\n${exception}: ${exception}: soon\n\tat x.Y(Y.java:1)\n`,
    );
    expect(message).to.equal(`HBase's REST gateway ${address}: the state of the cluster: 503 ${exception}: soon`);
  });
});
