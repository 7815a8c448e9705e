import type { Modification } from '../../ldap/ldap-types.js';
import type { Dn } from '../../schema/schema-types.js';
import type { PlanStep, RowStep } from '../../store/contract.js';
import type { Actor } from '../model/directory-types.js';
import { withoutUid } from '../model/group-rows.js';
import type { NameChanges } from '../model/name-changes.js';
import type { StaleValue } from '../model/present-row.js';
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
 * Replaces values, some hundreds per plan. Throws `Overtaken` when the changes are no longer pending.
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
  const modifications: Modification[] = [];
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

export function singleValue(operation: 'add' | 'delete', type: string, value: Buffer): Modification {
  return { operation, attribute: { type, values: [value] } };
}
