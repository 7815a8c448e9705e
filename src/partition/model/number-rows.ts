import type { Guard, Reader, RowStep } from '../../store/contract.js';
import { cellCounter } from '../../store/row.js';
import { META_TABLE, numberedKey } from './tables.js';
import type { NumberRange } from './value-rules.js';

const F = 0;
/** Counter: how many numbers of the range have been assigned, from the first on. */
const NEXT = { family: F, qualifier: Buffer.from('next') };
/** Counter: how many values in the range clients have chosen themselves. */
const CHOSEN = { family: F, qualifier: Buffer.from('said') };

/** Key of the row of table `meta` for a range of assigned numbers (docs/formats/tables.md). */
function rangeKey({ record }: Pick<NumberRange, 'record'>): Buffer {
  return numberedKey('number,', record.number);
}

export interface NumberState {
  /** The first number that has not been assigned. */
  readonly next: bigint;
  readonly chosen: bigint;
}

export async function readNumbers(reader: Reader, range: NumberRange): Promise<NumberState> {
  const row = await reader.get(META_TABLE.name, rangeKey(range));
  return {
    next: range.first + cellCounter(row, NEXT.family, NEXT.qualifier),
    chosen: cellCounter(row, CHOSEN.family, CHOSEN.qualifier),
  };
}

/** Plan step that assigns the numbers in `[next, until)`. Its guard fails if `next` has changed. */
export function takeStep(range: NumberRange, next: bigint, until: bigint): RowStep {
  const guards: Guard[] = [{ op: 'counterEquals', ...NEXT, value: next - range.first }];
  return { table: META_TABLE.name, key: rangeKey(range), guards, add: [{ ...NEXT, by: until - next }] };
}

/** Plan step that counts `count` numbers of the range chosen by clients. */
export function chosenStep(range: NumberRange, count: number): RowStep {
  return { table: META_TABLE.name, key: rangeKey(range), add: [{ ...CHOSEN, by: BigInt(count) }] };
}

/** Plan step whose guard holds while no client has chosen another number. */
export function noneChosenStep(range: NumberRange, chosen: bigint): RowStep {
  const guards: Guard[] = [{ op: 'counterEquals', ...CHOSEN, value: chosen }];
  return { table: META_TABLE.name, key: rangeKey(range), guards };
}

export function deleteRangeStep(range: NumberRange): RowStep {
  return { table: META_TABLE.name, key: rangeKey(range), deleteRow: true };
}
