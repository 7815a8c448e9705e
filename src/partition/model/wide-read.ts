import type { Schema } from '../../schema/schema.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import type { ColumnRange } from '../../store/contract.js';
import { nextCell, qualifierStart, valueStart } from '../../store/row.js';
import { keyAfter } from '../../store/tables.js';
import { valueQualifier } from './entry-cells.js';
import { MASTER, TREE, versionOf } from './tables.js';
import { type WideAttribute, wideAttributes } from './wide.js';

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
