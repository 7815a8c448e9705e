import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { expect } from 'chai';
import type { Store } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { FAILPOINTS, type FailpointName } from '../../src/store/lmdb/lmdb-options.js';
import type { LmdbStore } from '../../src/store/lmdb/store.js';
import { cellCounter, packRow, unpackRow } from '../../src/store/row.js';
import { rounds } from '../rounds.js';
import { bytes, cell, codeOf, codeOfCall, random, scanAll } from './suite/fixture.js';

const run = promisify(execFile);
const CHILD = join(import.meta.dirname, 'lmdb-child.js');

/** Were so many pages not flushed within the commit, LMDB would wait there for the flushes of others. */
const MANY_PAGES = Array.from({ length: 600 }, (_, i) => ({
  table: 'mine',
  key: bytes(`mine ${i}`),
  put: [cell(0, 'q', 'x'.repeat(3_000))],
}));

describe('lmdb: durability and processes', () => {
  let folder: string;
  let store: Store;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'rowan-lmdb-'));
    store = await openLmdbStore(folder);
  });
  afterEach(async () => {
    await store.close();
    await rm(folder, { recursive: true });
  });

  const FAMILIES = [{ name: 'a' }];
  const put = (key: string, value = 'v') =>
    store.commit({ steps: [{ table: 't', key: bytes(key), put: [cell(0, 'q', value)] }], decisive: 0 });

  it('has after a restart what it had before', async () => {
    await store.createTable({ name: 't', families: FAMILIES });
    await store.createTable({ name: 'ix', families: FAMILIES, suffixBytes: 4 });
    await store.createTable({ name: 'log', families: FAMILIES, rising: true });
    await put('k');
    await store.commit({ steps: [{ table: 'ix', key: bytes('=a0001'), put: [cell(0, '', '')] }], decisive: 0 });
    await store.commit({ steps: [{ table: 'log', append: [cell(0, 'q', '1')] }], decisive: 0 });
    const [first] = (await scanAll(store, 'log', {})).keys;
    await store.commit({ steps: [{ table: 'log', key: bytes(first!), deleteRow: true }], decisive: 0 });
    const tables = await store.tables();
    await store.close();
    store = await openLmdbStore(folder);
    expect(await store.tables()).to.deep.equal(tables);
    expect(await store.get('t', bytes('k'))).to.not.equal(undefined);
    expect((await store.postings('ix', bytes('=a'), 5)).toString()).to.equal('0001');
    await store.commit({ steps: [{ table: 'log', append: [cell(0, 'q', '2')] }], decisive: 0 });
    expect((await scanAll(store, 'log', {})).keys[0]! > first!).to.equal(true);
  });

  it('takes many plans to one transaction and one flush', async () => {
    await store.createTable({ name: 't', families: FAMILIES });
    const { stats: before } = store as LmdbStore;
    await Promise.all(Array.from({ length: 200 }, (_, i) => put(`k${i}`)));
    const { stats } = store as LmdbStore;
    expect(stats.plans - before.plans).to.equal(200);
    // A slow machine takes more: a batch ends after some time, too.
    expect(stats.batches - before.batches).to.be.within(1, 100);
  });

  it('finishes what was begun when it is closed, and refuses what comes later', async () => {
    await store.createTable({ name: 't', families: FAMILIES });
    const snapshot = store.snapshot();
    const commits = Array.from({ length: 20 }, (_, i) => put(`k${i}`));
    const closing = store.close();
    expect(await codeOf(put('late'))).to.equal('closed');
    await Promise.all(commits);
    await closing;
    await store.close();
    expect(await codeOfCall(() => store.get('t', bytes('k1')))).to.equal('closed');
    expect(await codeOfCall(() => snapshot.get('t', bytes('k1')))).to.equal('closed');
    snapshot.close();
    store = await openLmdbStore(folder);
    expect(await store.count('t', {}, 100)).to.equal(20);
  });

  it('grows by itself past 300 MB, with a snapshot open', async () => {
    await store.createTable({ name: 't', families: FAMILIES });
    await put('00');
    const snapshot = store.snapshot();
    const value = 'x'.repeat(10 << 20);
    for (let i = 1; i <= 31; i++) await put(String(i).padStart(2, '0'), value);
    expect((await stat(join(folder, 'data.mdb'))).size).to.be.greaterThan(300 << 20);
    expect(await snapshot.count('t', {}, 100)).to.equal(1);
    snapshot.close();
    const keys = (await scanAll(store, 't', {}, { keysOnly: true })).keys;
    expect(keys).to.have.length(32);
    expect((await store.get('t', bytes('17')))!.length).to.be.greaterThan(10 << 20);
  });

  it('sees tables and rows that another process writes, and its drops', async () => {
    await store.createTable({ name: 't', families: FAMILIES });
    expect(await codeOfCall(() => store.get('other', bytes('k')))).to.equal('noTable');
    await run(process.execPath, [CHILD, 'table', folder]);
    const row = await store.get('other', bytes('k'));
    expect(unpackRow(row!)[0]!.value.toString()).to.equal('from another process');
    await store.dropTable('other');
    await run(process.execPath, [CHILD, 'table', folder]);
    await put('k');
    expect(await store.count('other', {}, 10)).to.equal(1);
  });

  it('loads while another process creates and drops tables', async () => {
    await store.createTable({ name: 't', families: FAMILIES });
    const child = spawn(process.execPath, [CHILD, 'tables', folder], { stdio: ['pipe', 'pipe', 'inherit'] });
    try {
      await once(createInterface(child.stdout), 'line');
      for (let n = 0; n < 200; n++) {
        const row = packRow([cell(0, 'q', String(n))]);
        await store.ingest([{ table: 't', rows: [{ key: bytes(`k${n}`), row }] }], { steps: [], decisive: 0 });
      }
    } finally {
      child.stdin.end();
      await once(child, 'exit');
    }
    expect(await store.count('t', {}, 1000)).to.equal(200);
  });

  it('ends scans with noTable when someone else drops the table, and finds the new one of that name', async () => {
    await store.createTable({ name: 't', families: FAMILIES });
    await put('k');
    const scan = store.scan('t', {});
    const other = await openLmdbStore(folder);
    await other.dropTable('t');
    expect(await codeOfCall(() => scan.next())).to.equal('noTable');
    expect(await codeOf(put('k'))).to.equal('noTable');
    await other.createTable({ name: 't', families: [...FAMILIES, { name: 'b' }] });
    await put('new');
    expect((await scanAll(store, 't', {})).keys).to.deep.equal(['new']);
    await other.close();
  });

  it('writes beside another process; both count to the end', async () => {
    await store.createTable({ name: 'w', families: FAMILIES });
    const child = writer(folder);
    await child.said(1);
    const mine = 100;
    for (let i = 0; i < mine; i += 10) {
      const count = { table: 'w', key: bytes('count'), add: [{ family: 0, qualifier: bytes('n'), by: 1n }] };
      await Promise.all(Array.from({ length: 10 }, () => store.commit({ steps: [count], decisive: 0 })));
    }
    await child.said(200);
    await child.kill();
    const rows = (await scanAll(store, 'w', {}, { keysOnly: true })).keys.length - 1;
    expect(cellCounter((await store.get('w', bytes('count'))) ?? undefined, 0, bytes('n'))).to.equal(
      BigInt(rows + mine),
    );
  });

  it('loses nothing acknowledged and does nothing by halves when it is killed, and another goes on', async function () {
    const { seed, next } = random();
    this.test!.title += ` (seed ${seed})`;
    await store.createTable({ name: 'w', families: FAMILIES });
    await store.createTable({ name: 'mine', families: FAMILIES });
    const acknowledged = new Set<string>();
    for (let round = 0; round < rounds(3, 10); round++) {
      const child = writer(folder);
      await child.said(1 + next(150));
      const beside = store.commit({ steps: MANY_PAGES, decisive: 0 });
      await child.kill();
      await beside;
      for (const name of child.lines) acknowledged.add(name);
      const keys = new Set((await scanAll(store, 'w', {}, { keysOnly: true })).keys);
      for (const name of acknowledged) expect(keys.has(name), `${name} in round ${round}`).to.equal(true);
      const counted = cellCounter((await store.get('w', bytes('count'))) ?? undefined, 0, bytes('n'));
      expect(counted).to.equal(BigInt(keys.size - 1));
      expect(await store.count('log', {}, 1_000_000)).to.equal(keys.size - 1);
    }
  });

  for (const point of FAILPOINTS.filter((name) => name.startsWith('commit')))
    it(`goes on when another process is killed at ${point}`, async () => {
      await store.createTable({ name: 'mine', families: FAMILIES });
      const child = writer(folder, point);
      try {
        await child.said(1);
        expect(child.lines).to.deep.equal([point]);
        const written = store.commit({ steps: MANY_PAGES, decisive: 0 });
        // A part of the fault: mostly it waits for the lock by then.
        await Promise.race([sleep(50), written]);
        await child.kill();
        await written;
        await store.commit({ steps: MANY_PAGES, decisive: 0 });
      } finally {
        await child.kill();
      }
    });
});

interface Writer {
  readonly lines: string[];
  /** Resolves when so many lines have come. */
  said(count: number): Promise<void>;
  /** kill -9. */
  kill(): Promise<void>;
}

/** With `point` it stops there. */
function writer(folder: string, ...point: FailpointName[]): Writer {
  const child: ChildProcess = spawn(process.execPath, [CHILD, 'write', folder, ...point], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close');
  const lines: string[] = [];
  const reader = createInterface({ input: child.stdout! });
  let wake = () => {};
  child.once('close', () => wake());
  reader.on('line', (line) => {
    lines.push(line);
    wake();
  });
  return {
    lines,
    async said(count) {
      while (lines.length < count) {
        if (child.exitCode !== null) throw new Error(`the writer ended after ${lines.length} lines`);
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
    },
    async kill() {
      child.kill('SIGKILL');
      await ended;
    },
  };
}
