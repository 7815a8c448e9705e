import { cellValue, nextCell } from '../../store/row.js';
import { MASTER, Q } from './tables.js';

export interface WideAttribute {
  /** Description as stored. */
  readonly text: string;
  /** A bound above all value indexes. */
  readonly nextIndex: number;
  readonly valueCount: number;
}

/** Value of treeInfo `wide`, per attribute: description length u16, description, `nextIndex` u32, `valueCount` u32. */
export function wideList(attributes: readonly WideAttribute[]): Buffer {
  const items = attributes.map(({ text, nextIndex, valueCount }) => {
    const item = Buffer.allocUnsafe(2 + text.length + 8);
    item.writeUInt16BE(text.length);
    item.write(text, 2, 'latin1');
    item.writeUInt32BE(nextIndex, 2 + text.length);
    item.writeUInt32BE(valueCount, 6 + text.length);
    return item;
  });
  return Buffer.concat(items);
}

/** Returns the wide attributes that a master row, or its head, lists, in the order of their descriptions. */
export function wideAttributes(row: Buffer): WideAttribute[] {
  const list = cellValue(row, MASTER.treeInfo, Q.wide);
  const attributes: WideAttribute[] = [];
  for (let at = 0; list && at + 10 <= list.length; ) {
    const end = at + 2 + list.readUInt16BE(at);
    if (end + 8 > list.length) break;
    attributes.push({
      text: list.toString('latin1', at + 2, end),
      nextIndex: list.readUInt32BE(end),
      valueCount: list.readUInt32BE(end + 4),
    });
    at = end + 8;
  }
  return attributes;
}

/** True for a complete row, false for the head of a split row. Every entry has attributes after the head. */
export function isWhole(row: Buffer): boolean {
  let at = 0;
  while (at < row.length && row[at] === MASTER.treeInfo) at = nextCell(row, at);
  return at < row.length;
}
