import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Store } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { packRow } from '../../src/store/row.js';
import { bytes, cell, codeOf, codeOfCall, scanAll } from './suite/fixture.js';

const PAGE = 8192;
const LEAF = 0x02;
const ROWS = { name: 'rows', families: [{ name: 'a' }] };
const OTHERS = { name: 'others', families: [{ name: 'a' }] };
const KEY = bytes('a key of its own');

describe('lmdb: damage', () => {
  let folder: string;
  let store: Store;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-damage-'));
    store = await openLmdbStore(folder);
    for (const spec of [ROWS, OTHERS]) await store.createTable(spec);
    await put('others', bytes('other'), 'x');
  });
  afterEach(async () => {
    await store.close();
    rmSync(folder, { recursive: true });
  });

  async function put(table: string, key: Buffer, value: string): Promise<void> {
    await store.commit({ steps: [{ table, key, put: [cell(0, 'q', value)] }], decisive: 0 });
  }

  /** Changes the data file while nobody has it open; the newest page that `choose` takes is changed. */
  async function damage(choose: (page: Buffer) => boolean, change: (page: Buffer) => void): Promise<void> {
    await store.close();
    const file = join(folder, 'data.mdb');
    const data = readFileSync(file);
    const pages = Array.from({ length: data.length / PAGE - 2 }, (_, n) =>
      data.subarray((n + 2) * PAGE).subarray(0, PAGE),
    );
    const chosen = pages.filter(choose);
    expect(chosen.length).to.be.above(0);
    for (const page of chosen) change(page);
    writeFileSync(file, data);
    store = await openLmdbStore(folder);
  }

  const isLeafOf = (key: Buffer) => (page: Buffer) => (page.readUInt16LE(18) & LEAF) !== 0 && page.includes(key);

  it('is a table whose only page has no rows: a scan and a get end with an error', async () => {
    await put('rows', KEY, 'value');
    await damage(isLeafOf(KEY), (page) => page.fill(0, 24));
    expect(await codeOf(scanAll(store, 'rows', {}))).to.equal('damaged');
    expect(await codeOfCall(() => store.get('rows', KEY))).to.equal('damaged');
    expect((await scanAll(store, 'others', {})).keys).to.have.length(1);
  });

  it('of one page leaves the others readable, in the same moment and in snapshots', async () => {
    const value = 'v'.repeat(3 * PAGE);
    await put('rows', KEY, value);
    const row = packRow([cell(0, 'q', 'x')]);
    // A long value is kept as the number of its first page, behind the key.
    await damage(isLeafOf(KEY), (page) => page.writeBigUInt64LE(117_506_048n, page.indexOf(KEY) + KEY.length));
    expect(() => store.get('rows', KEY)).to.throw('not found');
    expect(store.get('others', bytes('other'))).to.deep.equal(row);
    expect(() => store.get('rows', KEY)).to.throw('not found');
    const snapshot = store.snapshot();
    expect(snapshot.get('others', bytes('other'))).to.deep.equal(row);
    snapshot.close();
  });
});
