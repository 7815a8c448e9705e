import { sameBytes } from '../../bytes/compare.js';
import type { AttributeType, MatchingRule } from '../../schema/schema-types.js';
import type { Cell, Reader } from '../../store/contract.js';
import { EMPTY } from '../../store/row.js';
import type { DescriptionTable } from './descriptions.js';
import type { Draft, DraftAttribute, DraftValue } from './draft.js';
import { draftFromRow, valueQualifier } from './entry-cells.js';
import type { Index, IndexSet } from './index-set.js';
import { largeOffsetsWhere, readAllLarge } from './large.js';
import {
  cutMarkQualifier,
  cutNorm,
  equalityPrefix,
  gramPrefix,
  normQualifier,
  oidBytes,
  PRESENCE_PREFIX,
  TREE,
} from './tables.js';
import { MAX_NORM } from './thresholds.js';

/** Receives the cells of normAttributes and the index rows that derive from a master row. Long normal forms are cut. */
export interface ImpliedSink {
  /** Receives an attribute of the entry. */
  addPresence(oid: Buffer): void;
  /** Receives a normal form (cut) and the value index of a value. */
  addNorm(oid: Buffer, norm: Buffer, valueIndex: number): void;
  /** Called for a type of which a normal form was cut. */
  addCutMark(type: AttributeType): void;
  addPresenceRow(index: Index): void;
  addEqualityRow(index: Index, norm: Buffer): void;
  /** Receives a substring row: the three bytes of `norm` at offset `at`. */
  addGramRow(index: Index, norm: Buffer, offset: number): void;
}

/** Passes all normAttributes and index rows of the entry to the sink. */
export function implyEntry(draft: Draft, indexes: IndexSet, sink: ImpliedSink): void {
  const attributesByType = groupByType(draft);
  for (const type of sortByOid([...attributesByType.keys()]))
    implyType(type, attributesByType.get(type)!, indexes.ofType(type), sink);
}

let lastTypes: readonly AttributeType[] = [];
let lastSortedTypes: readonly AttributeType[] = [];

/** Sorts types by OID. Caches the last result, because consecutive entries mostly have the same types. */
function sortByOid(types: readonly AttributeType[]): readonly AttributeType[] {
  if (types.length !== lastTypes.length || !types.every((type, i) => type === lastTypes[i])) {
    lastTypes = types;
    lastSortedTypes = [...types].sort((a, b) => (a.oid < b.oid ? -1 : 1));
  }
  return lastSortedTypes;
}

/** Groups the attributes of a draft by type, because normAttributes do not distinguish options. */
function groupByType(draft: Draft): Map<AttributeType, DraftAttribute[]> {
  const types = new Map<AttributeType, DraftAttribute[]>();
  for (const attribute of draft.attributes) {
    const { type } = attribute.description;
    const attributes = types.get(type);
    if (attributes) attributes.push(attribute);
    else types.set(type, [attribute]);
  }
  return types;
}

/** Passes the normAttributes and index rows of a type to the sink, without duplicates; none for a secret. */
export function implyType(
  type: AttributeType,
  attributes: readonly DraftAttribute[],
  index: Index | undefined,
  sink: ImpliedSink,
): void {
  if (type.secret || attributes.length === 0) return;
  const oid = oidBytes(type.oid);
  sink.addPresence(oid);
  if (index?.hasPresence) sink.addPresenceRow(index);
  const rule = normRule(type);
  if (!rule) return;
  const values = normalizerOf(type, rule).normalize(attributes);
  let hasCut = false;
  for (const { cutValue, norm, valueIndex } of values) {
    sink.addNorm(oid, cutValue, valueIndex);
    if (cutValue !== norm) hasCut = true;
    if (index) sink.addEqualityRow(index, cutValue);
  }
  if (hasCut) sink.addCutMark(type);
  if (index?.hasSubstrings) eachGram(values, (norm, offset) => sink.addGramRow(index, norm, offset));
}

/** Returns the equality rule whose normal forms are stored for the type; undefined if values cannot be searched for. */
export function normRule(type: AttributeType): MatchingRule | undefined {
  return type.secret || !type.equality || type.equality.test ? undefined : type.equality;
}

/** The normal form of a value. `valueIndex`: the smallest value index of the equal values of an entry. */
export interface NormalizedValue {
  readonly norm: Buffer;
  /** `norm`, cut if it is long. The same buffer if it is not. */
  readonly cutValue: Buffer;
  valueIndex: number;
}

/** After this number of consecutive misses the cache is switched off, since the type's values differ in every entry. */
const MAX_MISSES = 16;
const MAX_CACHED_VALUES = 8;

/**
 * Computes the normal forms of a type's values, and caches the last result. Consecutive entries mostly have the same
 * classes, timestamps and creators. If the result is the same array as before, the values and value indexes are the
 * same, too.
 */
export class Normalizer {
  readonly #rule: MatchingRule;
  #lastValues: readonly DraftValue[] = [];
  #lastResult: readonly NormalizedValue[] = [];
  #misses = 0;

  constructor(rule: MatchingRule) {
    this.#rule = rule;
  }

