import { LdapError } from '../../../ldap/ldap-error.js';
import type { PlanStep, RowStep } from '../../../store/contract.js';
import { batchesOf, isPromise } from '../../../store/maybe.js';
import type { Draft } from '../../model/draft.js';
import { MASTER_TABLE } from '../../model/tables.js';
import {
  conflictStep,
  firstOwnerStep,
  idText,
  MAX_OWNERS,
  type Owners,
  ownersRowKey,
  ownersSteps,
  parseOwners,
  parseUniqueKey,
  readUniqueState,
  severalRange,
  UNIQUE_TABLE,
  uniqueValues,
} from '../../model/unique-rows.js';
import type { Constraint } from '../../model/value-rules.js';
import { type Change, changedTypes, type Rule, type Verdict, type WriteContext } from '../context.js';
import { hasPointer, loadLarge } from '../open.js';
import { crosses, isInScope, positionOf } from '../unique-scope.js';

/**
 * Refuses a value that another entry in the scope of a uniqueness constraint has. The row of a value lists all its
 * owners, also those outside the constraint's subtree, because they may be moved into it (ADR 32).
 */
export const UNIQUE: Rule = {
  name: 'unique values',

  checkChange(context, change) {
    const { constraints } = context.shared.values;
    // Report a taken name first: a repeated import skips such entries as done.
    if (constraints.length === 0 || change.obstacle) return undefined;
    const touchedConstraints = findTouched(change, constraints);
    if (change.isBatched)
      return touchedConstraints.length === 0 ? undefined : { steps: batchSteps(context, change, touchedConstraints) };
    const crossedConstraints = findCrossed(context, change, constraints);
    return touchedConstraints.length + crossedConstraints.length === 0
      ? undefined
      : checkConstraints(context, change, touchedConstraints, crossedConstraints);
  },
};

/** Returns the constraints on attributes that the change touches; none for most changes. */
function findTouched(change: Change, unique: readonly Constraint[]): readonly Constraint[] {
  const { before, after } = change;
  if (before && after) {
    const types = changedTypes(change);
    return unique.filter(({ relevantTypes }) => [...types].some((type) => relevantTypes.has(type)));
  }
  const { attributes } = after ?? before!.draft;
  return unique.filter(({ types }) => attributes.some(({ description }) => types.has(description.type)));
}

/** Returns the constraints whose subtree the change moves entries into or out of. */
function findCrossed(
  { shared }: WriteContext,
  { op, place }: Change,
  unique: readonly Constraint[],
): readonly Constraint[] {
  if (op !== 'rename') return [];
  return unique.filter((constraint) => crosses(constraint, place.from!, place.to!, shared.suffixes));
}

/** Returns the steps for an entry in a batch. If a value has an owner they fail, and entries are added one by one. */
function batchSteps(context: WriteContext, { id, after }: Change, touched: readonly Constraint[]): RowStep[] {
  return touched.flatMap((unique) =>
    [...normsOf(context, unique, after).values()].map((norm) => firstOwnerStep(unique, norm, id)),
  );
}

function normsOf(context: WriteContext, unique: Constraint, draft: Draft | undefined): ReadonlyMap<string, Buffer> {
  if (!draft || (unique.filter && !context.fits(unique.filter, draft))) return NO_NORMS;
  return uniqueValues(unique, draft);
}

const NO_NORMS: ReadonlyMap<string, Buffer> = new Map();

async function checkConstraints(
  context: WriteContext,
  change: Change,
  touched: readonly Constraint[],
  crossed: readonly Constraint[],
): Promise<Verdict> {
  const steps: PlanStep[] = [];
  for (const unique of new Set([...touched, ...crossed])) {
    const valueChange = touched.includes(unique) ? await changedValues(context, change, unique) : NO_VALUE_CHANGE;
    if (valueChange.removedNorms.size + valueChange.addedNorms.size > 0) {
      const stepsOrError = await valueSteps(context, change, unique, valueChange);
      if (stepsOrError instanceof LdapError) return { refuse: stepsOrError };
      steps.push(...stepsOrError);
    }
    if (!crossed.includes(unique)) continue;
    const stepOrError = await crossingStep(context, change, unique, valueChange);
    if (stepOrError instanceof LdapError) return { refuse: stepOrError };
    steps.push(stepOrError);
  }
  return { steps };
}

/** The values that a change removes and adds: cut normal forms by their Latin-1 text. */
interface ValueChange {
  readonly removedNorms: ReadonlyMap<string, Buffer>;
  readonly addedNorms: ReadonlyMap<string, Buffer>;
}

const NO_VALUE_CHANGE: ValueChange = { removedNorms: NO_NORMS, addedNorms: NO_NORMS };

/** Returns the values under the constraint that the change removes and adds. */
async function changedValues(context: WriteContext, change: Change, unique: Constraint): Promise<ValueChange> {
  const { before, after } = change;
  const draftBefore = before && (await withLargeValues(context, change.id, unique, before.draft));
  const normsBefore = normsOf(context, unique, draftBefore);
  const normsAfter = normsOf(context, unique, after && (await withLargeValues(context, change.id, unique, after)));
  return { removedNorms: withoutKeys(normsBefore, normsAfter), addedNorms: withoutKeys(normsAfter, normsBefore) };
}

function withoutKeys(all: ReadonlyMap<string, Buffer>, some: ReadonlyMap<string, Buffer>): ReadonlyMap<string, Buffer> {
  return new Map([...all].filter(([name]) => !some.has(name)));
}

