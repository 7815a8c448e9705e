import { LdapError } from '../ldap/error.js';
import type { Change } from '../ldap/types.js';
import type { AttributeDescription, AttributeType, Dn, Rdn } from '../schema/types.js';
import type { PlanStep } from '../store/contract.js';
import { completeClasses } from './complete.js';
import { attributeKey, type Draft, type DraftAttribute, hasValue } from './draft.js';
import { editSteps, finishEdit, loadLarge, openEdit } from './edit.js';
import { formRule } from './implied.js';
import { ENTRY_UUID_OID } from './indexes.js';
import { LargeAhead, newLarge } from './large-ahead.js';
import { refuseReferral, requireHead } from './locate.js';
import { openPart } from './part.js';
import { MASTER_TABLE } from './tables.js';
import type { Actor, WriteOptions } from './types.js';
import { ValueSet, valueName } from './value-set.js';
import { changeStep, commitSteps, isSpecial, refuseServerAttributes, retrying, type WriteContext } from './write.js';

/** Changes an entry (RFC 4511 §4.6): all of the changes or none. */
export async function modify(
  context: WriteContext,
  dn: Dn,
  changes: readonly Change[],
  actor: Actor,
  options: WriteOptions = {},
): Promise<void> {
  if (dn.rdns.length === 0) throw new LdapError('unwillingToPerform', 'the root DSE cannot be modified');
  const ahead = new LargeAhead(context.store, MASTER_TABLE.name);
  const attempt = async (): Promise<void> => {
    const found = await requireHead(context, context.store, dn, options.manageDsaIT ?? false);
    const edit =
      (await openPart(context, found, dn, changes)) ?? (await openEdit(context, found, options.leaveLong ?? false));
    if (!options.manageDsaIT && isSpecial(edit.before)) refuseReferral(context, edit, dn);
    const touched = new Set<AttributeType>();
    for (const change of changes) touched.add(context.schema.requireDescription(change.attribute.type).type);
    await loadLarge(context, edit, new Set([...touched].filter((type) => isLookedAt(context, changes, type))));
    const changer = new Changer(context, edit.after);
    for (const change of changes) changer.apply(change, actor);
    changer.close();
    if (touched.has(context.schema.requireDescription('objectClass').type)) completeClasses(context.schema, edit.after);
    const rdn = dn.rdns[0]!;
    checkNaming(context, edit.after, rdn);
    const csn = finishEdit(context, edit, rdn, actor, touched);
    const large = newLarge(edit.after);
    const written = large && (await ahead.write(found.node.id, large));
    const steps: PlanStep[] = [
      ...editSteps(context, edit, touched, undefined, written),
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
  };
  await retrying(context, attempt, ahead);
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

/** The changes of a modify request on a draft. */
class Changer {
  readonly #context: WriteContext;
  readonly #draft: Draft;
  /** Attributes whose values are being changed one by one, by `attributeKey`. */
  readonly #open = new Map<string, ValueSet>();

  constructor(context: WriteContext, draft: Draft) {
    this.#context = context;
    this.#draft = draft;
  }

  apply({ operation, attribute: { type, values } }: Change, actor: Actor): void {
    const description = this.#context.schema.requireDescription(type);
    refuseServerAttributes([{ description }], actor);
    if (description.type.oid === ENTRY_UUID_OID)
      throw new LdapError('constraintViolation', 'entryUUID is what the entry is known by and never changes');
    if (operation === 'add') this.#add(description, type, values);
    else if (operation === 'delete' && values.length > 0) this.#delete(description, type, values);
    else {
      this.#close(attributeKey(description));
      if (operation === 'replace') this.#draft.replace(description, type, values);
      else if (operation === 'increment') increment(this.#draft, description, type, values);
      else this.#remove(description, type);
    }
  }

  #add(description: AttributeDescription, text: string, values: readonly Buffer[]): void {
    if (values.length === 0) throw new LdapError('protocolError', `adding to '${text}' needs a value`);
    const set = this.#set(description) ?? this.#begin({ description, text, values: [] });
    for (const value of values) {
      if (!set.add(valueName(description.type, value), value))
        throw new LdapError('attributeOrValueExists', `attribute '${text}' has this value already`);
    }
  }

  #delete(description: AttributeDescription, text: string, values: readonly Buffer[]): void {
    const set = this.#set(description);
    if (!set) throw absent(text);
    for (const name of new Set(values.map((value) => valueName(description.type, value)))) {
      if (!set.delete(name)) throw new LdapError('noSuchAttribute', `attribute '${text}' has no such value`);
    }
    if (!set.isEmpty) return;
    this.#open.delete(attributeKey(description));
    this.#draft.remove(description);
  }

  #remove(description: AttributeDescription, text: string): void {
    if (!this.#draft.get(description)) throw absent(text);
    this.#draft.remove(description);
  }

  #set(description: AttributeDescription): ValueSet | undefined {
    const known = this.#open.get(attributeKey(description));
    if (known) return known;
    const attribute = this.#draft.get(description);
    return attribute && this.#begin(attribute);
  }

  #begin(attribute: DraftAttribute): ValueSet {
    const set = new ValueSet(attribute);
    this.#open.set(attributeKey(attribute.description), set);
    return set;
  }

  #close(key: string): void {
    const set = this.#open.get(key);
    if (set) this.#draft.set(set.close());
    this.#open.delete(key);
  }

  /** To be called behind the last change. */
  close(): void {
    for (const key of [...this.#open.keys()]) this.#close(key);
  }
}

function absent(text: string): LdapError {
  return new LdapError('noSuchAttribute', `the entry has no attribute '${text}'`);
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
  if (!attribute) throw absent(text);
  const by = integer(values[0]!, text);
  const sums = attribute.values.map((v) => ({
    bytes: Buffer.from(String(integer(v.bytes, text) + by)),
    index: v.index,
  }));
  draft.set({ ...attribute, values: sums });
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
