import type { AttributeType } from '../schema/types.js';
import type { Cell } from '../store/contract.js';
import { EMPTY } from '../store/row.js';
import type { Draft, DraftAttribute } from './entry.js';
import type { Index, IndexSet } from './indexes.js';
import { cutMark, equalityPrefix, gramPrefix, MAX_NORM, normQualifier, oidBytes, PRESENCE_PREFIX, TREE } from './tables.js';

/** What a master row implies in the other tables: its tree row's normAttributes and its index rows (without the entryUUID). */
export interface ImpliedSink {
  cell(cell: Cell): void;
  /** Key prefix of an index row. */
  index(index: Index, prefix: Buffer): void;
}

/** Of the whole entry. */
export function implyEntry(draft: Draft, indexes: IndexSet, sink: ImpliedSink): void {
  for (const [type, attributes] of byType(draft)) implyType(type, attributes, indexes.of(type), sink);
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

/** Of all attributes of one type. The same cell or row may be given more than once. Secrets imply nothing. */
export function implyType(type: AttributeType, attributes: readonly DraftAttribute[], index: Index | undefined, sink: ImpliedSink): void {
  if (type.secret || attributes.length === 0) return;
  const oid = oidBytes(type.oid);
  sink.cell({ family: TREE.normAttributes, qualifier: oid, value: EMPTY });
  if (index) sink.index(index, PRESENCE_PREFIX);
  const rule = type.equality;
  if (!rule || rule.test) return;
  for (const attribute of attributes) {
    for (const value of attribute.values) {
      const norm = rule.normalize(value.bytes);
      if (!norm) continue;
      const position = Buffer.allocUnsafe(4);
      position.writeUInt32BE(value.index);
      sink.cell({ family: TREE.normAttributes, qualifier: normQualifier(oid, norm), value: position });
      if (norm.length > MAX_NORM) sink.cell({ family: TREE.normAttributes, qualifier: cutMark(type.oid), value: EMPTY });
      if (!index) continue;
      sink.index(index, equalityPrefix(norm));
      if (index.substring) for (let at = 0; at + 3 <= norm.length; at++) sink.index(index, gramPrefix(norm, at));
    }
  }
}

/** Collects what is implied, each thing once. */
export class Implied implements ImpliedSink {
  readonly cells = new Map<string, Cell>();
  readonly rows = new Map<string, { readonly index: Index; readonly prefix: Buffer }>();

  cell(cell: Cell): void {
    const key = cell.qualifier.toString('latin1');
    // The smallest index stays, so that the order of attributes does not matter.
    const known = this.cells.get(key);
    if (!known || Buffer.compare(cell.value, known.value) < 0) this.cells.set(key, cell);
  }

  index(index: Index, prefix: Buffer): void {
    this.rows.set(`${index.type.oid} ${prefix.toString('latin1')}`, { index, prefix });
  }
}
