import { Session } from 'node:inspector/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'chai';
import type { KeyRange } from '../../../../src/store/contract.js';
import type { HBaseClient } from '../../../../src/store/hbase/rpc/client.js';
import { encodeFilter, filterList } from '../../../../src/store/hbase/rpc/filters.js';
import { MessageWriter } from '../../../../src/store/hbase/rpc/protobuf.js';
import type { HBaseScanOptions, RowMutation, TableHandle } from '../../../../src/store/hbase/rpc/rpc-types.js';
import { packRow } from '../../../../src/store/row.js';
import { hbase } from '../../../hbase/server.js';
import { bytes, cell, codeOf, errorOf, random } from '../../suite/fixture.js';
import { Cluster } from './cluster.js';

const LEASE_MS = 200;
const ROWS = 1_200;
const key = (i: number) => bytes(`k${String(i).padStart(5, '0')}`);
const cells = (i: number) => [
  cell(0, 'id', String(i)),
  cell(0, 'mod', String(i % 7)),
  ...(i % 3 === 0 ? [cell(1, 'third', '')] : []),
];
const rowOf = (i: number) => packRow(cells(i));

/** Column `qualifier` of family '1' only. */
function columnPrefix(prefix: string): Buffer {
  return encodeFilter('ColumnPrefixFilter', new MessageWriter().string(1, prefix));
}

/** The cells whose value contains one of many texts, of which only the last is there, in the last row. */
function slowFilter(comparisons: number): Buffer {
  const texts = Array.from({ length: comparisons }, (_, i) => (i === comparisons - 1 ? String(ROWS - 1) : `none${i}`));
  return filterList(
    'one',
    texts.map((text) => {
      // ValueFilter: compare_filter 1 { compare_op 1 = EQUAL, comparator 2 { name 1, SubstringComparator 2 { substr 1 }
      // } }
      const substring = new MessageWriter().string(1, text);
      const comparator = new MessageWriter()
        .string(1, 'org.apache.hadoop.hbase.filter.SubstringComparator')
        .message(2, substring);
      return encodeFilter(
        'ValueFilter',
        new MessageWriter().message(1, new MessageWriter().uint(1, 2).message(2, comparator)),
      );
    }),
  );
}

/** Names of the functions that allocated memory in the course of the work. */
async function framesAllocating(work: () => Promise<void>): Promise<Set<string>> {
  const session = new Session();
  session.connect();
  await session.post('HeapProfiler.startSampling', {
    samplingInterval: 32,
    includeObjectsCollectedByMajorGC: true,
    includeObjectsCollectedByMinorGC: true,
  });
  await work();
  const { profile } = await session.post('HeapProfiler.stopSampling');
  session.disconnect();
  const names = new Set<string>();
  const open = [profile.head];
  for (let node = open.pop(); node; node = open.pop()) {
    names.add(node.callFrame.functionName);
    open.push(...node.children);
  }
  return names;
}

