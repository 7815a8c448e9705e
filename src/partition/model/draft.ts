import { sameBytes } from '../../bytes/compare.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { PartialAttribute } from '../../ldap/ldap-types.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeDescription, AttributeType, Ava } from '../../schema/schema-types.js';
import type { WideAttribute } from './wide.js';

/** One value of an attribute while an entry is being written. */
export interface DraftValue {
  /** The value, or the pointer for a stored large value that was not read. */
  readonly bytes: Buffer;
  /** Value index, the last part of the qualifier. */
  readonly index: number;
  /** True for an unchanged stored value over 64 KiB. `bytes` is then its pointer. */
  readonly isPointer?: boolean;
  /** Pointer of a large value that was read and is unchanged. */
  readonly pointer?: Buffer;
}

/** One attribute of a draft. Immutable, because the drafts of an entry share their equal attributes. */
export interface DraftAttribute {
  readonly description: AttributeDescription;
  /** Description as stored. */
  readonly text: string;
  readonly values: readonly DraftValue[];
  /** Number of stored values that were not read, and a bound above all value indexes (see `open-narrow.ts`). */
  readonly unread?: { readonly count: number; readonly nextIndex: number };
}

/** Key of the attribute that a description denotes. Without `;binary`, which only requests a transfer form. */
export function attributeKey({ type, options }: AttributeDescription): string {
  return options.length === 0 ? type.oid : `${type.oid};${options.join(';')}`;
}

/** Up to this number of attributes, `Draft.get` searches linearly. */
const LINEAR_LIMIT = 32;

/** An entry under construction or change. Attributes are keyed by type and options, in order of first mention. */
export class Draft {
  readonly #attributes: DraftAttribute[] = [];
  /** Built once there are more than `LINEAR_LIMIT` attributes. */
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

  /** Returns all attributes of one type with any options, because normAttributes do not distinguish options. */
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

  /** Sets all values, with indexes from 0. An existing attribute keeps its spelling, and stays as is if equal. */
  replace(description: AttributeDescription, text: string, values: readonly Buffer[]): void {
    if (values.length === 0) {
      this.remove(description);
      return;
    }
    const prior = this.get(description);
    if (prior && hasExactly(prior, values)) return;
    this.#set({ description, text: prior?.text ?? text, values: withIndexes(values) }, prior);
  }

  /** Sets the attribute to one value if the entry does not have it. Returns true if it was set. */
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

  /** Adds stored values, which keep their indexes. */
  addStoredValues(description: AttributeDescription, text: string, values: readonly DraftValue[]): void {
    const prior = this.get(description);
    this.#set(prior ? { ...prior, values: [...prior.values, ...values] } : { description, text, values }, prior);
  }

  /** Returns the first value of the attribute with this primary name and no options, as text. */
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

  /** Records that the attribute has stored values that the draft lacks. */
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

/** True if both denote the same attribute: see `attributeKey`. */
function isSame(a: AttributeDescription, b: AttributeDescription): boolean {
  if (a.type !== b.type || a.options.length !== b.options.length) return false;
  for (let i = 0; i < a.options.length; i++) if (a.options[i] !== b.options[i]) return false;
  return true;
}

/** Returns an index above all value indexes of the attribute. */
export function nextIndex({ values, unread }: DraftAttribute): number {
  return values.reduce((next, v) => Math.max(next, v.index + 1), unread?.nextIndex ?? 0);
}

/** True if the attribute has exactly these values, byte by byte, with indexes from 0. */
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

/** Returns the values in stored form: DNs as RFC 4514 writes them. */
export function storedValues({ syntax }: AttributeType, values: readonly Buffer[]): readonly Buffer[] {
  return syntax.proper ? values.map(syntax.proper) : values;
}

/** Makes a draft of the attributes in a request. Merges repeated descriptions and refuses empty attributes. */
export function draftFromAttributes(schema: Schema, attributes: readonly PartialAttribute[]): Draft {
  const draft = new Draft();
  /** Values of attributes that the request lists more than once. */
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

/** True if one of the values equals the value in the RDN, byte by byte or by the equality rule. */
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

/** Sorts by qualifier. A prefix of another description comes first, as the value index begins with a zero byte. */
export function sortedAttributes(draft: Draft): DraftAttribute[] {
  return [...draft.attributes].sort((a, b) => (a.text < b.text ? -1 : 1));
}
