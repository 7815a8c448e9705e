import { LdapError } from '../../ldap/ldap-error.js';
import { integerFromNorm } from '../../schema/number.js';
import type { AttributeType } from '../../schema/schema-types.js';
import { batchesOf } from '../../store/batches.js';
import { assignStep, deleteRangeStep, readNumbers } from '../model/number-rows.js';
import { equalityPrefix, prefixEnd, UUID_BYTES } from '../model/tables.js';
import { textBytes } from '../model/texts.js';
import type { NumberRange } from '../model/value-rules.js';
import type { WriteContext } from '../write/context.js';
import { retryWithFreshState } from '../write/freshly.js';

const INTEGER_SYNTAX = '1.3.6.1.4.1.1466.115.121.1.27';

export interface AssignedRange {
  readonly attribute: string;
  readonly first: number;
  readonly last: number;
  /** The first number that no process has taken. Greater than `last` if the range is exhausted. */
  readonly next: bigint;
}

export async function assignedRanges({ shared, store }: WriteContext): Promise<AssignedRange[]> {
  const ranges: AssignedRange[] = [];
  for (const range of shared.values.numberRanges) {
    const { nextNumber } = await readNumbers(store, range);
    ranges.push({ attribute: range.type.name, first: range.record.first, last: range.record.last, next: nextNumber });
  }
  return ranges;
}

/** Sets or replaces the range from which the server assigns numbers for an attribute. Skips used numbers. */
export async function setNumbers(context: WriteContext, attribute: string, first: number, last: number): Promise<void> {
  const { type } = context.schema.requireDescription(attribute);
  await retryWithFreshState(context, async () => {
    checkNumbers(context, type, first, last);
    const { records, numberRanges: numbers } = context.shared.values;
    const oldRange = numbers.find((range) => range.type === type);
    const number = records.last + 1;
    const otherRecords = (records.numbers ?? []).filter((record) => record.attribute !== type.oid);
    await context.shared.setValues(
      { ...records, last: number, numbers: [...otherRecords, { number, attribute: type.oid, first, last }] },
      oldRange ? [deleteRangeStep(oldRange)] : [],
    );
  });
  await skipUsedNumbers(context, type);
}

export async function removeNumbers(context: WriteContext, attribute: string): Promise<void> {
  const { type } = context.schema.requireDescription(attribute);
  await retryWithFreshState(context, async () => {
    const { records, numberRanges: numbers } = context.shared.values;
    const oldRange = numbers.find((range) => range.type === type);
    if (!oldRange) throw new LdapError('noSuchObject', `no numbers of '${type.name}' are given out`);
    const otherRecords = (records.numbers ?? []).filter((record) => record.attribute !== type.oid);
    await context.shared.setValues({ ...records, numbers: otherRecords }, [deleteRangeStep(oldRange)]);
  });
}

function checkNumbers({ shared }: WriteContext, type: AttributeType, first: number, last: number): void {
  const refuse = (reason: string): never => {
    throw new LdapError('unwillingToPerform', `numbers of '${type.name}' cannot be given out: ${reason}`);
  };
  if (type.syntax.oid !== INTEGER_SYNTAX || !type.equality) refuse('it is not of the syntax Integer');
  if (type.noUserModification) refuse('the server itself sets it');
  if (!Number.isSafeInteger(first) || !Number.isSafeInteger(last) || first < 0 || first > last)
    refuse(`${first} to ${last} is no range of numbers from 0 on`);
  if (!shared.indexes.ofType(type)?.isReady) refuse(`it needs an index; first: rowan index add ${type.name}`);
}

/** Moves the range above the highest used number. If interrupted, the server skips used numbers later. */
async function skipUsedNumbers(context: WriteContext, type: AttributeType): Promise<void> {
  await retryWithFreshState(context, async () => {
    const { shared, store } = context;
    const range = shared.values.numberRanges.find((one) => one.type === type);
    const highest = range && (await highestIn(context, range));
    if (!range || highest === undefined) return;
    const { nextNumber } = await readNumbers(store, range);
    if (highest < nextNumber) return;
    await store.commit({ steps: [shared.guardStep(false), assignStep(range, nextNumber, highest + 1n)], decisive: 0 });
  });
}

/** Returns the highest number in the range that an entry has. */
async function highestIn({ shared, store }: WriteContext, range: NumberRange): Promise<bigint | undefined> {
  const prefix = (number: bigint) => equalityPrefix(range.type.equality!.normalize(textBytes(String(number)))!);
  const bounds = { from: prefix(range.firstNumber), to: prefixEnd(prefix(range.lastNumber)) };
  let highest: bigint | undefined;
  const scan = store.scan(shared.indexes.ofType(range.type)!.table, bounds, { keysOnly: true });
  for await (const batch of batchesOf(scan)) {
    for (const key of batch.keys) {
      const number = integerFromNorm(key.subarray(1, key.length - UUID_BYTES - 1));
      if (highest === undefined || number > highest) highest = number;
    }
    await new Promise((resolve) => setImmediate(resolve));
  }
  return highest;
}
