import type { ColumnRange } from './contract.js';
import { compareQualifier, nextCell } from './row.js';

/** Returns the cells of `row[0..end)` in `ranges`, packed into a new buffer; undefined when there are none. */
export function selectColumns(row: Buffer, end: number, ranges: readonly ColumnRange[]): Buffer | undefined {
  const cellRuns: Buffer[] = [];
  let offset = 0;
  for (const range of ranges) {
    while (offset < end && isBefore(row, offset, range)) offset = nextCell(row, offset);
    const start = offset;
    while (offset < end && !isBeyond(row, offset, range)) offset = nextCell(row, offset);
    if (offset > start) cellRuns.push(row.subarray(start, offset));
  }
  return cellRuns.length > 0 ? Buffer.concat(cellRuns) : undefined;
}

function isBefore(row: Buffer, offset: number, { family, from }: ColumnRange): boolean {
  return row[offset] === family ? from !== undefined && compareQualifier(row, offset, from) < 0 : row[offset]! < family;
}

function isBeyond(row: Buffer, offset: number, { family, to }: ColumnRange): boolean {
  if (row[offset] !== family) return row[offset]! > family;
  return to !== undefined && compareQualifier(row, offset, to) >= 0;
}
