import { LdapError } from '../ldap/error.js';
import type { Change } from '../ldap/types.js';
import type { AttributeDescription, AttributeType, Dn, Rdn } from '../schema/types.js';
import type { PlanStep } from '../store/contract.js';
import { completeClasses } from './complete.js';
import { type Draft, hasValue } from './draft.js';
import { editSteps, finishEdit, loadLarge, openEdit } from './edit.js';
import { largePointer } from './entry.js';
import { formRule } from './implied.js';
import { ENTRY_UUID_OID } from './indexes.js';
import { LARGE_VALUE } from './large.js';
import { refuseReferral, requireHead } from './locate.js';
import { openPart } from './part.js';
import type { Actor, WriteOptions } from './types.js';
import { changeStep, commitSteps, refuseServerAttributes, retrying, type WriteContext } from './write.js';

/** Changes an entry (RFC 4511 §4.6): all of the changes or none. */
export async function modify(
  context: WriteContext,
  dn: Dn,
  changes: readonly Change[],
  actor: Actor,
  options: WriteOptions = {},
): Promise<void> {
  if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be modified');
  await retrying(context, async () => {
    const found = await requireHead(context, context.store, dn, options.manageDsaIT ?? false);
    const edit = (await openPart(context, found, dn, changes)) ?? (await openEdit(context, found));
    if (!options.manageDsaIT) refuseReferral(context, edit, dn);
    const touched = new Set<AttributeType>();
    for (const change of changes) touched.add(context.schema.requireDescription(change.attribute.type).type);
    await loadLarge(context, edit, new Set([...touched].filter((type) => isLookedAt(context, changes, type))));
    for (const change of changes) applyChange(context, edit.after, change, actor);
    if (touched.has(context.schema.requireDescription('objectClass').type)) completeClasses(context.schema, edit.after);
    const rdn = context.schema.parseRdn(dn.rdns[0]!.text);
    checkNaming(context, edit.after, rdn);
    const csn = finishEdit(context, edit, rdn, actor, touched);
    const steps: PlanStep[] = [
      ...editSteps(context, edit, touched),
      changeStep({
        op: 'modify',
        id: found.node.id,
        dn: found.node.dn,
        by: actor.dn,
        csn,
        attributes: [...touched].map((t) => t.name),
      }),
    ];
    await commitSteps(context, steps, 0);
  });
}

/** Whether the values that the entry has matter: other rows are made from them, or the changes do not take all of them away. */
function isLookedAt(context: WriteContext, changes: readonly Change[], type: AttributeType): boolean {
  if (formRule(type)) return true;
  return changes.some(
    ({ operation, attribute: { type: text, values } }) =>
      context.schema.requireDescription(text).type === type &&
      operation !== 'replace' &&
      !(operation === 'delete' && values.length === 0),
  );
}

/** One change of a modify request on the draft. */
function applyChange(context: WriteContext, draft: Draft, change: Change, actor: Actor): void {
  const { type, values } = change.attribute;
  const description = context.schema.requireDescription(type);
  refuseServerAttributes([{ description }], actor);
  if (description.type.oid === ENTRY_UUID_OID)
    throw new LdapError('constraintViolation', 'entryUUID is what the entry is known by and never changes');
  switch (change.operation) {
    case 'add':
      addValues(draft, description, type, values);
      break;
    case 'delete':
      deleteValues(draft, description, type, values);
      break;
    case 'replace':
      draft.replace(description, type, values);
      break;
    case 'increment':
      increment(draft, description, type, values);
  }
}

/** Equal for values that are equal; short for long ones. */
function norm(type: AttributeType, value: Buffer): string {
  const form = type.equality?.normalize(value) ?? value;
  return (form.length > LARGE_VALUE ? largePointer(form) : form).toString('latin1');
}

function addValues(draft: Draft, description: AttributeDescription, text: string, values: readonly Buffer[]): void {
  if (values.length === 0) throw new LdapError('protocolError', `adding to '${text}' needs a value`);
  const present = new Set((draft.get(description)?.values ?? []).map((v) => norm(description.type, v.bytes)));
  for (const value of values) {
    const key = norm(description.type, value);
    if (present.has(key)) throw new LdapError('attributeOrValueExists', `attribute '${text}' has this value already`);
    present.add(key);
  }
  draft.append(description, text, values);
}

function deleteValues(draft: Draft, description: AttributeDescription, text: string, values: readonly Buffer[]): void {
  const attribute = draft.get(description);
  if (!attribute) throw new LdapError('noSuchAttribute', `the entry has no attribute '${text}'`);
  if (values.length === 0) {
    draft.remove(description);
    return;
  }
  const goes = new Set(values.map((v) => norm(description.type, v)));
  const rest = attribute.values.filter((v) => !goes.delete(norm(description.type, v.bytes)));
  if (goes.size > 0) throw new LdapError('noSuchAttribute', `attribute '${text}' has no such value`);
  if (rest.length === 0 && !attribute.rest) draft.remove(description);
  else attribute.values = rest;
}

/** RFC 4525: adds an integer to every value. */
function increment(draft: Draft, description: AttributeDescription, text: string, values: readonly Buffer[]): void {
  if (values.length !== 1) throw new LdapError('protocolError', `incrementing '${text}' needs exactly one value`);
  if (description.type.syntax.oid !== INTEGER_SYNTAX)
    throw new LdapError(
      'constraintViolation',
      `attribute '${text}' is not of the syntax Integer and cannot be incremented`,
    );
  const attribute = draft.get(description);
  if (!attribute) throw new LdapError('noSuchAttribute', `the entry has no attribute '${text}'`);
  const by = integer(values[0]!, text);
  attribute.values = attribute.values.map((v) => ({
    bytes: Buffer.from(String(integer(v.bytes, text) + by)),
    index: v.index,
  }));
}

const INTEGER_SYNTAX = '1.3.6.1.4.1.1466.115.121.1.27';

function integer(value: Buffer, text: string): bigint {
  const digits = value.length <= 1000 ? value.toString('latin1') : '';
  if (!/^-?\d+$/.test(digits))
    throw new LdapError('invalidAttributeSyntax', `a value of '${text}' is not an integer of up to 1,000 digits`);
  return BigInt(digits);
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
