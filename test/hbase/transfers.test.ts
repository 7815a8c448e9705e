import { expect } from 'chai';
import { initDirectory, Partition } from '../../src/partition/index.js';
import { hashPasswordFast } from '../../src/password/index.js';
import { openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { exited, type RunningServer, serve } from '../cli/rowan.js';
import { seeded } from '../partition/fixture.js';
import { rounds, soakTest } from '../rounds.js';
import { ADMIN, CHEAP, fill, PEOPLE, type Running, SUFFIX, start, testSchema } from '../server/directory.js';
import { RawClient } from '../server/raw-client.js';
import { Transfers } from '../server/transfers.js';
import { borrowTables, returnTables } from './recycled.js';
import { freshPrefix, hbase } from './server.js';

const TRANSFERS = rounds(16, 1000);
const KILLS = 6;

async function createDirectory(settings: HBaseSettings): Promise<void> {
  const store = await openHBaseStore(settings);
  const adminPassword = hashPasswordFast(Buffer.from(ADMIN.password));
  await initDirectory(store, { suffixes: [SUFFIX], adminDn: ADMIN.dn, adminPassword }, testSchema());
  const partition = await Partition.open(store, testSchema());
  await fill(partition, 0);
  await partition.close();
}

async function expectClean(settings: HBaseSettings): Promise<void> {
  const partition = await Partition.open(await openHBaseStore(settings), testSchema());
  await partition.store.waitUntilQuiet?.();
  expect(await partition.check(() => undefined)).to.equal(0);
  await partition.close();
}

async function connectTo(port: number): Promise<RawClient> {
  const client = await RawClient.open(port);
  expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
  return client;
}

describe('hbase: transactions at two front ends', function () {
  this.timeout(1_200_000);

  it('transfer all or nothing: the sum stays', async function () {
    const settings = await borrowTables(this);
    await createDirectory(settings);
    const partitions: Partition[] = [];
    const fronts: Running[] = [];
    for (let n = 0; n < 2; n++) {
      const partition = await Partition.open(await openHBaseStore(settings), testSchema());
      partitions.push(partition);
      fronts.push(await start(CHEAP, 0, partition));
    }
    await seeded(async (random) => {
      const transfers = new Transfers(PEOPLE, random, (client) => connectTo(fronts[client % 2]!.port));
      await transfers.addAccounts();
      await transfers.run(TRANSFERS);
      await transfers.expectSum();
    });
    for (const front of fronts) await front.stop();
    for (const partition of partitions) await partition.close();
    await expectClean(settings);
    returnTables(settings);
  });

  soakTest('the sum stays when front ends are killed', async function () {
    const server = await hbase(this);
    const prefix = freshPrefix();
    const settings = server.settings(prefix);
    await createDirectory(settings);
    const fronts: Promise<RunningServer>[] = [serve(server.url(prefix)), serve(server.url(prefix))];
    const connect = async (client: number): Promise<RawClient> => {
      for (;;) {
        const { port } = await fronts[client % 2]!;
        try {
          return await connectTo(port);
        } catch (error) {
          if ((await fronts[client % 2]!).port === port) throw error;
        }
      }
    };
    await seeded(async (random) => {
      const transfers = new Transfers(PEOPLE, random, connect);
      await transfers.addAccounts();
      const part = Math.ceil(TRANSFERS / KILLS);
      for (let kill = 0; kill < KILLS; kill++) {
        const running = transfers.run(part);
        await transfers.reaches(part / 2);
        const killed = (await fronts[kill % 2]!).process;
        fronts[kill % 2] = exited(killed).then(() => serve(server.url(prefix)));
        killed.kill('SIGKILL');
        await running;
      }
      await transfers.expectSum();
    });
    for (const front of fronts) await (await front).stop();
    await expectClean(settings);
  });
});
