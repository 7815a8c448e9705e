import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { seeded } from '../partition/fixture.js';
import { rounds } from '../rounds.js';
import { testSchema } from '../server/directory.js';
import { RawClient } from '../server/raw-client.js';
import { Transfers } from '../server/transfers.js';
import { ADMIN, exited, PASSWORD, PEOPLE, type RunningServer, Sandbox } from './rowan.js';

const TRANSFERS = rounds(40, 1000);
const KILLS = rounds(1, 8);

describe('cli: transactions of a server that is killed', () => {
  const sandbox = new Sandbox();
  let server: Promise<RunningServer>;
  before(async () => {
    await sandbox.initSample();
    server = sandbox.serve();
    await server;
  });
  after(() => sandbox.remove());

  /** Connects to the server, or to the one that follows it. */
  async function connect(): Promise<RawClient> {
    for (;;) {
      const { port } = await server;
      try {
        const client = await RawClient.open(port);
        expect(await client.bind(ADMIN, PASSWORD)).to.equal(0);
        return client;
      } catch (error) {
        if ((await server).port === port) throw error;
      }
    }
  }

  it('transfer all or nothing: the sum stays', async function () {
    this.timeout(600_000);
    await seeded(async (random) => {
      const transfers = new Transfers(PEOPLE, random, connect);
      await transfers.addAccounts();
      const part = Math.ceil(TRANSFERS / (KILLS + 1));
      await transfers.run(part);
      for (let kill = 0; kill < KILLS; kill++) {
        const running = transfers.run(part);
        await transfers.reaches(part / 2);
        const killed = (await server).process;
        server = exited(killed).then(() => sandbox.serve());
        killed.kill('SIGKILL');
        await running;
      }
      await transfers.expectSum();
    });
    await (await server).stop();
    const partition = await Partition.open(await openLmdbStore(sandbox.data, { create: false }), testSchema());
    expect(await partition.check(() => undefined)).to.equal(0);
    await partition.close();
  });
});
