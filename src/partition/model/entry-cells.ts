import { createHash } from 'node:crypto';
import { BoundedMap } from '../../cache/bounded-map.js';
import type { Schema } from '../../schema/schema.js';
import type { Cell } from '../../store/contract.js';
import { nextCell, packRow, valueStart } from '../../store/row.js';
import { type DescriptionTable, INDEX_BYTES } from './descriptions.js';
import { Draft, type DraftValue, sortedByText, wideAttributeOf } from './draft.js';
import { EntryReader } from './entry-reader.js';
import { chunkCells, pointerOf } from './large.js';
import { MASTER, Q, ROOT_ID } from './tables.js';
import { LARGE_VALUE, WIDE_VALUES } from './thresholds.js';
import { type WideAttribute, wideList } from './wide.js';

export function draftFromRow(
  descriptions: DescriptionTable,
  row: Buffer,
  large: ReadonlySet<string> | undefined,
): Draft {
  const draft = new Draft();
  const reader = new EntryReader(descriptions).read(row);
  for (let i = 0; i < reader.count; i++) {
    const values: DraftValue[] = [];
    for (let v = reader.firsts[i]!; v < reader.firsts[i + 1]!; v++) {
      const value = { bytes: reader.value(v), index: row.readUInt32BE(reader.starts[v]! - INDEX_BYTES) };
      const isLarge = large?.has(reader.qualifier(i, v).toString('latin1'));
      values.push(isLarge ? { ...value, stored: true } : value);
    }
    const { description, name } = reader.stored[i]!;
    draft.addStored(description, name, values);
  }
  return draft;
}

/** Qualifiers of the first values by description. Entries repeat them. */
const firstQualifiers = new BoundedMap<string, Buffer[]>(4096);
const FIRST = 8;

/** Qualifier of a value: stored description and 4-byte index. Shared buffer: callers must not change it. */
export function valueQualifier(text: string, index: number): Buffer {
  if (index >= FIRST) return makeQualifier(text, index);
  const kept = firstQualifiers.get(text) ?? keepQualifiers(text);
  return kept[index]!;
}

function keepQualifiers(text: string): Buffer[] {
  const made = Array.from({ length: FIRST }, (_, index) => makeQualifier(text, index));
  firstQualifiers.set(text, made);
  return made;
}

function makeQualifier(text: string, index: number): Buffer {
  const qualifier = Buffer.allocUnsafe(text.length + INDEX_BYTES);
  qualifier.write(text, 'latin1');
  qualifier.writeUInt32BE(index, text.length);
  return qualifier;
}

const NOTHING = Buffer.alloc(0);

/** Packs a draft into a master row without a place in the tree. All values are inline, whatever their length. */
export function detachedRow(draft: Draft): Buffer {
  const place = { parentId: ROOT_ID, normRdn: NOTHING, upRdn: NOTHING, version: Buffer.alloc(8) };
  return packRow(entryCells(draft, place, Number.POSITIVE_INFINITY).cells);
}

export interface EntryCells {
  /** Cells of treeInfo and upAttributes, for `packSorted`. */
  readonly cells: Cell[];
  /** Cells of largeValues: chunks of new values. */
  readonly separate: Cell[];
}

export interface TreeInfo {
  readonly parentId: Buffer;
  readonly normRdn: Buffer;
  readonly upRdn: Buffer;
  readonly version: Buffer;
}

/**
 * Returns all cells of the master row of an entry, sorted. Values longer than `largeAbove` bytes go to largeValues.
 * `written` holds pointers of large values that are already stored, by latin-1 qualifier.
 */
export function entryCells(
  draft: Draft,
  info: TreeInfo,
  largeAbove = LARGE_VALUE,
  written?: ReadonlyMap<string, Buffer>,
): EntryCells {
  const separate: Cell[] = [];
  const large: Buffer[] = [];
  const values: Cell[] = [];
  const wide: WideAttribute[] = [];
  for (const attribute of sortedByText(draft)) {
    if (attribute.rest || attribute.values.length > WIDE_VALUES) wide.push(wideAttributeOf(attribute));
    for (const value of attribute.values) {
      const qualifier = valueQualifier(attribute.text, value.index);
      if (value.stored || value.bytes.length > largeAbove) {
        large.push(qualifier);
        const known = written?.get(qualifier.toString('latin1')) ?? (value.stored ? value.bytes : value.pointer);
        if (!known) for (const cell of chunkCells(qualifier, value.bytes)) separate.push(cell);
        values.push({ family: MASTER.upAttributes, qualifier, value: known ?? largePointer(value.bytes) });
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

export function largePointer(value: Buffer): Buffer {
  return pointerOf(value.length, createHash('sha256').update(value).digest());
}

/** Encodes the value of treeInfo `large`: each qualifier after its 2-byte length. */
export function largeList(qualifiers: readonly Buffer[]): Buffer {
  const parts: Buffer[] = [];
  for (const qualifier of qualifiers) {
    const length = Buffer.allocUnsafe(2);
    length.writeUInt16BE(qualifier.length);
    parts.push(length, qualifier);
  }
  return Buffer.concat(parts);
}

/** Values of the attributes of the type `name` (any options) in a packed row, as views. Large values: pointers. */
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
