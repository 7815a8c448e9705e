import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { readAround } from '../../src/partition/upkeep/around.js';
import type { KeyRange, Store } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';

/** More than several batches of a scan have. */
const COUNT = 5000;
const TABLE = { name: 'rows', families: [{ name: 'a' }] };

const nameOf = (n: number): string => `key${String(n).padStart(5, '0')}`;

describe('rows are read around damaged ones', () => {
  let folder: string;
  let store: Store;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'rowan-around-'));
    store = await openLmdbStore(folder);
    await store.createTable(TABLE);
    const steps = Array.from({ length: COUNT }, (_, n) => ({
      table: TABLE.name,
      key: Buffer.from(nameOf(n)),
      put: [{ family: 0, qualifier: Buffer.from('q'), value: Buffer.from(`value${nameOf(n)} `.repeat(3)) }],
    }));
    await store.commit({ steps, decisive: 0 });
  });
  afterEach(async () => {
    await store.close();
    rmSync(folder, { recursive: true });
  });

  async function damage(rows: readonly number[]): Promise<void> {
    await store.close();
    const file = join(folder, 'data.mdb');
    const data = readFileSync(file);
    for (const n of rows) {
      const text = `value${nameOf(n)}`;
      for (let at = data.indexOf(text); at >= 0; at = data.indexOf(text, at + 1)) data[at] = 0x56;
    }
    writeFileSync(file, data);
    store = await openLmdbStore(folder);
  }

  async function read(range: KeyRange, keysOnly: boolean): Promise<{ keys: string[]; damaged: string[] }> {
    const keys: string[] = [];
    const damaged: string[] = [];
    for await (const part of readAround(store, TABLE.name, range, keysOnly)) {
      if ('error' in part) {
        expect(part.error.code).to.equal('damaged');
        damaged.push(part.key!.toString());
      } else {
        keys.push(...part.keys.map(String));
        expect(part.rows.every((row) => (row === undefined) === keysOnly)).to.equal(true);
      }
    }
    return { keys, damaged };
  }

  for (const [where, rows] of [
    ['first and last', [0, COUNT - 1]],
    ['in the middle', [2345]],
    ['one behind the other', [1000, 1001, 1002, 1004, 4999]],
    ['in no place', []],
  ] as const) {
    it(where, async () => {
      await damage(rows);
      for (const keysOnly of [false, true]) {
        const { keys, damaged } = await read({}, keysOnly);
        expect(damaged).to.deep.equal(rows.map(nameOf));
        const sound = Array.from({ length: COUNT }, (_, n) => n).filter(
          (n) => !(rows as readonly number[]).includes(n),
        );
        expect(keys).to.deep.equal(sound.map(nameOf));
      }
    });
  }

  it('in a range, whatever stands at its end and before it', async () => {
    await damage([99, 150, 200]);
    const range = { from: Buffer.from(nameOf(100)), to: Buffer.from(nameOf(200)) };
    const { keys, damaged } = await read(range, false);
    expect(damaged).to.deep.equal([nameOf(150)]);
    expect(keys).to.have.length(99);
    expect([keys[0], keys.at(-1)]).to.deep.equal([nameOf(100), nameOf(199)]);
  });
});
