import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Store } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { WriteHold } from '../../src/store/lmdb/write/hold.js';
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

  describe('of one key', () => {
    const COUNT = 20;
    const SUFFIX = 16;
    const keyOf = (n: number) => bytes(`key-number-${String(n).padStart(4, '0')}`);
    const prefixOf = (n: number) => bytes(`=prefix-${String(n).padStart(4, '0')}\0`);
    const markOf = (n: number, suffix: number) => Buffer.concat([prefixOf(n), Buffer.alloc(SUFFIX, suffix)]);
    const numbers = Array.from({ length: COUNT }, (_, n) => n);
    const mark = { family: 0, qualifier: Buffer.alloc(0), value: Buffer.alloc(0) };

    beforeEach(async () => {
      await store.createTable({ name: 'marks', families: [{ name: 'm' }], suffixBytes: SUFFIX });
      for (const n of numbers) {
        await put('rows', keyOf(n), `v${n}`);
        for (const suffix of [1, 2, 3])
          await store.commit({ steps: [{ table: 'marks', key: markOf(n, suffix), put: [mark] }], decisive: 0 });
      }
    });

    /** Changes the first byte of a key wherever it stands. */
    async function damageKey(key: Buffer, byte: number): Promise<void> {
      await damage(
        (page) => page.includes(key),
        (page) => {
          for (let at = page.indexOf(key); at >= 0; at = page.indexOf(key, at + 1)) page[at] = byte;
        },
      );
    }

    /** What comes of it, or `damaged`. */
    async function orDamaged<R>(work: () => R | Promise<R>): Promise<R | 'damaged'> {
      try {
        return await work();
      } catch (error) {
        expect((error as { code?: unknown }).code).to.equal('damaged');
        return 'damaged';
      }
    }

    for (const byte of [0x00, 0xff]) {
      it(`no read gives fewer rows (byte ${byte})`, async () => {
        await damageKey(keyOf(9), byte);
        await damageKey(prefixOf(9), byte);
        let damages = 0;
        const holds = async <R>(what: string, work: () => R | Promise<R>, truth: R) => {
          const found = await orDamaged(work);
          if (found === 'damaged') damages++;
          else expect(found, what).to.deep.equal(truth);
        };
        for (const from of numbers) {
          await holds(`get ${from}`, () => store.get('rows', keyOf(from)) !== undefined, true);
          await holds(`mark ${from}`, () => store.get('marks', markOf(from, 2)) !== undefined, true);
          await holds(
            `list ${from}`,
            async () => (await store.postings('marks', prefixOf(from), 10)).length,
            3 * SUFFIX,
          );
          const behind = numbers.slice(from);
          const lists = async () =>
            (await store.postingsMany('marks', behind.map(prefixOf), 10)).map(({ length }) => length);
          await holds(
            `lists ${from}`,
            lists,
            behind.map(() => 3 * SUFFIX),
          );
          for (const to of numbers.slice(from + 1)) {
            const truth = numbers.slice(from, to).map((n) => keyOf(n).toString('latin1'));
            const range = { from: keyOf(from), to: keyOf(to) };
            const what = `${from} to ${to}`;
            await holds(what, async () => (await scanAll(store, 'rows', range)).keys, truth);
            const reverse = async () => (await scanAll(store, 'rows', range, { reverse: true })).keys;
            await holds(`back ${what}`, reverse, truth.toReversed());
            await holds(`count ${what}`, () => store.count('rows', range, COUNT), truth.length);
            const marks = { from: prefixOf(from), to: prefixOf(to) };
            const found = async () => (await store.rangePostings('marks', marks, 100)).length;
            await holds(`marks ${what}`, found, (to - from) * 3 * SUFFIX);
          }
        }
        expect(damages).to.be.above(0);
      });

      it(`no row is taken out of a list that is not found (byte ${byte})`, async () => {
        await damageKey(prefixOf(9), byte);
        for (const n of numbers) {
          const step = { table: 'marks', key: markOf(n, 2), deleteRow: true };
          const code = await codeOf(store.commit({ steps: [step], decisive: 0 }));
          expect(code, `${n}`).to.be.oneOf(['none', 'damaged']);
          const found = await orDamaged(async () => (await store.postings('marks', prefixOf(n), 10)).length);
          expect(found, `${n}`).to.equal(code === 'none' ? 2 * SUFFIX : 'damaged');
        }
      });
    }

    it('a plan that meets it writes nothing, nor does the batch', async () => {
      await damage(
        (page) => page.includes(Buffer.alloc(SUFFIX, 2)),
        (page) => {
          const list = page.indexOf(prefixOf(9)) + prefixOf(9).length;
          page[list + SUFFIX] = 7;
        },
      );
      const rows = [bytes('beside'), bytes('within')];
      const [beside, within] = rows.map((key) => ({ table: 'rows', key, put: [cell(0, 'q', 'x')] }));
      const meets = { table: 'marks', key: markOf(9, 4), put: [mark] };
      const codes = await Promise.all([
        codeOf(store.commit({ steps: [beside!], decisive: 0 })),
        codeOf(store.commit({ steps: [within!, meets], decisive: 0 })),
      ]);
      expect(codes[1]).to.equal('damaged');
      expect(await store.get('rows', rows[1]!)).to.equal(undefined);
      expect((await store.get('rows', rows[0]!)) === undefined, 'told').to.equal(codes[0] !== 'none');
    });
  });

  it('holds writes in this process where the folder takes no file', () => {
    for (const path of ['/proc', join(folder, 'none'), join(folder, 'data.mdb')]) {
      const hold = new WriteHold(path);
      hold.hold('a row is damaged');
      // As if the last look were long ago.
      const later = performance.now() + 60_000;
      const { now } = performance;
      performance.now = () => later;
      try {
        expect(() => hold.check(), path).to.throw('a row is damaged');
      } finally {
        performance.now = now;
      }
    }
  });
});

