import { createHash } from 'node:crypto';
import { BoundedMap } from '../../cache/bounded-map.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import type { Cell, ColumnRange } from '../../store/contract.js';
import { nextCell, packRow, qualifierStart, valueStart } from '../../store/row.js';
import { keyAfter } from '../../store/tables.js';
import { type DescriptionTable, INDEX_BYTES } from './descriptions.js';
import { Draft, type DraftValue, sortedAttributes, wideAttributeOf } from './draft.js';
import { EntryReader } from './entry-reader.js';
import { chunkCells, encodePointer } from './large.js';
import { MASTER, Q, ROOT_ID, TREE, versionOf } from './tables.js';
import { LARGE_VALUE, WIDE_VALUES } from './thresholds.js';
import { type WideAttribute, wideAttributes, wideList } from './wide.js';

export function draftFromRow(
  descriptions: DescriptionTable,
  row: Buffer,
  largeQualifiers: ReadonlySet<string> | undefined,
): Draft {
  const draft = new Draft();
  const reader = new EntryReader(descriptions).read(row);
  for (let i = 0; i < reader.attributeCount; i++) {
    const values: DraftValue[] = [];
    for (let v = reader.firstValues[i]!; v < reader.firstValues[i + 1]!; v++) {
      const value = { bytes: reader.value(v), index: row.readUInt32BE(reader.valueStarts[v]! - INDEX_BYTES) };
      const isLarge = largeQualifiers?.has(reader.qualifier(i, v).toString('latin1'));
      values.push(isLarge ? { ...value, isPointer: true } : value);
    }
    const { description, text: name } = reader.descriptions[i]!;
    draft.addStoredValues(description, name, values);
  }
  return draft;
}

/** Cached qualifiers of the first values of an attribute, by description. */
const firstQualifiers = new BoundedMap<string, Buffer[]>(4096);
const CACHED_INDEXES = 8;

/** Returns the qualifier of a value: description and 4-byte value index. Shared buffer; callers must not change it. */
export function valueQualifier(text: string, index: number): Buffer {
  if (index >= CACHED_INDEXES) return makeQualifier(text, index);
  const qualifiers = firstQualifiers.get(text) ?? cacheQualifiers(text);
  return qualifiers[index]!;
}

function cacheQualifiers(text: string): Buffer[] {
  const qualifiers = Array.from({ length: CACHED_INDEXES }, (_, index) => makeQualifier(text, index));
  firstQualifiers.set(text, qualifiers);
  return qualifiers;
}

function makeQualifier(text: string, index: number): Buffer {
  const qualifier = Buffer.allocUnsafe(text.length + INDEX_BYTES);
  qualifier.write(text, 'latin1');
  qualifier.writeUInt32BE(index, text.length);
  return qualifier;
}

const NO_BYTES = Buffer.alloc(0);

/** Packs a draft as a master row without position in the tree. Large values are in the row, too. */
export function detachedRow(draft: Draft): Buffer {
  const place = { parentId: ROOT_ID, normRdn: NO_BYTES, upRdn: NO_BYTES, version: Buffer.alloc(8) };
  return packRow(entryCells(draft, place, Number.POSITIVE_INFINITY).cells);
}

export interface EntryCells {
  /** Cells of treeInfo and upAttributes, for `packSorted`. */
  readonly cells: Cell[];
  /** Cells of largeValues: the chunks of new large values. */
  readonly newChunks: Cell[];
}

export interface TreeInfo {
  readonly parentId: Buffer;
  readonly normRdn: Buffer;
  readonly upRdn: Buffer;
  readonly version: Buffer;
}

/**
 * Returns all cells of the master row of an entry, sorted. New values of more than `largeAbove` bytes go to
 * largeValues. `storedPointers`: pointers of stored large values by latin-1 qualifier.
 */
export function entryCells(
  draft: Draft,
  info: TreeInfo,
  largeAbove = LARGE_VALUE,
  storedPointers?: ReadonlyMap<string, Buffer>,
): EntryCells {
  const newChunks: Cell[] = [];
  const largeQualifiers: Buffer[] = [];
  const valueCells: Cell[] = [];
  const wideAttributes: WideAttribute[] = [];
  for (const attribute of sortedAttributes(draft)) {
    if (attribute.unread || attribute.values.length > WIDE_VALUES) wideAttributes.push(wideAttributeOf(attribute));
    for (const value of attribute.values) {
      const qualifier = valueQualifier(attribute.text, value.index);
      if (value.isPointer || value.bytes.length > largeAbove) {
        largeQualifiers.push(qualifier);
        const pointer =
          storedPointers?.get(qualifier.toString('latin1')) ?? (value.isPointer ? value.bytes : value.pointer);
        if (!pointer) for (const cell of chunkCells(qualifier, value.bytes)) newChunks.push(cell);
        valueCells.push({ family: MASTER.upAttributes, qualifier, value: pointer ?? largePointer(value.bytes) });
      } else {
        valueCells.push({ family: MASTER.upAttributes, qualifier, value: value.bytes });
      }
    }
  }
  const treeInfo = MASTER.treeInfo;
  const cells: Cell[] =
    largeQualifiers.length > 0 ? [{ family: treeInfo, qualifier: Q.large, value: largeList(largeQualifiers) }] : [];
  cells.push(
    { family: treeInfo, qualifier: Q.normRdn, value: info.normRdn },
    { family: treeInfo, qualifier: Q.parentId, value: info.parentId },
    { family: treeInfo, qualifier: Q.upRdn, value: info.upRdn },
    { family: treeInfo, qualifier: Q.version, value: info.version },
  );
  if (wideAttributes.length > 0) cells.push({ family: treeInfo, qualifier: Q.wide, value: wideList(wideAttributes) });
  for (const cell of valueCells) cells.push(cell);
  return { cells, newChunks };
}

