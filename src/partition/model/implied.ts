import { sameBytes } from '../../bytes/compare.js';
import type { AttributeType, MatchingRule } from '../../schema/schema-types.js';
import type { Cell } from '../../store/contract.js';
import { EMPTY } from '../../store/row.js';
import type { Draft, DraftAttribute, DraftValue } from './draft.js';
import type { Index, IndexSet } from './index-set.js';
import {
  cutMark,
  cutNorm,
  equalityPrefix,
  gramPrefix,
  normQualifier,
  oidBytes,
  PRESENCE_PREFIX,
  TREE,
} from './tables.js';
import { MAX_NORM } from './thresholds.js';

/** Receives what a master row implies: normAttributes of its tree row, and index rows. Normal forms are cut. */
export interface ImpliedSink {
  /** The entry has the attribute. */
  presence(oid: Buffer): void;
  /** The entry has a value with this normal form; `position` is its value index. */
  norm(oid: Buffer, norm: Buffer, position: number): void;
  /** The entry has a value of the type whose normal form was cut. */
  cut(type: AttributeType): void;
  indexPresence(index: Index): void;
  indexNorm(index: Index, norm: Buffer): void;
  /** The three bytes of `norm` at offset `at`. */
  indexGram(index: Index, norm: Buffer, at: number): void;
}

/** Sends everything that the entry implies to the sink. */
export function implyEntry(draft: Draft, indexes: IndexSet, sink: ImpliedSink): void {
  const byTypes = byType(draft);
  for (const type of sortedByOid([...byTypes.keys()])) implyType(type, byTypes.get(type)!, indexes.of(type), sink);
}

let lastTypes: readonly AttributeType[] = [];
let lastOrder: readonly AttributeType[] = [];

/** Sorts by OID. Caches the last order, because consecutive entries mostly have the same types. */
function sortedByOid(types: readonly AttributeType[]): readonly AttributeType[] {
  if (types.length !== lastTypes.length || !types.every((type, i) => type === lastTypes[i])) {
    lastTypes = types;
    lastOrder = [...types].sort((a, b) => (a.oid < b.oid ? -1 : 1));
  }
  return lastOrder;
}

/** Groups the attributes of a draft by type, because normAttributes do not distinguish options. */
function byType(draft: Draft): Map<AttributeType, DraftAttribute[]> {
  const types = new Map<AttributeType, DraftAttribute[]>();
  for (const attribute of draft.attributes) {
    const { type } = attribute.description;
    const known = types.get(type);
    if (known) known.push(attribute);
    else types.set(type, [attribute]);
  }
  return types;
}

/** Sends everything that the attributes of one type imply, without duplicates. Secrets imply nothing. */
export function implyType(
  type: AttributeType,
  attributes: readonly DraftAttribute[],
  index: Index | undefined,
  sink: ImpliedSink,
): void {
  if (type.secret || attributes.length === 0) return;
  const oid = oidBytes(type.oid);
  sink.presence(oid);
  if (index?.presence) sink.indexPresence(index);
  const rule = formRule(type);
  if (!rule) return;
  const forms = formMaker(type, rule).forms(attributes);
  let isCut = false;
  for (const { cut, norm, position } of forms) {
    sink.norm(oid, cut, position);
    if (cut !== norm) isCut = true;
    if (index) sink.indexNorm(index, cut);
  }
  if (isCut) sink.cut(type);
  if (index?.substring) eachGram(forms, (norm, at) => sink.indexGram(index, norm, at));
}

/** Returns the rule whose normal forms serve searches for values of the type; undefined if there is none. */
export function formRule(type: AttributeType): MatchingRule | undefined {
  return type.secret || !type.equality || type.equality.test ? undefined : type.equality;
}

/** A normal form, and the smallest value index that has it. */
export interface Form {
  readonly norm: Buffer;
  /** The form as rows hold it. The same buffer as `norm` if it is not cut. */
  readonly cut: Buffer;
  position: number;
}

/** After this many misses in a row the cache is switched off: the values of the type differ in every entry. */
const MAX_MISSES = 16;
const MAX_REPEATED = 8;

/**
 * Computes the forms of a type's values and caches the last result. Consecutive entries mostly share classes,
 * timestamps and creators. The same array means the same values, byte by byte, with the same value indexes.
 */
export class FormMaker {
  readonly #rule: MatchingRule;
  #values: readonly DraftValue[] = [];
  #forms: readonly Form[] = [];
  #misses = 0;

