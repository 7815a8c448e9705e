import type { AppendStep, Cell } from '../../../store/contract.js';
import { compareCells, unpackRow } from '../../../store/row.js';
import { cellChanges } from '../../../store/row-edit.js';
import { encodeBeforeImage } from '../../model/before-image.js';
import { changeCells, changeTime } from '../../model/change-record.js';
import { CHANGES_TABLE, upRdnOf } from '../../model/tables.js';
import type { Survey } from './survey.js';

/** Returns the change record for a repair of a master row. `newCells`: its new cells, sorted by name. */
export function repairRecord(
  survey: Survey,
  id: Buffer,
  row: Buffer,
  newCells: readonly Cell[],
  change: { readonly op: 'modify' | 'rename'; readonly newDn?: Buffer; readonly attributes: readonly string[] },
): AppendStep {
  const { csn, descriptions } = survey.context;
  const beforeImage = encodeBeforeImage(descriptions, row, cellChanges(row, newCells));
  const record = { ...change, id, dn: upRdnOf(row), writerDn: '', csn: csn.nextCsn(), time: changeTime(), beforeImage };
  return { table: CHANGES_TABLE.name, append: changeCells(record) };
}

/** Returns the sorted cells of a row without those that `isGone` selects and with those in `put`. */
export function editedCells(row: Buffer, isGone: (cell: Cell) => boolean, put: readonly Cell[]): Cell[] {
  const isReplaced = (cell: Cell) => put.some((c) => c.family === cell.family && c.qualifier.equals(cell.qualifier));
  const keptCells = unpackRow(row).filter((cell) => !isGone(cell) && !isReplaced(cell));
  return [...keptCells, ...put].sort(compareCells);
}
