import { CELL_HEADER, TREE_INFO, UP_ATTRIBUTES } from './row.js';

export interface RowCell {
  /** Description and index. A view. */
  readonly qualifier: Buffer;
  /** A view. */
  readonly value: Buffer;
}

function* cells(row: Buffer, family: number): Generator<RowCell> {
  for (let at = 0; at < row.length; ) {
    const start = at + CELL_HEADER;
    const value = start + row.readUInt16BE(at + 1);
    const next = value + row.readUInt32BE(at + 3);
    if (next > row.length) throw new RangeError(`packed row of ${row.length} bytes is cut at offset ${at}`);
    if (row[at] === family) yield { qualifier: row.subarray(start, value), value: row.subarray(value, next) };
    at = next;
  }
}

/** The attribute cells of a packed master row, in order. For paths where allocation does not matter. */
export function attributeCells(row: Buffer): Generator<RowCell> {
  return cells(row, UP_ATTRIBUTES);
}

/** The entry's version counter. */
export function rowVersion(row: Buffer): bigint {
  for (const { qualifier, value } of cells(row, TREE_INFO)) {
    if (qualifier.toString('latin1') === 'version' && value.length === 8) return value.readBigInt64BE();
  }
  return 0n;
}
