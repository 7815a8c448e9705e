import { LdapError } from '../../../ldap/ldap-error.js';
import { batchesOf } from '../../../store/batches.js';
import type { PlanStep, RowStep } from '../../../store/contract.js';
import { isPromise } from '../../../store/maybe.js';
import type { Draft } from '../../model/draft.js';
import { MASTER_TABLE } from '../../model/tables.js';
import {
  conflictStep,
  firstOwnerStep,
  idText,
  MAX_OWNERS,
  type Owners,
  ownersKey,
  ownersOf,
  ownersSteps,
  readUniqueState,
  severalRange,
  UNIQUE_TABLE,
  uniqueKeyParts,
  uniqueValues,
} from '../../model/unique-rows.js';
import type { Unique } from '../../model/value-rules.js';
import { type Change, changedTypes } from '../change.js';
import type { Rule, Verdict, WriteContext } from '../context.js';
import { hasStored, loadLarge } from '../open.js';
import { crosses, isInScope, standingOf } from '../unique-scope.js';

/**
 * Values that are to be unique are nobody else's in the scope of the constraint. The row of a value says whose it is,
 * also of entries outside of the constraint's subtree, so that these can be moved into it: see ADR 32.
 */
export const UNIQUE: Rule = {
  name: 'unique values',

  change(context, change) {
    const { unique } = context.shared.values;
    // A name that is taken is told of first: whoever imports once more takes such an entry for done.
    if (unique.length === 0 || change.obstacle) return undefined;
    const touched = touchedBy(change, unique);
    if (change.isBatched) return touched.length === 0 ? undefined : { steps: firstSteps(context, change, touched) };
    const crossed = crossedBy(context, change, unique);
    return touched.length + crossed.length === 0 ? undefined : judged(context, change, touched, crossed);
  },
};

/** Constraints that the change concerns: none, for all but a few changes. */
function touchedBy(change: Change, unique: readonly Unique[]): readonly Unique[] {
  const { before, after } = change;
  if (before && after) {
    const types = changedTypes(change);
    return unique.filter(({ relevantTypes }) => [...types].some((type) => relevantTypes.has(type)));
  }
  const { attributes } = after ?? before!.draft;
  return unique.filter(({ types }) => attributes.some(({ description }) => types.has(description.type)));
}

/** Constraints over the edge of whose subtree entries go. */
function crossedBy({ shared }: WriteContext, { op, place }: Change, unique: readonly Unique[]): readonly Unique[] {
  if (op !== 'rename') return [];
  return unique.filter((one) => crosses(one, place.from!, place.to!, shared.suffixes));
}

/** Of a batch: each value is nobody's, or its entries are added one by one. */
function firstSteps(context: WriteContext, { id, after }: Change, touched: readonly Unique[]): RowStep[] {
  return touched.flatMap((unique) =>
    [...valuesIn(context, unique, after).values()].map((norm) => firstOwnerStep(unique, norm, id)),
  );
}

function valuesIn(context: WriteContext, unique: Unique, draft: Draft | undefined): ReadonlyMap<string, Buffer> {
  if (!draft || (unique.filter && !context.fits(unique.filter, draft))) return NONE;
  return uniqueValues(unique, draft);
}

const NONE: ReadonlyMap<string, Buffer> = new Map();

async function judged(
  context: WriteContext,
  change: Change,
  touched: readonly Unique[],
  crossed: readonly Unique[],
): Promise<Verdict> {
  const steps: PlanStep[] = [];
  for (const unique of new Set([...touched, ...crossed])) {
    const turned = touched.includes(unique) ? await turnedValues(context, change, unique) : NOTHING;
    if (turned.gone.size + turned.come.size > 0) {
      const made = await valueSteps(context, change, unique, turned);
      if (made instanceof LdapError) return { refuse: made };
      steps.push(...made);
    }
    if (!crossed.includes(unique)) continue;
    const made = await crossingStep(context, change, unique, turned);
    if (made instanceof LdapError) return { refuse: made };
    steps.push(made);
  }
  return { steps };
}

/** Cut normal forms, by Latin-1. */
interface Turned {
  readonly gone: ReadonlyMap<string, Buffer>;
  readonly come: ReadonlyMap<string, Buffer>;
}

const NOTHING: Turned = { gone: NONE, come: NONE };

/** Values that the change takes from the entry, and gives it, as the constraint sees them. */
async function turnedValues(context: WriteContext, change: Change, unique: Unique): Promise<Turned> {
  const { before, after } = change;
  const were = valuesIn(context, unique, before && (await whole(context, change.id, unique, before.draft)));
  const are = valuesIn(context, unique, after && (await whole(context, change.id, unique, after)));
  return { gone: without(were, are), come: without(are, were) };
}

function without(all: ReadonlyMap<string, Buffer>, some: ReadonlyMap<string, Buffer>): ReadonlyMap<string, Buffer> {
  return new Map([...all].filter(([name]) => !some.has(name)));
}

