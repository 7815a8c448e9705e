import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'chai';
import { open, type RootDatabase } from 'lmdb';
import type { Cell, LoadRow, Store, StoreFilter } from '../../src/store/contract.js';
import { openLmdbStore } from '../../src/store/lmdb/index.js';
import { CHECKSUM_BYTES, hasValidChecksum } from '../../src/store/lmdb/record/checksum.js';
import { decodeRow, nextOffset, type RecordView, readVarint } from '../../src/store/lmdb/record/decode.js';
import { RowEncoder } from '../../src/store/lmdb/record/encode.js';
import { Learner } from '../../src/store/lmdb/record/learner.js';
import { compileRecordFilter } from '../../src/store/lmdb/record/record-filter.js';
import { Vocabulary } from '../../src/store/lmdb/record/vocabulary.js';
import { MARK, packRow } from '../../src/store/row.js';
import { compileFilter } from '../../src/store/row-filter.js';
import { bytes, cell, codeOf, errorOf, random, scanAll } from './suite/fixture.js';

const NO_PLAN = { steps: [], decisive: 0 };
const SPEC = { name: 't', families: [{ name: 'a' }, { name: 'b' }, { name: 'large', separate: true }] };
const binary = { encoding: 'binary', keyEncoding: 'binary' } as const;
type Next = (below: number) => number;

const NAMES = [
  'id',
  'cn\0\0\0\0',
  'cn\0\0\0\x01',
  'member\0\0\x01\0',
  '2.5.4.3',
  '2.5.4.3=',
  '2.5.4.4=',
  '2.5.4.42',
  'x=',
];
const ENDS = [
  '',
  '',
  'ann',
  'user.7,ou=people,dc=x',
  'a@example.com',
  '20260102#000000#000',
  '{SSHA}abcdef',
  'uid=user.9',
];

/** Rows as entries have them: names and values that come again, beside some of any bytes and any length. */
function anyCells(next: Next): Cell[] {
  const any = (length: number) => Buffer.from(Array.from({ length }, () => next(256))).toString('latin1');
  const text = () =>
    next(12) === 0 ? any(next(300)) : ENDS[next(ENDS.length)]! + (next(3) === 0 ? String(next(40)) : '');
  return Array.from({ length: 1 + next(20) }, () => {
    const name = next(15) === 0 ? any(next(400)) : NAMES[next(NAMES.length)]!;
    const headed = name.endsWith('=');
    const value = headed && next(5) > 0 ? '\0\0\0\0' : next(60) === 0 ? any(next(9000)) : text();
    return cell(next(2), headed ? name + text() : name, value);
  });
}

function anyKey(next: Next): Buffer {
  const length = next(3) === 0 ? 1 + next(60) : 16;
  return Buffer.concat([Buffer.from(Array.from({ length }, () => next(256))), bytes(next(2) ? ',cn=ann' : '')]);
}

class Codec {
  readonly vocabulary = new Vocabulary();
  readonly #encoder = new RowEncoder(this.vocabulary, new Learner(this.vocabulary), () => undefined);

  record(key: Buffer, row: Buffer): RecordView {
    // Rows to load lie somewhere in a larger buffer.
    const around = Buffer.concat([bytes('xyz'), row, bytes('zyx')]);
    this.#encoder.encode(key, 0, key.length, around, 3, 3 + row.length);
    const { record, length } = this.#encoder;
    expect(hasValidChecksum(key, 0, key.length, record, length)).to.equal(true);
    return {
      keys: key,
      from: 0,
      to: key.length,
      bytes: Buffer.from(record.subarray(0, length)),
      end: length - CHECKSUM_BYTES,
    };
  }
}

