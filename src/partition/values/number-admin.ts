import { LdapError } from '../../ldap/ldap-error.js';
import { integerFromNorm } from '../../schema/number.js';
import type { AttributeType } from '../../schema/schema-types.js';
import type { RowStep } from '../../store/contract.js';
import { batchesOf } from '../../store/maybe.js';
import { textBytes } from '../model/change-record.js';
import { assignStep, deleteRangeStep, readNumbers } from '../model/number-rows.js';
import { equalityPrefix, prefixEnd, UUID_BYTES } from '../model/tables.js';
import type { NumberRange, NumberRecord } from '../model/value-rules.js';
import { retryWithFreshState, type WriteContext } from '../write/context.js';
import { firstFreeNumber } from '../write/number-pools.js';

const INTEGER_SYNTAX = '1.3.6.1.4.1.1466.115.121.1.27';

export interface AssignedRange {
  readonly attribute: string;
  readonly first: number;
  readonly last: number;
  /** Numbers that are left out. */
  readonly except: readonly number[];
  /** The next number that no process has taken and no entry has. Greater than `last` if the range is exhausted. */
  readonly next: bigint;
  /** How many numbers from `next` on can be assigned. Undefined: the attribute has no index, and none can be. */
  readonly left: bigint | undefined;
}

/** Reads the index from the next number on, which takes time for ranges with many numbers in use. */
export async function assignedRanges(context: WriteContext): Promise<AssignedRange[]> {
  const ranges: AssignedRange[] = [];
  for (const range of context.shared.values.numberRanges) {
    const { first, last, except = [] } = range.record;
    const { nextNumber } = await readNumbers(context.store, range);
    const hasIndex = context.shared.indexes.ofType(range.type)?.isReady === true;
    const next = hasIndex ? await firstFreeNumber(context, range, nextNumber) : nextNumber;
    const left = hasIndex ? await countFree(context, range, next) : undefined;
    ranges.push({ attribute: range.type.name, first, last, except, next, left });
  }
  return ranges;
}

/**
 * Sets or replaces the range from which the server assigns numbers for an attribute. A range with the same first number
 * goes on behind the numbers that were assigned, if any is left there. `except`: numbers that are not assigned.
 */
export async function setNumbers(
  context: WriteContext,
  attribute: string,
  first: number,
  last: number,
  except: readonly number[] = [],
): Promise<void> {
  const { type } = context.schema.requireDescription(attribute);
  await retryWithFreshState(context, async () => {
    checkNumbers(context, type, first, last);
    const { records, numberRanges } = context.shared.values;
    const oldRange = numberRanges.find((range) => range.type === type);
    const number = records.last + 1;
    const otherRecords = (records.numbers ?? []).filter((record) => record.attribute !== type.oid);
    const record = { number, attribute: type.oid, first, last, ...(except.length > 0 && { except }) };
    await context.shared.setValues(
      { ...records, last: number, numbers: [...otherRecords, record] },
      oldRange ? await replaceSteps(context, oldRange, record) : [],
    );
  });
}

async function replaceSteps({ store }: WriteContext, oldRange: NumberRange, record: NumberRecord): Promise<RowStep[]> {
  const { nextNumber } = await readNumbers(store, oldRange);
  const isContinued = oldRange.record.first === record.first && nextNumber <= BigInt(record.last);
  const newRange = { ...oldRange, record };
  return [deleteRangeStep(oldRange), ...(isContinued ? [assignStep(newRange, newRange.firstNumber, nextNumber)] : [])];
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

/** Counts the numbers from `from` to the end of the range that no entry has and that are not left out. */
async function countFree({ shared, store }: WriteContext, range: NumberRange, from: bigint): Promise<bigint> {
  const { type, lastNumber, exceptedNumbers } = range;
  if (from > lastNumber) return 0n;
  const prefix = (number: bigint) => equalityPrefix(type.equality!.normalize(textBytes(String(number)))!);
  const bounds = { from: prefix(from), to: prefixEnd(prefix(lastNumber)) };
  const used = new Set([...exceptedNumbers].filter((number) => number >= from && number <= lastNumber));
  const scan = store.scan(shared.indexes.ofType(type)!.table, bounds, { keysOnly: true });
  for await (const batch of batchesOf(scan)) {
    for (const key of batch.keys) used.add(integerFromNorm(key.subarray(1, key.length - UUID_BYTES - 1)));
    await new Promise((resolve) => setImmediate(resolve));
  }
  return lastNumber - from + 1n - BigInt(used.size);
}
