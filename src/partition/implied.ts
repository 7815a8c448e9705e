import type { AttributeType, MatchingRule } from '../schema/types.js';
import type { Cell } from '../store/contract.js';
import { EMPTY } from '../store/row.js';
import type { Draft, DraftAttribute, DraftValue } from './entry.js';
import type { Index, IndexSet } from './indexes.js';
import {
  cutMark,
  cutNorm,
  equalityPrefix,
  gramPrefix,
  MAX_NORM,
  normQualifier,
  oidBytes,
  PRESENCE_PREFIX,
  TREE,
} from './tables.js';

/** What a master row implies in the other tables: its tree row's normAttributes and its index rows. Forms come cut. */
export interface ImpliedSink {
  /** The attribute is there. */
  presence(oid: Buffer): void;
  /** It has a value with this form; `position` is the value index. */
  norm(oid: Buffer, norm: Buffer, position: number): void;
  /** It has a value whose form was cut. */
  cut(type: AttributeType): void;
  indexPresence(index: Index): void;
  indexNorm(index: Index, norm: Buffer): void;
  /** The three bytes of `norm` from `at` on. */
  indexGram(index: Index, norm: Buffer, at: number): void;
}

/** Of the whole entry. */
export function implyEntry(draft: Draft, indexes: IndexSet, sink: ImpliedSink): void {
  const byTypes = byType(draft);
  for (const type of inOrder([...byTypes.keys()])) implyType(type, byTypes.get(type)!, indexes.of(type), sink);
}

let lastTypes: readonly AttributeType[] = [];
let lastOrder: readonly AttributeType[] = [];

/** Sorted by OID, which is nearly the order of the cells. Entries that follow each other mostly have the same types. */
function inOrder(types: readonly AttributeType[]): readonly AttributeType[] {
  if (types.length !== lastTypes.length || !types.every((type, i) => type === lastTypes[i])) {
    lastTypes = types;
    lastOrder = [...types].sort((a, b) => (a.oid < b.oid ? -1 : 1));
  }
  return lastOrder;
}

/** The attributes of a draft under their types: normAttributes do not tell options apart. */
export function byType(draft: Draft): Map<AttributeType, DraftAttribute[]> {
  const types = new Map<AttributeType, DraftAttribute[]>();
  for (const attribute of draft.attributes.values()) {
    const { type } = attribute.description;
    const known = types.get(type);
    if (known) known.push(attribute);
    else types.set(type, [attribute]);
  }
  return types;
}

/** Of all attributes of one type, each thing once. Secrets imply nothing. */
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
  const rule = type.equality;
  if (!rule || rule.test) return;
  const norms = knownNorms(type, attributes) ?? learnNorms(type, rule, attributes);
  for (const { norm, position } of norms) implyNorm(type, oid, norm, position, index, sink);
  if (index?.substring) implyGrams(norms, index, sink);
}

/** A normal form and the smallest value index it has. */
interface Norm {
  readonly norm: Buffer;
  position: number;
}

function normsOf(rule: MatchingRule, attributes: readonly DraftAttribute[]): Norm[] {
  if (attributes.length === 1 && attributes[0]!.values.length === 1) {
    const [value] = attributes[0]!.values;
    const norm = rule.normalize(value!.bytes);
    return norm ? [{ norm, position: value!.index }] : [];
  }
  const norms = new Map<string, Norm>();
  for (const attribute of attributes) {
    for (const value of attribute.values) {
      const norm = rule.normalize(value.bytes);
      if (!norm) continue;
      const key = norm.toString('latin1');
      const known = norms.get(key);
      // The smallest stays, so that the order of attributes does not matter.
      if (!known) norms.set(key, { norm, position: value.index });
      else known.position = Math.min(known.position, value.index);
    }
  }
  return [...norms.values()];
}

/** The values of a type in the entry before, and their forms. */
interface Repeat {
  readonly values: readonly DraftValue[];
  readonly norms: readonly Norm[];
  /** In a row. */
  misses: number;
}

const repeats = new Map<AttributeType, Repeat>();
/** Types whose values are others each time are not worth remembering. */
const MAX_MISSES = 16;
const MAX_REPEATED = 8;

/** Classes, timestamps, who did it: entries that follow each other mostly have the same values. */
function knownNorms(type: AttributeType, attributes: readonly DraftAttribute[]): readonly Norm[] | undefined {
  const repeat = repeats.get(type);
  if (!repeat || repeat.misses >= MAX_MISSES || attributes.length !== 1) return undefined;
  const { values } = attributes[0]!;
  if (values.length !== repeat.values.length) return undefined;
  for (let i = 0; i < values.length; i++) {
    const known = repeat.values[i]!;
    if (values[i]!.index !== known.index || !values[i]!.bytes.equals(known.bytes)) return undefined;
  }
  repeat.misses = 0;
  return repeat.norms;
}

function learnNorms(type: AttributeType, rule: MatchingRule, attributes: readonly DraftAttribute[]): readonly Norm[] {
  const norms = normsOf(rule, attributes);
  const misses = repeats.get(type)?.misses ?? 0;
  if (misses >= MAX_MISSES || attributes.length !== 1 || attributes[0]!.values.length > MAX_REPEATED) return norms;
  if (attributes[0]!.values.some((value) => value.bytes.length > MAX_NORM)) return norms;
  repeats.set(type, {
    values: attributes[0]!.values.map(({ bytes, index }) => ({ bytes: Buffer.from(bytes), index })),
    norms: norms.map(({ norm, position }) => ({ norm: Buffer.from(norm), position })),
    misses: misses + 1,
  });
  return norms;
}

function implyNorm(
  type: AttributeType,
  oid: Buffer,
  norm: Buffer,
  position: number,
  index: Index | undefined,
  sink: ImpliedSink,
): void {
  const cut = cutNorm(norm);
  sink.norm(oid, cut, position);
  if (cut !== norm) sink.cut(type);
  if (index) sink.indexNorm(index, cut);
}

/** Every three bytes in a row that occur in the forms. */
function implyGrams(norms: readonly Norm[], index: Index, sink: ImpliedSink): void {
  const seen = new Set<number>();
  for (const { norm } of norms) {
    for (let at = 0; at + 3 <= norm.length; at++) {
      const gram = (norm[at]! << 16) | (norm[at + 1]! << 8) | norm[at + 2]!;
      if (seen.has(gram)) continue;
      seen.add(gram);
      sink.indexGram(index, norm, at);
    }
  }
}

/** What an entry implies, by name, to be compared with what it implied before. */
export class Implied implements ImpliedSink {
  readonly cells = new Map<string, Cell>();
  /** Key prefixes of index rows. */
  readonly rows = new Map<string, { readonly index: Index; readonly prefix: Buffer }>();

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
    this.cells.set(qualifier.toString('latin1'), { family: TREE.normAttributes, qualifier, value });
  }

  indexPresence(index: Index): void {
    this.#row(index, PRESENCE_PREFIX);
  }

  indexNorm(index: Index, norm: Buffer): void {
    this.#row(index, equalityPrefix(norm));
  }

  indexGram(index: Index, norm: Buffer, at: number): void {
    this.#row(index, gramPrefix(norm, at));
  }

  #row(index: Index, prefix: Buffer): void {
    this.rows.set(`${index.type.oid} ${prefix.toString('latin1')}`, { index, prefix });
  }
}
