import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { open } from 'lmdb';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { CHECKSUM_BYTES, hasValidChecksum, withChecksum } from '../../src/store/lmdb/record/checksum.js';
import { decodeRow } from '../../src/store/lmdb/record/decode.js';
import { RowEncoder } from '../../src/store/lmdb/record/encode.js';
import { Learner } from '../../src/store/lmdb/record/learner.js';
import { Vocabulary } from '../../src/store/lmdb/record/vocabulary.js';
import { wordFromBytes, wordToBytes } from '../../src/store/lmdb/record/words.js';
import { cellCounter, MARK, packRow, packSorted, unpackRow } from '../../src/store/row.js';
import { cell } from './suite/fixture.js';

const DOCS = join(import.meta.dirname, '../../../docs/formats');

/** The bytes of the block "```hex NAME" in a format page; what follows a # is comment. */
function example(page: string, name: string): Buffer {
  const text = readFileSync(join(DOCS, page), 'utf8');
  const block = new RegExp('^```hex ' + name + '\\n(.*?)^```', 'ms').exec(text)?.[1];
  if (block === undefined) throw new Error(`${page} has no example ${name}`);
  return Buffer.from(block.replace(/#.*$/gm, '').replace(/\s/g, ''), 'hex');
}

describe('examples in docs/formats', () => {
  it('packed-row.md', () => {
    const row = example('packed-row.md', 'packed-row');
    const cells = [
      { ...cell(0, 'id', ''), value: Buffer.from([0xca, 0xfe]) },
      cell(1, '2.5.4.3', ''),
      { ...cell(1, '2.5.4.3=ann', ''), value: Buffer.alloc(4) },
    ];
    expect(unpackRow(row)).to.deep.equal(cells);
    expect(packRow([...cells].reverse())).to.deep.equal(row);
    expect(packSorted([MARK])).to.deep.equal(example('packed-row.md', 'mark'));
    expect(cellCounter(example('packed-row.md', 'counter'), 0, Buffer.from('n'))).to.equal(-2n);
  });

  it('lmdb.md: what a store writes is what the page shows', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'rowan-format-'));
    const uuid = example('lmdb.md', 'list');
    const indexKey = Buffer.concat([example('lmdb.md', 'list-key'), uuid]);
    const photo = { family: 1, qualifier: Buffer.from('photo\0\0\0\x01'), value: Buffer.from('a chunk') };
    const store = await openLmdbStore(folder);
    await store.createTable({ name: 'master', families: [{ name: 'a' }, { name: 'large', separate: true }] });
    await store.createTable({ name: 'changes', families: [{ name: 'c' }], rising: true });
    await store.createTable({ name: 'index_2.5.4.3', families: [{ name: 'i' }], suffixBytes: 16 });
    const append = { table: 'changes', append: [cell(0, 'q', '')] };
    const steps = [
      { table: 'master', key: uuid, put: [cell(0, 'q', 'v'), photo] },
      { table: 'index_2.5.4.3', key: indexKey, put: [MARK] },
      ...[append, append, append],
    ];
    await store.commit({ steps, decisive: 0 });
    await store.close();

    const binary = { encoding: 'binary', keyEncoding: 'binary' } as const;
    const root = open<Buffer, Buffer>({ path: folder, noSubdir: false, maxDbs: 20, pageSize: 8192, ...binary });
    const records = (name: string, options = {}) =>
      [...root.openDB<Buffer, Buffer>(name, { ...binary, ...options }).getRange({})].map(({ key, value }) => [
        key,
        value,
      ]);
    const catalog = new Map(records('catalog').map(([key, value]) => [key!.toString(), value!]));
    expect(catalog.get('table:index_2.5.4.3')).to.deep.equal(example('lmdb.md', 'catalog-table'));
    expect(catalog.get('appended:2')).to.deep.equal(example('lmdb.md', 'appended-key'));
    expect([catalog.get('nextId'), catalog.get('generation')]).to.deep.equal([numbered(3), numbered(3)]);
    expect(records('t1').map(([key]) => key)).to.deep.equal([uuid]);
    expect(records('t1:1')).to.deep.equal([
      [example('lmdb.md', 'cell-key'), Buffer.from(withChecksum(example('lmdb.md', 'cell-key'), photo.value))],
    ]);
    expect(records('t2').at(-1)![0]).to.deep.equal(example('lmdb.md', 'appended-key'));
    const list = Buffer.concat([uuid, example('lmdb.md', 'list-check')]);
    expect(records('t3')).to.deep.equal([[example('lmdb.md', 'list-key'), list]]);
    await root.close();
    await rm(folder, { recursive: true });
  });
});

describe('the example of a record', () => {
  it('is what is made of the row by the words shown, and becomes the row again', () => {
    const vocabulary = new Vocabulary();
    for (const name of ['word-1', 'word-2']) {
      const word = wordFromBytes(example('lmdb.md', name))!;
      expect(wordToBytes(word)).to.deep.equal(example('lmdb.md', name));
      vocabulary.addWord(word);
    }
    const encoder = new RowEncoder(vocabulary, new Learner(vocabulary), () => undefined);
    const key = Buffer.from(',cn=ann');
    const row = example('packed-row.md', 'packed-row');
    encoder.encode(key, 0, key.length, row, 0, row.length);
    const record = example('lmdb.md', 'record');
    expect(encoder.record.subarray(0, encoder.length)).to.deep.equal(record);
    expect(hasValidChecksum(key, 0, key.length, record, record.length)).to.equal(true);
    const end = record.length - CHECKSUM_BYTES;
    expect(
      decodeRow(vocabulary.words, { keys: key, from: 0, to: key.length, bytes: record, end }, false),
    ).to.deep.equal(row);
  });
});

function numbered(n: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64BE(BigInt(n));
  return bytes;
}
