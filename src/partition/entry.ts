import { createHash } from 'node:crypto';
import { LdapError } from '../ldap/error.js';
import type { PartialAttribute } from '../ldap/types.js';
import type { Schema } from '../schema/schema.js';
import type { AttributeDescription, Ava, Rdn } from '../schema/types.js';
import type { Cell } from '../store/contract.js';
import { nextCell, qualifierStart, valueStart } from '../store/row.js';
import type { DescriptionTable } from './descriptions.js';
import { INDEX_BYTES, sameBytes } from './descriptions.js';
import { chunkCells, LARGE_VALUE } from './large.js';
import { MASTER, Q } from './tables.js';
import { WIDE_VALUES, type WideAttribute, wideList } from './wide.js';

/** One value of an attribute while an entry is being written. */
export interface DraftValue {
  /** The value, or for a stored large value that was not read the pointer cell's bytes. */
  readonly bytes: Buffer;
  /** The value index in the qualifier. */
  readonly index: number;
  /** Stored over 64 KiB and not changed: `bytes` is its pointer. */
  readonly stored?: boolean;
}

export interface DraftAttribute {
  readonly description: AttributeDescription;
  /** Description as stored. */
  readonly text: string;
  values: DraftValue[];
  /** Stored values that were not read: their number, and what is greater than every index (see `part.ts`). */
  readonly rest?: { readonly count: number; readonly next: number };
}

/** Descriptions that mean the same attribute have the same key: `;binary` asks for a transfer form and makes no other attribute. */
export function attributeKey({ type, options }: AttributeDescription): string {
  return options.length === 0 ? type.oid : `${type.oid};${options.join(';')}`;
}

/** An entry while it is being made or changed: attributes by type and options, in order of first mention. */
export class Draft {
  readonly attributes = new Map<string, DraftAttribute>();
  /** The entryUUID that was made for a new entry. */
  id: Buffer | undefined;

  get(description: AttributeDescription): DraftAttribute | undefined {
    return this.attributes.get(attributeKey(description));
  }

  /** Sets all values, indexes from 0. An attribute that is there keeps its stored spelling. */
  replace(description: AttributeDescription, text: string, values: readonly Buffer[]): void {
    const key = attributeKey(description);
    if (values.length === 0) {
      this.attributes.delete(key);
      return;
    }
    const known = this.attributes.get(key);
    this.attributes.set(key, {
      description,
      text: known?.text ?? text,
      values: numbered(values),
    });
  }

  /** Sets the attribute to one value unless it is there. */
  setDefault(description: AttributeDescription, text: string, value: Buffer): boolean {
    const key = attributeKey(description);
    if (this.attributes.has(key)) return false;
    this.attributes.set(key, { description, text, values: [{ bytes: value, index: 0 }] });
    return true;
  }

  append(description: AttributeDescription, text: string, values: readonly Buffer[]): void {
    const key = attributeKey(description);
    const known = this.attributes.get(key);
    if (!known) {
      if (values.length > 0) this.attributes.set(key, { description, text, values: numbered(values) });
      return;
    }
    let index = nextIndex(known) - 1;
    known.values = [...known.values, ...values.map((bytes) => ({ bytes, index: ++index }))];
  }

  /** First value of the attribute with this shown name and no options, as text. */
  text(name: string): string | undefined {
    return this.value(name)?.toString();
  }

  /** As `text`, in bytes. */
  value(name: string): Buffer | undefined {
    for (const { description, values } of this.attributes.values()) {
      if (description.type.name === name && description.options.length === 0) return values[0]?.bytes;
    }
    return undefined;
  }

  remove(description: AttributeDescription): void {
    this.attributes.delete(attributeKey(description));
  }

  /** Says that the attribute has `rest` besides the values it has here. */
  setRest(description: AttributeDescription, text: string, rest: NonNullable<DraftAttribute['rest']>): void {
    this.attributes.set(attributeKey(description), {
      description,
      text,
      values: this.get(description)?.values ?? [],
      rest,
    });
  }

  copy(): Draft {
    const copy = new Draft();
    for (const [key, a] of this.attributes) copy.attributes.set(key, { ...a, values: [...a.values] });
    return copy;
  }
}

function nextIndex({ values, rest }: DraftAttribute): number {
  return values.reduce((next, v) => Math.max(next, v.index + 1), rest?.next ?? 0);
}

function numbered(values: readonly Buffer[]): DraftValue[] {
  if (values.length === 1) return [{ bytes: values[0]!, index: 0 }];
  const made: DraftValue[] = [];
  for (let index = 0; index < values.length; index++) made.push({ bytes: values[index]!, index });
  return made;
}

/** Attributes as a client gives them: descriptions are parsed, those of one description joined, empty ones refused. */
export function draftFromAttributes(schema: Schema, given: readonly PartialAttribute[]): Draft {
  const draft = new Draft();
  for (const { type, values } of given) {
    const description = schema.requireDescription(type);
    if (values.length === 0) throw new LdapError('protocolError', `attribute '${type}' has no values`);
    draft.append(description, type, values);
  }
  return draft;
}

