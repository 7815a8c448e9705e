import { LdapError } from '../../ldap/ldap-error.js';
import type { Modification } from '../../ldap/ldap-types.js';
import type { AttributeType, Dn, Rdn } from '../../schema/schema-types.js';
import type {
  Actor,
  AttributeChange,
  ChangesOf as ModificationsOf,
  ModifyOptions,
  SplitChanges,
  WriteOptions,
  WriteRequest,
} from '../model/directory-types.js';
import { type Draft, hasValue } from '../model/draft.js';
import { formRule } from '../model/implied.js';
import type { Node } from '../model/node.js';
import { formOf } from '../model/present-row.js';
import { MASTER_TABLE, upRdnOf } from '../model/tables.js';
import { refuseReferral, requireHead } from '../tree/locate.js';
import { asAllowed, write } from './attempt.js';
import type { Change, Stored } from './change.js';
import { Changer } from './changer.js';
import { completeClasses } from './complete.js';
import type { Target, WriteContext } from './context.js';
import { LargeAhead } from './large-ahead.js';
import { NamesPending } from './names-pending.js';
import { loadLarge, openWhole } from './open.js';
import { openNarrow } from './open-narrow.js';
import { isSpecial } from './plan.js';
import { refuseAsked, refuseFound } from './rules/apply.js';

/** Changes an entry (RFC 4511 §4.6): all of the modifications or none. */
export async function modify(
  context: WriteContext,
  dn: Dn,
  given: readonly Modification[] | ModificationsOf,
  actor: Actor,
  options: ModifyOptions = {},
): Promise<void> {
  if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be modified');
  const fixed = typeof given === 'function' ? undefined : given;
  const foretold = fixed ?? options.touches?.map(anyChange);
  const asked = { op: 'modify', actor, changes: changesOf(context, fixed ?? []) } as const;
  const ahead = new LargeAhead(context.store, MASTER_TABLE.name);
  await write(context, {
    name: dn.norm,
    asked,
    ahead,
    also: options.also,
    async find() {
      const { node, row } = await requireHead(context, context.store, dn, options.manageDsaIT ?? false);
      const stored =
        (foretold && (await openNarrow(context, { node, row }, dn, foretold))) ??
        (await openWhole(context, { node, row }, options.leaveLong ?? false));
      if (!options.manageDsaIT && isSpecial(stored.draft)) refuseReferral(context, { node, row: stored.row }, dn);
      return { node, stored };
    },
    async change({ node, stored }) {
      const { asked: wanted, kept } = fixed
        ? { asked: fixed, kept: [] }
        : await madeFor(given as ModificationsOf, { id: node.id, row: stored.row });
      const modifications = kept.length > 0 ? [...wanted, ...kept] : wanted;
      if (!fixed) {
        refuseUntold(modifications, options.touches);
        await refuseAll(context, { ...asked, changes: changesOf(context, wanted) }, { node, stored });
      }
      if (!options.settles) requireSettled(context, modifications);
      return modified(context, dn, node, stored, modifications, actor, options);
    },
  });
}

/** Values are told apart by their names of now: stored ones of other names have to follow first. */
function requireSettled({ shared, schema }: WriteContext, modifications: readonly Modification[]): void {
  if (shared.names.isEmpty) return;
  for (const { attribute } of modifications) {
    const { type } = schema.requireDescription(attribute.type);
    if (!shared.references.has(type)) continue;
    for (const value of attribute.values)
      if (shared.names.storedForms(formOf(type, value)).length !== 1) throw new NamesPending();
  }
}

async function madeFor(of: ModificationsOf, target: Parameters<ModificationsOf>[0]): Promise<SplitChanges> {
  const made = await of(target);
  return 'kept' in made ? made : { asked: made, kept: [] };
}

/** Stands for whatever may be done to the attribute. */
function anyChange(type: string): Modification {
  return { operation: 'replace', attribute: { type, values: [] } };
}

function refuseUntold(modifications: readonly Modification[], touches: readonly string[] | undefined): void {
  const told = touches && new Set(touches);
  const untold = told && modifications.find(({ attribute }) => !told.has(attribute.type));
  if (untold) throw new TypeError(`'${untold.attribute.type}' is changed, which was not foretold`);
}

/** Throws what refuses the changes to the actor, as far as the entry is now: before work for them is done. */
export async function requireAllowed(
  context: WriteContext,
  dn: Dn,
  changes: readonly Modification[],
  actor: Actor,
  { manageDsaIT = false }: WriteOptions = {},
): Promise<void> {
  const asked = { op: 'modify', actor, changes: changesOf(context, changes) } as const;
  refuseAsked(context, asked);
  await asAllowed(context, actor, async () => {
    const { node } = await requireHead(context, context.store, dn, manageDsaIT);
    await refuseFound(context, asked, { node, stored: undefined });
  });
}

/** What was not known when the entry was looked for is refused now. */
async function refuseAll(context: WriteContext, asked: WriteRequest, target: Target): Promise<void> {
  refuseAsked(context, asked);
  await refuseFound(context, asked, target);
}

/** An increment (RFC 4525) takes the place of the values that are there. */
function changesOf(context: WriteContext, modifications: readonly Modification[]): AttributeChange[] {
  return modifications.map(({ operation, attribute }) => ({
    how: operation === 'increment' ? 'replace' : operation,
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
  { leaveLong, settles }: ModifyOptions,
): Promise<Change> {
  const { store, schema } = context;
  const looked = (type: AttributeType) => isLookedAt(context, modifications, type);
  const loaded = loadLarge(store, MASTER_TABLE.name, node.id, draft, looked, leaveLong);
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
  return { op: 'modify', id: node.id, actor, before, after, place, modifications, settles };
}

/**
 * Whether the values that the entry has matter: other rows are made from them, or the changes do not take all of them
 * away.
 */
function isLookedAt(context: WriteContext, modifications: readonly Modification[], type: AttributeType): boolean {
  const { schema } = context;
  let touched = false;
  for (const { operation, attribute } of modifications) {
    if (schema.requireDescription(attribute.type).type !== type) continue;
    touched = true;
    if (operation !== 'replace' && !(operation === 'delete' && attribute.values.length === 0)) return true;
  }
  return touched && formRule(type) !== undefined;
}

/** The values that name the entry stay (RFC 4511 §4.6: notAllowedOnRDN). */
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