describe('lmdb: a write that fails inside its transaction', () => {
  let folder: string;
  let store: Store;
  let failing: string | undefined;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-failing-'));
    const failpoint = (name: string) => {
      if (name === failing) throw new Error(`failpoint ${name}`);
    };
    store = await openLmdbStore(folder, { failpoint });
    await store.createTable(ROWS);
    await store.commit({ steps: [{ table: 'rows', key: KEY, put: [cell(0, 'q', 'before')] }], decisive: 0 });
  });
  afterEach(async () => {
    failing = undefined;
    await store.close();
    rmSync(folder, { recursive: true });
  });

  it('has written nothing, and the next one is written', async () => {
    failing = 'commit written';
    const commit = (value: string) =>
      store.commit({ steps: [{ table: 'rows', key: KEY, put: [cell(0, 'q', value)] }], decisive: 0 });
    expect(await codeOf(commit('failed'))).to.equal('unavailable');
    expect(await store.get('rows', KEY)).to.deep.equal(packRow([cell(0, 'q', 'before')]));
    failing = undefined;
    await commit('after');
    expect(await store.get('rows', KEY)).to.deep.equal(packRow([cell(0, 'q', 'after')]));
  });

  it('has taught no words: rows that come afterwards can be read', async () => {
    const keys = Array.from({ length: 40 }, (_, n) => bytes(`row ${n}`));
    const cellsOf = (n: number) => [cell(0, 'a qualifier of all', `a value with a long beginning ${n}`)];
    for (const [n, key] of keys.entries()) {
      failing = n % 3 === 0 ? 'commit written' : undefined;
      const code = await codeOf(store.commit({ steps: [{ table: 'rows', key, put: cellsOf(n) }], decisive: 0 }));
      expect(code).to.equal(failing ? 'unavailable' : 'none');
    }
    const expectRows = async () => {
      for (const [n, key] of keys.entries())
        expect(await store.get('rows', key)).to.deep.equal(n % 3 === 0 ? undefined : packRow(cellsOf(n)));
    };
    await expectRows();
    await store.close();
    store = await openLmdbStore(folder);
    await expectRows();
  });

  it('has made no table, and one is made afterwards', async () => {
    failing = 'table created';
    expect(await codeOf(store.createTable(OTHERS))).to.equal('unavailable');
    expect((await store.tables()).map(({ name }) => name)).to.deep.equal(['rows']);
    expect(await codeOfCall(() => store.get('others', KEY))).to.equal('noTable');
    failing = undefined;
    await store.createTable(OTHERS);
    await store.commit({ steps: [{ table: 'others', key: KEY, put: [cell(0, 'q', 'x')] }], decisive: 0 });
    expect(await store.get('others', KEY)).to.deep.equal(packRow([cell(0, 'q', 'x')]));
  });

  it('has dropped no table', async () => {
    failing = 'table dropped';
    expect(await codeOf(store.dropTable('rows'))).to.equal('unavailable');
    expect(await store.get('rows', KEY)).to.deep.equal(packRow([cell(0, 'q', 'before')]));
    failing = undefined;
    await store.dropTable('rows');
    expect(await store.tables()).to.deep.equal([]);
  });
});
