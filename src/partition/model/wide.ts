import { cellValue, nextCell } from '../../store/row.js';
import { MASTER, Q } from './tables.js';

export interface WideAttribute {
  /** Description as stored. */
  readonly text: string;
  /** A bound above all value indexes. */
  readonly next: number;
  readonly count: number;
}

/** Value of treeInfo `wide`, per attribute: description length u16, description, `next` u32, `count` u32. */
export function wideList(attributes: readonly WideAttribute[]): Buffer {
  const parts = attributes.map(({ text, next, count }) => {
    const part = Buffer.allocUnsafe(2 + text.length + 8);
    part.writeUInt16BE(text.length);
    part.write(text, 2, 'latin1');
    part.writeUInt32BE(next, 2 + text.length);
    part.writeUInt32BE(count, 6 + text.length);
    return part;
  });
  return Buffer.concat(parts);
}

/** Returns the wide attributes that a master row, or its head, lists, in the order of their descriptions. */
export function wideAttributes(row: Buffer): WideAttribute[] {
  const list = cellValue(row, MASTER.treeInfo, Q.wide);
  const found: WideAttribute[] = [];
  for (let at = 0; list && at + 10 <= list.length; ) {
    const end = at + 2 + list.readUInt16BE(at);
    if (end + 8 > list.length) break;
    found.push({
      text: list.toString('latin1', at + 2, end),
      next: list.readUInt32BE(end),
      count: list.readUInt32BE(end + 4),
    });
    at = end + 8;
  }
  return found;
}

/** True for a complete row, false for the head of a split row. Every entry has attributes after the head. */
export function isWhole(row: Buffer): boolean {
  let at = 0;
  while (at < row.length && row[at] === MASTER.treeInfo) at = nextCell(row, at);
  return at < row.length;
}
