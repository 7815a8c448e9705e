import type { Guard, Reader, RowStep } from '../../store/contract.js';
import { cellCounter } from '../../store/row.js';
import { META_TABLE, numberedKey } from './tables.js';
import type { NumberRange } from './value-rules.js';

const F = 0;
/** Counter of the numbers of the range that have been assigned. */
const ASSIGNED = { family: F, qualifier: Buffer.from('next') };
/** Counter of the numbers in the range that clients have chosen themselves. */
const CHOSEN_COUNTER = { family: F, qualifier: Buffer.from('said') };

/** Returns the key of the row of table `meta` for a range of numbers (docs/formats/tables.md). */
function rangeKey({ record }: Pick<NumberRange, 'record'>): Buffer {
  return numberedKey('number,', record.number);
}

export interface NumberState {
  /** The lowest number that has not been assigned. */
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

/** Returns the step that assigns the numbers `[start, end)`. Its guard fails if `start` is not the next number. */
export function assignStep(range: NumberRange, start: bigint, end: bigint): RowStep {
  const guards: Guard[] = [{ op: 'counterEquals', ...ASSIGNED, value: start - range.firstNumber }];
  return {
    table: META_TABLE.name,
    key: rangeKey(range),
    guards,
    add: [{ ...ASSIGNED, by: end - start }],
  };
}

/** Returns the step that adds `count` to the numbers of the range that clients have chosen. */
export function countChosenStep(range: NumberRange, count: number): RowStep {
  return { table: META_TABLE.name, key: rangeKey(range), add: [{ ...CHOSEN_COUNTER, by: BigInt(count) }] };
}

/** Returns a step whose guard fails if clients have chosen further numbers of the range. */
export function chosenCountGuardStep(range: NumberRange, chosenCount: bigint): RowStep {
  const guards: Guard[] = [{ op: 'counterEquals', ...CHOSEN_COUNTER, value: chosenCount }];
  return { table: META_TABLE.name, key: rangeKey(range), guards };
}

export function deleteRangeStep(range: NumberRange): RowStep {
  return { table: META_TABLE.name, key: rangeKey(range), deleteRow: true };
}
