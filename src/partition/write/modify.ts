import { LdapError } from '../../ldap/ldap-error.js';
import type { Modification } from '../../ldap/ldap-types.js';
import type { AttributeDescription, AttributeType, Dn, Rdn } from '../../schema/schema-types.js';
import { EMPTY } from '../../store/row.js';
import type {
  Actor,
  AttributeChange,
  Modifier as ModificationsOf,
  ModifyOptions,
  SplitChanges,
  WriteOptions,
  WriteRequest,
} from '../model/directory-types.js';
import { type Draft, hasValue } from '../model/draft.js';
import { normRule } from '../model/implied.js';
import { valueNormText } from '../model/present-row.js';
import { MASTER_TABLE, type Node, upRdnOf } from '../model/tables.js';
import { refuseReferral, requireHead } from '../tree/locate.js';
import { withRights, write } from './attempt.js';
import { DraftEditor } from './changer.js';
import { completeClasses } from './complete.js';
import { type Change, PendingNamesError, type StoredEntry, type Target, type WriteContext } from './context.js';
import { LargeValueWriter } from './large-ahead.js';
import { loadLarge, openNarrow, openWhole } from './open.js';
import { isSpecial } from './plan.js';
import { requireEntryAllowed, requireRequestAllowed } from './rules/apply.js';

/** Modifies an entry (RFC 4511 §4.6). Applies all modifications or none. */
export async function modify(
  context: WriteContext,
  dn: Dn,
  requestedChanges: readonly Modification[] | ModificationsOf,
  actor: Actor,
  options: ModifyOptions = {},
): Promise<void> {
  if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be modified');
  const fixedModifications = typeof requestedChanges === 'function' ? undefined : requestedChanges;
  // An observer may look at all values.
  const announcedModifications = options.observer
    ? undefined
    : (fixedModifications ?? options.touchedDescriptions?.map(anyChange));
  const request = { op: 'modify', actor, changes: changesOf(context, fixedModifications ?? []) } as const;
  const largeWriter = new LargeValueWriter(context.store, MASTER_TABLE.name);
  await write(context, {
    lockKey: dn.norm,
    request,
    largeWriter,
    attachedSteps: options.attached,
    observer: options.observer,
    async find() {
      const { node, row } = await requireHead(context, context.store, dn, options.manageDsaIT ?? false);
      const stored =
        (announcedModifications && (await openNarrow(context, { node, row }, dn, announcedModifications))) ??
        (await openWhole(context, { node, row }, options.refuseLong ?? false));
      if (!options.manageDsaIT && isSpecial(stored.draft)) refuseReferral(context, { node, row: stored.row }, dn);
      return { node, stored };
    },
    async change({ node, stored }) {
      const { clientChanges: requested, serverChanges } = fixedModifications
        ? { clientChanges: fixedModifications, serverChanges: [] }
        : await makeModifications(requestedChanges as ModificationsOf, { id: node.id, row: stored.row });
      const modifications = serverChanges.length > 0 ? [...requested, ...serverChanges] : requested;
      if (!fixedModifications) {
        requireAnnounced(modifications, options.touchedDescriptions);
        await requireAllAllowed(context, { ...request, changes: changesOf(context, requested) }, { node, stored });
      }
      if (!options.isSettlement) requireSettledNames(context, modifications);
      return modificationOf(context, dn, node, stored, modifications, actor, options);
    },
  });
}

/**
 * Throws `PendingNamesError` if a modification names a reference that may be stored under a former name. Values are
 * compared by current names, so the stored references have to be updated first.
 */
function requireSettledNames({ shared, schema }: WriteContext, modifications: readonly Modification[]): void {
  if (shared.nameChanges.isEmpty) return;
  for (const { attribute } of modifications) {
    const { type } = schema.requireDescription(attribute.type);
    if (!shared.references.has(type)) continue;
    for (const value of attribute.values)
      if (shared.nameChanges.storedNormTexts(valueNormText(type, value)).length !== 1) throw new PendingNamesError();
  }
}

/** Calls the function that makes the modifications from the entry. */
async function makeModifications(
  makeChanges: ModificationsOf,
  target: Parameters<ModificationsOf>[0],
): Promise<SplitChanges> {
  const modifications = await makeChanges(target);
  return 'serverChanges' in modifications ? modifications : { clientChanges: modifications, serverChanges: [] };
}

/** Returns a modification that changes the attribute in an unspecified way, for access checks. */
function anyChange(type: string): Modification {
  return { operation: 'replace', attribute: { type, values: [] } };
}

/** Throws if a modification changes an attribute that is not in `touchedDescriptions`. */
function requireAnnounced(modifications: readonly Modification[], touches: readonly string[] | undefined): void {
  const announcedTypes = touches && new Set(touches);
  const unannounced = announcedTypes && modifications.find(({ attribute }) => !announcedTypes.has(attribute.type));
  if (unannounced) throw new TypeError(`'${unannounced.attribute.type}' is changed, which was not announced`);
}

