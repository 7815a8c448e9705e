import { closeSync, mkdtempSync, openSync, rmSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { Partition } from '../../src/partition/index.js';
import type { Store } from '../../src/store/contract.js';
import { openHBaseStore } from '../../src/store/hbase/index.js';
import type { HBaseSettings } from '../../src/store/hbase/settings.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { Sandbox } from '../cli/rowan.js';
import { TwoWorkers } from '../cli/workers.js';
import { borrowTables, returnTables } from '../hbase/recycled.js';
import { ENGINES, openStore, type Random, seeded } from '../partition/fixture.js';
import { inSoak, rounds } from '../rounds.js';
import { AccountTwin, type Fronts } from './account-twin.js';
import { ADMIN, CHEAP, emptyPartition, type Running, start, testSchema } from './directory.js';
import { RawClient } from './raw-client.js';

const BEGIN = Math.floor(Date.now() / 1000);
const IN_HBASE = 300_000;
/** `CHEAP` of a command. */
const CHEAP_FLAGS = ['--passwords-argon2-memory-kib', '64', '--passwords-argon2-time-cost', '1'];

async function agree(fronts: Fronts, random: Random, steps: number): Promise<void> {
  const twin = await AccountTwin.over(fronts, random, BEGIN);
  for (let n = 0; n < steps; n++) await twin.step();
  await twin.compareAll();
  if (inSoak) expect([...twin.seen.keys()], 'every answer was given').to.include.members(ANSWERS);
}

const ANSWERS = [
  ...[{ code: 0 }, { code: 49 }, { code: 16 }],
  ...[
    { code: 0, expiresIn: 'some' },
    { code: 0, grace: 0 },
    { code: 0, grace: 1 },
    { code: 0, grace: 2 },
  ],
  ...[
    { code: 49, error: 0 },
    { code: 0, error: 2 },
  ],
  ...[2, 3, 4].map((error) => ({ code: 50, error })),
  ...[6, 7, 8, 9].map((error) => ({ code: 19, error })),
].map((verdict) => JSON.stringify(verdict));

for (const engine of ENGINES) {
  const steps = engine === 'hbase' ? rounds(40, 1500) : rounds(100, 5000);
  describe(`server: accounts as a model of the draft has them (${engine})`, function () {
    this.timeout(IN_HBASE);
    const { now } = Date;
    const servers: Running[] = [];
    const partitions: Partition[] = [];
    const clients: RawClient[] = [];
    const folders: string[] = [];
    let borrowed: HBaseSettings | undefined;
    afterEach(async () => {
      for (const client of clients.splice(0)) client.close();
      for (const server of servers.splice(0)) await server.stop();
      const stores = new Map(partitions.splice(0).map((partition) => [partition.store, partition]));
      for (const partition of stores.values()) await partition.close();
      returnTables(borrowed);
      borrowed = undefined;
      Date.now = now;
      for (const folder of folders.splice(0)) rmSync(folder, { recursive: true });
    });

    async function serving(context: Mocha.Context, count: number): Promise<Fronts> {
      const opened = await stores(context, count);
      partitions.push(await emptyPartition(opened[0]));
      for (const store of opened.slice(1)) partitions.push(await Partition.open(store, testSchema()));
      for (const partition of partitions) servers.push(await start(CHEAP, 0, partition));
      for (const { port } of servers) {
        const client = await RawClient.open(port);
        clients.push(client);
        expect(await client.bind(ADMIN.dn, ADMIN.password)).to.equal(0);
      }
      return {
        ports: servers.map(({ port }) => port),
        admins: clients,
        setClock(ms) {
          Date.now = () => ms;
        },
      };
    }

    /** Of one directory: each front end has its own, as far as the engine lets more than one open it. */
    async function stores(context: Mocha.Context, count: number): Promise<Store[]> {
      const opened: Store[] = [];
      const open = await opener(context);
      while (opened.length < count) opened.push(await open());
      return opened;
    }

    async function opener(context: Mocha.Context): Promise<() => Promise<Store>> {
      if (engine === 'hbase') {
        const settings = await borrowTables(context);
        borrowed = settings;
        return () => openHBaseStore(settings);
      }
      if (engine === 'lmdb') {
        const folder = mkdtempSync(join(tmpdir(), 'rowan-accounts-'));
        folders.push(folder);
        return () => openLmdbStore(folder);
      }
      const { store } = await openStore(engine);
      return async () => store;
    }

    it(`${steps} random binds, changes, resets and steps of the clock`, function () {
      return seeded(async (random) => {
        await agree(await serving(this, 1), random, steps);
      });
    });

    it('the same at two front ends in turn', function () {
      return seeded(async (random) => {
        await agree(await serving(this, 2), random, steps);
      });
    });
  });
}

describe('server: accounts as a model of the draft has them (two workers)', () => {
  const sandbox = new Sandbox();
  after(() => sandbox.remove());

  const steps = rounds(100, 5000);
  it(`${steps} random binds, changes, resets and steps of the clock`, () =>
    seeded(async (random) => {
      const clock = sandbox.path('clock');
      writeFileSync(clock, text(BEGIN * 1000));
      const preload = sandbox.path('clock.mjs');
      writeFileSync(preload, preloaded(clock));
      await sandbox.init();
      const two = await TwoWorkers.start(sandbox, CHEAP_FLAGS, { env: { NODE_OPTIONS: `--import=${preload}` } });
      const file = openSync(clock, 'r+');
      const admins = await two.both();
      // One write of as many bytes as were there: nobody reads a part.
      const setClock = (ms: number): void => void writeSync(file, text(ms), 0);
      try {
        await agree({ ports: [two.server.port], admins, setClock }, random, steps);
      } finally {
        closeSync(file);
        two.close();
      }
    }));
});

const text = (ms: number): string => String(ms).padStart(15, '0');

/** A module with which every process of a server has the time that a file says. */
function preloaded(clock: string): string {
  return `import { readFileSync } from 'node:fs';
Date.now = () => Number(readFileSync(${JSON.stringify(clock)}, 'latin1'));
`;
}
