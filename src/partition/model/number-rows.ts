import type { Guard, Reader, RowStep } from '../../store/contract.js';
import { cellCounter } from '../../store/row.js';
import { META_TABLE, numberedKey } from './tables.js';
import type { NumberRange } from './value-rules.js';

const F = 0;
/** Counter: how many numbers of the range have been assigned, from the first on. */
const ASSIGNED = { family: F, qualifier: Buffer.from('next') };
/** Counter: how many values in the range clients have chosen themselves. */
const CHOSEN_COUNTER = { family: F, qualifier: Buffer.from('said') };

/** Key of the row of table `meta` for a range of assigned numbers (docs/formats/tables.md). */
function rangeKey({ record }: Pick<NumberRange, 'record'>): Buffer {
  return numberedKey('number,', record.number);
}

export interface NumberState {
  /** The first number that has not been assigned. */
  readonly nextNumber: bigint;
  readonly chosenCount: bigint;
}

export async function readNumbers(reader: Reader, range: NumberRange): Promise<NumberState> {
  const row = await reader.get(META_TABLE.name, rangeKey(range));
  return {
    nextNumber: range.firstNumber + cellCounter(row, ASSIGNED.family, ASSIGNED.qualifier),
    chosenCount: cellCounter(row, CHOSEN_COUNTER.family, CHOSEN_COUNTER.qualifier),
  };
}

/** Plan step that assigns the numbers in `[start, end)`. Its guard fails if the next number is no longer `start`. */
export function assignStep(range: NumberRange, start: bigint, end: bigint): RowStep {
  const guards: Guard[] = [{ op: 'counterEquals', ...ASSIGNED, value: start - range.firstNumber }];
  return {
    table: META_TABLE.name,
    key: rangeKey(range),
    guards,
    add: [{ ...ASSIGNED, by: end - start }],
  };
}

/** Plan step that counts `count` numbers of the range chosen by clients. */
export function countChosenStep(range: NumberRange, count: number): RowStep {
  return { table: META_TABLE.name, key: rangeKey(range), add: [{ ...CHOSEN_COUNTER, by: BigInt(count) }] };
}

/** Plan step whose guard holds while no client has chosen another number. */
export function chosenCountGuardStep(range: NumberRange, chosenCount: bigint): RowStep {
  const guards: Guard[] = [{ op: 'counterEquals', ...CHOSEN_COUNTER, value: chosenCount }];
  return { table: META_TABLE.name, key: rangeKey(range), guards };
}

export function deleteRangeStep(range: NumberRange): RowStep {
  return { table: META_TABLE.name, key: rangeKey(range), deleteRow: true };
}
