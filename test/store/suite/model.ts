import { expect } from 'chai';
import type { Guard, RowStep } from '../../../src/store/contract.js';
import { counterBytes, packRow } from '../../../src/store/row.js';
import { A, B, bytes, codeOf, type Fixture, LARGE, PEOPLE, random, scanAll, under } from './fixture.js';

const TABLE = PEOPLE.name;
const PREFIX = 'model/';

/** The plainest form of a table: rows by key, cells by family and qualifier. */
type Model = Map<string, Map<string, Buffer>>;
type Random = (below: number) => number;

const cellName = (family: number, qualifier: string) => `${family}:${qualifier}`;
const split = (name: string) => ({ family: Number(name[0]), qualifier: bytes(name.slice(2)) });

export function modelSuite(f: Fixture): void {
  describe('model', () => {
    it('does what maps of maps do', async function () {
      const { seed, next } = random();
      this.test!.title += ` (seed ${seed})`;
      const model: Model = new Map();
      for (let round = 0; round < f.rounds(120); round++) {
        const plans = Array.from({ length: 1 + next(4) }, () =>
          Array.from({ length: 1 + next(4) }, () => randomStep(next, model)),
        );
        // Plans given at once may be decided in any order, so those that could meet go one by one.
        for (const steps of plans) {
          const expected = applyPlan(model, steps);
          expect(await codeOf(f.commit(...steps)), `round ${round}`).to.equal(expected ? 'none' : 'guard');
        }
        if (round % 10 === 9) await compare(f, model);
      }
    });
  });
}

function randomStep(next: Random, model: Model): RowStep {
  const key = `${PREFIX}${'ab\0'[next(3)]}${next(12)}`;
  const qualifier = () => ['q', 'q\0', 'qq', 'r', ''][next(5)]!;
  const family = () => [A, B, LARGE][next(3)]!;
  const step: RowStep = { table: TABLE, key: bytes(key) };
  const guards: Guard[] = [];
  if (next(4) === 0) guards.push(randomGuard(next, model, key, cellName(family(), qualifier())));
  return {
    ...step,
    guards,
    ...(next(6) === 0 && { deleteRow: true }),
    delete: Array.from({ length: next(2) }, () => ({ family: family(), qualifier: bytes(qualifier()) })),
    put: Array.from({ length: next(4) }, () => ({
      family: family(),
      qualifier: bytes(qualifier()),
      value: bytes('v'.repeat(next(300))),
    })),
    add: Array.from({ length: next(2) }, () => ({ family: A, qualifier: bytes('count'), by: BigInt(next(9) - 4) })),
  };
}

function randomGuard(next: Random, model: Model, key: string, name: string): Guard {
  const present = model.get(key)?.get(name);
  if (next(3) === 0) return { op: 'counterEquals', ...split(cellName(A, 'count')), value: counter(model.get(key)) };
  if (next(2) === 0 || !present) return { op: 'absent', ...split(name) };
  return { op: 'equals', ...split(name), value: next(3) ? present : bytes('other') };
}

function counter(row: Map<string, Buffer> | undefined): bigint {
  return row?.get(cellName(A, 'count'))?.readBigInt64BE() ?? 0n;
}

/** Applies all steps, or none and gives false. */
function applyPlan(model: Model, steps: readonly RowStep[]): boolean {
  const before = new Map([...model].map(([key, row]) => [key, new Map(row)]));
  for (const step of steps) {
    if (!step.guards!.every((guard) => holds(model, step, guard))) {
      model.clear();
      for (const [key, row] of before) model.set(key, row);
      return false;
    }
    applyStep(model, step);
  }
  return true;
}

function holds(model: Model, step: RowStep, guard: Guard): boolean {
  const row = model.get(step.key.toString('latin1'));
  const value = row?.get(cellName(guard.family, guard.qualifier.toString('latin1')));
  if (guard.op === 'absent') return value === undefined;
  if (guard.op === 'counterEquals') return counter(row) === guard.value;
  return value?.equals(guard.value) ?? false;
}

function applyStep(model: Model, step: RowStep): void {
  const key = step.key.toString('latin1');
  const row = step.deleteRow ? new Map<string, Buffer>() : (model.get(key) ?? new Map<string, Buffer>());
  for (const { family, qualifier } of step.delete ?? []) row.delete(cellName(family, qualifier.toString('latin1')));
  for (const { family, qualifier, value } of step.put ?? [])
    row.set(cellName(family, qualifier.toString('latin1')), value);
  for (const { by } of step.add ?? []) row.set(cellName(A, 'count'), counterBytes(counter(row) + by));
  if (row.size) model.set(key, row);
  else model.delete(key);
}

async function compare(f: Fixture, model: Model): Promise<void> {
  const packed = (row: Map<string, Buffer>, wanted: (family: number) => boolean) =>
    packRow([...row].map(([name, value]) => ({ ...split(name), value })).filter((c) => wanted(c.family)));
  const rows = [...model].map(([key, row]) => [key, packed(row, (family) => family !== LARGE)] as const);
  const expected = rows.filter(([, row]) => row.length).sort(([a], [b]) => (a < b ? -1 : 1));
  const found = await scanAll(f.store, TABLE, under(PREFIX));
  expect(found.keys).to.deep.equal(expected.map(([key]) => key));
  expect(found.rows).to.deep.equal(expected.map(([, row]) => row));
  for (const [key, row] of model) {
    const cells = packed(row, (family) => family === LARGE);
    const separate = await f.store.getCells(TABLE, bytes(key), LARGE, bytes(''));
    expect(separate ?? bytes(''), key).to.deep.equal(cells);
  }
}
