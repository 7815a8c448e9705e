import { LdapError } from '../../ldap/ldap-error.js';
import type { Modification } from '../../ldap/ldap-types.js';
import type { AttributeDescription, AttributeType, Dn, Rdn } from '../../schema/schema-types.js';
import type { Actor, ChangesOf as ModificationsOf, ModifyOptions } from '../model/directory.js';
import { type Draft, hasValue } from '../model/draft.js';
import { formRule } from '../model/implied.js';
import { MASTER_TABLE, upRdnOf } from '../model/tables.js';
import { refuseReferral, requireHead } from '../tree/locate.js';
import type { Node } from '../tree/nodes.js';
import { write } from './attempt.js';
import type { Change, Stored } from './change.js';
import { Changer } from './changer.js';
import { completeClasses } from './complete.js';
import type { WriteContext } from './context.js';
import { LargeAhead } from './large-ahead.js';
import { loadLarge, openWhole } from './open.js';
import { openNarrow } from './open-narrow.js';
import { isSpecial } from './plan.js';
import { refuseAsked } from './rules/apply.js';

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
  const asked = { op: 'modify', actor, types: descriptionsOf(context, fixed ?? []) } as const;
  const ahead = new LargeAhead(context.store, MASTER_TABLE.name);
  await write(context, {
    name: dn.norm,
    asked,
    ahead,
    async find() {
      const { node, row } = await requireHead(context, context.store, dn, options.manageDsaIT ?? false);
      const stored =
        (foretold && (await openNarrow(context, { node, row }, dn, foretold))) ??
        (await openWhole(context, { node, row }, options.leaveLong ?? false));
      if (!options.manageDsaIT && isSpecial(stored.draft)) refuseReferral(context, { node, row: stored.row }, dn);
      return { node, stored };
    },
    async change({ node, stored }) {
      const modifications = fixed ?? (await (given as ModificationsOf)({ id: node.id, row: stored.row }));
      if (!fixed) {
        refuseUntold(modifications, options.touches);
        refuseAsked(context, { ...asked, types: descriptionsOf(context, modifications) });
      }
      return modified(context, dn, node, stored, modifications, actor, options.leaveLong);
    },
  });
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

function descriptionsOf(context: WriteContext, modifications: readonly Modification[]): AttributeDescription[] {
  return modifications.map(({ attribute }) => context.schema.requireDescription(attribute.type));
}

async function modified(
  context: WriteContext,
  dn: Dn,
  node: Node,
  { row, draft }: Stored,
  modifications: readonly Modification[],
  actor: Actor,
  leave?: boolean,
): Promise<Change> {
  const { store, schema } = context;
  const looked = (type: AttributeType) => isLookedAt(context, modifications, type);
  const loaded = loadLarge(store, MASTER_TABLE.name, node.id, draft, looked, leave);
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
  return { op: 'modify', id: node.id, actor, before, after, place };
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
