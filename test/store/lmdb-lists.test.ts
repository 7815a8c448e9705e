import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { open, type RootDatabase } from 'lmdb';
import type { LoadRow, RowStep, Store } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { MARK } from '../../src/store/row.js';
import { rounds } from '../rounds.js';
import { bytes, codeOf, random, scanAll } from './suite/fixture.js';

const PAGE = join(import.meta.dirname, '../../../docs/formats/lmdb.md');
const NO_PLAN = { steps: [], decisive: 0 };
const binary = { encoding: 'binary', keyEncoding: 'binary' } as const;

/** Has LMDB alone read or write the folder. */
async function raw<T>(folder: string, work: (root: RootDatabase<Buffer, Buffer>) => T): Promise<T> {
  const root = open<Buffer, Buffer>({ path: folder, noSubdir: false, maxDbs: 40, pageSize: 8192, ...binary });
  try {
    return work(root);
  } finally {
    await root.close();
  }
}

function example(name: string): Buffer {
  const block = new RegExp('^```hex ' + name + '\\n(.*?)^```', 'ms').exec(readFileSync(PAGE, 'utf8'))?.[1];
  if (block === undefined) throw new Error(`the page has no example ${name}`);
  return Buffer.from(block.replace(/\s/g, ''), 'hex');
}

function records(root: RootDatabase<Buffer, Buffer>, name: string, options: object = binary): [string, Buffer][] {
  const db = root.openDB<Buffer, Buffer>(name, options);
  return [...db.getRange({})].map(({ key, value }) => [key.toString('latin1'), value]);
}

/** Random changes. */
const ROUNDS = rounds(24, 300);

