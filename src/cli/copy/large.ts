import { chunkCount, chunkQualifier } from '../../partition/large.js';
import { largeQualifiers, MASTER } from '../../partition/tables.js';
import type { Cell, Reader } from '../../store/contract.js';
import { nextCell, qualifierStart, unpackRow, valueStart } from '../../store/row.js';

/** Chunks written with one commit: 4 MiB. */
const CHUNKS = 32;

/** The chunks of the large values of a row of `master` or `deleted`, a few at a time. */
export async function* largeCells(
  reader: Reader,
  table: string,
  key: Buffer,
  row: Buffer,
): AsyncGenerator<readonly Cell[]> {
  const names = largeQualifiers(row);
  if (!names) return;
  let cells: Cell[] = [];
  for (const { qualifier, pointer } of pointers(row, names)) {
    for (let n = 0; n < chunkCount(pointer); n++) {
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

function* pointers(row: Buffer, names: ReadonlySet<string>): Generator<{ qualifier: Buffer; pointer: Buffer }> {
  for (let at = 0; at < row.length; ) {
    const next = nextCell(row, at);
    const start = valueStart(row, at);
    const qualifier = row.subarray(qualifierStart(at), start);
    if (row[at] === MASTER.upAttributes && names.has(qualifier.toString('latin1'))) {
      yield { qualifier, pointer: row.subarray(start, next) };
    }
    at = next;
  }
}
