import { expect } from 'chai';
import { COPY_TABLE, copyDirectory, removeUnfinishedCopy } from '../../src/cli/copy/copier.js';
import { chunkCells } from '../../src/partition/model/large.js';
import {
  CHANGES_TABLE,
  equalityPrefix,
  indexTable,
  MASTER,
  MASTER_TABLE,
  META_TABLE,
  Q,
} from '../../src/partition/model/tables.js';
import { grant } from '../../src/replica/history.js';
import type { Cell, LoadRow, Store } from '../../src/store/contract.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { packRow } from '../../src/store/row.js';
import { StoreError } from '../../src/store/store-error.js';
import { faulty } from '../store/faulty.js';
import { random, scanAll } from '../store/suite/fixture.js';

const INDEX = indexTable('2.5.4.3');
const NOTHING = { steps: [], decisive: 0 };
const SILENT = () => undefined;

function masterRow(i: number): LoadRow {
  const key = Buffer.alloc(16);
  key.writeUInt32BE(i, 12);
  const qualifier = Buffer.from('jpegPhoto\0\0\0\0', 'latin1');
  const cells: Cell[] = [{ family: MASTER.treeInfo, qualifier: Q.upRdn, value: Buffer.from(`cn=${i}`) }];
  if (i % 1000 !== 3) return { key, row: packRow(cells) };
  const value = Buffer.alloc(5 * 1024 * 1024, i);
  const [name, pointer] = [Buffer.alloc(2 + qualifier.length), Buffer.alloc(40)];
  name.writeUInt16BE(qualifier.length);
  name.set(qualifier, 2);
  pointer.writeBigUInt64BE(BigInt(value.length));
  cells.push({ family: MASTER.treeInfo, qualifier: Q.large, value: name });
  cells.push({ family: MASTER.upAttributes, qualifier, value: pointer });
  return { key, row: packRow(cells), separate: packRow(chunkCells(qualifier, value)) };
}

/** A store that looks like a directory's: many batches, large values, prefixes of index rows that begin alike. */
async function source(): Promise<Store> {
  const store = openMemoryStore();
  for (const spec of [MASTER_TABLE, INDEX, CHANGES_TABLE, META_TABLE]) await store.createTable(spec);
  const cell = { family: 0, qualifier: Buffer.from('format'), value: Buffer.from('x') };
  await store.commit({ steps: [{ table: META_TABLE.name, key: Buffer.from('shared'), put: [cell] }], decisive: 0 });
  const rows = Array.from({ length: 6000 }, (_, i) => masterRow(i));
  await store.ingest([{ table: MASTER_TABLE.name, rows }], NOTHING);
  const forms = ['a', 'a\0', 'a\0\0', 'b'].map((form) => equalityPrefix(Buffer.from(form)));
  const lists = forms.map((key, f) => ({
    key,
    row: Buffer.concat(rows.filter((_, i) => i % 3 !== f).map((row) => row.key)),
  }));
  await store.ingest([{ table: INDEX.name, rows: lists.sort((a, b) => a.key.compare(b.key)) }], NOTHING);
  const changes = rows.map(({ row }) => ({ key: Buffer.alloc(0), row }));
  await store.ingest([{ table: CHANGES_TABLE.name, rows: changes, append: true }], NOTHING);
  return store;
}

async function content(store: Store): Promise<object> {
  const tables: Record<string, object> = {};
  for (const { name } of await store.tables()) {
    const { keys, rows } = await scanAll(store, name, {});
    const large: (string | undefined)[] = [];
    if (name === MASTER_TABLE.name) {
      for (const key of keys.filter((_, i) => i % 1000 === 3)) {
        const cells = await store.getCells(name, Buffer.from(key, 'latin1'), MASTER.largeValues, Buffer.alloc(0));
        large.push(cells?.toString('base64'));
      }
    }
    tables[name] = { keys, rows: rows.map((row) => row?.toString('latin1')), large };
  }
  return tables;
}

async function failure(work: Promise<unknown>): Promise<string> {
  try {
    await work;
  } catch (error) {
    return (error as Error).message;
  }
  return 'none';
}

describe('cli: the copier', () => {
  it('takes a copy up wherever it broke off, and leaves the same tables', async function () {
    const { seed, next } = random();
    this.test!.title += ` (seed ${seed})`;
    const from = await source();
    const to = openMemoryStore();
    let faults = 0;
    const target = faulty(to, (point) => {
      if (!/ingest|Commit/.test(point.at) || next(8) > 0) return undefined;
      faults++;
      return { do: 'cut' };
    });
    for (let round = 0; ; round++) {
      expect(round).to.be.below(500);
      try {
        await copyDirectory(from, target, SILENT);
        break;
      } catch (error) {
        if (!(error instanceof StoreError) || error.code !== 'unavailable') throw error;
      }
    }
    expect(faults).to.be.above(0);
    expect(await content(to)).to.deep.equal(await content(from));
  });

  it('leaves out what belongs to the replicas of the source', async () => {
    const from = await source();
    const before = await content(from);
    await grant(from, 'second', Buffer.from('hash'));
    const to = openMemoryStore();
    await copyDirectory(from, to, SILENT);
    expect(await content(to)).to.deep.equal(before);
  });

  it('refuses a target that is in use, and half of another copy unless told to begin anew', async () => {
    const from = await source();
    expect(await failure(copyDirectory(from, await source(), SILENT))).to.match(/has a directory already/);
    const to = openMemoryStore();
    let batches = 0;
    const broken = faulty(to, ({ at }) => (at === 'ingest' && ++batches === 3 ? { do: 'fail' } : undefined));
    expect(await failure(copyDirectory(from, broken, SILENT))).to.not.equal('none');
    expect((await to.tables()).map(({ name }) => name)).to.include(COPY_TABLE.name);
    const append = [{ family: 0, qualifier: Buffer.from('op'), value: Buffer.from('add') }];
    await from.commit({ steps: [{ table: CHANGES_TABLE.name, append }], decisive: 0 });
    expect(await failure(copyDirectory(from, to, SILENT))).to.match(/source has changed since; --restart/);
    await removeUnfinishedCopy(to);
    await copyDirectory(from, to, SILENT);
    expect(await content(to)).to.deep.equal(await content(from));
    // A complete copy is a directory like another.
    await removeUnfinishedCopy(to);
    expect(await content(to)).to.deep.equal(await content(from));
    expect(await failure(copyDirectory(openMemoryStore(), openMemoryStore(), SILENT))).to.match(/table meta does not/);
  });
});
