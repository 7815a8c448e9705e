import { expect } from 'chai';
import type { Cell, ColumnRange, RowStep } from '../../../src/store/contract.js';
import { compareCells, packRow, unpackRow } from '../../../src/store/row.js';
import { A, B, bytes, cell, codeOf, type Fixture, LARGE, PEOPLE, random, scanAll, under } from './fixture.js';

const TABLE = PEOPLE.name;

type Cells = Map<string, Cell>;
type Random = (below: number) => number;

const nameOf = ({ family, qualifier }: { family: number; qualifier: Buffer }) =>
  `${family}:${qualifier.toString('latin1')}`;

function packed(cells: Iterable<Cell>): Buffer | undefined {
  const all = [...cells];
  return all.length > 0 ? packRow(all) : undefined;
}

/** What a row gives of some ranges. */
function selected(cells: Cells, ranges: readonly ColumnRange[]): Buffer | undefined {
  const within = ({ family, qualifier }: Cell) =>
    ranges.some(
      (range) =>
        range.family === family &&
        (!range.from || Buffer.compare(qualifier, range.from) >= 0) &&
        (!range.to || Buffer.compare(qualifier, range.to) < 0),
    );
  return packed([...cells.values()].filter(within));
}

/** Names that share beginnings, some of them long, in no order. */
function someName(next: Random): { family: number; qualifier: Buffer } {
  const number = next(2500);
  const shared = number % 7 === 0 ? 'x'.repeat(300) : 'member';
  return { family: next(20) === 0 ? A : B, qualifier: bytes(`${shared}${'\0\xff'[number % 2]}${number}`) };
}

function someCell(next: Random): Cell {
  return { ...someName(next), value: Buffer.alloc(next(200) === 0 ? 40_000 : next(120), next(256)) };
}

/** Rising, disjoint. */
function someRanges(next: Random): ColumnRange[] {
  const bounds = Array.from({ length: 2 * (1 + next(3)) }, () => someName(next)).sort(compareCells);
  const ranges: ColumnRange[] = [];
  for (let i = 0; i < bounds.length; i += 2) {
    const [from, to] = [bounds[i]!, bounds[i + 1]!];
    if (from.family === to.family) ranges.push({ family: from.family, from: from.qualifier, to: to.qualifier });
    else ranges.push({ family: A, from: from.qualifier }, { family: B, to: to.qualifier });
  }
  return ranges.filter((range, i) => i === 0 || range.family !== ranges[i - 1]!.family || ranges[i - 1]!.to);
}

