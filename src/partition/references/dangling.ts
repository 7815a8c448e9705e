import { TimeSlice } from '../../fair/time-slice.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Modification } from '../../ldap/ldap-types.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Guard, PlanStep, RowStep } from '../../store/contract.js';
import { batchesOf, isPromise } from '../../store/maybe.js';
import { nextCell, valueStart } from '../../store/row.js';
import type { Actor } from '../model/directory-types.js';
import { namesEntries, withoutUid } from '../model/group-rows.js';
import type { NameChanges } from '../model/name-changes.js';
import { presentRow, type StaleValue } from '../model/present-row.js';
import { cutNorm, MASTER, MASTER_TABLE, Q, TREE, TREE_TABLE, treeKey } from '../model/tables.js';
import { MAX_TRIES } from '../model/thresholds.js';
import { isWhole } from '../model/wide.js';
import type { SearchContext } from '../read/run/search-context.js';
import { requireHead } from '../tree/locate.js';
import { ROOT, suffixRdnIndex } from '../tree/nodes.js';
import type { WriteContext } from '../write/context.js';
import { saveSteps } from '../write/deleted-rows.js';
import { modify } from '../write/modify.js';
import type { LaterValues } from './changes-since.js';

/** A reference to a missing entry below a suffix. */
export interface DanglingReference {
  readonly dn: string;
  readonly attribute: string;
  readonly value: string;
  /** Whether values of the attribute follow names. */
  readonly follows: boolean;
}

/** No change is pending. If a new entry takes a missing name during a removal, `replaceValues` throws `Overtaken`. */
const NEVER_PENDING = { guards: [], arePending: () => Promise.resolve(false) };

/**
 * Reports every reference to a missing entry, and with `remove` deletes those of attributes that follow names. Resolves
 * with the number of references reported or deleted. References are the values of all attributes that name entries, but
 * of those that the server keeps. Names outside all suffixes, the administrator's name, and names on other servers are
 * not counted.
 */
export async function reportDangling(
  context: SearchContext & WriteContext,
  onDangling: (reference: DanglingReference) => void,
  remove = false,
): Promise<number> {
  const { store, shared } = context;
  if (remove) await context.references.settle();
  let count = 0;
  for await (const { keys, rows } of batchesOf(store.scan(MASTER_TABLE.name, {}))) {
    for (const [i, id] of keys.entries()) {
      for (const { dn, value } of await danglingInEntry(context, id, rows[i]!, remove)) {
        const follows = shared.references.has(value.type);
        onDangling({ dn, attribute: value.description, value: value.value.toString(), follows });
        count++;
      }
    }
  }
  return count;
}

/** Returns the dangling references of an entry; deletes them with `remove`. Retries if an entry takes a name. */
async function danglingInEntry(
  context: SearchContext & WriteContext,
  id: Buffer,
  scannedRow: Buffer,
  remove: boolean,
): Promise<{ readonly dn: string; readonly value: ReplacedValue }[]> {
  const { store, schema, nodes } = context;
  for (let attempts = 0; attempts < MAX_TRIES; attempts++) {
    const storedRow = attempts === 0 && isWhole(scannedRow) ? scannedRow : await store.get(MASTER_TABLE.name, id);
    if (!storedRow) return [];
    const row = presentRow(context, storedRow);
    const dangling = await findDangling(context, row, remove);
    const node = dangling.length > 0 ? await nodes.byId(id) : undefined;
    if (!node) return [];
    const dn = schema.parseDnBytes(node.dn);
    try {
      if (remove) await replaceValues(context, { id, dn, row }, dangling, NEVER_PENDING);
      return dangling.map((value) => ({ dn: dn.text, value }));
    } catch (error) {
      if (!(error instanceof Overtaken)) throw error;
    }
  }
  throw new LdapError('busy', 'others keep changing an entry that has references to be removed');
}

async function findDangling(context: SearchContext, row: Buffer, followingOnly: boolean): Promise<ReplacedValue[]> {
  const { descriptions, schema, shared } = context;
  const dangling: ReplacedValue[] = [];
  const slice = new TimeSlice();
  const adminNorm = schema.parseDn(shared.settings.adminDn).norm;
  for (let offset = 0; offset < row.length && row[offset]! <= MASTER.upAttributes; offset = nextCell(row, offset)) {
    if (row[offset] !== MASTER.upAttributes) continue;
    const { description, text: name } = descriptions.ofCell(row, offset);
    const { type } = description;
    if (followingOnly ? !shared.references.has(type) : !namesEntries(type) || type.noUserModification) continue;
    const value = Buffer.from(row.subarray(valueStart(row, offset), nextCell(row, offset)));
    if (!type.equality!.normalize(value)) continue;
    const dn = schema.parseDnBytes(withoutUid(type, value));
    if (suffixRdnIndex(dn, shared.suffixes) < 0 || dn.norm.equals(adminNorm) || !(await isMissing(context, dn)))
      continue;
    dangling.push({
      type,
      description: name,
      value,
      currentValue: undefined,
      guard: await freeNameGuard(context, dn),
    });
    const pause = slice.yieldIfOver();
    if (isPromise(pause)) await pause;
  }
  return dangling;
}

/** Whether no entry has the name, neither here nor, by a referral, on another server. */
async function isMissing(context: SearchContext, dn: Dn): Promise<boolean> {
  try {
    await requireHead(context, context.store, dn, false);
    return false;
  } catch (error) {
    if (!(error instanceof LdapError)) throw error;
    if (error.result === 'referral') return false;
    if (error.result === 'noSuchObject') return true;
    throw error;
  }
}

/** Returns a guard that fails if an entry has taken the name; undefined if the parent of the name is missing. */
async function freeNameGuard({ nodes, shared }: SearchContext, dn: Dn): Promise<RowStep | undefined> {
  const isSuffix = shared.isSuffix(dn);
  const parent = isSuffix ? ROOT : await nodes.byDn(dn, 1, shared.suffixes);
  if (!parent) return undefined;
  const key = treeKey(parent.id, cutNorm(isSuffix ? dn.norm : dn.rdns[0]!.norm));
  const nameIsFree: Guard = { op: 'absent', family: TREE.treeInfo, qualifier: Q.id };
  return { table: TREE_TABLE.name, key, guards: [nameIsFree] };
}

/** The actor of writes by the server itself. */
export const SERVER: Actor = { dn: '', system: true };

/** Thrown when the pending changes are no longer valid: a deleted entry was restored or purged, or a name was taken. */
export class Overtaken extends Error {}

interface ReferringEntry {
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

interface ReplacedValue extends Omit<StaleValue, 'offset'> {
  /** Guard of a condition under which the value has to be replaced. */
  readonly guard?: RowStep | undefined;
}

export function singleValue(operation: 'add' | 'delete', type: string, value: Buffer): Modification {
  return { operation, attribute: { type, values: [value] } };
}
