import { sameBytes } from '../../bytes/compare.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { PartialAttribute } from '../../ldap/ldap-types.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeDescription, AttributeType, Ava } from '../../schema/schema-types.js';
import type { WideAttribute } from './wide.js';

/** One value of an attribute while an entry is being written. */
export interface DraftValue {
  /** The value, or for a stored large value that was not read the pointer cell's bytes. */
  readonly bytes: Buffer;
  /** The value index in the qualifier. */
  readonly index: number;
  /** Stored over 64 KiB and not changed: `bytes` is its pointer. */
  readonly stored?: boolean;
  /** Of a large value that was read and is stored as it is: its pointer. */
  readonly pointer?: Buffer;
}

/** Never changes itself: drafts of one entry share those in which they do not differ. */
export interface DraftAttribute {
  readonly description: AttributeDescription;
  /** Description as stored. */
  readonly text: string;
  readonly values: readonly DraftValue[];
  /** Stored values that were not read: their number, and what is greater than every index (see `open-narrow.ts`). */
  readonly rest?: { readonly count: number; readonly next: number };
}

/**
 * Descriptions that mean the same attribute have the same key: `;binary` asks for a transfer form and makes no other
 * attribute.
 */
export function attributeKey({ type, options }: AttributeDescription): string {
  return options.length === 0 ? type.oid : `${type.oid};${options.join(';')}`;
}

/** So many attributes are looked through one after another. */
const FEW = 32;

/** An entry while it is being made or changed: attributes by type and options, in order of first mention. */
export class Draft {
  readonly #attributes: DraftAttribute[] = [];
  /** Made when they are more than `FEW`. */
  #byKey: Map<string, DraftAttribute> | undefined;
  /** The entryUUID that was made for a new entry. */
  id: Buffer | undefined;

  get attributes(): readonly DraftAttribute[] {
    return this.#attributes;
  }

  get(description: AttributeDescription): DraftAttribute | undefined {
    const attributes = this.#attributes;
    if (attributes.length > FEW) return this.#keyed().get(attributeKey(description));
    for (let i = 0; i < attributes.length; i++) {
      const attribute = attributes[i]!;
      if (attribute.description === description || isSame(attribute.description, description)) return attribute;
    }
    return undefined;
  }

  #keyed(): Map<string, DraftAttribute> {
    this.#byKey ??= new Map(this.#attributes.map((attribute) => [attributeKey(attribute.description), attribute]));
    return this.#byKey;
  }

  /** Those of one type, whatever their options: normAttributes do not tell options apart. */
  ofType(type: AttributeType): DraftAttribute[] {
    const found: DraftAttribute[] = [];
    for (const attribute of this.#attributes) if (attribute.description.type === type) found.push(attribute);
    return found;
  }

  /** In the place of the one that means the same, or behind the others. */
  set(attribute: DraftAttribute): void {
    this.#set(attribute, this.get(attribute.description));
  }

  /** Behind those that are there, or in the place of `known`. */
  #set(attribute: DraftAttribute, known?: DraftAttribute): void {
    if (known) this.#attributes[this.#attributes.indexOf(known)] = attribute;
    else this.#attributes.push(attribute);
    this.#byKey?.set(attributeKey(attribute.description), attribute);
  }

  /**
   * Sets all values, indexes from 0. An attribute that is there keeps its stored spelling, and stays as it is where it
   * has these.
   */
  replace(description: AttributeDescription, text: string, values: readonly Buffer[]): void {
    if (values.length === 0) {
      this.remove(description);
      return;
    }
    const known = this.get(description);
    if (known && isNumbered(known, values)) return;
    this.#set({ description, text: known?.text ?? text, values: numbered(values) }, known);
  }

  /** Sets the attribute to one value unless it is there. */
  setDefault(description: AttributeDescription, text: string, value: Buffer): boolean {
    if (this.get(description)) return false;
    this.#set({ description, text, values: [{ bytes: value, index: 0 }] });
    return true;
  }

  append(description: AttributeDescription, text: string, values: readonly Buffer[]): void {
    const known = this.get(description);
    if (!known) {
      if (values.length > 0) this.#set({ description, text, values: numbered(values) });
      return;
    }
    let index = nextIndex(known) - 1;
    this.#set({ ...known, values: [...known.values, ...values.map((bytes) => ({ bytes, index: ++index }))] }, known);
  }

  /** Adds values as a row has them, which keep their indexes. */
  join(description: AttributeDescription, text: string, values: readonly DraftValue[]): void {
    const known = this.get(description);
    this.#set(known ? { ...known, values: [...known.values, ...values] } : { description, text, values }, known);
  }

  /** First value of the attribute with this shown name and no options, as text. */
  text(name: string): string | undefined {
    return this.value(name)?.toString();
  }

  /** As `text`, in bytes. */
  value(name: string): Buffer | undefined {
    for (const { description, values } of this.#attributes) {
      if (description.type.name === name && description.options.length === 0) return values[0]?.bytes;
    }
    return undefined;
  }

  remove(description: AttributeDescription): void {
    const known = this.get(description);
    if (!known) return;
    this.#attributes.splice(this.#attributes.indexOf(known), 1);
    this.#byKey?.delete(attributeKey(description));
  }

  /** Says that the attribute has `rest` besides the values it has here. */
  setRest(description: AttributeDescription, text: string, rest: NonNullable<DraftAttribute['rest']>): void {
    const known = this.get(description);
    this.#set({ description, text, values: known?.values ?? [], rest }, known);
  }

  copy(): Draft {
    const copy = new Draft();
    for (const attribute of this.#attributes) copy.#attributes.push(attribute);
    return copy;
  }
}