export function columnSuite(f: Fixture): void {
  describe('columns and split rows', () => {
    it('gives the cells of ranges', async () => {
      await f.put({ 'columns/1': { '0:a': '1', '0:b': '2', '1:a': '3', '1:ab': '4', '1:b': '5' } });
      const key = bytes('columns/1');
      const get = (...ranges: ColumnRange[]) => f.store.getColumns(TABLE, key, ranges);
      const a = bytes('a');
      const b = bytes('b');
      expect(await get({ family: A })).to.deep.equal(packRow([cell(0, 'a', '1'), cell(0, 'b', '2')]));
      expect(await get({ family: A, from: b }, { family: B, to: a })).to.deep.equal(packRow([cell(0, 'b', '2')]));
      expect(await get({ family: B, from: a, to: b })).to.deep.equal(packRow([cell(1, 'a', '3'), cell(1, 'ab', '4')]));
      expect(await get({ family: B, from: bytes('c') })).to.equal(undefined);
      expect(await get()).to.equal(undefined);
      expect(await f.store.getColumns(TABLE, bytes('columns/none'), [{ family: A }])).to.equal(undefined);
      expect(await f.store.getHead(TABLE, bytes('columns/none'))).to.equal(undefined);
      expect(await f.store.getHead(TABLE, key)).to.deep.equal(await f.store.get(TABLE, key));
      expect(await headOnly(f, 'columns/1')).to.deep.equal(packRow([cell(0, 'a', '1'), cell(0, 'b', '2')]));
      await f.put({ 'columns/2': { '1:a': '3' } });
      expect(await headOnly(f, 'columns/2')).to.equal(undefined);
      expect(await headOnly(f, 'columns/none')).to.equal(undefined);
      let refusal: unknown;
      try {
        await get({ family: LARGE });
      } catch (error) {
        refusal = error;
      }
      expect(refusal).to.be.instanceOf(TypeError);
    });

    it('keeps rows of any length as maps of cells do', async function () {
      const { seed, next } = random();
      this.test!.title += ` (seed ${seed})`;
      const keys = ['long/1', 'long/1\0', 'long/2'];
      const model = new Map<string, Cells>(keys.map((key) => [key, new Map()]));
      for (let round = 0; round < f.rounds(90); round++) {
        const key = keys[next(keys.length)]!;
        await change(f, next, key, model.get(key)!);
        if (round % 3 === 0) await compare(f, next, model);
      }
      await compare(f, next, model);
    });

    it('goes back to nothing, plan by plan of one batch', async () => {
      const key = bytes('longgone');
      const cells = Array.from({ length: 3000 }, (_, i) => cell(B, `member${i}`, `value ${i}`));
      await f.commit({ table: TABLE, key, put: [cell(A, 'v', '0'), ...cells] });
      const guards = [{ op: 'equals', family: A, qualifier: bytes('v'), value: bytes('0') }] as const;
      const parts = Array.from({ length: 10 }, (_, i) => cells.filter((_, n) => n % 10 === i));
      const wrong = { op: 'equals', family: A, qualifier: bytes('v'), value: bytes('1') } as const;
      const [failed] = await Promise.all([
        codeOf(f.commit({ table: TABLE, key, delete: cells }, { table: TABLE, key: bytes('longgone2'), guards })),
        ...parts.map((part) => f.commit({ table: TABLE, key, guards, delete: part })),
        codeOf(f.commit({ table: TABLE, key, guards: [wrong], delete: [cell(A, 'v', '0')] })),
      ]);
      expect(failed).to.equal('guard');
      expect(await f.store.get(TABLE, key)).to.deep.equal(packRow([cell(A, 'v', '0')]));
      await f.commit({ table: TABLE, key, delete: [cell(A, 'v', '0')] });
      expect((await scanAll(f.store, TABLE, under('longgone'))).keys).to.deep.equal([]);
    });

    it('are read as they were by a snapshot, and matched by filters', async () => {
      const key = bytes('longsnapshot');
      const cells = Array.from({ length: 2000 }, (_, i) => cell(B, `member${i}`, `value ${i}`));
      const before = packRow([cell(A, 'v', '0'), ...cells]);
      await f.commit({ table: TABLE, key, put: [cell(A, 'v', '0'), ...cells] });
      const snapshot = f.store.snapshot();
      await f.commit({ table: TABLE, key, delete: cells.slice(0, 1900), put: [cell(A, 'v', '1')] });
      if (f.store.supports.snapshot) {
        expect(await snapshot.get(TABLE, key)).to.deep.equal(before);
        const one = { family: B, from: bytes('member1234'), to: bytes('member1234\0') };
        expect(await snapshot.getColumns(TABLE, key, [one])).to.deep.equal(packRow([cells[1234]!]));
      }
      snapshot.close();
      const find = (qualifier: string, keysOnly = false) =>
        scanAll(f.store, TABLE, under('longsnapshot'), {
          filter: { op: 'hasColumn', family: B, qualifier: bytes(qualifier) },
          keysOnly,
        });
      expect((await find('member1234')).keys).to.deep.equal([]);
      expect((await find('member1950')).keys).to.deep.equal(['longsnapshot']);
      await f.commit({ table: TABLE, key, put: cells });
      expect((await find('member1234')).rows).to.deep.equal([packRow([cell(A, 'v', '1'), ...cells])]);
      expect(await find('member1234', true)).to.deep.equal({ keys: ['longsnapshot'], rows: [undefined] });
      expect((await find('nobody')).keys).to.deep.equal([]);
    });
  });
}

