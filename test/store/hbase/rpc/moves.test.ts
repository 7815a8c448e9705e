import { expect } from 'chai';
import type { HBaseClient } from '../../../../src/store/hbase/rpc/client.js';
import { MessageWriter } from '../../../../src/store/hbase/rpc/protobuf.js';
import type { TableHandle } from '../../../../src/store/hbase/rpc/rpc-types.js';
import { cellCounter, cellValue } from '../../../../src/store/row.js';
import type { TableRegions } from '../../../hbase/regions.js';
import { hbase } from '../../../hbase/server.js';
import { rounds, soakTest } from '../../../rounds.js';
import { bytes, cell, random } from '../../suite/fixture.js';
import { Cluster } from './cluster.js';

const ROWS = 300;
const STEPS = rounds(0, 12);
/** HBase's normalizer may merge its regions, however young and small they are. */
const NORMALIZED = {
  NORMALIZATION_ENABLED: 'true',
  NORMALIZER_TARGET_REGION_SIZE_MB: '100',
  'hbase.normalizer.merge.min.region.count': '1',
  'hbase.normalizer.merge.min_region_age.days': '0',
  'hbase.normalizer.merge.min_region_size.mb': '0',
};
const key = (i: number) => bytes(`k${String(i).padStart(4, '0')}`);

/** Reads and writes without end until `stop`; every answer is checked. */
class Traffic {
  readonly #client: HBaseClient;
  readonly #table: TableHandle;
  #stopped = false;
  #running: Promise<void>[] = [];
  readonly versions = new Array<bigint>(ROWS).fill(0n);
  added = 0;
  rounds = 0;

  readonly #next: (below: number) => number;

  constructor(client: HBaseClient, table: TableHandle, next: (below: number) => number) {
    this.#client = client;
    this.#table = table;
    this.#next = next;
  }

  start(): void {
    const loops = [
      () => this.#get(),
      () => this.#write(0),
      () => this.#write(1),
      () => this.#scan(),
      () => this.#look(),
      () => this.#add(),
    ];
    this.#running = loops.map(async (loop) => {
      while (!this.#stopped) {
        await loop();
        this.rounds++;
      }
    });
    // Failures are reported by stop().
    for (const running of this.#running) running.catch(() => undefined);
  }

  async stop(): Promise<void> {
    this.#stopped = true;
    await Promise.all(this.#running);
  }

  async #get(): Promise<void> {
    const keys = Array.from({ length: 40 }, () => this.#next(ROWS));
    const least = keys.map((i) => this.versions[i]!);
    const rows = await this.#client.getMany(this.#table, keys.map(key));
    for (const [n, i] of keys.entries()) {
      const id = cellValue(rows[n]!, 0, bytes('id'))?.toString();
      if (id !== String(i)) expect.fail(`row ${i} has the id ${id}`);
      const version = cellCounter(rows[n], 0, bytes('version'));
      if (version < least[n]!) expect.fail(`row ${i} went back from ${least[n]} to ${version}`);
    }
  }

  /** Each writer has its own half of the rows, so that a guard can fail for one reason only: that it lost count. */
  async #write(half: number): Promise<void> {
    const i = this.#next(ROWS / 2) * 2 + half;
    const value = this.versions[i]!;
    const done = await this.#client.mutate(this.#table, {
      key: key(i),
      guards: [{ op: 'counterEquals', family: 0, qualifier: bytes('version'), value }],
      add: [{ family: 0, qualifier: bytes('version'), by: 1n }],
      put: [cell(0, 'text', String(value + 1n))],
    });
    expect(done, `row ${i}, version ${value}`).to.equal(true);
    this.versions[i] = value + 1n;
  }

  async #scan(): Promise<void> {
    const isReverse = this.rounds % 2 === 0;
    const scan = this.#client.scan(this.#table, {}, { batchRows: 37, isReverse });
    const keys: string[] = [];
    for (let batch = await scan.next(); batch; batch = await scan.next()) keys.push(...batch.keys.map(String));
    const all = Array.from({ length: ROWS }, (_, i) => String(key(i)));
    expect(keys.join()).to.equal((isReverse ? all.reverse() : all).join());
  }

  async #look(): Promise<void> {
    const from = Array.from({ length: 20 }, () => this.#next(ROWS));
    const found = await Promise.all(
      from.map((i) => this.#client.lookup(this.#table, { from: key(i), to: key(i + 5) }, 5)),
    );
    expect(found.map(({ length }) => length).join()).to.equal(from.map((i) => Math.min(5, ROWS - i)).join());
  }

  async #add(): Promise<void> {
    const [value] = await this.#client.increment(this.#table, key(0), [{ family: 0, qualifier: bytes('n'), by: 1n }]);
    expect(value).to.equal(BigInt(++this.added));
  }
}