/** The draft with the large values that the constraint looks at. */
async function whole({ store }: WriteContext, id: Buffer, { relevantTypes }: Unique, draft: Draft): Promise<Draft> {
  const lacks = draft.attributes.some((one) => relevantTypes.has(one.description.type) && hasStored(one));
  return lacks ? loadLarge(store, MASTER_TABLE.name, id, draft, (type) => relevantTypes.has(type)) : draft;
}

/** Steps that give values away and take others. */
async function valueSteps(
  context: WriteContext,
  change: Change,
  unique: Unique,
  { gone, come }: Turned,
): Promise<PlanStep[] | LdapError> {
  const norms = [...gone.values(), ...come.values()];
  const read = context.store.getMany(
    UNIQUE_TABLE.name,
    norms.map((norm) => ownersKey(unique, norm)),
  );
  const rows = isPromise(read) ? await read : read;
  const id = idText(change.id);
  const steps: PlanStep[] = [];
  for (const [i, norm] of norms.entries()) {
    const owners = ownersOf(rows[i]);
    const others = owners.ids.filter((one) => one !== id);
    const comes = i >= gone.size;
    // While the rows are made, one may not have been made yet.
    if (!comes && others.length === owners.ids.length) continue;
    if (comes && unique.record.ready && (owners.many || others.length > 0)) {
      const made = await besideOthers(context, change, unique, { ...owners, ids: others });
      if (made instanceof LdapError) return made;
      steps.push(...made);
    }
    steps.push(...ownersSteps(unique, norm, owners, comes ? [...others, id] : others));
  }
  return steps;
}

/** Guards by which the entry may have a value of others: not all of them are in the constraint's subtree. */
async function besideOthers(
  { store, shared }: WriteContext,
  change: Change,
  unique: Unique,
  { ids, many }: Owners,
): Promise<RowStep[] | LdapError> {
  if (!unique.subtree) return takenError(unique);
  if (many || ids.length >= MAX_OWNERS) return manyError(unique);
  const moving = { id: change.id, to: change.place.to };
  const own = await standingOf(store, change.id, moving);
  if (!isInScope(unique, own.path, shared.suffixes)) return [...own.guards];
  const steps: RowStep[] = [];
  for (const id of ids) {
    const { path, guards } = await standingOf(store, Buffer.from(id, 'latin1'), moving);
    if (isInScope(unique, path, shared.suffixes)) return takenError(unique);
    steps.push(...guards);
  }
  return steps;
}

/**
 * Entries get in or out of the subtree: of no value that several entries have two may be in it then. Whoever lets
 * another entry have a value meanwhile, or moves entries over the edge, makes this plan fail.
 */
async function crossingStep(
  context: WriteContext,
  change: Change,
  unique: Unique,
  turned: Turned,
): Promise<RowStep | LdapError> {
  const { store } = context;
  const { together } = await readUniqueState(store, unique);
  if (!unique.record.ready) return conflictStep(unique, together);
  // What was decided before is to be seen wholly.
  await store.quiet?.();
  const moving = { id: change.id, to: change.place.to };
  const scan = store.scan(UNIQUE_TABLE.name, severalRange(unique), { keysOnly: true });
  for await (const batch of batchesOf(scan)) {
    for (const key of batch.keys) {
      const norm = uniqueKeyParts(key).value!;
      const ids = await ownersBehind(context, change, unique, turned, norm);
      if ((await countInScope(context, unique, ids, moving)) > 1) return movedError(unique);
    }
  }
  return conflictStep(unique, together);
}

async function ownersBehind(
  { store }: WriteContext,
  { id }: Change,
  unique: Unique,
  { gone, come }: Turned,
  norm: Buffer,
): Promise<readonly string[]> {
  const { ids } = ownersOf(await store.get(UNIQUE_TABLE.name, ownersKey(unique, norm)));
  const [own, name] = [idText(id), idText(norm)];
  if (gone.has(name)) return ids.filter((one) => one !== own);
  return come.has(name) && !ids.includes(own) ? [...ids, own] : ids;
}

/** How many of the entries are in the scope; 2 for all that are more. */
async function countInScope(
  { store, shared }: WriteContext,
  unique: Unique,
  ids: readonly string[],
  moving: Parameters<typeof standingOf>[2],
): Promise<number> {
  let count = 0;
  for (const id of ids) {
    const { path } = await standingOf(store, Buffer.from(id, 'latin1'), moving);
    if (isInScope(unique, path, shared.suffixes) && ++count === 2) break;
  }
  return count;
}

/** Names no entry: who writes may not see it. */
function takenError({ text }: Unique): LdapError {
  return new LdapError('constraintViolation', `another entry has this value already, which is to be unique: ${text}`);
}

function manyError({ text }: Unique): LdapError {
  const message = `${MAX_OWNERS} entries have this value outside of the subtree in which it is to be unique: ${text}`;
  return new LdapError('constraintViolation', `${message}; give the constraint a filter that leaves them out`);
}

function movedError({ text }: Unique): LdapError {
  return new LdapError(
    'constraintViolation',
    `at the new place two entries would have one value that is to be unique: ${text}`,
  );
}
