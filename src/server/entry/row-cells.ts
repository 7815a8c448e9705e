import { CELL_HEADER, UP_ATTRIBUTES } from './row.js';

export interface RowCell {
  /** Description and index. A view. */
  readonly qualifier: Buffer;
  /** A view. */
  readonly value: Buffer;
}

/** The attribute cells of a packed master row, in order. For paths where allocation does not matter. */
export function* attributeCells(row: Buffer): Generator<RowCell> {
  for (let at = 0; at < row.length; ) {
    const start = at + CELL_HEADER;
    const value = start + row.readUInt16BE(at + 1);
    const next = value + row.readUInt32BE(at + 3);
    if (next > row.length) throw new RangeError(`packed row of ${row.length} bytes is cut at offset ${at}`);
    if (row[at] === UP_ATTRIBUTES) yield { qualifier: row.subarray(start, value), value: row.subarray(value, next) };
    at = next;
  }
}