describe('hbase/rpc reads', () => {
  let cluster: Cluster;
  let client: HBaseClient;
  let table: TableHandle;

  before(async function () {
    cluster = new Cluster(await hbase(this));
    client = cluster.client();
    table = await cluster.table(['0', '1', 'lock']);
    expect(await client.get(table, key(0))).to.equal(undefined);
    // Three regions, of which the client knows but the first.
    await cluster.regions(table).split(key(400));
    await cluster.regions(table).split(key(800));
    await client.putMany(
      table,
      Array.from({ length: ROWS }, (_, i): RowMutation => ({ key: key(i), put: cells(i) })),
    );
    await cluster.regions(table).move(key(400));
  });

  after(async () => {
    await cluster?.end();
  });

  async function scanned(range: KeyRange, options: HBaseScanOptions = {}) {
    const scan = client.scan(table, range, options);
    const found = { keys: [] as string[], rows: [] as Buffer[], scanned: 0 };
    for (let batch = await scan.next(); batch; batch = await scan.next()) {
      found.keys.push(...batch.keys.map(String));
      found.rows.push(...batch.rows);
      found.scanned += batch.scanned;
    }
    return found;
  }

  const keysFrom = (from: number, to: number) => Array.from({ length: to - from }, (_, i) => String(key(from + i)));

  it('no failure is made where nothing fails', async () => {
    const made = await framesAllocating(async () => {
      for (let n = 0; n < 20; n++)
        await client.getMany(
          table,
          Array.from({ length: 20 }, (_, i) => key(n * 20 + i)),
        );
    });
    expect([...made]).to.not.include('Failure');
    const odd = { name: table.name, families: ['9'] };
    const failing = await framesAllocating(async () => {
      for (let n = 0; n < 20; n++) await errorOf(client.get(odd, key(0), { families: [0] }));
    });
    expect([...failing]).to.include('Failure');
  });

  it('get gives packed rows, of all three regions', async () => {
    for (const i of [0, 399, 400, 799, 800, ROWS - 1]) {
      expect((await client.get(table, key(i)))?.equals(rowOf(i)), String(i)).to.equal(true);
    }
    expect(await client.get(table, bytes('nobody'))).to.equal(undefined);
  });

  it('get gives the families and columns asked for', async () => {
    const { get } = { get: (options: object) => client.get(table, key(3), options) };
    expect(await get({ families: [1] })).to.deep.equal(packRow([cell(1, 'third', '')]));
    expect(await get({ columns: [{ family: 0, qualifier: bytes('mod') }] })).to.deep.equal(
      packRow([cell(0, 'mod', '3')]),
    );
    expect(await get({ families: [0], columns: [{ family: 1, qualifier: bytes('third') }] })).to.deep.equal(rowOf(3));
    expect(await get({ families: [2] })).to.equal(undefined);
    expect(await get({ filter: columnPrefix('mo') })).to.deep.equal(packRow([cell(0, 'mod', '3')]));
  });

  it('many gets of one tick go out in few requests, and come back in order', async () => {
    await client.regions(table);
    const before = client.statistics.calls.Multi!;
    const wanted = Array.from({ length: 300 }, (_, i) => (i * 37) % (ROWS + 50));
    const rows = await Promise.all([
      ...wanted.map((i) => client.get(table, key(i))),
      client.getMany(table, wanted.map(key)),
    ]);
    const many = rows.pop() as (Buffer | undefined)[];
    for (const [n, i] of wanted.entries()) {
      expect(rows[n], String(i)).to.deep.equal(i < ROWS ? rowOf(i) : undefined);
      expect(many[n], String(i)).to.deep.equal(i < ROWS ? rowOf(i) : undefined);
    }
    expect(client.statistics.calls.Multi! - before).to.be.at.most(8);
    expect(await client.getMany(table, [])).to.deep.equal([]);
  });

  it('scan crosses regions in both directions', async () => {
    const all = await scanned({}, { batchRows: 170 });
    expect(all.keys).to.deep.equal(keysFrom(0, ROWS));
    expect(all.rows.every((row, i) => row.equals(rowOf(i)))).to.equal(true);
    expect(all.scanned).to.equal(ROWS);
    expect((await scanned({}, { isReverse: true, batchRows: 90 })).keys).to.deep.equal(keysFrom(0, ROWS).reverse());
  });

  it('scan keeps to ranges and limits, wherever the regions end', async function () {
    const { seed, next } = random();
    this.test!.title += ` (seed ${seed})`;
    const edges = [0, 1, 399, 400, 401, 799, 800, 801, ROWS - 1, ROWS, ROWS + 5];
    const edge = () => (next(2) === 0 ? edges[next(edges.length)]! : next(ROWS));
    for (let round = 0; round < 40; round++) {
      const [from, to] = [edge(), edge()];
      const options = {
        isReverse: next(2) === 1,
        includesEnd: next(3) === 0,
        keysOnly: next(3) === 0,
        batchRows: 1 + next(500),
        ...(next(2) === 0 && { limit: next(500) }),
      };
      const range = { ...(next(5) > 0 && { from: key(from) }), ...(next(5) > 0 && { to: key(to) }) };
      const first = range.from ? from : 0;
      const end = Math.min(range.to ? to + (options.includesEnd ? 1 : 0) : ROWS, ROWS);
      const expected = first < end ? keysFrom(first, end) : [];
      if (options.isReverse) expected.reverse();
      const found = await scanned(range, options);
      const where = `round ${round}: ${from} to ${to} ${JSON.stringify(options)}`;
      expect(found.keys, where).to.deep.equal(expected.slice(0, options.limit ?? ROWS));
      expect(found.rows.length, where).to.equal(options.keysOnly ? 0 : found.keys.length);
    }
  });

  it('a filter is evaluated at the servers: what it drops does not travel', async () => {
    const before = client.statistics.cellsReceived;
    const found = await scanned({}, { filter: columnPrefix('third') });
    expect(found.keys).to.deep.equal(keysFrom(0, ROWS).filter((_, i) => i % 3 === 0));
    expect(client.statistics.cellsReceived - before).to.equal(found.keys.length);
    expect(found.scanned).to.equal(ROWS);
  });

  it('before the key that a batch tells all was looked at: another scan goes on there', async () => {
    const third = keysFrom(0, ROWS).filter((_, i) => i % 3 === 0);
    for (const [filter, expected] of [
      [undefined, keysFrom(0, ROWS)],
      [columnPrefix('third'), third],
      [columnPrefix('nobody'), []],
    ] as const) {
      const keys: string[] = [];
      let looked = 0;
      let from: Buffer | undefined;
      for (;;) {
        const scan = client.scan(table, { from }, { batchRows: 90, ...(filter && { filter }) });
        const batch = (await scan.next())!;
        scan.close();
        keys.push(...batch.keys.map(String));
        looked += batch.scanned;
        if (batch.until === 'end') break;
        from = batch.until;
      }
      expect(keys).to.deep.equal(expected);
      expect(looked).to.equal(ROWS);
    }
  });

  it('rows larger than an answer come whole', async () => {
    const value = bytes('x'.repeat(128 * 1024));
    const large = Array.from({ length: 60 }, (_, i) => ({ family: 1, qualifier: bytes(`c${100 + i}`), value }));
    const put = (name: string, count: number) => client.mutate(wide, { key: bytes(name), put: large.slice(0, count) });
    const wide = await cluster.table(['0', '1']);
    await put('a', 1);
    await put('b', 60);
    await put('c', 35);
    await client.mutate(wide, { key: bytes('d'), put: [cell(0, 'q', 'v')] });
    // The second gives its scanner up while its caller is slow, and with it what has come of the next row.
    const impatient = cluster.client({ scannerTimeoutMs: LEASE_MS });
    for (const [reader, isReverse] of [client, impatient].flatMap((one) => [
      [one, false] as const,
      [one, true] as const,
    ])) {
      const scan = reader.scan(wide, {}, { isReverse });
      const found: [string, number][] = [];
      for (let batch = await scan.next(); batch; batch = await scan.next()) {
        for (const [i, k] of batch.keys.entries()) found.push([String(k), batch.rows[i]!.length]);
        // Its slowness is what the test is about.
        if (reader === impatient && batch.keys.length > 0) await sleep(LEASE_MS);
      }
      const size = 7 + 4 + value.length;
      const expected = [
        ['a', size],
        ['b', 60 * size],
        ['c', 35 * size],
        ['d', 9],
      ];
      expect(found).to.deep.equal(isReverse ? expected.reverse() : expected);
    }
    expect((await client.get(wide, bytes('b')))?.length).to.equal(60 * (7 + 4 + value.length));
  });

  it('a scan that takes long gets heartbeats, and ends at the right row', async () => {
    // The servers answer after half of the time a request has; enough comparisons take longer than that.
    const hasty = cluster.client({ rpcTimeoutMs: 1_000, operationTimeoutMs: 60_000 });
    for (let [empty, comparisons] = [0, 2_000]; empty === 0; comparisons *= 2) {
      const scan = hasty.scan(table, {}, { filter: slowFilter(comparisons) });
      let looked = 0;
      const found: string[] = [];
      for (let batch = await scan.next(); batch; batch = await scan.next()) {
        if (batch.keys.length === 0) empty++;
        found.push(...batch.keys.map(String));
        looked += batch.scanned;
      }
      expect(found).to.deep.equal([String(key(ROWS - 1))]);
      // A row at which a server ends a request in time is in no count.
      expect(looked).to.be.within(ROWS - empty, ROWS);
    }
  });

  it('a scan closed while it waits ends', async () => {
    const scan = client.scan(table, {}, { filter: slowFilter(300) });
    const waiting = scan.next();
    scan.close();
    await waiting;
    expect(await scan.next()).to.equal(undefined);
  });

  it('a scan goes on after its lease, without a row twice or missing', async () => {
    // As a scanner is not kept for longer than 80 % of the lease, every batch opens a new one.
    const impatient = cluster.client({ scannerTimeoutMs: 0 });
    for (const isReverse of [false, true]) {
      const scan = impatient.scan(table, {}, { batchRows: 77, isReverse });
      const found: string[] = [];
      for (let batch = await scan.next(); batch; batch = await scan.next()) found.push(...batch.keys.map(String));
      expect(found).to.deep.equal(isReverse ? keysFrom(0, ROWS).reverse() : keysFrom(0, ROWS));
    }
  });

  it('a scan that is closed gives nothing more', async () => {
    const scan = client.scan(table, {}, { batchRows: 10 });
    expect((await scan.next())?.keys).to.have.length(10);
    scan.close();
    scan.close();
    expect(await scan.next()).to.equal(undefined);
  });

  it('look-ups of one tick share scans, and each gets its own keys', async function () {
    const { seed, next } = random();
    this.test!.title += ` (seed ${seed})`;
    const families = { families: [0] };
    for (let round = 0; round < 12; round++) {
      const asked = Array.from({ length: 1 + next(90) }, () => {
        const from = next(ROWS + 20);
        return { from, to: from + next(next(4) === 0 ? 500 : 4), limit: 1 + next(300) };
      });
      const found = await Promise.all(
        asked.map(({ from, to, limit }) => client.lookup(table, { from: key(from), to: key(to) }, limit, families)),
      );
      for (const [n, { from, to, limit }] of asked.entries()) {
        const end = Math.min(to, ROWS);
        const expected = end > from ? keysFrom(from, end).slice(0, limit) : [];
        expect(found[n]!.map(String), `round ${round}, ${from} to ${to}, at most ${limit}`).to.deep.equal(expected);
      }
    }
    const before = client.statistics.calls.Scan!;
    const few = await Promise.all(
      Array.from({ length: 60 }, (_, i) => client.lookup(table, { from: key(i), to: key(i + 2) }, 5, families)),
    );
    expect(few.every((keys) => keys.length === 2)).to.equal(true);
    expect(client.statistics.calls.Scan! - before).to.equal(1);
    expect(await client.lookup(table, {}, 3)).to.deep.equal([key(0), key(1), key(2)]);
    expect(await client.lookup(table, {}, ROWS + 1)).to.have.length(ROWS);
    expect(await client.lookup(table, {}, 10, { families: [1] })).to.deep.equal(
      Array.from({ length: 10 }, (_, i) => key(3 * i)),
    );
  });

  it('look-ups and scans go on behind more deleted rows than a server passes at once', async () => {
    const gone = await cluster.table(['0']);
    const keys = Array.from({ length: 4_000 }, (_, i) => key(i));
    const value = Buffer.alloc(2_000, 'v');
    for (let at = 0; at < keys.length; at += 500) {
      const put = [{ family: 0, qualifier: bytes('q'), value }];
      await client.putMany(
        gone,
        keys.slice(at, at + 500).map((k) => ({ key: k, put })),
      );
    }
    await client.putMany(gone, [{ key: bytes('last'), put: [cell(0, 'q', 'there')] }]);
    // Moved, it is written to files, whose blocks a server counts.
    await cluster.regions(gone).move(key(0));
    await client.putMany(
      gone,
      keys.map((k) => ({ key: k, deleteRow: true })),
    );
    expect(await client.lookup(gone, { from: key(0) }, 5)).to.deep.equal([bytes('last')]);
    const some = [key(0), key(1_000), key(3_999)];
    const found = await Promise.all(some.map((from) => client.lookup(gone, { from, to: bytes('m') }, 5)));
    expect(found).to.deep.equal(some.map(() => [bytes('last')]));
    const scan = client.scan(gone, {});
    const seen: Buffer[] = [];
    for (let batch = await scan.next(); batch; batch = await scan.next()) seen.push(...batch.keys);
    expect(seen).to.deep.equal([bytes('last')]);
  });

  it('tables and families that are not there are named', async () => {
    expect(await codeOf(client.get({ name: 'nosuchtable', families: ['0'] }, key(0)))).to.equal('noTable');
    expect(await codeOf(client.scan({ name: 'nosuchtable', families: ['0'] }, {}).next())).to.equal('noTable');
    expect(await codeOf(client.regions({ name: 'nosuchtable', families: ['0'] }))).to.equal('noTable');
    const more = { name: table.name, families: [...table.families, 'other'] };
    expect(await codeOf(client.get(more, key(0), { families: [3] }))).to.equal('conflict');
    const fewer = { name: table.name, families: ['1'] };
    expect(await codeOf(client.get(fewer, key(0)))).to.equal('conflict');
    expect(await codeOf(client.get(table, bytes('')))).to.equal('limit');
    expect(await codeOf(client.get(table, Buffer.alloc(40_000)))).to.equal('limit');
  });

  it('a table that was dropped and made again is found again', async () => {
    const again = await cluster.table(['0']);
    await client.mutate(again, { key: bytes('a'), put: [cell(0, 'q', '1')] });
    await cluster.dropTable(again);
    expect(await codeOf(client.get(again, bytes('a')))).to.equal('noTable');
    await cluster.table(again.families, {}, again.name);
    expect(await client.get(again, bytes('a'))).to.equal(undefined);
    await client.mutate(again, { key: bytes('a'), put: [cell(0, 'q', '2')] });
    expect(await client.get(again, bytes('a'))).to.deep.equal(packRow([cell(0, 'q', '2')]));
  });

  it('the first master that answers will do', async () => {
    const other = cluster.client({ masters: ['127.0.0.1:1', cluster.server.regionServers[0]!, cluster.server.master] });
    expect(await other.get(table, key(1))).to.deep.equal(rowOf(1));
  });
});
