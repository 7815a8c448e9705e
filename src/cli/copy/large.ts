import { storedChunks } from '../../partition/model/large.js';
import type { Cell, Reader } from '../../store/contract.js';

/** Chunks written with one commit: 4 MiB. */
const CHUNKS_PER_COMMIT = 32;

/** Yields the chunks of the large values of a row of `master` or `deleted`, a few at a time. */
export async function* readLargeChunks(
  reader: Reader,
  table: string,
  key: Buffer,
  row: Buffer,
): AsyncGenerator<readonly Cell[]> {
  let cells: Cell[] = [];
  for await (const cell of storedChunks(reader, table, key, row)) {
    cells.push(cell);
    if (cells.length < CHUNKS_PER_COMMIT) continue;
    yield cells;
    cells = [];
  }
  if (cells.length > 0) yield cells;
}