export function draftFromRow(
  descriptions: DescriptionTable,
  row: Buffer,
  large: ReadonlySet<string> | undefined,
): Draft {
  const draft = new Draft();
  for (let at = 0; at < row.length; ) {
    const next = nextCell(row, at);
    if (row[at] === MASTER.upAttributes) {
      const stored = descriptions.ofCell(row, at);
      const start = valueStart(row, at);
      const key = attributeKey(stored.description);
      let attribute = draft.attributes.get(key);
      if (!attribute) {
        attribute = { description: stored.description, text: stored.text.toString('latin1'), values: [] };
        draft.attributes.set(key, attribute);
      }
      attribute.values.push({
        bytes: row.subarray(start, next),
        index: row.readUInt32BE(start - INDEX_BYTES),
        ...(large?.has(row.toString('latin1', qualifierStart(at), start)) ? { stored: true } : {}),
      });
    }
    at = next;
  }
  return draft;
}

/** Qualifiers of first values by description: entries repeat them. Bounded by what the schema and `MAX_KEPT` allow. */
const firstQualifiers = new Map<string, Buffer[]>();
const MAX_KEPT = 4096;
const FIRST = 8;

/** Qualifier of one value: description as stored + 4-byte index. Shared: not to be changed. */
export function valueQualifier(text: string, index: number): Buffer {
  if (index >= FIRST) return makeQualifier(text, index);
  const kept = firstQualifiers.get(text) ?? keepQualifiers(text);
  return kept[index]!;
}

function keepQualifiers(text: string): Buffer[] {
  const made = Array.from({ length: FIRST }, (_, index) => makeQualifier(text, index));
  if (firstQualifiers.size >= MAX_KEPT) firstQualifiers.clear();
  firstQualifiers.set(text, made);
  return made;
}

function makeQualifier(text: string, index: number): Buffer {
  const qualifier = Buffer.allocUnsafe(text.length + INDEX_BYTES);
  qualifier.write(text, 'latin1');
  qualifier.writeUInt32BE(index, text.length);
  return qualifier;
}

export interface EntryCells {
  /** treeInfo and upAttributes, as `packSorted` takes them. */
  readonly cells: Cell[];
  /** largeValues: chunks of values that are new. */
  readonly separate: Cell[];
}

export interface TreeInfo {
  readonly parentId: Buffer;
  readonly normRdn: Buffer;
  readonly upRdn: Buffer;
  readonly version: Buffer;
}

/** All cells of the master row of an entry, sorted; values longer than `largeAbove` bytes go to largeValues. */
export function entryCells(draft: Draft, info: TreeInfo, largeAbove = LARGE_VALUE): EntryCells {
  const separate: Cell[] = [];
  const large: Buffer[] = [];
  const values: Cell[] = [];
  const wide: WideAttribute[] = [];
  for (const attribute of sortedByText(draft)) {
    if (attribute.rest || attribute.values.length > WIDE_VALUES) wide.push(asWide(attribute));
    for (const value of attribute.values) {
      const qualifier = valueQualifier(attribute.text, value.index);
      if (value.stored || value.bytes.length > largeAbove) {
        large.push(qualifier);
        if (!value.stored) separate.push(...chunkCells(qualifier, value.bytes));
        values.push({
          family: MASTER.upAttributes,
          qualifier,
          value: value.stored ? value.bytes : largePointer(value.bytes),
        });
      } else {
        values.push({ family: MASTER.upAttributes, qualifier, value: value.bytes });
      }
    }
  }
  const treeInfo = MASTER.treeInfo;
  const cells: Cell[] = large.length > 0 ? [{ family: treeInfo, qualifier: Q.large, value: largeList(large) }] : [];
  cells.push(
    { family: treeInfo, qualifier: Q.normRdn, value: info.normRdn },
    { family: treeInfo, qualifier: Q.parentId, value: info.parentId },
    { family: treeInfo, qualifier: Q.upRdn, value: info.upRdn },
    { family: treeInfo, qualifier: Q.version, value: info.version },
  );
  if (wide.length > 0) cells.push({ family: treeInfo, qualifier: Q.wide, value: wideList(wide) });
  for (const cell of values) cells.push(cell);
  return { cells, separate };
}

export function asWide(attribute: DraftAttribute): WideAttribute {
  const count = attribute.values.length + (attribute.rest?.count ?? 0);
  return { text: attribute.text, next: nextIndex(attribute), count };
}

/** In the order of the qualifiers: a description that begins another sorts before it, as the index that follows starts with a zero byte. */
export function sortedByText(draft: Draft): DraftAttribute[] {
  return [...draft.attributes.values()].sort((a, b) => (a.text < b.text ? -1 : 1));
}

