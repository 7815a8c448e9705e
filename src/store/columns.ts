import type { ColumnRange } from './contract.js';
import { compareQualifier, nextCell } from './row.js';

/** Returns the cells of `row[0..end)` in `ranges`, packed into a new buffer; undefined when there are none. */
export function selectColumns(row: Buffer, end: number, ranges: readonly ColumnRange[]): Buffer | undefined {
  const cellRuns: Buffer[] = [];
  let at = 0;
  for (const range of ranges) {
    while (at < end && isBefore(row, at, range)) at = nextCell(row, at);
    const start = at;
    while (at < end && !isBeyond(row, at, range)) at = nextCell(row, at);
    if (at > start) cellRuns.push(row.subarray(start, at));
  }
  return cellRuns.length > 0 ? Buffer.concat(cellRuns) : undefined;
}

function isBefore(row: Buffer, at: number, { family, from }: ColumnRange): boolean {
  return row[at] === family ? from !== undefined && compareQualifier(row, at, from) < 0 : row[at]! < family;
}

function isBeyond(row: Buffer, at: number, { family, to }: ColumnRange): boolean {
  return row[at]! > family || (row[at] === family && to !== undefined && compareQualifier(row, at, to) >= 0);
}