/** One step on a row that grows and shrinks, or a row that is loaded over it. */
async function change(f: Fixture, next: Random, key: string, cells: Cells): Promise<void> {
  const what = next(12);
  if (what === 0) {
    const loaded = new Map(Array.from({ length: 1 + next(900) }, () => someCell(next)).map((c) => [nameOf(c), c]));
    await f.ingest(TABLE, [{ key: bytes(key), row: packRow([...loaded.values()]) }]);
    cells.clear();
    for (const [name, loadedCell] of loaded) cells.set(name, loadedCell);
    return;
  }
  const step: { -readonly [K in keyof RowStep]: RowStep[K] } = { table: TABLE, key: bytes(key) };
  if (what === 1) step.deleteRow = true;
  step.delete =
    what < 6 ? [...cells.values()].filter(() => next(10) < 7) : Array.from({ length: next(5) }, () => someName(next));
  step.put = Array.from({ length: next(what < 9 ? 4 : 800) }, () => someCell(next));
  if (what % 2 === 0) step.add = [{ family: A, qualifier: bytes('counter'), by: 1n }];
  const known = [...cells.values()][0];
  if (known) step.guards = [{ op: 'equals', family: known.family, qualifier: known.qualifier, value: known.value }];
  await f.commit(step);
  applyStep(step, cells);
}

function applyStep(step: RowStep, cells: Cells): void {
  if (step.deleteRow) cells.clear();
  for (const name of step.delete ?? []) cells.delete(nameOf(name));
  for (const put of step.put ?? []) cells.set(nameOf(put), put);
  for (const { family, qualifier, by } of step.add ?? []) {
    const name = nameOf({ family, qualifier });
    const value = Buffer.alloc(8);
    value.writeBigInt64BE((cells.get(name)?.value.readBigInt64BE() ?? 0n) + by);
    cells.set(name, { family, qualifier, value });
  }
}

async function compare(f: Fixture, next: Random, model: Map<string, Cells>): Promise<void> {
  for (const [key, cells] of model) {
    const row = packed(cells.values());
    expect(same(await f.store.get(TABLE, bytes(key)), row), `get ${key}`).to.equal(true);
    const head = await f.store.getHead(TABLE, bytes(key));
    const first = selected(cells, [{ family: A }]);
    expect(same(head, row) || same(head, first), `getHead ${key}`).to.equal(true);
    expect(same(await headOnly(f, key), first), `getHead ${key}, its first family`).to.equal(true);
    const ranges = someRanges(next);
    const found = await f.store.getColumns(TABLE, bytes(key), ranges);
    expect(same(found, selected(cells, ranges)), `getColumns ${key}`).to.equal(true);
  }
  const there = [...model].filter(([, cells]) => cells.size > 0).sort(([a], [b]) => (a < b ? -1 : 1));
  const reverse = next(2) === 0;
  const scanned = await scanAll(f.store, TABLE, under('long/'), { reverse });
  const expected = reverse ? there.reverse() : there;
  expect(scanned.keys).to.deep.equal(expected.map(([key]) => key));
  for (const [i, [key, cells]] of expected.entries())
    expect(same(scanned.rows[i], packed(cells.values())), `scan ${key}`).to.equal(true);
}

/** The first family of what `getHead` gives to one who looks at no other; it may give more. */
async function headOnly(f: Fixture, key: string): Promise<Buffer | undefined> {
  const head = await f.store.getHead(TABLE, bytes(key), true);
  return packed(head ? unpackRow(head).filter(({ family }) => family === A) : []);
}

/** Without the difference: these rows are long. */
function same(a: Buffer | undefined, b: Buffer | undefined): boolean {
  return a === undefined || b === undefined ? a === b : a.equals(b);
}
