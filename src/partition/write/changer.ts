import { LdapError } from '../../ldap/ldap-error.js';
import type { Modification } from '../../ldap/ldap-types.js';
import { hasOptions } from '../../schema/entry-check.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import { isInAccountState } from '../model/account-state.js';
import { attributeKey, type Draft, type DraftAttribute, storedValues } from '../model/draft.js';
import { ValueSet, valueKey } from '../model/value-set.js';
import type { WriteContext } from './context.js';

/** Applies the modifications of a modify request to a draft. */
export class DraftEditor {
  readonly #context: WriteContext;
  readonly #draft: Draft;
  /** Values of the attributes that are being changed, by `attributeKey`. `writeBack` puts them into the draft. */
  readonly #openSets = new Map<string, ValueSet>();
  /** Deleted values of pwdAccountLockedTime that the entry does not have. The account state may show them. */
  readonly lockTimes: Buffer[] = [];

  readonly #isPermissive: boolean;

  /** `isPermissive`: adding values that are there, and deleting absent ones, is no error. */
  constructor(context: WriteContext, draft: Draft, isPermissive = false) {
    this.#context = context;
    this.#draft = draft;
    this.#isPermissive = isPermissive;
  }

  apply({ operation, attribute: { type, values: requested } }: Modification): void {
    const { schema } = this.#context;
    // A delete may name descriptions that older versions stored and that are not allowed any more.
    const description = operation === 'delete' ? schema.requireDescription(type) : schema.requireStorable(type);
    const values = operation === 'delete' ? requested : storedValues(description.type, requested);
    if (operation === 'add') this.#add(description, type, values);
    else if (operation === 'delete' && values.length > 0) this.#delete(description, type, values);
    else {
      this.#closeSet(attributeKey(description));
      if (operation !== 'increment') this.#removeUnderOptions(description);
      if (operation === 'replace') this.#draft.replace(description, type, values);
      else if (operation === 'increment') increment(this.#draft, description, type, values);
      else this.#remove(description, type);
    }
  }

  #add(description: AttributeDescription, text: string, values: readonly Buffer[]): void {
    if (values.length === 0) throw new LdapError('protocolError', `adding to '${text}' needs a value`);
    const existingSet = this.#openSet(description);
    if (existingSet) requireEquality(description, text);
    const set = existingSet ?? this.#openAttribute({ description, text, values: [] });
    for (const value of values) {
      if (!set.add(valueKey(description.type, value), value) && !this.#isPermissive)
        throw new LdapError('attributeOrValueExists', `attribute '${text}' has this value already`);
    }
  }

  #delete(description: AttributeDescription, text: string, values: readonly Buffer[]): void {
    requireEquality(description, text);
    const set = this.#openSet(description);
    if (!set && !isInAccountState(description) && !this.#isPermissive) throw absentError(text);
    for (const [name, value] of new Map(values.map((value) => [valueKey(description.type, value), value]))) {
      if (set?.delete(name)) continue;
      if (isInAccountState(description)) this.lockTimes.push(value);
      else if (!this.#isPermissive) throw new LdapError('noSuchAttribute', `attribute '${text}' has no such value`);
    }
    if (!set?.isEmpty) return;
    this.#openSets.delete(attributeKey(description));
    this.#draft.remove(description);
  }

  #remove(description: AttributeDescription, text: string): void {
    if (this.#draft.get(description)) this.#draft.remove(description);
    else if (!isInAccountState(description) && !this.#isPermissive) throw absentError(text);
  }

  /** Removes secrets with options, which older versions allowed, together with the secret itself. */
  #removeUnderOptions(description: AttributeDescription): void {
    if (!description.type.secret || hasOptions(description)) return;
    for (const otherAttribute of this.#draft.ofType(description.type)) {
      if (otherAttribute.description.options.length === 0) {
        this.#draft.set(this.#withoutBinary(otherAttribute));
        continue;
      }
      this.#openSets.delete(attributeKey(otherAttribute.description));
      this.#draft.remove(otherAttribute.description);
    }
  }

  #openSet(description: AttributeDescription): ValueSet | undefined {
    const existingSet = this.#openSets.get(attributeKey(description));
    if (existingSet) return existingSet;
    const attribute = this.#draft.get(description);
    return attribute && this.#openAttribute(this.#withoutBinary(attribute));
  }

  /** Returns the secret without the option `binary`, which older versions allowed. */
  #withoutBinary(attribute: DraftAttribute): DraftAttribute {
    const { type, options, binary } = attribute.description;
    if (!type.secret || !binary || options.length > 0) return attribute;
    return { ...attribute, description: this.#context.schema.requireDescription(type.name), text: type.name };
  }

  #openAttribute(attribute: DraftAttribute): ValueSet {
    const set = new ValueSet(attribute);
    this.#openSets.set(attributeKey(attribute.description), set);
    return set;
  }

  #closeSet(key: string): void {
    const set = this.#openSets.get(key);
    if (set) this.#draft.set(set.toAttribute());
    this.#openSets.delete(key);
  }

  /** Puts all changed values into the draft. Called after the last modification. */
  writeBack(): void {
    for (const key of [...this.#openSets.keys()]) this.#closeSet(key);
  }
}

/** Without an equality rule, single values can neither be added nor deleted (RFC 4512 §2.5.1). */
function requireEquality({ type }: AttributeDescription, text: string): void {
  if (type.equality) return;
  const problem = `attribute '${text}' has no equality rule, by which one of its values is told from another`;
  throw new LdapError('inappropriateMatching', `${problem}; replace all of its values`);
}

function absentError(text: string): LdapError {
  return new LdapError('noSuchAttribute', `the entry has no attribute '${text}'`);
}

/** Adds an integer to every value (RFC 4525). */
function increment(draft: Draft, description: AttributeDescription, text: string, values: readonly Buffer[]): void {
  if (values.length !== 1) throw new LdapError('protocolError', `incrementing '${text}' needs exactly one value`);
  if (description.type.syntax.oid !== INTEGER_SYNTAX)
    throw new LdapError(
      'constraintViolation',
      `attribute '${text}' is not of the syntax Integer and cannot be incremented`,
    );
  const attribute = draft.get(description);
  if (!attribute) throw absentError(text);
  const increase = parseInteger(values[0]!, text);
  const sums = attribute.values.map((v) => ({
    bytes: Buffer.from(String(parseInteger(v.bytes, text) + increase)),
    index: v.index,
  }));
  draft.set({ ...attribute, values: sums });
}

const INTEGER_SYNTAX = '1.3.6.1.4.1.1466.115.121.1.27';

function parseInteger(value: Buffer, text: string): bigint {
  const digits = value.length <= 1000 ? value.toString('latin1') : '';
  if (!/^-?\d+$/.test(digits))
    throw new LdapError('invalidAttributeSyntax', `a value of '${text}' is not an integer of up to 1,000 digits`);
  return BigInt(digits);
}
