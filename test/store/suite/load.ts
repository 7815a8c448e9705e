import { expect } from 'chai';
import { PackedRows } from '../../../src/store/load.js';
import { cellCounter, EMPTY, packRow, unpackRow } from '../../../src/store/row.js';
import { A, bytes, cell, codeOf, type Fixture, INDEX, LARGE, LOG, PEOPLE, row, scanAll, under } from './fixture.js';

const TABLE = PEOPLE.name;

export function loadSuite(f: Fixture): void {
  const rows = (prefix: string, numbers: number[]) =>
    numbers.map((n) => ({ key: bytes(`${prefix}${String(n).padStart(5, '0')}`), row: row({ '0:n': String(n) }) }));
  const count = { family: A, qualifier: bytes('count') };

  describe('ingest', () => {
    it('writes whole rows over what is there', async () => {
      await f.put({ 'ingest/2': { '0:old': '1' } });
      await f.commit({ table: TABLE, key: bytes('ingest/2'), put: [cell(LARGE, 'p', 'old'), cell(LARGE, 'q', 'old')] });
      const separate = packRow([cell(LARGE, 'p', 'new')]);
      await f.ingest(TABLE, [
        { key: bytes('ingest/1'), row: row({ '0:a': '1' }) },
        { key: bytes('ingest/2'), row: row({ '0:a': '2' }), separate },
        { key: bytes('ingest/3'), row: row({ '0:a': '3' }) },
      ]);
      const found = await scanAll(f.store, TABLE, under('ingest/'));
      expect(found.keys).to.deep.equal(['ingest/1', 'ingest/2', 'ingest/3']);
      expect(found.rows).to.deep.equal([row({ '0:a': '1' }), row({ '0:a': '2' }), row({ '0:a': '3' })]);
      const cells = unpackRow((await f.store.getCells(TABLE, bytes('ingest/2'), LARGE, EMPTY))!);
      expect(cells).to.deep.equal([cell(LARGE, 'p', 'new')]);
    });

    it('writes batch after batch, before, between and behind the rows there are', async () => {
      const numbers = Array.from({ length: 3000 }, (_, i) => i);
      for (const part of [1, 0, 2]) {
        const batch = numbers.filter((n) => n % 3 === part);
        await f.ingest(TABLE, rows('ingestmany/', batch));
      }
      const found = await scanAll(f.store, TABLE, under('ingestmany/'));
      const wanted = numbers.map((n) => row({ '0:n': String(n) }));
      expect(found.rows.length).to.equal(wanted.length);
      expect(wanted.findIndex((one, n) => !one.equals(found.rows[n]!))).to.equal(-1);
    });

    it('writes index rows, the suffixes of a prefix together', async () => {
      const posted = (value: string, ...numbers: number[]) => ({
        key: bytes(`ingest=${value}\0`),
        row: bytes(numbers.map((n) => String(n).padStart(4, '0')).join('')),
      });
      await f.ingest(INDEX.name, [posted('a', 1, 2), posted('b', 1)]);
      await f.ingest(INDEX.name, [posted('a', 0, 2, 3), posted('c', 9)]);
      expect((await f.store.postings(INDEX.name, bytes('ingest=a\0'), 10)).toString()).to.equal('0000000100020003');
      expect((await scanAll(f.store, INDEX.name, under('ingest='))).keys).to.have.length(6);
    });

    it('appends rows under rising numbers, between those of commits', async () => {
      const tag = { op: 'hasColumn', family: 0, qualifier: bytes('ingest') } as const;
      const append = (value: string) => ({ key: EMPTY, row: packRow([cell(0, 'ingest', value)]) });
      await f.commit({ table: LOG.name, append: [cell(0, 'ingest', '1')] });
      await f.ingest(LOG.name, [append('2'), append('3')], { append: true });
      await f.commit({ table: LOG.name, append: [cell(0, 'ingest', '4')] });
      const found = await scanAll(f.store, LOG.name, {}, { filter: tag });
      expect(found.rows.map((r) => unpackRow(r!)[0]!.value.toString())).to.deep.equal(['1', '2', '3', '4']);
    });

    it('applies the plan with the rows', async () => {
      const plan = {
        steps: [{ table: TABLE, key: bytes('ingestplan/count'), add: [{ ...count, by: 2n }] }],
        decisive: 0,
      };
      await f.store.ingest([{ table: TABLE, rows: rows('ingestplan/', [1, 2]), absent: true }], plan);
      expect(
        cellCounter((await f.store.get(TABLE, bytes('ingestplan/count'))) ?? undefined, A, count.qualifier),
      ).to.equal(2n);
      expect(await f.store.count(TABLE, under('ingestplan/'), 10)).to.equal(3);
    });

    it('does nothing when a guard fails or a row that must be absent is there', async function () {
      if (!f.store.supports.atomicPlan) this.skip();
      const guards = [{ op: 'absent', ...count }] as const;
      const step = { table: TABLE, key: bytes('ingestguard/count'), guards, add: [{ ...count, by: 1n }] };
      const plan = { steps: [step], decisive: 0 };
      await f.store.ingest([{ table: TABLE, rows: rows('ingestguard/', [1]) }], plan);
      const twice = f.store.ingest([{ table: TABLE, rows: rows('ingestguard/', [2, 3]) }], plan);
      expect(await codeOf(twice)).to.equal('guard');
      expect(await codeOf(f.ingest(TABLE, rows('ingestguard/', [0, 1, 4]), { absent: true }))).to.equal('guard');
      const { keys } = await scanAll(f.store, TABLE, under('ingestguard/'));
      expect(keys).to.deep.equal(['ingestguard/00001', 'ingestguard/count']);
    });

    it('leaves out of batches that wait together the one that fails, whose rows stay as they were', async function () {
      if (!f.store.supports.atomicPlan) this.skip();
      await f.ingest(TABLE, rows('ingestwait/', [15]));
      const batches = Array.from({ length: 6 }, (_, i) => PackedRows.of(rows('ingestwait/', [i * 5, i * 5 + 1])));
      const taken = PackedRows.of(rows('ingestwait/', [14, 15, 16]));
      batches.splice(3, 0, taken);
      const codes = await Promise.all(batches.map((batch) => codeOf(f.ingest(TABLE, batch, { absent: true }))));
      expect(codes).to.deep.equal(['none', 'none', 'none', 'guard', 'guard', 'none', 'none']);
      expect([...taken].map(({ key }) => key.toString())).to.deep.equal(
        rows('ingestwait/', [14, 15, 16]).map(({ key }) => key.toString()),
      );
      const { keys } = await scanAll(f.store, TABLE, under('ingestwait/'));
      expect(keys.map((key) => Number(key.slice(-5)))).to.deep.equal([0, 1, 5, 6, 10, 11, 15, 20, 21, 25, 26]);
    });

    it('takes part with commits that run meanwhile', async () => {
      const load = f.ingest(
        TABLE,
        rows(
          'mixed/',
          Array.from({ length: 2000 }, (_, i) => i),
        ),
      );
      const commits = Array.from({ length: 32 }, (_, i) =>
        f.commit({ table: TABLE, key: bytes(`mixed/commit ${i}`), put: [cell(A, 'a', '')] }),
      );
      await Promise.all([load, ...commits]);
      expect(await f.store.count(TABLE, under('mixed/'), 10_000)).to.equal(2032);
    });

    it('refuses keys that are too long', async () => {
      const key = bytes('x'.repeat(40_000));
      expect(await codeOf(f.ingest(TABLE, [{ key, row: row({ '0:a': '' }) }]))).to.equal('limit');
      await f.ingest(TABLE, []);
    });
  });
}
