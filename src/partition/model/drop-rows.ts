import type { Guard, PlanStep, Reader, RowStep, Store } from '../../store/contract.js';
import { cellCounter, cellValue } from '../../store/row.js';
import { guardsHold } from '../../store/store-error.js';
import type { AttachedSteps } from './directory-types.js';
import { META_TABLE, numberedKey } from './tables.js';

/** Rows of table `meta` for the files of a drop folder: their progress and refused records (docs/formats/tables.md). */
const F = 0;
const q = (text: string) => ({ family: F, qualifier: Buffer.from(text) });
const CELL = { name: q('name'), start: q('start'), done: q('done'), refused: q('refused'), unchanged: q('unchanged') };
const REFUSAL = { line: q('line'), reason: q('reason'), dn: q('dn') };
const REFUSALS_PER_PLAN = 500;

export interface DropState {
  /** Number of records that are applied, refused or unchanged. Also the number, from 0, of the next record. */
  readonly doneCount: number;
  readonly refusedCount: number;
  readonly unchangedCount: number;
  /** Milliseconds since 1970. */
  readonly startMs: number;
}

export interface Refusal {
  /** Number of the record in its file, from 0. */
  readonly number: number;
  /** Line where the record begins, from 1; 0: the record has no line. */
  readonly line: number;
  /** The reason for the refusal. Contains no attribute values. */
  readonly reason: string;
  /** DN of a record that comes from no line of the file. */
  readonly dn: string | undefined;
}

/** Thrown when another process has applied the record. Nothing was changed. */
export class RecordDone extends Error {
  override readonly name = 'RecordDone';
}

/** Returns the key of the row of a file. `id`: an identifier that no other file in any drop folder has, ASCII. */
function rowKey(id: string): Buffer {
  return Buffer.from(`drop,${id}`);
}

function refusalKey(id: string, number: number): Buffer {
  return numberedKey(`drop,${id},`, number);
}

/** Creates the row of a file, unless it exists. After this, a missing row means that the file is done. */
export async function beginDrop(store: Store, id: string, fileName: string, startMs: number): Promise<void> {
  const put = [
    { ...CELL.name, value: Buffer.from(fileName) },
    { ...CELL.start, value: Buffer.from(String(startMs)) },
  ];
  const step = { table: META_TABLE.name, key: rowKey(id), guards: [{ op: 'absent', ...CELL.name } as const], put };
  await guardsHold(store.commit({ steps: [step], decisive: 0 }));
}

/** Returns the progress of a file; undefined if the file is done or not begun. */
export async function readDrop(store: Store, id: string): Promise<DropState | undefined> {
  store.renewReads?.();
  const row = await store.get(META_TABLE.name, rowKey(id));
  if (!row) return undefined;
  const counterValue = ({ qualifier }: { qualifier: Buffer }) => Number(cellCounter(row, F, qualifier));
  return {
    doneCount: counterValue(CELL.done),
    refusedCount: counterValue(CELL.refused),
    unchangedCount: counterValue(CELL.unchanged),
    startMs: Number(cellValue(row, F, CELL.start.qualifier)),
  };
}

/** Returns the step that marks record `number` as done. Its guard fails if it is not the next record. */
function recordStep(id: string, fileName: string, number: number, outcome?: 'refused' | 'unchanged'): RowStep {
  const guards: Guard[] = [
    { op: 'equals', ...CELL.name, value: Buffer.from(fileName) },
    { op: 'counterEquals', ...CELL.done, value: BigInt(number) },
  ];
  const add = [{ ...CELL.done, by: 1n }, ...(outcome ? [{ ...CELL[outcome], by: 1n }] : [])];
  return { table: META_TABLE.name, key: rowKey(id), guards, add };
}

/** Returns the steps to commit with the change of record `number`. Throws `RecordDone` if it is done already. */
export function attachedRecord(store: Store, id: string, fileName: string, number: number): AttachedSteps {
  return {
    steps: [recordStep(id, fileName, number)],
    async onGuardFailure() {
      if ((await readDrop(store, id))?.doneCount !== number) throw new RecordDone();
    },
  };
}

/** Marks a record that changes nothing as done. Throws `RecordDone`. */
export async function markUnchanged(store: Store, id: string, fileName: string, number: number): Promise<void> {
  await commitRecord(store, [recordStep(id, fileName, number, 'unchanged')]);
}

export async function recordRefusal(store: Store, id: string, fileName: string, refusal: Refusal): Promise<void> {
  const { number, line, reason, dn } = refusal;
  const put = [
    { ...REFUSAL.line, value: Buffer.from(String(line)) },
    { ...REFUSAL.reason, value: Buffer.from(reason) },
    ...(dn === undefined ? [] : [{ ...REFUSAL.dn, value: Buffer.from(dn) }]),
  ];
  await commitRecord(store, [
    recordStep(id, fileName, number, 'refused'),
    { table: META_TABLE.name, key: refusalKey(id, number), put },
  ]);
}

async function commitRecord(store: Store, steps: PlanStep[]): Promise<void> {
  if (!(await guardsHold(store.commit({ steps, decisive: 0 })))) throw new RecordDone();
}

export async function* readRefusals(reader: Reader, id: string): AsyncGenerator<Refusal> {
  const from = refusalKey(id, 0);
  const scan = reader.scan(META_TABLE.name, { from, to: Buffer.from(`drop,${id}-`) });
  try {
    for (let batch = await scan.next(); batch; batch = await scan.next()) {
      for (let i = 0; i < batch.keys.length; i++) {
        const key = batch.keys[i]!;
        const text = ({ qualifier }: { qualifier: Buffer }) => cellValue(batch.rows[i]!, F, qualifier)?.toString();
        const number = key.readUInt32BE(key.length - 4);
        yield {
          number,
          line: Number(text(REFUSAL.line)),
          reason: text(REFUSAL.reason)!,
          dn: text(REFUSAL.dn),
        };
      }
    }
  } finally {
    scan.close();
  }
}

/** Deletes the rows with the refused records of a file, then the row of the file. */
export async function endDrop(store: Store, id: string): Promise<void> {
  store.renewReads?.();
  let steps: PlanStep[] = [];
  const flush = async (): Promise<void> => {
    if (steps.length > 0) await store.commit({ steps, decisive: 0 });
    steps = [];
  };
  for await (const { number } of readRefusals(store, id)) {
    steps.push({ table: META_TABLE.name, key: refusalKey(id, number), deleteRow: true });
    if (steps.length === REFUSALS_PER_PLAN) await flush();
  }
  steps.push({ table: META_TABLE.name, key: rowKey(id), deleteRow: true });
  await flush();
}
