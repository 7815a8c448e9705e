import { expect } from 'chai';
import type { Guard, RowStep } from '../../../src/store/contract.js';
import { cellCounter, unpackRow } from '../../../src/store/row.js';
import {
  A,
  B,
  bytes,
  cell,
  codeOf,
  errorOf,
  type Fixture,
  LARGE,
  LOG,
  PEOPLE,
  row,
  scanAll,
  under,
} from './fixture.js';

const TABLE = PEOPLE.name;
const name = (qualifier: string, family = A) => ({ family, qualifier: bytes(qualifier) });
const step = (key: string, rest: Omit<RowStep, 'table' | 'key'>): RowStep => ({
  table: TABLE,
  key: bytes(key),
  ...rest,
});

export function commitSuite(f: Fixture): void {
  const get = (key: string) => f.store.get(TABLE, bytes(key));

  describe('commit', () => {
    it('puts and deletes single cells and leaves the others', async () => {
      await f.put({ 'commit/1': { '0:a': '1', '0:b': '2', '0:c': '3', '1:a': '4' } });
      await f.commit(
        step('commit/1', {
          delete: [name('b'), name('none'), name('a', B)],
          put: [cell(A, 'bb', 'new'), cell(A, 'c', 'changed')],
        }),
      );
      expect(await get('commit/1')).to.deep.equal(row({ '0:a': '1', '0:bb': 'new', '0:c': 'changed' }));
    });

    it('puts in the order given: of two values the later, and a put wins over a delete', async () => {
      await f.commit(
        step('commit/2', {
          delete: [name('x')],
          put: [cell(B, 'z', '0'), cell(A, 'x', 'first'), cell(A, 'x', 'second')],
        }),
      );
      expect(await get('commit/2')).to.deep.equal(row({ '0:x': 'second', '1:z': '0' }));
    });

    it('has no row without cells', async () => {
      await f.put({ 'commit/3': { '0:a': '1' } });
      await f.commit(step('commit/3', { delete: [name('a')] }));
      expect(await get('commit/3')).to.equal(undefined);
      expect((await scanAll(f.store, TABLE, under('commit/3'))).keys).to.deep.equal([]);
    });

    it('replaces a whole row by deleteRow and put', async () => {
      await f.put({ 'commit/4': { '0:a': '1', '1:b': '2' } });
      await f.commit(step('commit/4', { deleteRow: true, put: [cell(A, 'c', '3')] }));
      expect(await get('commit/4')).to.deep.equal(row({ '0:c': '3' }));
      await f.commit(step('commit/4', { deleteRow: true }));
      expect(await get('commit/4')).to.equal(undefined);
    });

    it('deletes separate cells with their row, and puts new ones', async () => {
      const key = bytes('commit/5');
      await f.commit(step('commit/5', { put: [cell(A, 'a', '1'), cell(LARGE, 'p', 'old'), cell(LARGE, 'q', 'old')] }));
      await f.commit(step('commit/50', { put: [cell(LARGE, 'p', 'neighbour')] }));
      await f.commit(step('commit/5', { deleteRow: true, put: [cell(A, 'a', '2'), cell(LARGE, 'q', 'new')] }));
      expect(unpackRow((await f.store.getCells(TABLE, key, LARGE, bytes('')))!)).to.deep.equal([
        cell(LARGE, 'q', 'new'),
      ]);
      await f.commit(step('commit/5', { delete: [name('q', LARGE)] }));
      expect(await f.store.getCells(TABLE, key, LARGE, bytes(''))).to.equal(undefined);
      await f.commit(step('commit/5', { deleteRow: true }));
      expect(await f.store.getCells(TABLE, bytes('commit/50'), LARGE, bytes(''))).to.not.equal(undefined);
    });

    it('keeps 100 separate cells of 128 KiB', async () => {
      const value = (i: number) => Buffer.alloc(128 * 1024, i);
      for (let at = 0; at < 100; at += 20) {
        const put = Array.from({ length: 20 }, (_, i) => ({
          family: LARGE,
          qualifier: Buffer.from([0, at + i]),
          value: value(at + i),
        }));
        await f.commit(step('commit/large', { put }));
      }
      const cells = unpackRow((await f.store.getCells(TABLE, bytes('commit/large'), LARGE, Buffer.from([0])))!);
      expect(cells.length).to.equal(100);
      for (const [i, found] of cells.entries()) expect(found.value.equals(value(i)), `cell ${i}`).to.equal(true);
      await f.commit(step('commit/large', { deleteRow: true }));
    });

    const guards: [string, Guard, boolean][] = [
      ['absent, of a cell that is', { op: 'absent', ...name('none') }, true],
      ['absent, of a cell that is there', { op: 'absent', ...name('a') }, false],
      ['equals', { op: 'equals', ...name('a'), value: bytes('1') }, true],
      ['equals, of another value', { op: 'equals', ...name('a'), value: bytes('11') }, false],
      ['equals, of no cell', { op: 'equals', ...name('none'), value: bytes('') }, false],
      ['counterEquals', { op: 'counterEquals', ...name('n'), value: 7n }, true],
      ['counterEquals, of another number', { op: 'counterEquals', ...name('n'), value: 8n }, false],
      ['counterEquals 0, of no cell', { op: 'counterEquals', ...name('none'), value: 0n }, true],
      ['absent, of a separate cell', { op: 'absent', ...name('p', LARGE) }, false],
      ['equals, of a separate cell', { op: 'equals', ...name('p', LARGE), value: bytes('P') }, true],
    ];
    for (const [title, guard, holds] of guards) {
      it(`checks ${title}`, async () => {
        const key = `guard/${title}`;
        await f.commit(step(key, { put: [cell(A, 'a', '1'), cell(LARGE, 'p', 'P')], add: [{ ...name('n'), by: 7n }] }));
        const error = await errorOf(
          f.commit(
            step(`${key}/first`, { put: [cell(A, 'x', '1')] }),
            step(key, { guards: [guard], put: [cell(A, 'done', '')], delete: [name('a')] }),
            step(`${key}/last`, { put: [cell(A, 'x', '1')] }),
            { table: LOG.name, append: [cell(0, 'guard', title)] },
          ),
        );
        expect(error?.code).to.equal(holds ? undefined : 'guard');
        if (!holds) expect([error?.step, error?.applied]).to.deep.equal([1, 'no']);
        const { keys, rows } = await scanAll(f.store, TABLE, under(key));
        expect(keys).to.deep.equal(holds ? [key, `${key}/first`, `${key}/last`] : [key]);
        expect(unpackRow(rows[0]!).some((c) => c.qualifier.equals(bytes('done')))).to.equal(holds);
        const logged = await scanAll(
          f.store,
          LOG.name,
          {},
          { filter: { op: 'columnEquals', ...name('guard'), value: bytes(title) } },
        );
        expect(logged.keys.length).to.equal(holds ? 1 : 0);
      });
    }

    it('takes a guard alone, and a plan without steps', async () => {
      await f.commit(step('commit/6', { guards: [{ op: 'absent', ...name('a') }] }));
      expect(await get('commit/6')).to.equal(undefined);
      await f.commit();
    });

    it('shows a later step what an earlier one did', async () => {
      await f.commit(
        step('commit/7', { put: [cell(A, 'a', '1')] }),
        step('commit/7', {
          guards: [{ op: 'equals', ...name('a'), value: bytes('1') }],
          add: [{ ...name('n'), by: 2n }],
        }),
        step('commit/7', { guards: [{ op: 'counterEquals', ...name('n'), value: 2n }], delete: [name('a')] }),
        step('commit/7', { put: [cell(LARGE, 'p', 'x')] }),
        step('commit/7', {
          guards: [{ op: 'equals', ...name('p', LARGE), value: bytes('x') }],
          put: [cell(B, 'b', '')],
        }),
      );
      expect(unpackRow((await get('commit/7'))!).map((c) => c.qualifier.toString())).to.deep.equal(['n', 'b']);
      const late = f.commit(
        step('commit/8', { put: [cell(A, 'a', '1')] }),
        step('commit/8', { guards: [{ op: 'absent', ...name('a') }] }),
      );
      expect(await codeOf(late)).to.equal('guard');
      expect(await get('commit/8')).to.equal(undefined);
    });

    it('counts up, down and below zero', async () => {
      const add = (by: bigint) => f.commit(step('commit/9', { add: [{ ...name('n'), by }] }));
      const value = async () => cellCounter((await get('commit/9')) ?? undefined, A, bytes('n'));
      await add(5n);
      await add(-12n);
      expect(await value()).to.equal(-7n);
      await add(1n << 40n);
      expect(await value()).to.equal((1n << 40n) - 7n);
      await add(-(1n << 40n) + 7n);
      expect(await value()).to.equal(0n);
      await f.commit(
        step('commit/9', {
          add: [
            { ...name('n'), by: 1n },
            { ...name('n'), by: 2n },
            { ...name('m'), by: 3n },
          ],
        }),
      );
      expect(await value()).to.equal(3n);
    });

    it('answers corrupt for a counter that is not eight bytes', async () => {
      await f.put({ 'commit/10': { '0:n': 'abc' } });
      expect(await codeOf(f.commit(step('commit/10', { add: [{ ...name('n'), by: 1n }] })))).to.equal('corrupt');
      const guard: Guard = { op: 'counterEquals', ...name('n'), value: 1n };
      expect(await codeOf(f.commit(step('commit/10', { guards: [guard] })))).to.equal('corrupt');
      expect(await get('commit/10')).to.deep.equal(row({ '0:n': 'abc' }));
    });

    it('appends rows under rising numbers, also after the last were deleted', async () => {
      const append = (value: string) => f.commit({ table: LOG.name, append: [cell(0, 'v', value)] });
      const keys = async () => (await scanAll(f.store, LOG.name, {})).keys.map((key) => bytes(key));
      await append('1');
      await append('2');
      const two = (await keys()).slice(-2);
      expect(two.map((key) => key.length)).to.deep.equal([8, 8]);
      expect(Buffer.compare(two[0]!, two[1]!)).to.equal(-1);
      await f.commit(...two.map((key) => ({ table: LOG.name, key, deleteRow: true })));
      await append('3');
      expect(Buffer.compare(two[1]!, (await keys()).at(-1)!)).to.equal(-1);
      await f.commit(
        { table: LOG.name, append: [cell(0, 'v', '4')] },
        { table: LOG.name, append: [cell(0, 'v', '5')] },
      );
      const rows = (await scanAll(f.store, LOG.name, {})).rows.slice(-2);
      expect(rows).to.deep.equal([row({ '0:v': '4' }), row({ '0:v': '5' })]);
    });

    it('refuses a key that is empty or too long, and does nothing', async () => {
      for (const key of ['', 'x'.repeat(40_000)]) {
        const plan = f.commit(step('commit/11', { put: [cell(A, 'a', '1')] }), step(key, { put: [cell(A, 'a', '1')] }));
        expect(await codeOf(plan)).to.equal('limit');
      }
      expect(await get('commit/11')).to.equal(undefined);
    });
  });
}