describe('lmdb: lists', function () {
  this.timeout(30_000 * ROUNDS);
  let folder: string;
  let store: Store;

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'rowan-lists-'));
    store = await openLmdbStore(folder);
  });
  afterEach(async () => {
    await store.close();
    await rm(folder, { recursive: true });
  });

  const numbered = (n: number, length: number) => String(n).padStart(length, '0');
  const numbers = (from: number, to: number, length = 4) =>
    Array.from({ length: to - from }, (_, i) => numbered(from + i, length)).join('');
  const row = (prefix: string, suffixes: string): LoadRow => ({ key: bytes(prefix), row: bytes(suffixes) });
  const ingest = (table: string, ...rows: LoadRow[]) => store.ingest([{ table, rows }], NO_PLAN);
  const create = (name: string, suffixBytes: number) =>
    store.createTable({ name, families: [{ name: 'i' }], suffixBytes });

  describe('in blocks', () => {
    const N = 64;
    const PREFIXES = ['p=a\0', 'p=b\0', 'q=', 'q=0', `r=${'x'.repeat(200)}\0`];
    let rows: Map<string, Set<string>>;

    const steps = (keys: string[], gone = false): RowStep[] =>
      keys.map((key) => ({ table: 'ix', key: bytes(key), ...(gone ? { deleteRow: true } : { put: [MARK] }) }));

    async function holds(seedling: (n: number) => number): Promise<void> {
      const keys = [...rows].flatMap(([prefix, suffixes]) => [...suffixes].map((suffix) => prefix + suffix)).sort();
      expect((await scanAll(store, 'ix', {})).keys.sort()).to.deep.equal(keys);
      for (const [prefix, set] of rows) {
        const sorted = [...set].sort();
        expect(await store.postingCount('ix', bytes(prefix), 1e6)).to.equal(sorted.length);
        expect((await store.postings('ix', bytes(prefix), 1e6)).toString('latin1')).to.equal(sorted.join(''));
        const at = numbered(seedling(2000), N);
        const limit = 1 + seedling(200);
        const page = sorted.filter((suffix) => suffix > at).slice(0, limit);
        expect((await store.postings('ix', bytes(prefix), limit, bytes(at))).toString('latin1')).to.equal(
          page.join(''),
        );
        const range = { from: bytes(prefix + at), to: bytes(prefix + numbered(seedling(2000), N)) };
        const inside = keys.filter((key) => key >= range.from.toString() && key < range.to.toString());
        expect(await store.count('ix', range, 1e6)).to.equal(inside.length);
        expect((await scanAll(store, 'ix', range)).keys.sort()).to.deep.equal(inside);
        const key = prefix + at;
        expect((await store.get('ix', bytes(key))) !== undefined).to.equal(set.has(at));
      }
    }

    it('grow, shrink and go as sorted lists do', async function () {
      const { seed, next } = random();
      this.test!.title += ` (seed ${seed})`;
      await create('ix', N);
      rows = new Map(PREFIXES.map((prefix) => [prefix, new Set<string>()]));
      let top = 1000;
      for (let round = 0; round < ROUNDS; round++) {
        const prefix = PREFIXES[next(PREFIXES.length)]!;
        const set = rows.get(prefix)!;
        const before = [...set].sort();
        const kind = next(5);
        if (kind === 0 || before.length === 0) {
          const more = numbers(top, top + 20 + next(150), N);
          top += 200;
          await ingest('ix', row(prefix, more));
          for (let i = 0; i < more.length; i += N) set.add(more.slice(i, i + N));
        } else if (kind === 1) {
          const drawn = new Set(Array.from({ length: 60 }, () => numbered(next(2000), N)));
          await ingest('ix', ...[...drawn].map((suffix) => row(prefix, suffix)));
          for (const suffix of drawn) set.add(suffix);
        } else {
          const from = next(before.length);
          const gone = kind === 4 ? before.slice(from, from + 150) : before.filter(() => next(3) === 0);
          const added = Array.from({ length: next(30) }, () => numbered(next(2000), N)).filter(
            (s) => !gone.includes(s),
          );
          const all = [
            ...steps(
              gone.map((s) => prefix + s),
              true,
            ),
            ...steps(added.map((s) => prefix + s)),
          ];
          await store.commit({ steps: all, decisive: 0 });
          for (const suffix of gone) set.delete(suffix);
          for (const suffix of added) set.add(suffix);
        }
        if (round % 6 === 5) await holds(next);
      }
      await holds(next);
      for (const [prefix, set] of rows)
        await store.commit({
          steps: steps(
            [...set].map((suffix) => prefix + suffix),
            true,
          ),
          decisive: 0,
        });
      await store.close();
      expect(await raw(folder, (root) => [records(root, 't1'), records(root, 't1:blocks')])).to.deep.equal([[], []]);
    });

    it('take a page each when suffixes rise, and are halved when one comes between', async () => {
      await create('ix', 16);
      for (let i = 0; i < 50; i++) await ingest('ix', row('rising\0', numbers(i * 100, i * 100 + 100, 16)));
      await store.close();
      const sizes = (): Promise<number[]> =>
        raw(folder, (root) => records(root, 't1:blocks').map(([, run]) => (run.length - 4) / 16));
      const full = (await sizes()).slice(0, -1);
      expect(full).to.deep.equal(Array.from({ length: 9 }, () => 510));
      const pages = await raw(folder, (root) => root.openDB('t1:blocks', binary).getStats() as Record<string, number>);
      expect([pages.overflowPages! - full.length, pages.treeLeafPageCount]).to.deep.equal([0, 1]);
      store = await openLmdbStore(folder);
      await ingest('ix', row('rising\0', `${numbers(10, 11, 15)}x`));
      expect(await store.postingCount('ix', bytes('rising\0'), 1e6)).to.equal(5001);
      await store.close();
      expect((await sizes()).slice(0, 3)).to.deep.equal([256, 255, 510]);
    });

    it('stay one record where a prefix leaves no room for the key of a block', async () => {
      await create('ix', 16);
      const longest = 'x'.repeat(4026 - 16);
      await ingest('ix', row(longest, numbers(0, 1000, 16)));
      await ingest('ix', row(longest, numbers(1000, 2000, 16)));
      expect((await store.postings('ix', bytes(longest), 1e6)).toString()).to.equal(numbers(0, 2000, 16));
      expect(await codeOf(ingest('ix', row(`x${longest}`, numbers(0, 1, 16))))).to.equal('limit');
      const shorter = longest.slice(2);
      await ingest('ix', row(shorter, numbers(0, 1000, 16)));
      expect((await store.postings('ix', bytes(shorter), 1e6)).toString()).to.equal(numbers(0, 1000, 16));
      await store.close();
      const keys = (await raw(folder, (root) => records(root, 't1:blocks'))).map(([key]) => key.length);
      expect(Math.max(...keys)).to.equal(4026);
    });

    it('tell a whole list from a head whatever the suffix', async () => {
      for (const suffix of [1, 2, 3, 4, 5, 255]) {
        await create(`ix${suffix}`, suffix);
        const count = Math.min(10 ** suffix, 5000);
        const list = Array.from({ length: count }, (_, i) => numbered(i, suffix)).join('');
        for (let at = 0; at < list.length; at += 700 * suffix)
          await ingest(`ix${suffix}`, row('p\0', list.slice(at, at + 700 * suffix)));
        expect((await store.postings(`ix${suffix}`, bytes('p\0'), 1e6)).toString()).to.equal(list);
        expect(await store.postingCount(`ix${suffix}`, bytes('p\0'), 1e6)).to.equal(count);
      }
    });

    it('are what the page shows', async () => {
      await create('ix', 16);
      const prefix = Buffer.concat([bytes('=ann'), Buffer.alloc(1)]);
      const uuid = Buffer.from('0190a1b2c3d47e5f8a9b0c1d2e3f4a5b', 'hex');
      // Two full blocks, of which the second begins with the page's uuid.
      const behind = (n: number) => {
        const id = Buffer.from(uuid);
        id.writeUInt16BE(uuid.readUInt16BE(14) + n, 14);
        return id;
      };
      const all = Array.from({ length: 1021 }, (_, i) => behind(i - 510));
      await store.ingest([{ table: 'ix', rows: [{ key: prefix, row: Buffer.concat(all) }] }], NO_PLAN);
      await store.close();
      const [lists, blocks] = await raw(folder, (root) => [records(root, 't1'), records(root, 't1:blocks')]);
      expect(lists!.map(([, record]) => record.subarray(0, -4))).to.deep.equal([
        Buffer.concat([example('long-list'), behind(510)]),
      ]);
      expect(blocks!.map(([key]) => bytes(key))).to.deep.equal([
        example('block-key').subarray(0, 7),
        example('block-key'),
      ]);
    });

    it('are read as they were by a snapshot', async () => {
      await create('ix', 16);
      await ingest('ix', row('p\0', numbers(0, 1000, 16)));
      const snapshot = store.snapshot();
      const step = { table: 'ix', key: bytes(`p\0${numbered(7, 16)}`), deleteRow: true };
      await store.commit({ steps: [step], decisive: 0 });
      await ingest('ix', row('p\0', numbers(1000, 2000, 16)));
      expect((await snapshot.postings('ix', bytes('p\0'), 1e6)).toString()).to.equal(numbers(0, 1000, 16));
      snapshot.close();
      expect(await store.postingCount('ix', bytes('p\0'), 1e6)).to.equal(1999);
    });
  });
});
