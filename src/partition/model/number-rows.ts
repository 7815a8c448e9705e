import type { Guard, Reader, RowStep } from '../../store/contract.js';
import { cellCounter } from '../../store/row.js';
import { META_TABLE } from './tables.js';
import type { NumberRange } from './value-rules.js';

const F = 0;
/** How many numbers of the range were taken, from its first on. */
const NEXT = { family: F, qualifier: Buffer.from('next') };
/** How often a client has said a number of the range itself. */
const SAID = { family: F, qualifier: Buffer.from('said') };

/** Row of table `meta` for numbers that are given out (docs/formats/tables.md). */
function rangeKey({ record }: Pick<NumberRange, 'record'>): Buffer {
  const prefix = Buffer.from('number,');
  const key = Buffer.alloc(prefix.length + 4);
  prefix.copy(key);
  key.writeUInt32BE(record.number, prefix.length);
  return key;
}

export interface NumberState {
  /** The first number that nobody was given. */
  readonly next: bigint;
  readonly said: bigint;
}

export async function readNumbers(reader: Reader, range: NumberRange): Promise<NumberState> {
  const row = await reader.get(META_TABLE.name, rangeKey(range));
  return {
    next: range.first + cellCounter(row, NEXT.family, NEXT.qualifier),
    said: cellCounter(row, SAID.family, SAID.qualifier),
  };
}

/** Step of a plan that takes all numbers from `next` to before `until`, if that still is the next. */
export function takeStep(range: NumberRange, next: bigint, until: bigint): RowStep {
  const guards: Guard[] = [{ op: 'counterEquals', ...NEXT, value: next - range.first }];
  return { table: META_TABLE.name, key: rangeKey(range), guards, add: [{ ...NEXT, by: until - next }] };
}

/** Step of a plan by which clients say `count` numbers of the range. */
export function saidStep(range: NumberRange, count: number): RowStep {
  return { table: META_TABLE.name, key: rangeKey(range), add: [{ ...SAID, by: BigInt(count) }] };
}

/** Step of a plan that holds while no client has said another number. */
export function unsaidStep(range: NumberRange, said: bigint): RowStep {
  const guards: Guard[] = [{ op: 'counterEquals', ...SAID, value: said }];
  return { table: META_TABLE.name, key: rangeKey(range), guards };
}

export function noNumbersStep(range: NumberRange): RowStep {
  return { table: META_TABLE.name, key: rangeKey(range), deleteRow: true };
}
