import { cellValue, nextCell } from '../../store/row.js';
import { MASTER, Q } from './tables.js';

export interface WideAttribute {
  /** Description as stored. */
  readonly text: string;
  /** A number above all value indexes of the attribute. */
  readonly nextIndex: number;
  readonly valueCount: number;
}

/** Encodes the cell `wide` of treeInfo. Per attribute: length u16, description, `nextIndex` u32, `valueCount` u32. */
export function wideList(attributes: readonly WideAttribute[]): Buffer {
  const entries = attributes.map(({ text, nextIndex, valueCount }) => {
    const entry = Buffer.allocUnsafe(2 + text.length + 8);
    entry.writeUInt16BE(text.length);
    entry.write(text, 2, 'latin1');
    entry.writeUInt32BE(nextIndex, 2 + text.length);
    entry.writeUInt32BE(valueCount, 6 + text.length);
    return entry;
  });
  return Buffer.concat(entries);
}

/** Returns the wide attributes of an entry, in order of description. `row` may be the head of a split row. */
export function wideAttributes(row: Buffer): WideAttribute[] {
  const list = cellValue(row, MASTER.treeInfo, Q.wide);
  const attributes: WideAttribute[] = [];
  for (let offset = 0; list && offset + 10 <= list.length; ) {
    const end = offset + 2 + list.readUInt16BE(offset);
    if (end + 8 > list.length) break;
    attributes.push({
      text: list.toString('latin1', offset + 2, end),
      nextIndex: list.readUInt32BE(end),
      valueCount: list.readUInt32BE(end + 4),
    });
    offset = end + 8;
  }
  return attributes;
}

/** Whether the row is complete, not only the head of a split row. Every entry has attributes, which the head lacks. */
export function isWhole(row: Buffer): boolean {
  let offset = 0;
  while (offset < row.length && row[offset] === MASTER.treeInfo) offset = nextCell(row, offset);
  return offset < row.length;
}
