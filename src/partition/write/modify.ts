import { LdapError } from '../../ldap/ldap-error.js';
import type { Modification } from '../../ldap/ldap-types.js';
import type { AttributeType, Dn, Rdn } from '../../schema/schema-types.js';
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
import type { Node } from '../model/node.js';
import { valueNormText } from '../model/present-row.js';
import { MASTER_TABLE, upRdnOf } from '../model/tables.js';
import { refuseReferral, requireHead } from '../tree/locate.js';
import { asAllowed, write } from './attempt.js';
import type { Change, Stored } from './change.js';
import { Changer } from './changer.js';
import { completeClasses } from './complete.js';
import type { Target, WriteContext } from './context.js';
import { LargeValueWriter } from './large-ahead.js';
import { NamesPending } from './names-pending.js';
import { loadLarge, openWhole } from './open.js';
import { openNarrow } from './open-narrow.js';
import { isSpecial } from './plan.js';
import { requireEntryAllowed, requireRequestAllowed } from './rules/apply.js';

/** Modifies an entry (RFC 4511 §4.6): applies all of the modifications or none. */
export async function modify(
  context: WriteContext,
  dn: Dn,
  given: readonly Modification[] | ModificationsOf,
  actor: Actor,
  options: ModifyOptions = {},
): Promise<void> {
  if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be modified');
  const fixed = typeof given === 'function' ? undefined : given;
  const announced = fixed ?? options.touchedDescriptions?.map(anyChange);
  const asked = { op: 'modify', actor, changes: changesOf(context, fixed ?? []) } as const;
  const largeWriter = new LargeValueWriter(context.store, MASTER_TABLE.name);
  await write(context, {
    name: dn.norm,
    asked,
    largeWriter,
    also: options.attached,
    async find() {
      const { node, row } = await requireHead(context, context.store, dn, options.manageDsaIT ?? false);
      const stored =
        (announced && (await openNarrow(context, { node, row }, dn, announced))) ??
        (await openWhole(context, { node, row }, options.refuseLong ?? false));
      if (!options.manageDsaIT && isSpecial(stored.draft)) refuseReferral(context, { node, row: stored.row }, dn);
      return { node, stored };
    },
    async change({ node, stored }) {
      const { clientChanges: requested, serverChanges: added } = fixed
        ? { clientChanges: fixed, serverChanges: [] }
        : await madeFor(given as ModificationsOf, { id: node.id, row: stored.row });
      const modifications = added.length > 0 ? [...requested, ...added] : requested;
      if (!fixed) {
        requireAnnounced(modifications, options.touchedDescriptions);
        await refuseAll(context, { ...asked, changes: changesOf(context, requested) }, { node, stored });
      }
      if (!options.isSettlement) requireSettled(context, modifications);
      return modified(context, dn, node, stored, modifications, actor, options);
    },
  });
}

/**
 * Throws `NamesPending` where a modification names a reference whose stored form may be an earlier name: values are
 * compared by current names, so that stored references have to be updated first.
 */
function requireSettled({ shared, schema }: WriteContext, modifications: readonly Modification[]): void {
  if (shared.nameChanges.isEmpty) return;
  for (const { attribute } of modifications) {
    const { type } = schema.requireDescription(attribute.type);
    if (!shared.references.has(type)) continue;
    for (const value of attribute.values)
      if (shared.nameChanges.storedNormTexts(valueNormText(type, value)).length !== 1) throw new NamesPending();
  }
}

/** Calls the function that makes the modifications for the entry. */
async function madeFor(of: ModificationsOf, target: Parameters<ModificationsOf>[0]): Promise<SplitChanges> {
  const made = await of(target);
  return 'serverChanges' in made ? made : { clientChanges: made, serverChanges: [] };
}

/** Returns a modification that stands for any change of the attribute. */
function anyChange(type: string): Modification {
  return { operation: 'replace', attribute: { type, values: [] } };
}

/** Throws where a modification changes an attribute that the caller has not announced in `touchedDescriptions`. */
function requireAnnounced(modifications: readonly Modification[], touches: readonly string[] | undefined): void {
  const announced = touches && new Set(touches);
  const other = announced && modifications.find(({ attribute }) => !announced.has(attribute.type));
  if (other) throw new TypeError(`'${other.attribute.type}' is changed, which was not announced`);
}

/** Throws where the actor may not make the changes to the entry as it is now. Called before expensive preparations. */
export async function requireAllowed(
  context: WriteContext,
  dn: Dn,
  changes: readonly Modification[],
  actor: Actor,
  { manageDsaIT = false }: WriteOptions = {},
): Promise<void> {
  const asked = { op: 'modify', actor, changes: changesOf(context, changes) } as const;
  requireRequestAllowed(context, asked);
  await asAllowed(context, actor, async () => {
    const { node } = await requireHead(context, context.store, dn, manageDsaIT);
    await requireEntryAllowed(context, asked, { node, stored: undefined });
  });
}

/** Checks modifications that were not known before the entry was read. */
async function refuseAll(context: WriteContext, asked: WriteRequest, target: Target): Promise<void> {
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

async function modified(
  context: WriteContext,
  dn: Dn,
  node: Node,
  { row, draft }: Stored,
  modifications: readonly Modification[],
  actor: Actor,
  { refuseLong, isSettlement }: ModifyOptions,
): Promise<Change> {
  const { store, schema } = context;
  const isNeeded = (type: AttributeType) => needsValues(context, modifications, type);
  const loaded = loadLarge(store, MASTER_TABLE.name, node.id, draft, isNeeded, refuseLong);
  const before = { row, draft: await loaded };
  const after = before.draft.copy();
  const changer = new Changer(context, after);
  for (const modification of modifications) changer.apply(modification);
  changer.close();
  const classes = schema.requireDescription('objectClass');
  if (after.get(classes) !== before.draft.get(classes)) completeClasses(schema, after);
  const rdn = dn.rdns[0]!;
  checkNaming(context, after, rdn);
  const place = { from: node, to: node, upRdn: upRdnOf(row), rdn };
  return { op: 'modify', id: node.id, actor, before, after, place, modifications, isSettlement };
}

/**
 * Whether the modifications need the current values of a type: other rows derive from the values, or a modification of
 * the type keeps some of the values.
 */
function needsValues(context: WriteContext, modifications: readonly Modification[], type: AttributeType): boolean {
  const { schema } = context;
  let touched = false;
  for (const { operation, attribute } of modifications) {
    if (schema.requireDescription(attribute.type).type !== type) continue;
    touched = true;
    if (operation !== 'replace' && !(operation === 'delete' && attribute.values.length === 0)) return true;
  }
  return touched && normRule(type) !== undefined;
}

/** Throws `notAllowedOnRDN` where a value of the RDN is missing (RFC 4511 §4.6). */
function checkNaming(context: WriteContext, draft: Draft, rdn: Rdn): void {
  for (const ava of rdn.avas) {
    const attribute = draft.get(context.schema.requireDescription(ava.type.name));
    if (attribute && hasValue(attribute.values, ava)) continue;
    throw new LdapError(
      'notAllowedOnRDN',
      `the value of '${ava.type.name}' that names the entry cannot be removed; rename the entry instead`,
    );
  }
}