  constructor(rule: MatchingRule) {
    this.#rule = rule;
  }

  /** Returns the distinct forms of all values, sorted by `cut`. */
  forms(attributes: readonly DraftAttribute[]): readonly Form[] {
    if (this.#misses >= MAX_MISSES || attributes.length !== 1) return makeForms(this.#rule, attributes);
    const { values } = attributes[0]!;
    if (this.#forms.length > 0 && isSameValues(values, this.#values)) {
      this.#misses = 0;
      return this.#forms;
    }
    const forms = makeForms(this.#rule, attributes);
    if (values.length <= MAX_REPEATED && values.every(({ bytes }) => bytes.length <= MAX_NORM)) {
      this.#values = values.map(({ bytes, index }) => ({ bytes: Buffer.from(bytes), index }));
      this.#forms = forms.map(copyForm);
      this.#misses++;
    }
    return forms;
  }
}

function isSameValues(values: readonly DraftValue[], known: readonly DraftValue[]): boolean {
  if (values.length !== known.length) return false;
  for (let i = 0; i < values.length; i++) {
    if (values[i]!.index !== known[i]!.index || !sameBytes(values[i]!.bytes, known[i]!.bytes)) return false;
  }
  return true;
}

const makers = new Map<AttributeType, FormMaker>();

/** Returns the shared maker of a type that has a `formRule`. */
export function formMaker(type: AttributeType, rule: MatchingRule): FormMaker {
  let maker = makers.get(type);
  if (!maker) {
    maker = new FormMaker(rule);
    makers.set(type, maker);
  }
  return maker;
}

function makeForms(rule: MatchingRule, attributes: readonly DraftAttribute[]): Form[] {
  if (attributes.length === 1 && attributes[0]!.values.length === 1) {
    const value = attributes[0]!.values[0]!;
    const norm = rule.normalize(value.bytes);
    return norm ? [{ norm, cut: cutNorm(norm), position: value.index }] : [];
  }
  const forms = new Map<string, Form>();
  for (const attribute of attributes) {
    for (const value of attribute.values) {
      const norm = rule.normalize(value.bytes);
      if (!norm) continue;
      const key = norm.toString('latin1');
      const known = forms.get(key);
      // The smallest position wins, so the order of attributes does not matter.
      if (!known) forms.set(key, { norm, cut: cutNorm(norm), position: value.index });
      else known.position = Math.min(known.position, value.index);
    }
  }
  return [...forms.values()].sort((a, b) => Buffer.compare(a.cut, b.cut));
}

/** Returns a copy that does not retain the buffer of the request. */
function copyForm({ norm, cut, position }: Form): Form {
  const own = Buffer.from(norm);
  return { norm: own, cut: cut === norm ? own : cut, position };
}

/** Calls `take` once for every distinct run of three bytes in the forms: `norm[at, at + 3)`. */
export function eachGram(forms: readonly Form[], take: (norm: Buffer, at: number) => void): void {
  const seen = new Set<number>();
  for (const { norm } of forms) {
    for (let at = 0; at + 3 <= norm.length; at++) {
      const gram = (norm[at]! << 16) | (norm[at + 1]! << 8) | norm[at + 2]!;
      if (seen.has(gram)) continue;
      seen.add(gram);
      take(norm, at);
    }
  }
}

export interface ImpliedRow {
  readonly index: Index;
  readonly prefix: Buffer;
}

/** Collects everything that an entry implies, without duplicates. */
export class Implied implements ImpliedSink {
  readonly cells: Cell[] = [];
  readonly rows: ImpliedRow[] = [];

  presence(oid: Buffer): void {
    this.#cell(oid, EMPTY);
  }

  norm(oid: Buffer, norm: Buffer, position: number): void {
    const value = Buffer.allocUnsafe(4);
    value.writeUInt32BE(position);
    this.#cell(normQualifier(oid, norm), value);
  }

  cut(type: AttributeType): void {
    this.#cell(cutMark(type.oid), EMPTY);
  }

  #cell(qualifier: Buffer, value: Buffer): void {
    this.cells.push({ family: TREE.normAttributes, qualifier, value });
  }

  indexPresence(index: Index): void {
    this.rows.push({ index, prefix: PRESENCE_PREFIX });
  }

  indexNorm(index: Index, norm: Buffer): void {
    this.rows.push({ index, prefix: equalityPrefix(norm) });
  }

  indexGram(index: Index, norm: Buffer, at: number): void {
    this.rows.push({ index, prefix: gramPrefix(norm, at) });
  }
}