/** Whether both mean the same attribute: see `attributeKey`. */
function isSame(a: AttributeDescription, b: AttributeDescription): boolean {
  if (a.type !== b.type || a.options.length !== b.options.length) return false;
  for (let i = 0; i < a.options.length; i++) if (a.options[i] !== b.options[i]) return false;
  return true;
}

/** Greater than the index of every value. */
export function nextIndex({ values, rest }: DraftAttribute): number {
  return values.reduce((next, v) => Math.max(next, v.index + 1), rest?.next ?? 0);
}

/** Whether it has these values, byte by byte, with indexes from 0. */
function isNumbered({ values: known, rest }: DraftAttribute, values: readonly Buffer[]): boolean {
  if (rest || known.length !== values.length) return false;
  for (let i = 0; i < known.length; i++) {
    const { bytes, index, stored } = known[i]!;
    if (stored || index !== i || !bytes.equals(values[i]!)) return false;
  }
  return true;
}

function numbered(values: readonly Buffer[]): DraftValue[] {
  if (values.length === 1) return [{ bytes: values[0]!, index: 0 }];
  const made: DraftValue[] = [];
  for (let index = 0; index < values.length; index++) made.push({ bytes: values[index]!, index });
  return made;
}

/** Values that are given as they are stored: DNs as RFC 4514 writes them. */
export function storedValues({ syntax }: AttributeType, values: readonly Buffer[]): readonly Buffer[] {
  return syntax.proper ? values.map(syntax.proper) : values;
}

/** Attributes as a client gives them: descriptions are parsed, those of one description joined, empty ones refused. */
export function draftFromAttributes(schema: Schema, given: readonly PartialAttribute[]): Draft {
  const draft = new Draft();
  /** Values of those that were mentioned before. */
  const more = new Map<DraftAttribute, (readonly Buffer[])[]>();
  for (const { type, values } of given) {
    const description = schema.requireStorable(type);
    if (values.length === 0) throw new LdapError('protocolError', `attribute '${type}' has no values`);
    const stored = storedValues(description.type, values);
    const known = draft.get(description);
    if (!known) draft.append(description, type, stored);
    else if (more.has(known)) more.get(known)!.push(stored);
    else more.set(known, [stored]);
  }
  for (const [{ description, text }, values] of more) draft.append(description, text, values.flat());
  return draft;
}

/** Whether the value that names an entry is among them. */
export function hasValue(values: readonly DraftValue[], { type, value, norm }: Ava): boolean {
  for (let i = 0; i < values.length; i++) {
    const { bytes } = values[i]!;
    if (sameBytes(bytes, value) || type.equality?.normalize(bytes)?.equals(norm)) return true;
  }
  return false;
}

export function asWide(attribute: DraftAttribute): WideAttribute {
  const count = attribute.values.length + (attribute.rest?.count ?? 0);
  return { text: attribute.text, next: nextIndex(attribute), count };
}

/**
 * In the order of the qualifiers: a description that begins another sorts before it, as the index that follows starts
 * with a zero byte.
 */
export function sortedByText(draft: Draft): DraftAttribute[] {
  return [...draft.attributes].sort((a, b) => (a.text < b.text ? -1 : 1));
}
