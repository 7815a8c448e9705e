import type { AttributeType } from '../../../schema/schema-types.js';
import type { RowStep } from '../../../store/contract.js';
import { textBytes } from '../../model/change-record.js';
import type { Actor } from '../../model/directory-types.js';
import { attributeKey, type Draft, type DraftAttribute, type DraftValue } from '../../model/draft.js';
import { chosenCountGuardStep, countChosenStep, readNumbers } from '../../model/number-rows.js';
import type { NumberRange, ValueRules } from '../../model/value-rules.js';
import { type Change, changedTypes, type Rule, type Verdict, type WriteContext } from '../context.js';
import { firstFreeNumber } from '../number-pools.js';
import { UNIQUE } from './unique.js';

/** The value with which a client requests the next number. */
export const AUTO = textBytes('auto');
/** Stands for a number that is not drawn yet. This buffer itself, not its content, marks the value. */
const PENDING = textBytes('0');

/**
 * Accepts the value `auto` of an attribute with a range. An attribute with other values keeps these. Otherwise a
 * placeholder takes the place of the number, which `DRAWN_NUMBERS` draws once the other rules allow the change.
 */
export const NUMBERS: Rule = {
  name: 'numbers',

  checkChange({ shared: { values } }, { after, actor }) {
    if (values.numberRanges.length === 0 || !after) return undefined;
    const ranges = values.numberRanges.filter((range) => hasValue(range, after, isAuto));
    if (ranges.length === 0) return undefined;
    return {
      amend(draft) {
        for (const { type } of ranges) for (const attribute of draft.ofType(type)) settle(draft, attribute, actor);
      },
    };
  },
};

function settle(draft: Draft, attribute: DraftAttribute, { givenNumbers }: Actor): void {
  const { values, unread } = attribute;
  if (!values.some(isAuto)) return;
  givenNumbers?.set(attributeKey(attribute.description), undefined);
  const numbers = values.filter((value) => !isAuto(value));
  const isKept = numbers.length > 0 || unread !== undefined;
  draft.set({ ...attribute, values: isKept ? numbers : values.map((value) => ({ ...value, bytes: PENDING })) });
}

/**
 * Draws the requested numbers, each the next one that no entry has. Counts the numbers that clients choose themselves,
 * so that none of them is drawn at the same time.
 */
export const DRAWN_NUMBERS: Rule = {
  name: 'drawn numbers',

  checkChange(context, change) {
    const { values } = context.shared;
    const { after } = change;
    // With an obstacle the change fails, and no number is drawn. The numbers of a bulk load are counted once per batch.
    if (values.numberRanges.length === 0 || !after || change.obstacle || change.isBatched) return undefined;
    const ranges = values.numberRanges.filter((range) => hasValue(range, after, isPending));
    const steps = countSteps(change, values, ranges);
    if (ranges.length > 0) return drawNumbers(context, change, ranges, steps);
    return steps.length === 0 ? undefined : { steps };
  },
};

/** Whether an entry requests a number. A bulk load adds such an entry outside of batches. */
export function asksForNumber({ numberRanges }: ValueRules, draft: Draft): boolean {
  return numberRanges.some((range) => hasValue(range, draft, isAuto));
}

function hasValue({ type }: NumberRange, draft: Draft, test: (value: DraftValue) => boolean): boolean {
  return draft.ofType(type).some(({ values }) => values.some(test));
}

function isAuto({ bytes }: DraftValue): boolean {
  return bytes.equals(AUTO);
}

function isPending({ bytes }: DraftValue): boolean {
  return bytes === PENDING;
}

async function drawNumbers(
  context: WriteContext,
  change: Change,
  ranges: readonly NumberRange[],
  countingSteps: readonly RowStep[],
): Promise<Verdict> {
  // Another value may be taken. The rule itself runs later, since it stores the owner of a number, too.
  const uniqueVerdict = await UNIQUE.checkChange!(context, { ...change, after: withoutPending(change.after!) });
  if (uniqueVerdict && 'refuse' in uniqueVerdict) return uniqueVerdict;
  const steps = [...countingSteps];
  const numbers = new Map<AttributeType, Buffer>();
  for (const range of ranges) {
    const { number, chosenCount } = await nextFreeNumber(context, range, change);
    numbers.set(range.type, textBytes(String(number)));
    steps.push(chosenCountGuardStep(range, chosenCount));
  }
  const fill = (value: DraftValue, number: Buffer) => (isPending(value) ? { ...value, bytes: number } : value);
  return {
    steps,
    amend(draft) {
      for (const [type, number] of numbers)
        for (const attribute of draft.ofType(type))
          if (attribute.values.some(isPending)) {
            draft.set({ ...attribute, values: attribute.values.map((value) => fill(value, number)) });
            change.actor.givenNumbers?.set(attributeKey(attribute.description), number);
          }
    },
  };
}

function withoutPending(after: Draft): Draft {
  const draft = after.copy();
  for (const { description, values } of after.attributes) if (values.some(isPending)) draft.remove(description);
  return draft;
}

async function nextFreeNumber(context: WriteContext, range: NumberRange, change: Change) {
  for (;;) {
    const number = await context.numbers.takeNumber(context, range, change);
    // Read the count before the index: if a client chooses a number meanwhile, the guard fails.
    const { chosenCount } = await readNumbers(context.store, range);
    // A client may have chosen the number since it was taken.
    if ((await firstFreeNumber(context, range, number, number)) === number) return { number, chosenCount };
  }
}

function countSteps(change: Change, values: ValueRules, drawnRanges: readonly NumberRange[]): RowStep[] {
  const { before, after } = change;
  const types = before && changedTypes(change);
  const steps: RowStep[] = [];
  for (const [range, count] of chosenNumbers(values, after!))
    if (!drawnRanges.includes(range) && (!types || types.has(range.type))) steps.push(countChosenStep(range, count));
  return steps;
}

/** Returns for each range how many of its numbers the entry has. */
export function chosenNumbers({ numberRanges }: ValueRules, draft: Draft): Map<NumberRange, number> {
  const counts = new Map<NumberRange, number>();
  for (const range of numberRanges) {
    const count = [...numbersIn(range, draft)].length;
    if (count > 0) counts.set(range, count);
  }
  return counts;
}

function* numbersIn({ type, firstNumber, lastNumber }: NumberRange, draft: Draft): Generator<bigint> {
  for (const { values } of draft.ofType(type)) {
    for (const { bytes } of values) {
      if (bytes.length > MAX_DIGITS || !/^\d+$/.test(bytes.toString('latin1'))) continue;
      const number = BigInt(bytes.toString('latin1'));
      if (number >= firstNumber && number <= lastNumber) yield number;
    }
  }
}

/** Number of digits of the greatest number that a range may have. */
const MAX_DIGITS = 16;