export function largePointer(value: Buffer): Buffer {
  return encodePointer(value.length, createHash('sha256').update(value).digest());
}

/** Encodes the cell `large` of treeInfo: the qualifiers of all large values, each after its 2-byte length. */
export function largeList(qualifiers: readonly Buffer[]): Buffer {
  const entries: Buffer[] = [];
  for (const qualifier of qualifiers) {
    const length = Buffer.allocUnsafe(2);
    length.writeUInt16BE(qualifier.length);
    entries.push(length, qualifier);
  }
  return Buffer.concat(entries);
}

/** Returns the values of the type `name`, with any options, in a packed row as views; pointers for large values. */
export function attributeValues(
  context: { readonly schema: Schema; readonly descriptions: DescriptionTable },
  row: Buffer,
  attributeName: string,
): Buffer[] {
  const type = context.schema.attribute(attributeName);
  const values: Buffer[] = [];
  if (!type) return values;
  for (let offset = 0; offset < row.length; ) {
    const cellEnd = nextCell(row, offset);
    if (row[offset] === MASTER.upAttributes && context.descriptions.ofCell(row, offset).description.type === type) {
      values.push(row.subarray(valueStart(row, offset), cellEnd));
    }
    offset = cellEnd;
  }
  return values;
}

export interface DescribedWide extends WideAttribute {
  readonly description: AttributeDescription;
}

export function describedWide(context: { readonly schema: Schema }, head: Buffer): DescribedWide[] {
  return wideAttributes(head).map((attribute) => ({
    ...attribute,
    description: context.schema.requireDescription(attribute.text),
  }));
}

/** Returns the column ranges that select the cells with these qualifiers in a tree row. */
export function normRanges(qualifiers: Iterable<Buffer>): ColumnRange[] {
  return [...qualifiers].sort(Buffer.compare).map((qualifier) => singleColumn(TREE.normAttributes, qualifier));
}

function singleColumn(family: number, qualifier: Buffer): ColumnRange {
  return { family, from: qualifier, to: keyAfter(qualifier) };
}

/** Ascending value indexes by the OID of their type. Decoded from the cells of a tree row. */
export type IndexesByOid = ReadonlyMap<string, readonly number[]>;

export function parseIndexes(cells: Buffer | undefined): IndexesByOid {
  const indexes = new Map<string, number[]>();
  for (let offset = 0; cells && offset < cells.length; offset = nextCell(cells, offset)) {
    const start = valueStart(cells, offset);
    const oid = cells.toString('latin1', qualifierStart(offset), cells.indexOf('=', qualifierStart(offset)));
    const list = indexes.get(oid);
    if (list) list.push(cells.readUInt32BE(start));
    else indexes.set(oid, [cells.readUInt32BE(start)]);
  }
  for (const list of indexes.values()) list.sort((a, b) => a - b);
  return indexes;
}

/** Bound of value indexes. Its first byte is that of `-`, the smallest character that continues a description. */
export const MAX_NEXT_INDEX = 0x2d000000;

/** Returns the column ranges of a master row that select, of wide attributes, only the values with these indexes. */
export function masterRanges(wide: readonly DescribedWide[], indexes: IndexesByOid): ColumnRange[] {
  const family = MASTER.upAttributes;
  const ranges: ColumnRange[] = [{ family: MASTER.treeInfo }];
  let start: Buffer | undefined;
  for (const { text, nextIndex, description } of wide) {
    ranges.push({ family, from: start, to: valueQualifier(text, 0) });
    for (const index of indexes.get(description.type.oid) ?? [])
      if (index < nextIndex) ranges.push(singleColumn(family, valueQualifier(text, index)));
    start = valueQualifier(text, nextIndex);
  }
  ranges.push({ family, from: start });
  return ranges;
}

/** Whether two reads of a master row returned the same version of the entry. */
export function isSameVersion(a: Buffer, b: Buffer): boolean {
  return versionOf(a) === versionOf(b);
}
