import { sameBytes } from '../../bytes/compare.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { PartialAttribute } from '../../ldap/ldap-types.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeDescription, AttributeType, Ava } from '../../schema/schema-types.js';
import type { WideAttribute } from './wide.js';

/** One value of an attribute while an entry is being written. */
export interface DraftValue {
  /** The value; the pointer of a large value that was not read. */
  readonly bytes: Buffer;
  /** Value index: the number in the cell's qualifier that distinguishes the values of an attribute. */
  readonly index: number;
  /** Whether `bytes` is the pointer of an unchanged large value that was not read. */
  readonly isPointer?: boolean;
  /** Pointer of an unchanged large value that was read into `bytes`. */
  readonly pointer?: Buffer;
}

/** An attribute of a draft. Immutable: drafts of the same entry share attributes that are equal. */
export interface DraftAttribute {
  readonly description: AttributeDescription;
  /** Description as stored. */
  readonly text: string;
  readonly values: readonly DraftValue[];
  /** For a wide attribute: number of stored values that were not read, and a number above all value indexes. */
  readonly unread?: { readonly count: number; readonly nextIndex: number };
}

/** Returns the key of an attribute in a draft. Leaves out `;binary`, which only requests a transfer encoding. */
export function attributeKey({ type, options }: AttributeDescription): string {
  return options.length === 0 ? type.oid : `${type.oid};${options.join(';')}`;
}

/** With more attributes than this number, `Draft.get` uses a map. */
const LINEAR_LIMIT = 32;

/** An entry that is being made or changed. Attributes are keyed by type and options, in order of first use. */
export class Draft {
  readonly #attributes: DraftAttribute[] = [];
  /** Attributes by key. Set when there are more than `LINEAR_LIMIT`. */
  #byKey: Map<string, DraftAttribute> | undefined;
  id: Buffer | undefined;

  get attributes(): readonly DraftAttribute[] {
    return this.#attributes;
  }

  get(description: AttributeDescription): DraftAttribute | undefined {
    const attributes = this.#attributes;
    if (attributes.length > LINEAR_LIMIT) return this.#attributesByKey().get(attributeKey(description));
    for (let i = 0; i < attributes.length; i++) {
      const attribute = attributes[i]!;
      if (attribute.description === description || isSame(attribute.description, description)) return attribute;
    }
    return undefined;
  }

  #attributesByKey(): Map<string, DraftAttribute> {
    this.#byKey ??= new Map(this.#attributes.map((attribute) => [attributeKey(attribute.description), attribute]));
    return this.#byKey;
  }

  /** Returns all attributes of the type, with any options. normAttributes do not distinguish options. */
  ofType(type: AttributeType): DraftAttribute[] {
    const attributes: DraftAttribute[] = [];
    for (const attribute of this.#attributes) if (attribute.description.type === type) attributes.push(attribute);
    return attributes;
  }

  /** Replaces the attribute with the same key, or appends a new one. */
  set(attribute: DraftAttribute): void {
    this.#set(attribute, this.get(attribute.description));
  }

  #set(attribute: DraftAttribute, prior?: DraftAttribute): void {
    if (prior) this.#attributes[this.#attributes.indexOf(prior)] = attribute;
    else this.#attributes.push(attribute);
    this.#byKey?.set(attributeKey(attribute.description), attribute);
  }

  /** Sets all values, with indexes from 0. An existing attribute keeps its spelling; if equal, it is unchanged. */
  replace(description: AttributeDescription, text: string, values: readonly Buffer[]): void {
    if (values.length === 0) {
      this.remove(description);
      return;
    }
    const prior = this.get(description);
    if (prior && hasExactly(prior, values)) return;
    this.#set({ description, text: prior?.text ?? text, values: withIndexes(values) }, prior);
  }

  /** Sets the attribute to one value, unless the entry has the attribute. Returns whether it was set. */
  setDefault(description: AttributeDescription, text: string, value: Buffer): boolean {
    if (this.get(description)) return false;
    this.#set({ description, text, values: [{ bytes: value, index: 0 }] });
    return true;
  }

  append(description: AttributeDescription, text: string, values: readonly Buffer[]): void {
    const prior = this.get(description);
    if (!prior) {
      if (values.length > 0) this.#set({ description, text, values: withIndexes(values) });
      return;
    }
    let index = nextIndex(prior) - 1;
    this.#set({ ...prior, values: [...prior.values, ...values.map((bytes) => ({ bytes, index: ++index }))] }, prior);
  }

  /** Adds stored values with their indexes. */
  addStoredValues(description: AttributeDescription, text: string, values: readonly DraftValue[]): void {
    const prior = this.get(description);
    this.#set(prior ? { ...prior, values: [...prior.values, ...values] } : { description, text, values }, prior);
  }

  /** Returns the first value of the attribute with this name and no options, as text. */
  valueText(name: string): string | undefined {
    return this.firstValue(name)?.toString();
  }

  firstValue(name: string): Buffer | undefined {
    for (const { description, values } of this.#attributes) {
      if (description.type.name === name && description.options.length === 0) return values[0]?.bytes;
    }
    return undefined;
  }

  remove(description: AttributeDescription): void {
    const existing = this.get(description);
    if (!existing) return;
    this.#attributes.splice(this.#attributes.indexOf(existing), 1);
    this.#byKey?.delete(attributeKey(description));
  }

  /** Records that the entry has stored values of the attribute that were not read. */
  setUnread(description: AttributeDescription, text: string, unread: NonNullable<DraftAttribute['unread']>): void {
    const existing = this.get(description);
    this.#set({ description, text, values: existing?.values ?? [], unread }, existing);
  }

  copy(): Draft {
    const copy = new Draft();
    for (const attribute of this.#attributes) copy.#attributes.push(attribute);
    return copy;
  }
}

