import type { AttributeType, MatchingRule } from '../schema/types.js';
import type { Cell } from '../store/contract.js';
import { EMPTY } from '../store/row.js';
import type { Draft, DraftAttribute } from './entry.js';
import type { Index, IndexSet } from './indexes.js';
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
  // In the order of the OIDs, which is nearly that of the cells.
  const types = [...byType(draft)].sort(([a], [b]) => (a.oid < b.oid ? -1 : 1));
  for (const [type, attributes] of types) implyType(type, attributes, indexes.of(type), sink);
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
  if (attributes.length === 1 && attributes[0]!.values.length === 1) {
    const [value] = attributes[0]!.values;
    const norm = type.operational ? repeatedNorm(type, rule, value!.bytes) : rule.normalize(value!.bytes);
    if (norm) implyNorm(type, oid, norm, value!.index, index, sink);
    if (norm && index?.substring) implyGrams([norm], index, sink);
    return;
  }
  const norms = new Map<string, { readonly norm: Buffer; position: number }>();
  for (const attribute of attributes) {
    for (const value of attribute.values) {
      const norm = rule.normalize(value.bytes);
      if (!norm) continue;
      const key = norm.toString('latin1');
      const known = norms.get(key);
      // The smallest value index stays, so that the order of attributes does not matter.
      if (!known) norms.set(key, { norm, position: value.index });
      else known.position = Math.min(known.position, value.index);
    }
  }
  for (const { norm, position } of norms.values()) implyNorm(type, oid, norm, position, index, sink);
  if (index?.substring)
    implyGrams(
      [...norms.values()].map((n) => n.norm),
      index,
      sink,
    );
}

const repeated = new Map<AttributeType, { readonly value: Buffer; readonly norm: Buffer | undefined }>();

/** Operational values (timestamps, who did it) are often those of the entry before; their forms are worth keeping. */
function repeatedNorm(type: AttributeType, rule: MatchingRule, value: Buffer): Buffer | undefined {
  const known = repeated.get(type);
  if (known?.value.equals(value)) return known.norm;
  const norm = rule.normalize(value);
  repeated.set(type, { value: Buffer.from(value), norm: norm && Buffer.from(norm) });
  return norm;
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
function implyGrams(norms: readonly Buffer[], index: Index, sink: ImpliedSink): void {
  const seen = new Set<number>();
  for (const norm of norms) {
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
