import type { Plan, PlanStep, Store, TableSpec } from '../../src/store/contract.js';
import { counterBytes, MARK } from '../../src/store/row.js';

/** Tables of the journal tests, and one plan that has every kind of step. */
export const ROWS: TableSpec = {
  name: 'rows',
  families: [{ name: 'a' }, { name: 'b' }, { name: 'large', separate: true }],
};
export const INDEX: TableSpec = { name: 'index', families: [{ name: 'i' }], suffixBytes: 4 };
export const LOG: TableSpec = { name: 'log', families: [{ name: 'c' }], rising: true };
export const SPECS = [ROWS, INDEX, LOG];

const q = (text: string) => Buffer.from(text);
const cell = (family: number, qualifier: string, value: string) => ({
  family,
  qualifier: q(qualifier),
  value: q(value),
});
const row = (key: string, rest: object): PlanStep => ({ table: ROWS.name, key: q(key), ...rest });
const index = (value: string, run: string, rest: object): PlanStep => ({
  table: INDEX.name,
  key: q(`${value}\0${run.padStart(4, '0')}`),
  ...rest,
});

export const PARENT = q('parent');
export const COUNT = { family: 0, qualifier: q('count') } as const;

/** What all runs share: the row that everybody counts in. */
export async function seedShared(store: Store): Promise<void> {
  const put = [cell(0, 'id', 'parent'), { ...COUNT, value: counterBytes(0n) }];
  await store.commit({ steps: [{ table: ROWS.name, key: PARENT, put }], decisive: 0 });
}

/** What one run starts from. */
export function seed(run: string): Plan {
  return {
    steps: [
      row(`${run}/changed`, { put: [cell(0, 'id', '1'), cell(0, 'gone', 'x'), cell(1, 'kept', 'y')] }),
      row(`${run}/replaced`, { put: [cell(0, 'old', '1'), cell(0, 'both', '1'), cell(2, 'chunk', 'old')] }),
      row(`${run}/deleted`, { put: [cell(0, 'id', '1'), cell(2, 'chunk', 'old')] }),
      index('old', run, { put: [MARK] }),
    ],
    decisive: 0,
  };
}

/** Locked rows, a row that many count in, index rows that come and go, an appended row. */
export function plan(run: string): Plan {
  const guards = [{ op: 'equals', family: 0, qualifier: q('id'), value: q('1') }];
  return {
    steps: [
      row(`${run}/new`, { guards: [{ op: 'absent', family: 0, qualifier: q('id') }], put: [cell(0, 'id', 'new')] }),
      row('parent', {
        guards: [{ op: 'equals', family: 0, qualifier: q('id'), value: q('parent') }],
        add: [{ ...COUNT, by: 1n }],
      }),
      row(`${run}/changed`, {
        guards,
        delete: [{ family: 0, qualifier: q('gone') }],
        put: [cell(1, 'come', 'z')],
        add: [{ family: 0, qualifier: q('n'), by: 5n }],
      }),
      row(`${run}/replaced`, { deleteRow: true, put: [cell(0, 'both', '2'), cell(2, 'other', 'new')] }),
      row(`${run}/deleted`, { guards, deleteRow: true }),
      index('new', run, { put: [MARK] }),
      index('old', run, { deleteRow: true }),
      { table: LOG.name, append: [cell(0, 'run', run)] },
    ],
    decisive: 0,
  };
}

/** Everything of one run, as text. */
export async function state(store: Store, run: string): Promise<string> {
  const parts: string[] = [];
  for (const name of ['new', 'changed', 'replaced', 'deleted']) {
    const key = q(`${run}/${name}`);
    const cells = await store.getCells(ROWS.name, key, 2, Buffer.alloc(0));
    parts.push(`${name} ${text(await store.get(ROWS.name, key))} ${text(cells)}`);
  }
  for (const value of ['old', 'new']) {
    const key = q(`${value}\0${run.padStart(4, '0')}`);
    parts.push(`${value} ${text(await store.get(INDEX.name, key))}`);
  }
  const filter = { op: 'columnEquals', family: 0, qualifier: q('run'), value: q(run) } as const;
  const scan = store.scan(LOG.name, {}, { filter });
  let logged = 0;
  for (let batch = await scan.next(); batch; batch = await scan.next()) logged += batch.keys.length;
  return [...parts, `logged ${logged}`].join('\n');
}

function text(packed: Buffer | undefined): string {
  return packed ? packed.toString('latin1') : '-';
}
