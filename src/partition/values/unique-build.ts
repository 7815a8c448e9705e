import { LdapError } from '../../ldap/ldap-error.js';
import type { PlanStep } from '../../store/contract.js';
import { batchesOf, isPromise } from '../../store/maybe.js';
import { cellValue } from '../../store/row.js';
import { isGuardFailure, StoreError } from '../../store/store-error.js';
import { keyAfter } from '../../store/tables.js';
import { implyingDraft } from '../model/implied.js';
import { retryWhileReplaced } from '../model/large.js';
import { MASTER, MASTER_TABLE, Q } from '../model/tables.js';
import {
  conflictStep,
  idText,
  type Owners,
  ownersRowKey,
  ownersSteps,
  parseOwners,
  parseUniqueKey,
  progressStep,
  readUniqueState,
  severalRange,
  UNIQUE_TABLE,
  type UniqueState,
  uniqueValues,
} from '../model/unique-rows.js';
import type { Constraint } from '../model/value-rules.js';
import { retryWithFreshState, type WriteContext } from '../write/context.js';
import { mergeSteps } from '../write/merge-steps.js';
import { isInScope, positionOf } from '../write/unique-scope.js';
import { sweepUnique } from './unique-admin.js';

const ENTRIES_PER_PLAN = 256;
/** Attempts to write a chunk of entries as one plan. After that, each entry gets a plan of its own. */
const CHUNK_ATTEMPTS = 3;
const ENTRY_ATTEMPTS = 1000;

/** A value that several entries in the scope of a constraint have. It prevents putting the constraint in force. */
export interface Conflict {
  readonly number: number;
  readonly value: string;
  /** DNs of the entries, at least two. Empty: there are too many owners to list. */
  readonly dns: readonly string[];
}

export interface UniqueListener {
  onConflict?(conflict: Conflict): void;
  /** Receives the number of entries read so far. */
  onProgress?(entriesRead: number): void;
}

/**
 * Builds the rows of constraints that are not in force, puts the ones without conflicts in force, and reports the
 * conflicts of the rest. Writers update the rows from the moment a constraint is listed. Therefore the build adds only
 * entries from before, in key order, and its plans guard the versions that were read. The position is stored, and the
 * next call continues there. Concurrent builds do the same work twice without harm.
 */
export async function finishUnique(context: WriteContext, listener: UniqueListener = {}): Promise<void> {
  const fresh = context.shared.refresh();
  if (isPromise(fresh)) await fresh;
  await sweepUnique(context);
  const progress = { entryCount: 0, report: listener.onProgress };
  for (const { record } of context.shared.values.constraints) {
    if (record.ready || !(await buildRows(context, record.number, progress))) continue;
    await putInForce(context, record.number, listener.onConflict);
  }
}

interface Progress {
  entryCount: number;
  readonly report: UniqueListener['onProgress'];
}

/** Returns the constraint as it is listed now; undefined if it was removed. */
function currentConstraint(context: WriteContext, number: number): Constraint | undefined {
  return context.shared.values.constraints.find(({ record }) => record.number === number);
}

