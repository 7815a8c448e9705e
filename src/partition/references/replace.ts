import type { Modification } from '../../ldap/ldap-types.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import type { PlanStep, RowStep } from '../../store/contract.js';
import type { Actor } from '../model/directory-types.js';
import { attributeValues } from '../model/entry-cells.js';
import { withoutUid } from '../model/group-rows.js';
import type { NameChanges } from '../model/name-changes.js';
import type { StaleValue } from '../model/present-row.js';
import { WIDE_VALUES } from '../model/thresholds.js';
import { wideAttributes } from '../model/wide.js';
import type { WriteContext } from '../write/context.js';
import { saveSteps } from '../write/deleted-rows.js';
import { modify } from '../write/modify.js';
import type { LaterValues } from './changes-since.js';

/** The actor of writes by the server itself. */
export const SERVER: Actor = { dn: '', system: true };

/** Thrown when the pending changes are no longer valid: a deleted entry was restored or purged, or a name was taken. */
export class Overtaken extends Error {}

export interface ReferringEntry {
  readonly id: Buffer;
  readonly dn: Dn;
  readonly row: Buffer;
}

/** The pending changes of names, with a check whether they are still pending. */
export interface PendingChanges {
  readonly nameChanges: NameChanges;
  /** Guards that fail when the changes are no longer pending. */
  readonly guards: readonly RowStep[];
  arePending(): Promise<boolean>;
  /** Values that were written after the changes, and do not follow. */
  readonly laterValues?: LaterValues;
}

const VALUES_PER_PLAN = 500;

/**
 * Replaces values, some hundreds per plan. Throws `Overtaken` when the changes are no longer pending. If a class
 * requires the attribute and no value remains, stores an empty DN, which names no entry, as a placeholder.
 */
export async function replaceValues(
  context: WriteContext,
  entry: ReferringEntry,
  stale: readonly ReplacedValue[],
  { guards, arePending }: Omit<PendingChanges, 'nameChanges'>,
): Promise<void> {
  const onGuardFailure = async (): Promise<void> => {
    if (!(await arePending())) throw new Overtaken();
  };
  const modifications = placeholders(context, entry.row, stale);
  for (let offset = 0; offset < stale.length; offset += VALUES_PER_PLAN) {
    const steps: PlanStep[] = [...guards];
    for (const { type, description, value, currentValue, guard } of stale.slice(offset, offset + VALUES_PER_PLAN)) {
      if (guard) steps.push(guard);
      modifications.push(singleValue('delete', description, value));
      if (Buffer.isBuffer(currentValue)) modifications.push(singleValue('add', description, currentValue));
      else if (currentValue) {
        const uid = value.subarray(withoutUid(type, value).length);
        steps.push(
          ...(await saveSteps(context, Buffer.from(currentValue.id, 'hex'), { id: entry.id, description, uid })),
        );
      }
    }
    await modify(context, entry.dn, modifications, SERVER, {
      isSettlement: true,
      manageDsaIT: true,
      attached: { steps, onGuardFailure },
    });
    modifications.length = 0;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

export interface ReplacedValue extends Omit<StaleValue, 'offset'> {
  /** Guard of a condition under which the value has to be replaced. */
  readonly guard?: RowStep | undefined;
}

/** Returns modifications that add a placeholder to attributes that would lose all values. */
function placeholders(context: WriteContext, row: Buffer, stale: readonly ReplacedValue[]): Modification[] {
  // The row of a long entry may be incomplete, but then values remain.
  if (wideAttributes(row).length > 0 && stale.length < WIDE_VALUES / 2) return [];
  const types = [...new Set(stale.map((one) => one.type))];
  return types
    .filter((type) => isRequired(context, row, type) && losesAllValues(context, row, type, stale))
    .map((type) => singleValue('add', type.name, Buffer.alloc(0)));
}

export function singleValue(operation: 'add' | 'delete', type: string, value: Buffer): Modification {
  return { operation, attribute: { type, values: [value] } };
}

/** Whether the modification removes all values of the type without replacing any. */
function losesAllValues(
  context: WriteContext,
  row: Buffer,
  type: AttributeType,
  stale: readonly ReplacedValue[],
): boolean {
  const removedValues = stale.filter((one) => one.type === type);
  if (removedValues.some(({ currentValue }) => Buffer.isBuffer(currentValue))) return false;
  return attributeValues(context, row, type.name).length <= removedValues.length;
}

function isRequired(context: WriteContext, row: Buffer, type: AttributeType): boolean {
  const classes = attributeValues(context, row, 'objectClass').map((name) => name.toString('latin1'));
  return classes.some((name) => context.schema.objectClass(name)?.must.has(type));
}