/** Returns the draft with the large values that the constraint needs. */
async function withLargeValues(
  { store }: WriteContext,
  id: Buffer,
  { relevantTypes }: Constraint,
  draft: Draft,
): Promise<Draft> {
  const hasUnreadValues = draft.attributes.some(
    (attribute) => relevantTypes.has(attribute.description.type) && hasPointer(attribute),
  );
  return hasUnreadValues ? loadLarge(store, MASTER_TABLE.name, id, draft, (type) => relevantTypes.has(type)) : draft;
}

/** Returns the steps that change the owners of values; an error if an added value is taken. */
async function valueSteps(
  context: WriteContext,
  change: Change,
  unique: Constraint,
  { removedNorms, addedNorms }: ValueChange,
): Promise<PlanStep[] | LdapError> {
  const norms = [...removedNorms.values(), ...addedNorms.values()];
  const maybeRows = context.store.getMany(
    UNIQUE_TABLE.name,
    norms.map((norm) => ownersRowKey(unique, norm)),
  );
  const rows = isPromise(maybeRows) ? await maybeRows : maybeRows;
  const id = idText(change.id);
  const steps: PlanStep[] = [];
  for (const [i, norm] of norms.entries()) {
    const owners = parseOwners(rows[i]);
    const otherIds = owners.ids.filter((owner) => owner !== id);
    const isAdded = i >= removedNorms.size;
    // The row may not exist while the rows of a new constraint are being built.
    if (!isAdded && otherIds.length === owners.ids.length) continue;
    if (isAdded && unique.record.ready && (owners.isTruncated || otherIds.length > 0)) {
      const stepsOrError = await guardSharedValue(context, change, unique, { ...owners, ids: otherIds });
      if (stepsOrError instanceof LdapError) return stepsOrError;
      steps.push(...stepsOrError);
    }
    steps.push(...ownersSteps(unique, norm, owners, isAdded ? [...otherIds, id] : otherIds));
  }
  return steps;
}

/**
 * Returns guards under which the entry may share a value with other owners: either the entry or all other owners are
 * outside the subtree. Otherwise returns the error.
 */
async function guardSharedValue(
  { store, shared }: WriteContext,
  change: Change,
  unique: Constraint,
  { ids, isTruncated }: Owners,
): Promise<RowStep[] | LdapError> {
  if (!unique.subtree) return takenError(unique);
  if (isTruncated || ids.length >= MAX_OWNERS) return tooManyOwnersError(unique);
  const pendingMove = { id: change.id, to: change.place.to };
  const position = await positionOf(store, change.id, pendingMove);
  if (!isInScope(unique, position.path, shared.suffixes)) return [...position.guards];
  const steps: RowStep[] = [];
  for (const id of ids) {
    const { path, guards } = await positionOf(store, Buffer.from(id, 'latin1'), pendingMove);
    if (isInScope(unique, path, shared.suffixes)) return takenError(unique);
    steps.push(...guards);
  }
  return steps;
}

/**
 * Checks a move into or out of the subtree. After it, at most one owner of each shared value may be in the subtree.
 * Returns a step whose guard fails if a concurrent plan adds an owner to a value, or moves entries as well.
 */
async function crossingStep(
  context: WriteContext,
  change: Change,
  unique: Constraint,
  turned: ValueChange,
): Promise<RowStep | LdapError> {
  const { store } = context;
  const { conflictCount: conflicts } = await readUniqueState(store, unique);
  if (!unique.record.ready) return conflictStep(unique, conflicts);
  // Wait until the rows of all decided plans can be read.
  await store.waitUntilQuiet?.();
  const pendingMove = { id: change.id, to: change.place.to };
  const scan = store.scan(UNIQUE_TABLE.name, severalRange(unique), { keysOnly: true });
  for await (const batch of batchesOf(scan)) {
    for (const key of batch.keys) {
      const norm = parseUniqueKey(key).norm!;
      const ids = await ownerIdsAfter(context, change, unique, turned, norm);
      if ((await countInScope(context, unique, ids, pendingMove)) > 1) return moveConflictError(unique);
    }
  }
  return conflictStep(unique, conflicts);
}

async function ownerIdsAfter(
  { store }: WriteContext,
  { id }: Change,
  unique: Constraint,
  { removedNorms, addedNorms }: ValueChange,
  norm: Buffer,
): Promise<readonly string[]> {
  const { ids } = parseOwners(await store.get(UNIQUE_TABLE.name, ownersRowKey(unique, norm)));
  const [ownId, normKey] = [idText(id), idText(norm)];
  if (removedNorms.has(normKey)) return ids.filter((owner) => owner !== ownId);
  return addedNorms.has(normKey) && !ids.includes(ownId) ? [...ids, ownId] : ids;
}

/** Returns the number of entries in the scope, at most 2. */
async function countInScope(
  { store, shared }: WriteContext,
  unique: Constraint,
  ids: readonly string[],
  moving: Parameters<typeof positionOf>[2],
): Promise<number> {
  let count = 0;
  for (const id of ids) {
    const { path } = await positionOf(store, Buffer.from(id, 'latin1'), moving);
    if (isInScope(unique, path, shared.suffixes) && ++count === 2) break;
  }
  return count;
}

/** Does not name the other entry, which the actor may not see. */
function takenError({ text }: Constraint): LdapError {
  return new LdapError('constraintViolation', `another entry has this value already, which is to be unique: ${text}`);
}

function tooManyOwnersError({ text }: Constraint): LdapError {
  const message = `${MAX_OWNERS} entries have this value outside of the subtree in which it is to be unique: ${text}`;
  return new LdapError('constraintViolation', `${message}; give the constraint a filter that leaves them out`);
}

function moveConflictError({ text }: Constraint): LdapError {
  return new LdapError(
    'constraintViolation',
    `at the new place two entries would have one value that is to be unique: ${text}`,
  );
}
