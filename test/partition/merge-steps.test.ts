import { expect } from 'chai';
import { type Node, Q, TREE_TABLE } from '../../src/partition/model/tables.js';
import { ROOT } from '../../src/partition/tree/nodes.js';
import { mergeSteps } from '../../src/partition/write/merge-steps.js';
import { sumSteps } from '../../src/partition/write/plan.js';
import type { Guard, PlanStep, RowStep, Store } from '../../src/store/contract.js';
import { openMemoryStore } from '../../src/store/memory/index.js';
import { counterBytes, unpackRow } from '../../src/store/row.js';
import { StoreError } from '../../src/store/store-error.js';
import { type Random, seeded } from './fixture.js';

const TABLE = { name: 't', families: [{ name: 'a' }, { name: 'b', separate: true }] };
const KEYS = ['p', 'q', 'r'].map((key) => Buffer.from(key));
const NAMES = ['x', 'y'].map((name) => Buffer.from(name));
const COUNTER = Buffer.from('count');

async function state(store: Store): Promise<unknown> {
  const rows = await store.getMany(TABLE.name, KEYS);
  return rows.map(
    (row) =>
      row &&
      unpackRow(row).map(({ qualifier, value }) => {
        const name = qualifier.toString();
        return [name, name === 'count' ? value.readBigInt64BE() : value.toString()];
      }),
  );
}

async function outcome(store: Store, steps: PlanStep[]): Promise<string> {
  try {
    await store.commit({ steps, decisive: 0 });
    return 'done';
  } catch (error) {
    if (error instanceof StoreError) return error.code;
    throw error;
  }
}

function randomGuard(random: Random): Guard {
  const qualifier = random.pick(NAMES);
  const kind = random.int(3);
  if (kind === 0) return { op: 'absent', family: 0, qualifier };
  if (kind === 1) return { op: 'equals', family: 0, qualifier, value: Buffer.from(String(random.int(2))) };
  return { op: 'counterEquals', family: 0, qualifier: COUNTER, value: BigInt(random.int(3)) };
}

function randomStep(random: Random): RowStep {
  const cell = () =>
    random.chance(0.3)
      ? { family: 0, qualifier: COUNTER, value: counterBytes(BigInt(random.int(3))) }
      : { family: 0, qualifier: random.pick(NAMES), value: Buffer.from(String(random.int(2))) };
  return {
    table: TABLE.name,
    key: random.pick(KEYS),
    ...(random.chance(0.4) && { guards: [randomGuard(random)] }),
    ...(random.chance(0.1) && { deleteRow: true }),
    ...(random.chance(0.3) && { delete: [{ family: 0, qualifier: random.pick([...NAMES, COUNTER]) }] }),
    ...(random.chance(0.6) && { put: [cell()] }),
    ...(random.chance(0.5) && { add: [{ family: 0, qualifier: COUNTER, by: BigInt(random.int(3) - 1) }] }),
  };
}

async function filled(random: Random): Promise<Store[]> {
  const stores = [openMemoryStore(), openMemoryStore()];
  const steps = Array.from({ length: 4 }, () => ({ ...randomStep(random), guards: [] }));
  for (const store of stores) {
    await store.createTable(TABLE);
    await store.commit({ steps, decisive: 0 });
  }
  return stores;
}

/** A counter of 0 is as good as none. */
function counted(of: unknown): unknown {
  return (of as ([string, unknown][] | undefined)[]).map((row) => row?.filter(([, value]) => value !== 0n) ?? []);
}

describe('steps of one row made one', () => {
  it('do what they did one after another, or fail as they did', () =>
    seeded(async (random) => {
      const seen = new Map<string, number>();
      for (let round = 0; round < 800; round++) {
        const [one, other] = await filled(random);
        const steps = Array.from({ length: 1 + random.int(5) }, () => randomStep(random));
        const plain = await outcome(one!, steps);
        let merged: string;
        try {
          const list = mergeSteps(steps) as RowStep[];
          expect(new Set(list.map(({ key }) => key.toString())).size).to.equal(list.length);
          merged = await outcome(other!, list);
        } catch (error) {
          if (!(error instanceof StoreError)) throw error;
          merged = error.code;
        }
        expect(merged).to.equal(plain);
        expect(counted(await state(other!))).to.deep.equal(counted(await state(one!)));
        seen.set(plain, (seen.get(plain) ?? 0) + 1);
      }
      expect([...seen.keys()]).to.have.members(['done', 'guard']);
    }));

  it('sum the counters of shared ancestors', () => {
    const node = (name: string, parent: Node): Node => ({
      id: Buffer.alloc(16, name),
      parent,
      normRdn: Buffer.from(name),
      dn: Buffer.from(name),
    });
    const top = node('t', ROOT);
    const [left, right] = [node('l', top), node('r', top)];
    const steps = sumSteps(
      new Map([
        [left, 3],
        [right, 4],
        [top, 1],
      ]),
    );
    const shown = steps.map(({ table, key, add }) => {
      expect(table).to.equal(TREE_TABLE.name);
      const by = (qualifier: Buffer) => add!.find((one) => one.qualifier === qualifier)?.by ?? 0n;
      return [key.toString('latin1', 17), by(Q.oneLevelCount), by(Q.subLevelCount)];
    });
    expect(shown).to.have.deep.members([
      ['l', 3n, 3n],
      ['t', 1n, 8n],
      ['r', 4n, 4n],
    ]);
  });
});