describe('hbase/rpc while regions move', () => {
  let cluster: Cluster;
  let client: HBaseClient;

  before(async function () {
    cluster = new Cluster(await hbase(this));
    client = cluster.client();
  });

  after(async () => {
    await cluster?.end();
  });

  async function threeRegions(attributes: Record<string, string>): Promise<TableHandle> {
    const table = await cluster.regionsAt([key(100), key(200)], '0', attributes);
    await client.putMany(
      table,
      Array.from({ length: ROWS }, (_, i) => ({ key: key(i), put: [cell(0, 'id', String(i))] })),
    );
    return table;
  }

  /** Does it under traffic, and then looks at every row. */
  async function underTraffic(
    context: Mocha.Context,
    work: (regions: TableRegions, next: (below: number) => number) => Promise<void>,
    attributes: Record<string, string> = {},
  ) {
    const table = await threeRegions(attributes);
    const { seed, next } = random();
    context.test!.title += ` (seed ${seed})`;
    const traffic = new Traffic(client, table, next);
    traffic.start();
    try {
      await work(cluster.regions(table), next);
    } finally {
      await traffic.stop();
    }
    expect(client.statistics.retries).to.be.greaterThan(0);
    expect(traffic.added).to.be.greaterThan(0);
    const rows = await client.getMany(
      table,
      Array.from({ length: ROWS }, (_, i) => key(i)),
    );
    expect(rows.map((row) => cellCounter(row, 0, bytes('version')))).to.deep.equal(traffic.versions);
  }

  it('every read and write goes on: after moves, a split and a merge', async function () {
    await underTraffic(this, async (regions) => {
      await regions.move(key(0));
      await regions.move(key(0));
      await regions.split(key(250));
      await regions.move(key(200));
      await regions.merge(key(0));
    });
  });

  // A region that was split or merged waits for a compaction before it is split or merged again.
  soakTest(`every read and write goes on: ${STEPS} splits, merges and moves at random`, async function () {
    this.timeout(120_000 * STEPS);
    await underTraffic(this, async (regions, next) => {
      for (let n = 0; n < STEPS; n++) {
        if (n % 3 === 0) await regions.split(key(1 + next(ROWS - 1)));
        else if (n % 3 === 1) await regions.move(key(next(ROWS)));
        else await regions.merge(key(next(ROWS)));
      }
    });
  });

  it('every read and write goes on while the normalizer makes one region of three', async function () {
    await underTraffic(this, (regions) => regions.normalize(1), NORMALIZED);
  });

  const letJanitor = (work: boolean): Promise<unknown> =>
    client.callMaster('EnableCatalogJanitor', new MessageWriter().bool(1, work).finish());

  it('every row is found between a merge of a daughter with its neighbour and the end of the split parent', async () => {
    const other = await cluster.table(['0']);
    const keys = [0, 100, 150, 200, 250].map(key);
    const known = cluster.client();
    await known.getMany(other, keys);
    // Parents stay in hbase:meta until the master's janitor takes them away: here five, one in the other.
    await letJanitor(false);
    try {
      for (const at of [100, 290, 280, 270, 200]) await cluster.regions(other).split(key(at));
      await cluster.regions(other).merge(key(0));
      expect((await cluster.regions(other).rows()).filter(({ isParent }) => isParent).length).to.equal(5);
      for (const row of [...keys].reverse()) await known.mutate(other, { key: row, put: [cell(0, 'id', '')] });
      const late = cluster.client();
      expect(await late.get(other, key(250))).to.not.equal(undefined);
      const found = await Promise.all(keys.map((from) => late.lookup(other, { from }, 1)));
      expect(found.flat()).to.deep.equal(keys);
    } finally {
      await letJanitor(true);
    }
  });

  it('regions tells where they are now', async () => {
    const table = await cluster.table(['0']);
    const now = await cluster.regions(table).move(key(0));
    expect((await client.regions(table)).find(({ start }) => start.length === 0)?.server).to.equal(now);
  });
});
