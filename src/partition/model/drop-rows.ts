import type { Guard, PlanStep, Reader, RowStep, Store } from '../../store/contract.js';
import { cellCounter, cellValue } from '../../store/row.js';
import { guardsHold } from '../../store/store-error.js';
import type { Also } from './directory-types.js';
import { META_TABLE } from './tables.js';

/** Rows of table `meta` for files of a drop folder (docs/formats/tables.md): how far a file is, what was refused. */
const F = 0;
const q = (text: string) => ({ family: F, qualifier: Buffer.from(text) });
const CELL = { name: q('name'), start: q('start'), done: q('done'), refused: q('refused'), unchanged: q('unchanged') };
const REFUSAL = { line: q('line'), reason: q('reason'), dn: q('dn') };
/** Refusals that go with one plan when a file is done. */
const AT_A_TIME = 500;

/** How far a file is. */
export interface DropState {
  /** Records that were applied, refused or found unchanged: the number of the next one, from 0. */
  readonly done: number;
  readonly refused: number;
  readonly unchanged: number;
  /** Milliseconds since 1970. */
  readonly start: number;
}

/** A record that was refused. */
export interface Refusal {
  /** Number of the record in its file, from 0. */
  readonly number: number;
  /** Line where it begins, from 1; 0: it stands on no line. */
  readonly line: number;
  /** Without any attribute's value. */
  readonly reason: string;
  /** Of a record that stands on no line. */
  readonly dn: string | undefined;
}

/** Somebody else has done the record; nothing was done now. */
export class RecordDone extends Error {
  override readonly name = 'RecordDone';
}

/** `id`: of the delivery, in characters of ASCII. */
function rowKey(id: string): Buffer {
  return Buffer.from(`drop,${id}`);
}

function refusalKey(id: string, number: number): Buffer {
  const key = Buffer.from(`drop,${id},####`);
  key.writeUInt32BE(number, key.length - 4);
  return key;
}

/** Makes the row of a file, unless it is there. From now on a file without a row is one that is done. */
export async function beginDrop(store: Store, id: string, name: string, start: number): Promise<void> {
  const put = [
    { ...CELL.name, value: Buffer.from(name) },
    { ...CELL.start, value: Buffer.from(String(start)) },
  ];
  const step = { table: META_TABLE.name, key: rowKey(id), guards: [{ op: 'absent', ...CELL.name } as const], put };
  await guardsHold(store.commit({ steps: [step], decisive: 0 }));
}

/** As of now; undefined: it is done, or not begun. */
export async function readDrop(store: Store, id: string): Promise<DropState | undefined> {
  store.renewReads?.();
  const row = await store.get(META_TABLE.name, rowKey(id));
  if (!row) return undefined;
  const count = ({ qualifier }: { qualifier: Buffer }) => Number(cellCounter(row, F, qualifier));
  return {
    done: count(CELL.done),
    refused: count(CELL.refused),
    unchanged: count(CELL.unchanged),
    start: Number(cellValue(row, F, CELL.start.qualifier)),
  };
}

/** The step that does record `number` of the file `name`, once: where its row is there, and the record is the next. */
function recordStep(id: string, name: string, number: number, as?: 'refused' | 'unchanged'): RowStep {
  const guards: Guard[] = [
    { op: 'equals', ...CELL.name, value: Buffer.from(name) },
    { op: 'counterEquals', ...CELL.done, value: BigInt(number) },
  ];
  const add = [{ ...CELL.done, by: 1n }, ...(as ? [{ ...CELL[as], by: 1n }] : [])];
  return { table: META_TABLE.name, key: rowKey(id), guards, add };
}

/** For the write that is record `number`. It ends with `RecordDone` where somebody else has done the record. */
export function alsoRecord(store: Store, id: string, name: string, number: number): Also {
  return {
    steps: [recordStep(id, name, number)],
    async missed() {
      if ((await readDrop(store, id))?.done !== number) throw new RecordDone();
    },
  };
}

/** Passes over a record that changes nothing. Throws `RecordDone`. */
export async function passUnchanged(store: Store, id: string, name: string, number: number): Promise<void> {
  await commitRecord(store, [recordStep(id, name, number, 'unchanged')]);
}

/** Notes that a record is refused. Throws `RecordDone`. */
export async function noteRefusal(store: Store, id: string, name: string, refusal: Refusal): Promise<void> {
  const { number, line, reason, dn } = refusal;
  const put = [
    { ...REFUSAL.line, value: Buffer.from(String(line)) },
    { ...REFUSAL.reason, value: Buffer.from(reason) },
    ...(dn === undefined ? [] : [{ ...REFUSAL.dn, value: Buffer.from(dn) }]),
  ];
  await commitRecord(store, [
    recordStep(id, name, number, 'refused'),
    { table: META_TABLE.name, key: refusalKey(id, number), put },
  ]);
}

async function commitRecord(store: Store, steps: PlanStep[]): Promise<void> {
  if (!(await guardsHold(store.commit({ steps, decisive: 0 })))) throw new RecordDone();
}

/** What was refused of a file, in its order. */
export async function* readRefusals(reader: Reader, id: string): AsyncGenerator<Refusal> {
  const from = refusalKey(id, 0);
  const scan = reader.scan(META_TABLE.name, { from, to: Buffer.from(`drop,${id}-`) });
  try {
    for (let batch = await scan.next(); batch; batch = await scan.next()) {
      for (let i = 0; i < batch.keys.length; i++) {
        const key = batch.keys[i]!;
        const text = ({ qualifier }: { qualifier: Buffer }) => cellValue(batch.rows[i]!, F, qualifier)?.toString();
        const number = key.readUInt32BE(key.length - 4);
        yield { number, line: Number(text(REFUSAL.line)), reason: text(REFUSAL.reason)!, dn: text(REFUSAL.dn) };
      }
    }
  } finally {
    scan.close();
  }
}

/** Forgets the file: the refusals, then its row. */
export async function endDrop(store: Store, id: string): Promise<void> {
  store.renewReads?.();
  let steps: PlanStep[] = [];
  const flush = async (): Promise<void> => {
    if (steps.length > 0) await store.commit({ steps, decisive: 0 });
    steps = [];
  };
  for await (const { number } of readRefusals(store, id)) {
    steps.push({ table: META_TABLE.name, key: refusalKey(id, number), deleteRow: true });
    if (steps.length === AT_A_TIME) await flush();
  }
  steps.push({ table: META_TABLE.name, key: rowKey(id), deleteRow: true });
  await flush();
}
