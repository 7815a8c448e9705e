import { chunkNames, largeCells, readAsThere } from '../../partition/large.js';
import { MASTER } from '../../partition/tables.js';
import type { Cell, Reader } from '../../store/contract.js';
import { nextCell, qualifierStart, valueStart } from '../../store/row.js';

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
    const names = chunkNames(row.subarray(qualifierStart(at), start), row.subarray(start, nextCell(row, at)));
    let n = 0;
    for await (const value of readAsThere(reader, table, key, names)) {
      const name = { family: MASTER.largeValues, qualifier: names[n++]! };
      if (value) cells.push({ ...name, value });
      if (cells.length < CHUNKS) continue;
      yield cells;
      cells = [];
    }
  }
  if (cells.length > 0) yield cells;
}
