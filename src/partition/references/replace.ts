import type { Modification } from '../../ldap/ldap-types.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import type { PlanStep } from '../../store/contract.js';
import type { Actor } from '../model/directory.js';
import { attributeValues } from '../model/entry-cells.js';
import { withoutUid } from '../model/group-rows.js';
import type { StaleValue } from '../model/present-row.js';
import type { WriteContext } from '../write/context.js';
import { saveSteps } from '../write/deleted-rows.js';
import { modify } from '../write/modify.js';

/** The server itself. */
export const SERVER: Actor = { dn: '', system: true };

/** A deleted entry has come back, or is forgotten: what is pending is another list now. */
export class Overtaken extends Error {}

/** An entry with references. */
export interface Referring {
  readonly id: Buffer;
  readonly dn: Dn;
  /** Packed master row. */
  readonly row: Buffer;
}

/**
 * Replaces values in one plan. Where a class demands the attribute and no value is left, an empty DN, which names
 * nobody, stands for all of them. `Overtaken` where a guard did not hold.
 */
export async function replaceValues(
  context: WriteContext,
  { id, dn, row }: Referring,
  stale: readonly Omit<StaleValue, 'at'>[],
): Promise<void> {
  const modifications: Modification[] = [];
  const steps: PlanStep[] = [];
  for (const { type, description, value, present } of stale) {
    modifications.push(oneValue('delete', description, value));
    if (Buffer.isBuffer(present)) modifications.push(oneValue('add', description, present));
    else if (present) {
      const uid = value.subarray(withoutUid(type, value).length);
      steps.push(...(await saveSteps(context, present, { id, description, uid })));
    }
  }
  for (const type of new Set(stale.map((one) => one.type)))
    if (isRequired(context, row, type) && leavesNone(context, row, type, stale))
      modifications.push(oneValue('add', type.name, Buffer.alloc(0)));
  const missed = (): never => {
    throw new Overtaken();
  };
  const also = steps.length > 0 ? { steps, missed } : undefined;
  await modify(context, dn, modifications, SERVER, { settles: true, manageDsaIT: true, also });
}

export function oneValue(operation: 'add' | 'delete', type: string, value: Buffer): Modification {
  return { operation, attribute: { type, values: [value] } };
}

/** Whether the entry has no value of the type but these, which go without another in their place. */
function leavesNone(
  context: WriteContext,
  row: Buffer,
  type: AttributeType,
  stale: readonly Omit<StaleValue, 'at'>[],
): boolean {
  const going = stale.filter((one) => one.type === type);
  if (going.some(({ present }) => Buffer.isBuffer(present))) return false;
  return attributeValues(context, row, type.name).length <= going.length;
}

function isRequired(context: WriteContext, row: Buffer, type: AttributeType): boolean {
  const classes = attributeValues(context, row, 'objectClass').map((name) => name.toString('latin1'));
  return classes.some((name) => context.schema.objectClass(name)?.must.has(type));
}