/** Whether the descriptions denote the same attribute: see `attributeKey`. */
function isSame(a: AttributeDescription, b: AttributeDescription): boolean {
  if (a.type !== b.type || a.options.length !== b.options.length) return false;
  for (let i = 0; i < a.options.length; i++) if (a.options[i] !== b.options[i]) return false;
  return true;
}

/** Returns a number above all value indexes of the attribute. */
export function nextIndex({ values, unread }: DraftAttribute): number {
  return values.reduce((next, v) => Math.max(next, v.index + 1), unread?.nextIndex ?? 0);
}

/** Whether the attribute has exactly these values, byte by byte, with indexes from 0. */
function hasExactly({ values: existing, unread }: DraftAttribute, values: readonly Buffer[]): boolean {
  if (unread || existing.length !== values.length) return false;
  for (let i = 0; i < existing.length; i++) {
    const { bytes, index, isPointer } = existing[i]!;
    if (isPointer || index !== i || !bytes.equals(values[i]!)) return false;
  }
  return true;
}

function withIndexes(values: readonly Buffer[]): DraftValue[] {
  if (values.length === 1) return [{ bytes: values[0]!, index: 0 }];
  const draftValues: DraftValue[] = [];
  for (let index = 0; index < values.length; index++) draftValues.push({ bytes: values[index]!, index });
  return draftValues;
}

/** Returns the values in the form in which they are stored, such as DNs by RFC 4514. */
export function storedValues({ syntax }: AttributeType, values: readonly Buffer[]): readonly Buffer[] {
  return syntax.proper ? values.map(syntax.proper) : values;
}

/** Returns a draft with the attributes of a request. Merges repeated descriptions; throws for empty attributes. */
export function draftFromAttributes(schema: Schema, attributes: readonly PartialAttribute[]): Draft {
  const draft = new Draft();
  /** All values of attributes that the request lists more than once. */
  const repeatedValues = new Map<DraftAttribute, (readonly Buffer[])[]>();
  for (const { type, values } of attributes) {
    const description = schema.requireStorable(type);
    if (values.length === 0) throw new LdapError('protocolError', `attribute '${type}' has no values`);
    const storedForm = storedValues(description.type, values);
    const existing = draft.get(description);
    if (!existing) draft.append(description, type, storedForm);
    else if (repeatedValues.has(existing)) repeatedValues.get(existing)!.push(storedForm);
    else repeatedValues.set(existing, [storedForm]);
  }
  for (const [{ description, text }, values] of repeatedValues) draft.append(description, text, values.flat());
  return draft;
}

/** Whether one of the values equals the value in the RDN, byte by byte or by the equality rule. */
export function hasValue(values: readonly DraftValue[], { type, value, norm }: Ava): boolean {
  for (let i = 0; i < values.length; i++) {
    const { bytes } = values[i]!;
    if (sameBytes(bytes, value) || type.equality?.normalize(bytes)?.equals(norm)) return true;
  }
  return false;
}

export function wideAttributeOf(attribute: DraftAttribute): WideAttribute {
  const count = attribute.values.length + (attribute.unread?.count ?? 0);
  return { text: attribute.text, nextIndex: nextIndex(attribute), valueCount: count };
}

/**
 * Returns the attributes in the order of their qualifiers. The value index begins with a zero byte, so a description
 * comes before every longer description that begins with it.
 */
export function sortedAttributes(draft: Draft): DraftAttribute[] {
  return [...draft.attributes].sort((a, b) => (a.text < b.text ? -1 : 1));
}