/** Throws if the actor may not make the changes to the current entry. Called before expensive preparations. */
export async function requireModifyAllowed(
  context: WriteContext,
  dn: Dn,
  changes: readonly Modification[],
  actor: Actor,
  { manageDsaIT = false }: WriteOptions = {},
): Promise<void> {
  const request = { op: 'modify', actor, changes: changesOf(context, changes) } as const;
  requireRequestAllowed(context, request);
  await withRights(context, actor, async () => {
    const { node } = await requireHead(context, context.store, dn, manageDsaIT);
    await requireEntryAllowed(context, request, { node, stored: undefined });
  });
}

/** Checks the rights for modifications that were made from the entry. */
async function requireAllAllowed(context: WriteContext, asked: WriteRequest, target: Target): Promise<void> {
  requireRequestAllowed(context, asked);
  await requireEntryAllowed(context, asked, target);
}

/** Returns the changes by attribute, for access checks. An increment (RFC 4525) counts as a replacement. */
function changesOf(context: WriteContext, modifications: readonly Modification[]): AttributeChange[] {
  return modifications.map(({ operation, attribute }) => ({
    operation: operation === 'increment' ? 'replace' : operation,
    description: context.schema.requireDescription(attribute.type),
  }));
}

async function modificationOf(
  context: WriteContext,
  dn: Dn,
  node: Node,
  { row, draft }: StoredEntry,
  modifications: readonly Modification[],
  actor: Actor,
  { refuseLong, isSettlement, isPermissive }: ModifyOptions,
): Promise<Change> {
  const { store, schema } = context;
  const isNeeded = (type: AttributeType) => needsValues(context, modifications, type);
  const maybeDraft = loadLarge(store, MASTER_TABLE.name, node.id, draft, isNeeded, refuseLong);
  const before = { row, draft: await maybeDraft };
  const after = before.draft.copy();
  const changer = new DraftEditor(context, after, isPermissive);
  for (const modification of modifications) changer.apply(modification);
  changer.writeBack();
  settlePlaceholders(context, after, modifications, isSettlement);
  const classes = schema.requireDescription('objectClass');
  if (after.get(classes) !== before.draft.get(classes)) completeClasses(schema, after);
  const rdn = dn.rdns[0]!;
  requireRdnValues(context, after, rdn);
  const place = { from: node, to: node, upRdn: upRdnOf(row), rdn };
  const { lockTimes } = changer;
  return { op: 'modify', id: node.id, actor, before, after, place, modifications, lockTimes, isSettlement };
}

/** Whether the modifications need the values of a type: other rows derive from them, or some values stay. */
function needsValues(context: WriteContext, modifications: readonly Modification[], type: AttributeType): boolean {
  const { schema } = context;
  let isChanged = false;
  for (const { operation, attribute } of modifications) {
    if (schema.requireDescription(attribute.type).type !== type) continue;
    isChanged = true;
    if (operation !== 'replace' && !(operation === 'delete' && attribute.values.length === 0)) return true;
  }
  return isChanged && normRule(type) !== undefined;
}

/** Throws `notAllowedOnRDN` if a value of the RDN is missing (RFC 4511 §4.6). */
function requireRdnValues(context: WriteContext, draft: Draft, rdn: Rdn): void {
  for (const ava of rdn.avas) {
    const attribute = draft.get(context.schema.requireDescription(ava.type.name));
    if (attribute && hasValue(attribute.values, ava)) continue;
    throw new LdapError(
      'notAllowedOnRDN',
      `the value of '${ava.type.name}' that names the entry cannot be removed; rename the entry instead`,
    );
  }
}

/**
 * Adds or removes the empty DN, which names no entry: the placeholder of references that a class requires. The server
 * adds it when it removes the last reference (`isSettlement`). It goes with every modification that adds a reference.
 */
function settlePlaceholders(
  context: WriteContext,
  draft: Draft,
  modifications: readonly Modification[],
  isSettlement = false,
): void {
  const { schema, shared } = context;
  const relevant = modifications.filter(
    ({ operation, attribute }) =>
      isSettlement || (operation === 'add' && attribute.values.some(({ length }) => length > 0)),
  );
  for (const text of new Set(relevant.map(({ attribute }) => attribute.type))) {
    const description = schema.requireDescription(text);
    const { type } = description;
    if (!shared.references.has(type)) continue;
    if (isSettlement && draft.ofType(type).length === 0 && isRequiredType(context, draft, type))
      draft.append(schema.requireDescription(type.name), type.name, [EMPTY]);
    else removePlaceholder(draft, description);
  }
}

/** Removes the empty DN if the attribute has another value. */
export function removePlaceholder(draft: Draft, description: AttributeDescription): void {
  const attribute = draft.get(description);
  const values = attribute?.values.filter(({ bytes }) => bytes.length > 0) ?? [];
  if (attribute && values.length > 0 && values.length < attribute.values.length) draft.set({ ...attribute, values });
}

export function isRequiredType({ schema }: WriteContext, draft: Draft, type: AttributeType): boolean {
  const classes = draft.get(schema.requireDescription('objectClass'))?.values ?? [];
  return classes.some(({ bytes }) => schema.objectClass(bytes.toString('latin1'))?.must.has(type));
}