describe('lmdb: records', () => {
  it('become the rows they were made of', () => {
    const { seed, next } = random();
    const codec = new Codec();
    let packed = 0;
    let encoded = 0;
    for (let i = 0; i < 1000; i++) {
      const row = packRow(anyCells(next));
      const at = codec.record(anyKey(next), row);
      expect(decodeRow(codec.vocabulary.words, at, false), `seed ${seed}`).to.deep.equal(row);
      const first = packRow(unfold(row, 0));
      expect(decodeRow(codec.vocabulary.words, at, true) ?? Buffer.alloc(0), `seed ${seed}`).to.deep.equal(first);
      packed += row.length;
      encoded += at.end;
    }
    expect(codec.vocabulary.words.count).to.be.above(20);
    expect(encoded).to.be.below(packed);
  });

  it('pass a filter when the row does', () => {
    const { seed, next } = random();
    const codec = new Codec();
    const wide = (): StoreFilter => ({ op: 'or', of: Array.from({ length: 60 }, () => anyFilter(next, 0)) });
    const filters = Array.from({ length: 46 }, (_, n) => (n < 40 ? anyFilter(next, 3) : wide()));
    const tests = filters.map((filter) => [compileFilter(filter), compileRecordFilter(filter)] as const);
    let passed = 0;
    for (let i = 0; i < 400; i++) {
      const row = packRow(anyCells(next));
      const at = codec.record(anyKey(next), row);
      for (const [n, [test, recordTest]] of tests.entries()) {
        const length = readVarint(at.bytes, 0);
        const takes = recordTest(codec.vocabulary.words, at, nextOffset(), length);
        expect(takes, `seed ${seed}: ${JSON.stringify(filters[n])}`).to.equal(test(row));
        if (takes) passed++;
      }
    }
    expect(passed).to.be.within(500, 17_900);
  });

  it('are noticed to be others by any bit that changes, of key or record', () => {
    const { seed, next } = random();
    const codec = new Codec();
    for (let i = 0; i < 20; i++) {
      const at = codec.record(anyKey(next), packRow(anyCells(next).slice(0, 4)));
      for (const part of [at.keys, at.bytes]) {
        for (let bit = 0; bit < Math.min(part.length, 400) * 8; bit++) {
          part[bit >> 3]! ^= 1 << (bit & 7);
          expect(hasValidChecksum(at.keys, 0, at.to, at.bytes, at.bytes.length), `seed ${seed}`).to.equal(false);
          part[bit >> 3]! ^= 1 << (bit & 7);
        }
      }
      expect(hasValidChecksum(at.keys, 0, at.to, at.bytes, at.bytes.length)).to.equal(true);
      expect(hasValidChecksum(at.keys, 0, at.to, at.bytes, at.bytes.length - 1)).to.equal(false);
    }
  });

  describe('in a store', () => {
    let folder: string;
    let store: Store;
    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), 'rowan-records-'));
      store = await openLmdbStore(folder);
      await store.createTable(SPEC);
    });
    afterEach(async () => {
      await store.close();
      await rm(folder, { recursive: true });
    });

    const rowOf = (i: number, kind: string) =>
      packRow([
        cell(0, 'id', `${i}`),
        cell(1, `${kind}.name.of.a.cell`, `value ${i}`),
        cell(1, kind, 'of all of this kind'),
      ]);
    const rowsOf = (kind: string, from: number, to: number): LoadRow[] =>
      Array.from({ length: to - from }, (_, i) => ({
        key: bytes(`${kind} ${1000 + from + i}`),
        row: rowOf(from + i, kind),
      }));
    const commit = (rows: LoadRow[]) =>
      store.commit({
        steps: rows.map(({ key, row }) => ({ table: 't', key, put: unfold(row) })),
        decisive: 0,
      });

    /** Works on LMDB's own databases, while no store is open. */
    async function raw<T>(work: (root: RootDatabase<Buffer, Buffer>) => T): Promise<T> {
      await store.close();
      const root = open<Buffer, Buffer>({ path: folder, noSubdir: false, maxDbs: 40, pageSize: 8192, ...binary });
      try {
        return work(root);
      } finally {
        await root.close();
        store = await openLmdbStore(folder);
      }
    }

    it('use words that another thread found, whichever way they are read, and are changed with them', async () => {
      const all: LoadRow[] = [];
      for (const [n, kind] of ['a', 'b', 'c', 'd', 'e', 'f'].entries()) {
        const rows = rowsOf(kind, n * 100, n * 100 + 100);
        // The thread and this one find words in turn; both have read before.
        if (n % 2 === 0) await store.ingest([{ table: 't', rows }], NO_PLAN);
        else await commit(rows);
        all.push(...rows);
        if (n === 0) expect(await store.get('t', rows[99]!.key)).to.deep.equal(rows[99]!.row);
        if (n === 1)
          expect(
            await store.getMany(
              't',
              rows.map(({ key }) => key),
            ),
          ).to.deep.equal(rows.map(({ row }) => row));
        if (n === 2) expect((await scanAll(store, 't', {})).keys).to.have.length(300);
        if (n === 4) {
          const filter: StoreFilter = {
            op: 'columnEquals',
            family: 1,
            qualifier: bytes('e'),
            value: bytes('of all of this kind'),
          };
          expect((await scanAll(store, 't', {}, { filter })).keys).to.have.length(100);
        }
        const snapshot = store.snapshot();
        expect(await snapshot.get('t', rows[99]!.key)).to.deep.equal(rows[99]!.row);
        snapshot.close();
      }
      for (const { key, row } of all) expect(await store.get('t', key)).to.deep.equal(row);
      expect(await raw((root) => [...root.openDB('words', binary).getKeys({})].length)).to.be.above(12);
      for (const { key, row } of all) expect(await store.get('t', key)).to.deep.equal(row);
    });

    it('do not use the words of a batch that was taken back', async () => {
      const guard = { op: 'equals', family: 0, qualifier: bytes('none'), value: bytes('x') } as const;
      const plan = { steps: [{ table: 't', key: bytes('a'), guards: [guard] }], decisive: 0 };
      const refused = await codeOf(store.ingest([{ table: 't', rows: rowsOf('a', 0, 100) }], plan));
      expect(refused).to.equal('guard');
      await commit(rowsOf('b', 0, 100));
      await store.ingest([{ table: 't', rows: rowsOf('c', 0, 100) }], NO_PLAN);
      for (const kind of ['b', 'c'])
        for (const { key, row } of rowsOf(kind, 0, 100)) expect(await store.get('t', key)).to.deep.equal(row);
      expect((await scanAll(store, 't', {})).keys).to.have.length(200);
    });

    it('have no words left when the table is dropped', async () => {
      await commit(rowsOf('a', 0, 100));
      await store.dropTable('t');
      expect(await raw((root) => [...root.openDB('words', binary).getKeys({})])).to.deep.equal([]);
    });

    it('are damaged where a byte of them is another, and so are words, segments, lists, blocks and separate cells', async () => {
      await store.createTable({ name: 'ix', families: [{ name: 'i' }], suffixBytes: 16 });
      const suffixes = Buffer.concat(Array.from({ length: 900 }, (_, i) => bytes(String(i).padStart(16, '0'))));
      const key = bytes('row');
      const long = Array.from({ length: 1000 }, (_, i) => cell(1, `m${String(i).padStart(60, '0')}`, 'x'));
      await store.commit({
        steps: [
          { table: 't', key, put: [cell(0, 'id', '7'), cell(1, 'cn', 'ann'), cell(2, 'photo', 'chunk')] },
          { table: 't', key: bytes('long'), put: long },
          { table: 'ix', key: Buffer.concat([bytes('p'), suffixes.subarray(0, 16)]), put: [MARK] },
        ],
        decisive: 0,
      });
      await store.ingest([{ table: 'ix', rows: [{ key: bytes('q'), row: suffixes }] }], NO_PLAN);
      const change = { table: 't', key, put: [cell(0, 'id', '8')] };
      const reads: [string, string, Buffer, () => unknown][] = [
        ['t1', 't', key, () => store.get('t', key)],
        ['t1', 't', key, () => store.getHead('t', key, true)],
        ['t1', 't', key, () => store.getMany('t', [key])],
        ['t1', 't', key, () => store.scan('t', { from: key }).next()],
        ['t1', 't', key, () => store.commit({ steps: [change], decisive: 0 })],
        ['t1:2', 't', bytes('\0\x03rowphoto'), () => store.getCells('t', key, 2, bytes('photo'))],
        ['t1:long', 't', bytes('\0\x04long'), () => store.get('t', bytes('long'))],
        ['t2', 'ix', bytes('p'), () => store.postings('ix', bytes('p'), 10)],
        ['t2', 'ix', bytes('p'), () => store.scan('ix', {}).next()],
        ['t2:blocks', 'ix', bytes('\0\x01q'), () => store.postings('ix', bytes('q'), 1000)],
      ];
      for (const [database, table, name, read] of reads) {
        expect(await codeOf((async () => read())()), database).to.equal('none');
        const flip = (): Promise<void> =>
          raw((root) => {
            const db = root.openDB<Buffer, Buffer>(database, binary);
            const value = Buffer.from(db.get(name)!);
            value[value.length >> 1]! ^= 4;
            db.putSync(name, value);
          });
        await flip();
        const error = await errorOf((async () => read())());
        expect([error?.code, error?.table, error?.key], `${database} ${error?.message}`).to.deep.equal([
          'damaged',
          table,
          name,
        ]);
        await flip();
      }
    });

    it('can be replaced and deleted when they are damaged', async () => {
      const keys = [bytes('a'), bytes('b'), bytes('c')];
      const put = [cell(0, 'id', '7')];
      await store.commit({ steps: keys.map((key) => ({ table: 't', key, put })), decisive: 0 });
      await raw((root) => {
        const db = root.openDB<Buffer, Buffer>('t1', binary);
        for (const key of keys) db.putSync(key, Buffer.concat([db.get(key)!, bytes('x')]));
      });
      expect(await codeOf((async () => store.get('t', keys[0]!))())).to.equal('damaged');
      const steps = [
        { table: 't', key: keys[0]!, deleteRow: true },
        { table: 't', key: keys[1]!, deleteRow: true, put },
      ];
      await store.commit({ steps, decisive: 0 });
      await store.ingest([{ table: 't', rows: [{ key: keys[2]!, row: packRow(put) }] }], NO_PLAN);
      expect((await scanAll(store, 't', {})).keys).to.deep.equal(['b', 'c']);
    });

    it('say that a word is lost, or another', async () => {
      await commit(rowsOf('a', 0, 100));
      const [, value] = await raw((root) => {
        const db = root.openDB<Buffer, Buffer>('words', binary);
        const [last] = [...db.getRange({ reverse: true, limit: 1 })];
        const saved = Buffer.from(last!.value);
        const other = Buffer.from(saved);
        other[5]! ^= 1;
        db.putSync(last!.key, other);
        return [last!.key, saved] as const;
      });
      expect(value.length).to.be.above(10);
      const { key } = rowsOf('a', 99, 100)[0]!;
      expect((await errorOf((async () => store.get('t', key))()))?.message).to.match(
        /damaged: word \d+ of its dictionary is lost/,
      );
      expect(
        await codeOf(store.commit({ steps: [{ table: 't', key, put: [cell(0, 'id', 'x')] }], decisive: 0 })),
      ).to.equal('damaged');
    });
  });
});

