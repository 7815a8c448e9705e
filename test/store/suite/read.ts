import { expect } from 'chai';
import { unpackRow } from '../../../src/store/row.js';
import { A, batches, bytes, cell, codeOfCall, type Fixture, LARGE, PEOPLE, row, scanAll, under } from './fixture.js';

const TABLE = PEOPLE.name;

export function readSuite(f: Fixture): void {
  describe('reading', () => {
    before(async () => {
      await f.put({
        'read/a': { '0:name': 'Ann', '1:x': '1' },
        'read/b': { '0:name': 'Bob' },
        'read/b\0': { '0:name': 'after b' },
        'read/b\xff': { '0:name': 'last of b' },
        'read/c': { '0:': 'empty qualifier', '0:empty value': '' },
      });
    });

    it('gives a row as packed cells in order', async () => {
      expect(await f.store.get(TABLE, bytes('read/a'))).to.deep.equal(row({ '0:name': 'Ann', '1:x': '1' }));
      expect(await f.store.get(TABLE, bytes('read/c'))).to.deep.equal(
        row({ '0:': 'empty qualifier', '0:empty value': '' }),
      );
    });

    it('gives undefined for a row that is not there, whatever the key', async () => {
      for (const key of ['read/', 'read/aa', 'read/a\0', 'read', 'x'.repeat(5000), '']) {
        expect(await f.store.get(TABLE, bytes(key)), key.slice(0, 10)).to.equal(undefined);
      }
    });

    it('gives many rows in the order asked for, with gaps and repetitions', async () => {
      const keys = ['read/c', 'read/none', 'read/a', 'read/a', ''].map(bytes);
      const found = await f.store.getMany(TABLE, keys);
      expect(found.map((r) => r && unpackRow(r)[0]!.value.toString())).to.deep.equal([
        'empty qualifier',
        undefined,
        'Ann',
        'Ann',
        undefined,
      ]);
      expect(await f.store.getMany(TABLE, [])).to.deep.equal([]);
    });

    it("hands out buffers that are the caller's own", async () => {
      const first = (await f.store.get(TABLE, bytes('read/a')))!;
      const scanned = (await scanAll(f.store, TABLE, under('read/a'))).rows[0]!;
      first.fill(0);
      scanned.fill(0);
      await f.store.get(TABLE, bytes('read/b'));
      expect(first.equals(Buffer.alloc(first.length))).to.equal(true);
      expect(await f.store.get(TABLE, bytes('read/a'))).to.deep.equal(row({ '0:name': 'Ann', '1:x': '1' }));
    });

    it('keeps any byte in keys, qualifiers and values', async () => {
      const all = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
      const key = Buffer.concat([bytes('every byte/'), all]);
      await f.commit({
        table: TABLE,
        key,
        put: [
          { family: A, qualifier: all, value: all },
          { family: LARGE, qualifier: all, value: all },
        ],
      });
      const [found] = unpackRow((await f.store.get(TABLE, key))!);
      expect(found).to.deep.equal({ family: A, qualifier: all, value: all });
      expect((await scanAll(f.store, TABLE, under('every byte/'))).keys).to.deep.equal([key.toString('latin1')]);
      expect(unpackRow((await f.store.getCells(TABLE, key, LARGE, all))!)).to.deep.equal([
        { family: LARGE, qualifier: all, value: all },
      ]);
    });

    it('keeps a row of a megabyte and one of 5,000 cells', async () => {
      const big = Buffer.alloc(1 << 20, 'x');
      const cells = Array.from({ length: 5000 }, (_, i) => cell(A, `q${String(i).padStart(5, '0')}`, String(i)));
      await f.commit(
        { table: TABLE, key: bytes('wide/1'), put: [{ family: A, qualifier: bytes('big'), value: big }] },
        { table: TABLE, key: bytes('wide/2'), put: cells },
      );
      const { rows } = await scanAll(f.store, TABLE, under('wide/'));
      expect(unpackRow(rows[0]!)[0]!.value.equals(big)).to.equal(true);
      expect(unpackRow(rows[1]!)).to.deep.equal(cells);
    });

    const ranges: [string, { from?: string; to?: string }, string[]][] = [
      ['one key', { from: 'read/b', to: 'read/b\0' }, ['read/b']],
      [
        'from inclusive, to exclusive',
        { from: 'read/a', to: 'read/c' },
        ['read/a', 'read/b', 'read/b\0', 'read/b\xff'],
      ],
      ['bounds between keys', { from: 'read/aa', to: 'read/bb' }, ['read/b', 'read/b\0']],
      ['an empty range', { from: 'read/b', to: 'read/b' }, []],
      ['a range turned round', { from: 'read/c', to: 'read/a' }, []],
      ['a range where nothing is', { from: 'read/d', to: 'read/z' }, []],
      [
        'bounds longer than any key',
        { from: 'read/b' + '\0'.repeat(40_000), to: 'read/c' + '\0'.repeat(40_000) },
        ['read/b\xff', 'read/c'],
      ],
    ];
    for (const [name, { from, to }, keys] of ranges) {
      const range = {
        from: from === undefined ? undefined : bytes(from),
        to: to === undefined ? undefined : bytes(to),
      };
      it(`scans ${name}`, async () => {
        const expected =
          name === 'bounds longer than any key' ? ['read/b\0', ...keys].filter((k) => k > from! && k < to!) : keys;
        expect((await scanAll(f.store, TABLE, range)).keys).to.deep.equal(expected);
        expect((await scanAll(f.store, TABLE, range, { reverse: true })).keys).to.deep.equal([...expected].reverse());
        expect(await f.store.count(TABLE, range, 100)).to.equal(expected.length);
        for (const [i, key] of expected.entries()) {
          const options = { after: bytes(key) };
          expect((await scanAll(f.store, TABLE, range, options)).keys).to.deep.equal(expected.slice(i + 1));
          const back = await scanAll(f.store, TABLE, range, { ...options, reverse: true });
          expect(back.keys).to.deep.equal(expected.slice(0, i).reverse());
        }
      });
    }

    it('scans open ranges, both ways', async () => {
      const up = (await scanAll(f.store, TABLE, {})).keys;
      const down = (await scanAll(f.store, TABLE, {}, { reverse: true })).keys;
      expect(up).to.deep.equal([...up].sort());
      expect(down).to.deep.equal([...up].reverse());
      expect(up).to.include('read/b\xff');
      const to = await scanAll(f.store, TABLE, { to: bytes('read/b') });
      expect(to.keys).to.deep.equal(up.filter((key) => key < 'read/b'));
      const from = await scanAll(f.store, TABLE, { from: bytes('read/b') }, { reverse: true });
      expect(from.keys).to.deep.equal(down.filter((key) => key >= 'read/b'));
      expect(await f.store.count(TABLE, {}, 1_000_000)).to.equal(up.length);
      expect((await scanAll(f.store, TABLE, { to: bytes('') })).keys).to.deep.equal([]);
      expect((await scanAll(f.store, TABLE, { from: bytes('') })).keys).to.deep.equal(up);
    });

    it('stops at the limit, and counts up to the cap', async () => {
      const three = await scanAll(f.store, TABLE, under('read/'), { limit: 3 });
      expect(three.keys).to.deep.equal(['read/a', 'read/b', 'read/b\0']);
      expect((await scanAll(f.store, TABLE, under('read/'), { limit: 2, reverse: true })).keys).to.deep.equal([
        'read/c',
        'read/b\xff',
      ]);
      expect((await scanAll(f.store, TABLE, under('read/'), { limit: 0 })).keys).to.deep.equal([]);
      expect(await f.store.count(TABLE, under('read/'), 2)).to.equal(2);
      expect(await f.store.count(TABLE, under('read/'), 0)).to.equal(0);
    });

    it('leaves rows out under keysOnly', async () => {
      const { keys, rows } = await scanAll(f.store, TABLE, under('read/'), { keysOnly: true });
      expect(keys).to.have.length(5);
      expect(rows.every((r) => r === undefined)).to.equal(true);
    });

    it('ends batches in between, and goes on where it was while rows change around it', async () => {
      const count = 5000;
      await f.ingest(
        TABLE,
        Array.from({ length: count }, (_, i) => ({
          key: bytes(`many/${String(i).padStart(5, '0')}`),
          row: row({ '0:n': String(i) }),
        })),
      );
      const scan = f.store.scan(TABLE, under('many/'));
      const first = (await scan.next())!;
      expect(first.keys.length).to.be.within(0, count - 1);
      await f.commit(
        { table: TABLE, key: bytes('many/00000'), deleteRow: true },
        { table: TABLE, key: first.keys.at(-1) ?? bytes('many/00001'), deleteRow: true },
        { table: TABLE, key: bytes('many/04999'), deleteRow: true },
      );
      const rest = await batches(scan);
      const keys = [first, ...rest].flatMap((batch) => batch.keys.map((key) => key.toString()));
      expect(keys).to.deep.equal([...new Set(keys)].sort());
      expect(keys).to.not.include('many/04999');
      expect(keys).to.include('many/04998');
      expect(keys.length).to.be.within(count - 3, count - 1);
    });

    it('closes a scan at any time, twice', async () => {
      const scan = f.store.scan(TABLE, {});
      await scan.next();
      scan.close();
      scan.close();
      expect(await scan.next()).to.equal(undefined);
    });

    it('gives cells of a separate family by prefix, and nowhere else', async () => {
      const put = [
        cell(A, 'a', '1'),
        cell(LARGE, 'photo\0\0', 'p0'),
        cell(LARGE, 'photo\0\x01', 'p1'),
        cell(LARGE, 'other', 'o'),
      ];
      await f.commit(
        { table: TABLE, key: bytes('cells/1'), put },
        { table: TABLE, key: bytes('cells/10'), put: [cell(LARGE, 'photo\0\0', 'another row')] },
      );
      const key = bytes('cells/1');
      const names = async (prefix: string) =>
        unpackRow((await f.store.getCells(TABLE, key, LARGE, bytes(prefix))) ?? bytes('')).map((c) =>
          c.value.toString(),
        );
      expect(await names('photo\0')).to.deep.equal(['p0', 'p1']);
      expect(await names('')).to.deep.equal(['o', 'p0', 'p1']);
      expect(await names('none')).to.deep.equal([]);
      const told = async (row: Buffer) =>
        (await f.store.namesOfCells(TABLE, row, LARGE)).map((name) => name.toString('latin1'));
      expect(await told(key)).to.deep.equal(['other', 'photo\0\0', 'photo\0\x01']);
      expect(await told(bytes('cells/10'))).to.deep.equal(['photo\0\0']);
      expect(await told(bytes('cells/2'))).to.deep.equal([]);
      expect(await codeOfCall(() => f.store.namesOfCells('nosuch', key, LARGE))).to.equal('noTable');
      expect(await f.store.getCells(TABLE, bytes('cells/2'), LARGE, bytes(''))).to.equal(undefined);
      expect(await f.store.get(TABLE, key)).to.deep.equal(row({ '0:a': '1' }));
      expect((await scanAll(f.store, TABLE, under('cells/'))).rows).to.deep.equal([row({ '0:a': '1' })]);
    });

    it('tells which rows have cells in a separate family, those without a row too', async () => {
      const table = 'owners';
      await f.store.createTable({ name: table, families: [{ name: 'a' }, { name: 'large', separate: true }] });
      const keys = ['a', 'ab', 'b', 'b\0', '\xff\xff', 'z'.repeat(300)].map((key) => Buffer.from(key, 'latin1'));
      for (const key of keys) {
        const chunks = ['1', '2', '3'].map((name) => cell(1, name, 'v'));
        await f.commit({ table, key, put: key.length === 1 ? [...chunks, cell(0, 'q', 'v')] : chunks });
      }
      await f.commit({ table, key: bytes('none'), put: [cell(0, 'q', 'v')] });
      const sorted = (found: readonly Buffer[]) => found.map((key) => key.toString('latin1')).sort();
      const all = await f.store.keysOfCells(table, 1, 100);
      expect(sorted(all)).to.deep.equal(sorted(keys));
      for (const limit of [1, 2, 4]) {
        const found: Buffer[] = [];
        for (;;) {
          const more = await f.store.keysOfCells(table, 1, limit, found.at(-1));
          expect(more.length).to.be.at.most(limit);
          if (more.length === 0) break;
          found.push(...more);
        }
        expect(found, `${limit} at a time`).to.deep.equal(all);
      }
      await f.commit({ table, key: keys[2]!, deleteRow: true });
      expect(await f.store.keysOfCells(table, 1, 100)).to.have.length(keys.length - 1);
      expect(await codeOfCall(() => f.store.keysOfCells('nosuch', 1, 100))).to.equal('noTable');
      await f.store.dropTable(table);
    });

    it('keeps the state of a snapshot', async function () {
      if (!f.store.supports.snapshot) this.skip();
      await f.put({ 'snap/a': { '0:v': 'before' }, 'snap/b': { '0:v': 'before' } });
      const snapshot = f.store.snapshot();
      await f.commit(
        { table: TABLE, key: bytes('snap/a'), put: [cell(A, 'v', 'after')] },
        { table: TABLE, key: bytes('snap/b'), deleteRow: true },
        { table: TABLE, key: bytes('snap/c'), put: [cell(A, 'v', 'after')] },
      );
      expect(await snapshot.get(TABLE, bytes('snap/a'))).to.deep.equal(row({ '0:v': 'before' }));
      expect((await scanAll(snapshot, TABLE, under('snap/'))).keys).to.deep.equal(['snap/a', 'snap/b']);
      expect((await scanAll(f.store, TABLE, under('snap/'))).keys).to.deep.equal(['snap/a', 'snap/c']);
      expect(await snapshot.count(TABLE, under('snap/'), 10)).to.equal(2);
      const scan = snapshot.scan(TABLE, under('snap/'));
      snapshot.close();
      snapshot.close();
      expect(await codeOfCall(() => scan.next())).to.equal('closed');
      scan.close();
      expect(await f.store.get(TABLE, bytes('snap/a'))).to.deep.equal(row({ '0:v': 'after' }));
    });
  });
}
