import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { open, type RootDatabase } from 'lmdb';
import type { Cell, Store } from '../../src/store/contract.js';
import { overflowRoom } from '../../src/store/lmdb/file/data-file.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { CHECKSUM_BYTES } from '../../src/store/lmdb/record/checksum.js';
import { SEGMENT_BYTES } from '../../src/store/lmdb/rows/segments.js';
import { packRow, unpackRow } from '../../src/store/row.js';
import { cell } from './suite/fixture.js';

const PAGE = join(import.meta.dirname, '../../../docs/formats/lmdb.md');
const SPEC = { name: 'master', families: [{ name: 'a' }, { name: 'b' }] };
const KEY = Buffer.from('0190a1b2c3d47e5f8a9b0c1d2e3f4a5b', 'hex');

function example(name: string): Buffer {
  const block = new RegExp('^```hex ' + name + '\\n(.*?)^```', 'ms').exec(readFileSync(PAGE, 'utf8'))?.[1];
  if (block === undefined) throw new Error(`the page has no example ${name}`);
  return Buffer.from(block.replace(/\s/g, ''), 'hex');
}

function member(index: number): Cell {
  const qualifier = Buffer.from('member\0\0\0\0', 'latin1');
  qualifier.writeUInt32BE(index, 6);
  return { family: 1, qualifier, value: Buffer.from(`uid=user.${String(index).padStart(7, '0')},dc=x`) };
}

const binary = { encoding: 'binary', keyEncoding: 'binary' } as const;

/** What LMDB holds in some of its databases, read by LMDB alone. */
async function stored<T>(folder: string, work: (root: RootDatabase<Buffer, Buffer>) => T): Promise<T> {
  const root = open<Buffer, Buffer>({ path: folder, noSubdir: false, maxDbs: 20, pageSize: 8192, ...binary });
  try {
    return work(root);
  } finally {
    await root.close();
  }
}

function records(root: RootDatabase<Buffer, Buffer>, name: string): Map<string, Buffer> {
  const db = root.openDB<Buffer, Buffer>(name, binary);
  // Without the check.
  return new Map([...db.getRange({})].map(({ key, value }) => [key.toString('hex'), value.subarray(0, -4)]));
}

describe('lmdb: split rows', () => {
  let folder: string;
  let store: Store;
  const put = (...cells: Cell[]) => store.commit({ steps: [{ table: SPEC.name, key: KEY, put: cells }], decisive: 0 });

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'rowan-long-'));
    store = await openLmdbStore(folder);
    await store.createTable(SPEC);
  });

  afterEach(async () => {
    await store.close();
    await rm(folder, { recursive: true });
  });

  const members = Array.from({ length: 1000 }, (_, i) => member(i));

  it('are a head and segments, as the page says', async () => {
    const row = packRow([cell(0, 'version', '1'), ...members]);
    await put(cell(0, 'version', '1'), ...members);
    await store.close();
    const [head, segments] = await stored(folder, (root) => [records(root, 't1'), records(root, 't1:long')]);
    expect([...head]).to.deep.equal([[KEY.toString('hex'), example('split-head')]]);
    expect(row.length).to.equal(38015);
    expect(Buffer.concat([...segments.values()])).to.deep.equal(row);
    expect([...segments.keys()][0]).to.equal(`0010${KEY.toString('hex')}`);
    const key = example('segment-key');
    expect([...segments.keys()]).to.include(key.toString('hex'));
    expect(unpackRow(segments.get(key.toString('hex'))!)[0]).to.deep.equal(member(0x142));
  });

  it('have segments that fill two pages and no third', async () => {
    const pages = (bytes: number) =>
      stored(folder, (root) => {
        const db = root.openDB<Buffer, Buffer>('pages', binary);
        db.putSync(KEY, Buffer.alloc(bytes));
        return (db.getStats() as { overflowPages: number }).overflowPages;
      });
    for (const count of [1, 2]) {
      expect(await pages(overflowRoom(count))).to.equal(count);
      expect(await pages(overflowRoom(count) + 1)).to.equal(count + 1);
    }
    expect(SEGMENT_BYTES + CHECKSUM_BYTES).to.equal(overflowRoom(2));
  });

  it('of which one cell changes change in one segment', async () => {
    await put(...members);
    const before = await stored(folder, (root) => records(root, 't1:long'));
    await store.commit({ steps: [{ table: SPEC.name, key: KEY, delete: [member(500)] }], decisive: 0 });
    await put({ ...member(500), value: Buffer.from('other') });
    const after = await stored(folder, (root) => records(root, 't1:long'));
    expect([...after.keys()]).to.deep.equal([...before.keys()]);
    const changed = [...after].filter(([key, value]) => !value.equals(before.get(key)!));
    expect(changed).to.have.length(1);
    expect(before.size).to.be.above(3);
  });

  it('leave nothing behind when they go or become short', async () => {
    const segments = () => stored(folder, (root) => records(root, 't1:long').size);
    await put(...members);
    expect(await segments()).to.be.above(0);
    await store.commit({ steps: [{ table: SPEC.name, key: KEY, delete: members.slice(100) }], decisive: 0 });
    expect(await segments()).to.equal(0);
    expect(await store.get(SPEC.name, KEY)).to.deep.equal(packRow(members.slice(0, 100)));
    await put(...members);
    await store.commit({ steps: [{ table: SPEC.name, key: KEY, deleteRow: true }], decisive: 0 });
    expect(await segments()).to.equal(0);
    await put(...members);
    await store.dropTable(SPEC.name);
    expect(await segments()).to.equal(0);
  });
});
