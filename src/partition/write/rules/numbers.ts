import { LdapError } from '../../../ldap/ldap-error.js';
import type { Maybe, RowStep, Store } from '../../../store/contract.js';
import type { Draft, DraftAttribute } from '../../model/draft.js';
import { chosenStep, noneChosenStep, readNumbers, takeStep } from '../../model/number-rows.js';
import { cutNorm, equalityPrefix } from '../../model/tables.js';
import { textBytes } from '../../model/texts.js';
import type { NumberRange, ValueRules } from '../../model/value-rules.js';
import { type Change, changedTypes } from '../change.js';
import type { Rule, Verdict, WriteContext } from '../context.js';

/** What a client writes that wants the next number. */
const AUTO = textBytes('auto');

/**
 * Gives out numbers: a value `auto` of an attribute that has a range becomes the next number that no entry has. Numbers
 * that clients say themselves are counted, and move the range on.
 */
export const NUMBERS: Rule = {
  name: 'numbers',

  change(context, change) {
    const { values } = context.shared;
    const { after } = change;
    if (values.numbers.length === 0 || !after) return undefined;
    const asked = values.numbers.filter((range) => asks(range, after));
    if (asked.length > 0) return given(context, change, asked);
    // Those of a batch are counted with it.
    return change.isBatched ? undefined : counted(context.store, change, values);
  },
};

/** Whether an entry wants to be given a number: it goes into no batch. */
export function asksForNumber({ numbers }: ValueRules, draft: Draft): boolean {
  return numbers.some((range) => asks(range, draft));
}

function asks(range: NumberRange, draft: Draft): boolean {
  return draft.ofType(range.type).some(hasAuto);
}

function hasAuto({ values }: DraftAttribute): boolean {
  return values.some(({ bytes }) => bytes.equals(AUTO));
}

async function given(context: WriteContext, change: Change, ranges: readonly NumberRange[]): Promise<Verdict> {
  const steps: RowStep[] = [];
  const numbers = new Map<NumberRange, Buffer>();
  for (const range of ranges) {
    // It will not be: that is told when the other rules have been asked.
    if (change.obstacle) numbers.set(range, textBytes(String(range.first)));
    else {
      // Read before the numbers that entries have: who says one meanwhile makes the plan fail.
      const { said } = await readNumbers(context.store, range);
      numbers.set(range, textBytes(String(await nextFree(context, range))));
      steps.push(noneChosenStep(range, said));
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

/** The next number that no entry has. */
async function nextFree(context: WriteContext, range: NumberRange): Promise<bigint> {
  const index = context.shared.indexes.of(range.type);
  if (!index?.ready)
    throw new LdapError(
      'unwillingToPerform',
      `numbers for '${range.type.name}' are given out only while it has an index: rowan index add ${range.type.name}`,
    );
  for (;;) {
    const number = await context.numbers.take(context, range);
    const norm = range.type.equality!.normalize(textBytes(String(number)))!;
    const ids = await context.store.postings(index.table, equalityPrefix(cutNorm(norm)), 1);
    if (ids.length === 0) return number;
  }
}

/** What clients say of one range. */
export interface ChosenNumbers {
  readonly range: NumberRange;
  readonly count: number;
  readonly highest: bigint;
}

function counted(store: Store, change: Change, values: ValueRules): Maybe<Verdict> {
  const { before, after } = change;
  const types = before && changedTypes(change);
  const said = chosenNumbers(values, after!).filter(({ range }) => !types || types.has(range.type));
  return said.length === 0 ? undefined : chosenSteps(store, said).then((steps) => ({ steps }));
}

/** Numbers of the ranges that an entry has. */
export function chosenNumbers({ numbers }: ValueRules, draft: Draft): ChosenNumbers[] {
  const found: ChosenNumbers[] = [];
  for (const range of numbers) {
    const said = [...numbersIn(range, draft)].map((highest) => ({ range, count: 1, highest }));
    if (said.length > 0) found.push(said.reduce(addChosen));
  }
  return found;
}

export function addChosen(one: ChosenNumbers, other: ChosenNumbers): ChosenNumbers {
  const { highest } = one.highest > other.highest ? one : other;
  return { range: one.range, count: one.count + other.count, highest };
}

function* numbersIn({ type, first, last }: NumberRange, draft: Draft): Generator<bigint> {
  for (const { values } of draft.ofType(type)) {
    for (const { bytes } of values) {
      if (bytes.length > MAX_DIGITS || !/^\d+$/.test(bytes.toString('latin1'))) continue;
      const number = BigInt(bytes.toString('latin1'));
      if (number >= first && number <= last) yield number;
    }
  }
}

/** As many as the greatest number of a range has. */
const MAX_DIGITS = 16;

/** Steps that count the numbers, and move their ranges on behind the highest. */
export async function chosenSteps(store: Store, said: readonly ChosenNumbers[]): Promise<RowStep[]> {
  const steps: RowStep[] = [];
  for (const { range, count, highest } of said) {
    steps.push(chosenStep(range, count));
    const { next } = await readNumbers(store, range);
    if (highest >= next) steps.push(takeStep(range, next, highest + 1n));
  }
  return steps;
}
