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

/** Changes of names as long as they hold. */
export interface Pending {
  readonly names: NameChanges;
  /** Fail where the changes do not hold any more. */
  readonly guards: readonly RowStep[];
  holds(): Promise<boolean>;
}

/** Values of one entry that are replaced in one plan. */
const TOGETHER = 500;

/**
 * Replaces values, some hundreds in a plan, as long as what is pending holds; else throws `Overtaken`. Where a class
 * demands the attribute and no value is left, an empty DN, which names nobody, stands for all of them.
 */
export async function replaceValues(
  context: WriteContext,
  entry: Referring,
  stale: readonly Replaced[],
  { guards, holds }: Omit<Pending, 'names'>,
): Promise<void> {
  const missed = async (): Promise<void> => {
    if (!(await holds())) throw new Overtaken();
  };
  const modifications = emptyFor(context, entry.row, stale);
  for (let at = 0; at < stale.length; at += TOGETHER) {
    const steps: PlanStep[] = [...guards];
    for (const { type, description, value, present, guard } of stale.slice(at, at + TOGETHER)) {
      if (guard) steps.push(guard);
      modifications.push(oneValue('delete', description, value));
      if (Buffer.isBuffer(present)) modifications.push(oneValue('add', description, present));
      else if (present) {
        const uid = value.subarray(withoutUid(type, value).length);
        steps.push(...(await saveSteps(context, Buffer.from(present.id, 'hex'), { id: entry.id, description, uid })));
      }
    }
    await modify(context, entry.dn, modifications, SERVER, {
      settles: true,
      manageDsaIT: true,
      also: { steps, missed },
    });
    modifications.length = 0;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

/** A value that is replaced, or removed. */
export interface Replaced extends Omit<StaleValue, 'at'> {
  /** Holds as long as it is to be replaced. */
  readonly guard?: RowStep | undefined;
}

/** What stands for all values of an attribute that are removed. */
function emptyFor(context: WriteContext, row: Buffer, stale: readonly Replaced[]): Modification[] {
  // Of a long entry not all of the row may be here; then values are left.
  if (wideAttributes(row).length > 0 && stale.length < WIDE_VALUES / 2) return [];
  const types = [...new Set(stale.map((one) => one.type))];
  return types
    .filter((type) => isRequired(context, row, type) && leavesNone(context, row, type, stale))
    .map((type) => oneValue('add', type.name, Buffer.alloc(0)));
}

export function oneValue(operation: 'add' | 'delete', type: string, value: Buffer): Modification {
  return { operation, attribute: { type, values: [value] } };
}

/** Whether the entry has no value of the type but these, which go without another in their place. */
function leavesNone(context: WriteContext, row: Buffer, type: AttributeType, stale: readonly Replaced[]): boolean {
  const going = stale.filter((one) => one.type === type);
  if (going.some(({ present }) => Buffer.isBuffer(present))) return false;
  return attributeValues(context, row, type.name).length <= going.length;
}

function isRequired(context: WriteContext, row: Buffer, type: AttributeType): boolean {
  const classes = attributeValues(context, row, 'objectClass').map((name) => name.toString('latin1'));
  return classes.some((name) => context.schema.objectClass(name)?.must.has(type));
}