/** Cells of a row, of one family or of all. */
function unfold(row: Buffer, family?: number): Cell[] {
  const cells: Cell[] = [];
  for (let at = 0; at < row.length; ) {
    const value = at + 7 + row.readUInt16BE(at + 1);
    const next = value + row.readUInt32BE(at + 3);
    if (family === undefined || row[at] === family)
      cells.push({ family: row[at]!, qualifier: row.subarray(at + 7, value), value: row.subarray(value, next) });
    at = next;
  }
  return cells;
}

function anyFilter(next: Next, depth: number): StoreFilter {
  const family = next(2);
  const headed = NAMES[next(NAMES.length)]!;
  const qualifier = bytes(headed.endsWith('=') ? headed + ENDS[next(ENDS.length)]! : headed);
  const part = bytes(ENDS[2 + next(6)]!.slice(0, 1 + next(4)));
  switch (next(depth > 0 ? 8 : 5)) {
    case 0:
      return { op: 'hasColumn', family, qualifier };
    case 1:
      return { op: 'columnEquals', family, qualifier, value: bytes(next(2) ? '\0\0\0\0' : ENDS[next(ENDS.length)]!) };
    case 2:
      return { op: 'anyColumn', family, match: { prefix: qualifier.subarray(0, next(qualifier.length + 1)) } };
    case 3: {
      const [from, to] = [qualifier, bytes(NAMES[next(NAMES.length)]! + ENDS[next(ENDS.length)]!)].sort(Buffer.compare);
      return { op: 'anyColumn', family, match: { from: from!, to: to! } };
    }
    case 4: {
      const match = {
        prefix: bytes(headed),
        initial: next(2) ? part : undefined,
        any: next(2) ? [part] : [],
        final: next(2) ? part : undefined,
      };
      return { op: 'anyColumn', family, match };
    }
    case 5:
      return { op: 'not', of: anyFilter(next, depth - 1) };
    default:
      return { op: next(2) ? 'and' : 'or', of: Array.from({ length: 1 + next(3) }, () => anyFilter(next, depth - 1)) };
  }
}