  /** Returns the distinct normal forms of all values, sorted by `cutValue`. */
  normalize(attributes: readonly DraftAttribute[]): readonly NormalizedValue[] {
    if (this.#misses >= MAX_MISSES || attributes.length !== 1) return normalizeAll(this.#rule, attributes);
    const { values } = attributes[0]!;
    if (this.#lastResult.length > 0 && isSameValues(values, this.#lastValues)) {
      this.#misses = 0;
      return this.#lastResult;
    }
    const result = normalizeAll(this.#rule, attributes);
    if (values.length <= MAX_CACHED_VALUES && values.every(({ bytes }) => bytes.length <= MAX_NORM)) {
      this.#lastValues = values.map(({ bytes, index }) => ({ bytes: Buffer.from(bytes), index }));
      this.#lastResult = result.map(copyNormalized);
      this.#misses++;
    }
    return result;
  }
}

function isSameValues(values: readonly DraftValue[], lastValues: readonly DraftValue[]): boolean {
  if (values.length !== lastValues.length) return false;
  for (let i = 0; i < values.length; i++) {
    if (values[i]!.index !== lastValues[i]!.index || !sameBytes(values[i]!.bytes, lastValues[i]!.bytes)) return false;
  }
  return true;
}

const normalizers = new Map<AttributeType, Normalizer>();

/** Returns the shared normalizer of a type that has a `normRule`. */
export function normalizerOf(type: AttributeType, rule: MatchingRule): Normalizer {
  let normalizer = normalizers.get(type);
  if (!normalizer) {
    normalizer = new Normalizer(rule);
    normalizers.set(type, normalizer);
  }
  return normalizer;
}

function normalizeAll(rule: MatchingRule, attributes: readonly DraftAttribute[]): NormalizedValue[] {
  if (attributes.length === 1 && attributes[0]!.values.length === 1) {
    const value = attributes[0]!.values[0]!;
    const norm = rule.normalize(value.bytes);
    return norm ? [{ norm, cutValue: cutNorm(norm), valueIndex: value.index }] : [];
  }
  const valuesByText = new Map<string, NormalizedValue>();
  for (const attribute of attributes) {
    for (const value of attribute.values) {
      const norm = rule.normalize(value.bytes);
      if (!norm) continue;
      const key = norm.toString('latin1');
      const existing = valuesByText.get(key);
      // Keep the smallest index, so that the order of attributes does not matter.
      if (!existing) valuesByText.set(key, { norm, cutValue: cutNorm(norm), valueIndex: value.index });
      else existing.valueIndex = Math.min(existing.valueIndex, value.index);
    }
  }
  return [...valuesByText.values()].sort((a, b) => Buffer.compare(a.cutValue, b.cutValue));
}

/** Returns a copy with buffers of its own, which does not keep the request in memory. */
function copyNormalized({ norm, cutValue, valueIndex }: NormalizedValue): NormalizedValue {
  const copy = Buffer.from(norm);
  return { norm: copy, cutValue: cutValue === norm ? copy : cutValue, valueIndex };
}

/** Calls `onGram` once for every distinct sequence of three bytes in the normal forms: `norm[offset, offset + 3)`. */
export function eachGram(values: readonly NormalizedValue[], onGram: (norm: Buffer, offset: number) => void): void {
  const distinctGrams = new Set<number>();
  for (const { norm } of values) {
    for (let offset = 0; offset + 3 <= norm.length; offset++) {
      const gram = (norm[offset]! << 16) | (norm[offset + 1]! << 8) | norm[offset + 2]!;
      if (distinctGrams.has(gram)) continue;
      distinctGrams.add(gram);
      onGram(norm, offset);
    }
  }
}

export interface ImpliedRow {
  readonly index: Index;
  readonly keyPrefix: Buffer;
}

/** Collects the normAttributes and index rows of an entry. */
export class ImpliedRows implements ImpliedSink {
  readonly cells: Cell[] = [];
  readonly rows: ImpliedRow[] = [];

  addPresence(oid: Buffer): void {
    this.#addCell(oid, EMPTY);
  }

  addNorm(oid: Buffer, norm: Buffer, valueIndex: number): void {
    const value = Buffer.allocUnsafe(4);
    value.writeUInt32BE(valueIndex);
    this.#addCell(normQualifier(oid, norm), value);
  }

  addCutMark(type: AttributeType): void {
    this.#addCell(cutMarkQualifier(type.oid), EMPTY);
  }

  #addCell(qualifier: Buffer, value: Buffer): void {
    this.cells.push({ family: TREE.normAttributes, qualifier, value });
  }

  addPresenceRow(index: Index): void {
    this.rows.push({ index, keyPrefix: PRESENCE_PREFIX });
  }

  addEqualityRow(index: Index, norm: Buffer): void {
    this.rows.push({ index, keyPrefix: equalityPrefix(norm) });
  }

  addGramRow(index: Index, norm: Buffer, offset: number): void {
    this.rows.push({ index, keyPrefix: gramPrefix(norm, offset) });
  }
}

/** Returns the draft of a stored entry, with all large values that have normal forms. */
export async function implyingDraft(
  context: { readonly store: Reader; readonly descriptions: DescriptionTable },
  table: string,
  id: Buffer,
  row: Buffer,
): Promise<Draft> {
  const largeOffsets = largeOffsetsWhere(context.descriptions, row, (type) => normRule(type) !== undefined);
  return draftWithLarge(context, row, await readAllLarge(context.store, table, id, row, largeOffsets));
}

export function draftWithLarge(
  context: { readonly descriptions: DescriptionTable },
  row: Buffer,
  largeValues: ReadonlyMap<string, Buffer> | undefined,
): Draft {
  const draft = draftFromRow(context.descriptions, row, undefined);
  if (!largeValues) return draft;
  for (const attribute of [...draft.attributes]) {
    const values = attribute.values.map((v) => {
      const qualifier = valueQualifier(attribute.text, v.index);
      return { bytes: largeValues.get(qualifier.toString('latin1')) ?? v.bytes, index: v.index };
    });
    draft.set({ ...attribute, values });
  }
  return draft;
}
