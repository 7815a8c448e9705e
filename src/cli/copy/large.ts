import { chunkCount, chunkQualifier, largeCells } from '../../partition/large.js';
import { MASTER } from '../../partition/tables.js';
import type { Cell, Reader } from '../../store/contract.js';
import { nextCell, qualifierStart, unpackRow, valueStart } from '../../store/row.js';

/** Chunks written with one commit: 4 MiB. */
const CHUNKS = 32;

/** The chunks of the large values of a row of `master` or `deleted`, a few at a time. */
export async function* largeChunks(
  reader: Reader,
  table: string,
  key: Buffer,
  row: Buffer,
): AsyncGenerator<readonly Cell[]> {
  let cells: Cell[] = [];
  for (const at of largeCells(row)) {
    const start = valueStart(row, at);
    const qualifier = row.subarray(qualifierStart(at), start);
    const count = chunkCount(row.subarray(start, nextCell(row, at)));
    for (let n = 0; n < count; n++) {
      const chunk = await reader.getCells(table, key, MASTER.largeValues, chunkQualifier(qualifier, n));
      // A longer qualifier with the same beginning belongs to another value.
      if (chunk) cells.push(...unpackRow(chunk).filter((cell) => cell.qualifier.length === qualifier.length + 4));
      if (cells.length < CHUNKS) continue;
      yield cells;
      cells = [];
    }
  }
  if (cells.length > 0) yield cells;
}
