import { LdapError } from '../../../ldap/ldap-error.js';
import type { Maybe, RowStep, Store } from '../../../store/contract.js';
import type { Draft, DraftAttribute } from '../../model/draft.js';
import { assignStep, chosenCountGuardStep, countChosenStep, readNumbers } from '../../model/number-rows.js';
import { cutNorm, equalityPrefix } from '../../model/tables.js';
import { textBytes } from '../../model/texts.js';
import type { NumberRange, ValueRules } from '../../model/value-rules.js';
import { type Change, changedTypes } from '../change.js';
import type { Rule, Verdict, WriteContext } from '../context.js';

/** The value with which a client requests the next number. */
const AUTO = textBytes('auto');

/**
 * Assigns numbers: replaces the value `auto` of an attribute with a range by the next number that no entry has. Counts
 * numbers that clients choose themselves, and moves the range beyond them.
 */
export const NUMBERS: Rule = {
  name: 'numbers',

  checkChange(context, change) {
    const { values } = context.shared;
    const { after } = change;
    if (values.numberRanges.length === 0 || !after) return undefined;
    const ranges = values.numberRanges.filter((range) => hasAutoValue(range, after));
    if (ranges.length > 0) return assignNumbers(context, change, ranges);
    // The numbers of a bulk load are counted once per batch.
    return change.isBatched ? undefined : countNumbers(context.store, change, values);
  },
};

/** Whether an entry requests a number. A bulk load adds such an entry outside of batches. */
export function asksForNumber({ numberRanges: numbers }: ValueRules, draft: Draft): boolean {
  return numbers.some((range) => hasAutoValue(range, draft));
}

function hasAutoValue(range: NumberRange, draft: Draft): boolean {
  return draft.ofType(range.type).some(hasAuto);
}

function hasAuto({ values }: DraftAttribute): boolean {
  return values.some(({ bytes }) => bytes.equals(AUTO));
}

async function assignNumbers(context: WriteContext, change: Change, ranges: readonly NumberRange[]): Promise<Verdict> {
  const steps: RowStep[] = [];
  const numbers = new Map<NumberRange, Buffer>();
  for (const range of ranges) {
    // The change will fail because of its obstacle, after the other rules. Take no number.
    if (change.obstacle) numbers.set(range, textBytes(String(range.firstNumber)));
    else {
      // Read the count before the index: if a client chooses a number meanwhile, the guard fails.
      const { chosenCount: chosen } = await readNumbers(context.store, range);
      numbers.set(range, textBytes(String(await nextFreeNumber(context, range))));
      steps.push(chosenCountGuardStep(range, chosen));
    }
  }
  return {
    steps,
    amend(draft) {
      for (const [range, number] of numbers) replaceAuto(draft, range, number);
    },
  };
}

function replaceAuto(draft: Draft, { type }: NumberRange, number: Buffer): void {
  for (const attribute of draft.ofType(type)) {
    if (!hasAuto(attribute)) continue;
    const values = attribute.values.map((value) => (value.bytes.equals(AUTO) ? { ...value, bytes: number } : value));
    draft.set({ ...attribute, values });
  }
}

async function nextFreeNumber(context: WriteContext, range: NumberRange): Promise<bigint> {
  const index = context.shared.indexes.ofType(range.type);
  if (!index?.isReady)
    throw new LdapError(
      'unwillingToPerform',
      `numbers for '${range.type.name}' are given out only while it has an index: rowan index add ${range.type.name}`,
    );
  for (;;) {
    const number = await context.numbers.takeNumber(context, range);
    const norm = range.type.equality!.normalize(textBytes(String(number)))!;
    const ids = await context.store.postings(index.table, equalityPrefix(cutNorm(norm)), 1);
    if (ids.length === 0) return number;
  }
}

export interface ChosenNumbers {
  readonly range: NumberRange;
  readonly count: number;
  readonly highest: bigint;
}

function countNumbers(store: Store, change: Change, values: ValueRules): Maybe<Verdict> {
  const { before, after } = change;
  const types = before && changedTypes(change);
  const chosen = chosenNumbers(values, after!).filter(({ range }) => !types || types.has(range.type));
  return chosen.length === 0 ? undefined : chosenSteps(store, chosen).then((steps) => ({ steps }));
}

/** Returns for each range how many of its numbers the entry has, and the highest of them. */
export function chosenNumbers({ numberRanges: numbers }: ValueRules, draft: Draft): ChosenNumbers[] {
  const chosenByRange: ChosenNumbers[] = [];
  for (const range of numbers) {
    const chosenNumbersInRange = [...numbersIn(range, draft)].map((highest) => ({ range, count: 1, highest }));
    if (chosenNumbersInRange.length > 0) chosenByRange.push(chosenNumbersInRange.reduce(addChosen));
  }
  return chosenByRange;
}

export function addChosen(a: ChosenNumbers, b: ChosenNumbers): ChosenNumbers {
  const { highest } = a.highest > b.highest ? a : b;
  return { range: a.range, count: a.count + b.count, highest };
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

/** Returns the steps that count the chosen numbers and move the ranges beyond the highest. */
export async function chosenSteps(store: Store, chosen: readonly ChosenNumbers[]): Promise<RowStep[]> {
  const steps: RowStep[] = [];
  for (const { range, count, highest } of chosen) {
    steps.push(countChosenStep(range, count));
    const { nextNumber } = await readNumbers(store, range);
    if (highest >= nextNumber) steps.push(assignStep(range, nextNumber, highest + 1n));
  }
  return steps;
}