/** What the upAttributes cell of a large value says: 8-byte length, SHA-256. */
export function largePointer(value: Buffer): Buffer {
  const pointer = Buffer.allocUnsafe(40);
  pointer.writeBigUInt64BE(BigInt(value.length));
  createHash('sha256').update(value).digest().copy(pointer, 8);
  return pointer;
}

/** Value of treeInfo `large`: each qualifier behind its 2-byte length. */
function largeList(qualifiers: readonly Buffer[]): Buffer {
  const parts: Buffer[] = [];
  for (const qualifier of qualifiers) {
    const length = Buffer.allocUnsafe(2);
    length.writeUInt16BE(qualifier.length);
    parts.push(length, qualifier);
  }
  return Buffer.concat(parts);
}

/** Values of every attribute of the type `name` (any options) in a packed row, views. Small values only. */
export function attributeValues(
  context: { readonly schema: Schema; readonly descriptions: DescriptionTable },
  row: Buffer,
  name: string,
): Buffer[] {
  const type = context.schema.attribute(name);
  const found: Buffer[] = [];
  if (!type) return found;
  for (let at = 0; at < row.length; ) {
    const next = nextCell(row, at);
    if (row[at] === MASTER.upAttributes && context.descriptions.ofCell(row, at).description.type === type) {
      found.push(row.subarray(valueStart(row, at), next));
    }
    at = next;
  }
  return found;
}

/** Completes objectClass with the superclasses of what is given, so that filters on them match (RFC 4512 §3.3). */
export function completeClasses(schema: Schema, draft: Draft): void {
  const description = schema.requireDescription('objectClass');
  const attribute = draft.get(description);
  if (!attribute) return;
  const missing = missingClasses(schema, attribute.values);
  if (missing.length > 0) draft.append(description, attribute.text, missing);
}

/** Entries of a kind have the same list of classes: what it lacks is worked out once. */
class MissingClasses {
  readonly #schema: Schema;
  readonly #known = new Map<string, readonly Buffer[]>();
  /** The list before, which is mostly the next one too. */
  #last: readonly Buffer[] = [];
  #lastMissing: readonly Buffer[] = [];

  constructor(schema: Schema) {
    this.#schema = schema;
  }

  of(values: readonly DraftValue[]): readonly Buffer[] {
    if (this.#isLast(values)) return this.#lastMissing;
    const names = values.map((value) => value.bytes.toString('latin1'));
    const key = names.join('\0');
    let missing = this.#known.get(key);
    if (!missing) {
      missing = superclasses(this.#schema, names).map((name) => Buffer.from(name));
      if (this.#known.size >= MAX_CLASS_LISTS) this.#known.clear();
      this.#known.set(key, missing);
    }
    this.#last = values.map((value) => Buffer.from(value.bytes));
    this.#lastMissing = missing;
    return missing;
  }

  #isLast(values: readonly DraftValue[]): boolean {
    if (values.length !== this.#last.length) return false;
    for (let i = 0; i < values.length; i++) if (!sameBytes(values[i]!.bytes, this.#last[i]!)) return false;
    return true;
  }
}

const missingBySchema = new WeakMap<Schema, MissingClasses>();
const MAX_CLASS_LISTS = 1000;

function missingClasses(schema: Schema, values: readonly DraftValue[]): readonly Buffer[] {
  let lists = missingBySchema.get(schema);
  if (!lists) {
    lists = new MissingClasses(schema);
    missingBySchema.set(schema, lists);
  }
  return lists.of(values);
}

/** Names of the classes above `names` that are not among them. */
function superclasses(schema: Schema, names: readonly string[]): string[] {
  const present = new Set(names.map((name) => schema.objectClass(name)?.oid));
  const missing: string[] = [];
  const visit = (name: string): void => {
    for (const superior of schema.objectClass(name)?.superiors ?? []) {
      if (!present.has(superior.oid)) {
        present.add(superior.oid);
        missing.push(superior.name);
      }
      visit(superior.oid);
    }
  };
  for (const name of names) visit(name);
  return missing;
}

/** Adds the values of the RDN that the entry does not have (RFC 4511 §4.7 asks clients to give them; like others, Rowan adds them). */
export function completeRdn(draft: Draft, schema: Schema, rdn: Rdn): void {
  for (const ava of rdn.avas) {
    const description = schema.requireDescription(ava.type.name);
    const attribute = draft.get(description);
    if (attribute && hasValue(attribute.values, ava)) continue;
    draft.append(description, description.text, [Buffer.from(ava.value)]);
  }
}

/** Whether the value that names an entry is among them. */
export function hasValue(values: readonly DraftValue[], { type, value, norm }: Ava): boolean {
  for (let i = 0; i < values.length; i++) {
    const { bytes } = values[i]!;
    if (sameBytes(bytes, value) || type.equality?.normalize(bytes)?.equals(norm)) return true;
  }
  return false;
}