/** Writes the rows of all entries. Returns false if the constraint is removed meanwhile. */
async function buildRows(context: WriteContext, number: number, progress: Progress): Promise<boolean> {
  const unique = currentConstraint(context, number);
  if (!unique) return false;
  const { doneId: lastId } = await readUniqueState(context.store, unique);
  const scan = context.store.scan(MASTER_TABLE.name, lastId ? { from: keyAfter(lastId) } : {});
  for await (const batch of batchesOf(scan)) {
    for (let start = 0; start < batch.keys.length; start += ENTRIES_PER_PLAN) {
      const keys = batch.keys.slice(start, start + ENTRIES_PER_PLAN);
      const rows = batch.rows.slice(start, start + ENTRIES_PER_PLAN);
      if (!(await buildChunk(context, number, keys, rows))) return false;
      progress.entryCount += keys.length;
      progress.report?.(progress.entryCount);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }
  return true;
}

/** Writes the rows of some entries; reads changed entries again. Returns false if the constraint was removed. */
async function buildChunk(
  context: WriteContext,
  number: number,
  keys: readonly Buffer[],
  firstRows: readonly (Buffer | undefined)[],
): Promise<boolean> {
  let rows = firstRows;
  for (let attempts = 1; ; attempts++) {
    const unique = currentConstraint(context, number);
    if (!unique) return false;
    try {
      await commitChunk(context, unique, keys, rows);
      return true;
    } catch (error) {
      if (!isGuardFailure(error)) throw error;
      if (attempts === ENTRY_ATTEMPTS)
        throw new LdapError('busy', 'an entry keeps changing while it is looked at; try again', { cause: error });
    }
    const fresh = context.shared.refresh();
    if (isPromise(fresh)) await fresh;
    rows = await context.store.getMany(MASTER_TABLE.name, keys);
    if (keys.length === 1 || attempts < CHUNK_ATTEMPTS) continue;
    for (const [i, key] of keys.entries()) if (!(await buildChunk(context, number, [key], [rows[i]]))) return false;
    return true;
  }
}

async function commitChunk(
  context: WriteContext,
  unique: Constraint,
  keys: readonly Buffer[],
  rows: readonly (Buffer | undefined)[],
): Promise<void> {
  const steps: PlanStep[] = [context.shared.guardStep(false), progressStep(unique, keys.at(-1)!)];
  const ownersByValue = new Map<string, { readonly norm: Buffer; readonly ids: string[] }>();
  for (const [i, id] of keys.entries()) {
    const entry = await guardedValues(context, unique, id, rows[i]);
    if (entry.values.size === 0) continue;
    steps.push(entry.guard!);
    for (const [key, norm] of entry.values) {
      const value = ownersByValue.get(key);
      if (value) value.ids.push(idText(id));
      else ownersByValue.set(key, { norm, ids: [idText(id)] });
    }
  }
  const values = [...ownersByValue.values()];
  const ownerRows = await context.store.getMany(
    UNIQUE_TABLE.name,
    values.map(({ norm }) => ownersRowKey(unique, norm)),
  );
  for (const [i, { norm, ids }] of values.entries())
    steps.push(...addOwnersSteps(unique, norm, parseOwners(ownerRows[i]), ids));
  await context.store.commit({ steps: mergeSteps(steps), decisive: 0 });
}

function addOwnersSteps(unique: Constraint, norm: Buffer, owners: Owners, ids: readonly string[]): PlanStep[] {
  const newIds = ids.filter((id) => !owners.ids.includes(id));
  return newIds.length === 0 || owners.isTruncated ? [] : ownersSteps(unique, norm, owners, [...owners.ids, ...newIds]);
}

/** Returns the values of an entry under a constraint, and a guard that fails if the entry has changed. */
export async function guardedValues(
  context: WriteContext,
  unique: Constraint,
  id: Buffer,
  row: Buffer | undefined,
): Promise<{ readonly values: ReadonlyMap<string, Buffer>; readonly guard: PlanStep | undefined }> {
  return retryWhileReplaced(async (isRetry) => {
    const currentRow = isRetry ? await context.store.get(MASTER_TABLE.name, id) : row;
    if (!currentRow) return { values: new Map(), guard: undefined };
    const draft = await implyingDraft(context, MASTER_TABLE.name, id, currentRow);
    const isCovered = !unique.filter || context.fits(unique.filter, draft);
    const value = cellValue(currentRow, MASTER.treeInfo, Q.version);
    if (!value) throw new StoreError('corrupt', `entry ${id.toString('hex')} has no version; run \`rowan check\``);
    const versionGuard = { op: 'equals', family: MASTER.treeInfo, qualifier: Q.version, value } as const;
    return {
      values: isCovered ? uniqueValues(unique, draft) : new Map<string, Buffer>(),
      guard: { table: MASTER_TABLE.name, key: id, guards: [versionGuard] },
    };
  });
}

/** Puts the constraint in force unless there is a conflict. Its guard fails if a conflict arises during the check. */
async function putInForce(
  context: WriteContext,
  number: number,
  onConflict: UniqueListener['onConflict'],
): Promise<void> {
  await retryWithFreshState(context, async () => {
    const unique = currentConstraint(context, number);
    if (!unique || unique.record.ready) return;
    const stateBefore = await readUniqueState(context.store, unique);
    // Wait until the rows of all decided plans can be read.
    await context.store.waitUntilQuiet?.();
    const conflicts: Conflict[] = [];
    for await (const conflict of findConflicts(context, unique)) conflicts.push(conflict);
    for (const conflict of conflicts) onConflict?.(conflict);
    if (conflicts.length === 0) await setReady(context, unique, stateBefore);
  });
}

async function setReady(
  context: WriteContext,
  { record }: Constraint,
  { conflictCount: conflicts }: UniqueState,
): Promise<void> {
  const { shared } = context;
  const { records } = shared.values;
  const unique = records.unique.map((one) => (one.number === record.number ? { ...one, ready: true } : one));
  const noNewConflict = conflictStep(currentConstraint(context, record.number)!, conflicts);
  await shared.setValues({ ...records, unique }, [noNewConflict]);
}

/** Yields the values that several entries in the scope have. */
export async function* findConflicts(context: WriteContext, unique: Constraint): AsyncGenerator<Conflict> {
  const scan = context.store.scan(UNIQUE_TABLE.name, severalRange(unique), { keysOnly: true });
  for await (const batch of batchesOf(scan)) {
    for (const key of batch.keys) {
      const conflict = await readConflict(context, unique, parseUniqueKey(key).norm!);
      if (conflict) yield conflict;
    }
  }
}

async function readConflict(context: WriteContext, unique: Constraint, norm: Buffer): Promise<Conflict | undefined> {
  const { number } = unique.record;
  const value = norm.toString();
  const { ids, isTruncated } = parseOwners(await context.store.get(UNIQUE_TABLE.name, ownersRowKey(unique, norm)));
  if (isTruncated) return { number, value, dns: [] };
  const dns: string[] = [];
  for (const text of ids) {
    const id = Buffer.from(text, 'latin1');
    const { path } = await positionOf(context.store, id, { id: NO_ID, to: undefined });
    if (!isInScope(unique, path, context.shared.suffixes)) continue;
    const node = await context.nodes.byId(id);
    if (node) dns.push(node.dn.toString());
  }
  return dns.length > 1 ? { number, value, dns: dns.sort() } : undefined;
}

const NO_ID = Buffer.alloc(0);
