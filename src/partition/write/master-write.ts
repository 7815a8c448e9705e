import type { Cell, CellName, RowStep } from '../../store/contract.js';
import { cellValue, counterBytes, nextCell, unpackRow } from '../../store/row.js';
import { cellChanges } from '../../store/row-edit.js';
import { encodeBeforeImage } from '../model/before-image.js';
import { entryCells, type TreeInfo } from '../model/entry-cells.js';
import { chunkQualifiers } from '../model/large.js';
import { largeQualifiers, MASTER, MASTER_TABLE, Q, versionOf } from '../model/tables.js';
import { LARGE_VALUE } from '../model/thresholds.js';
import type { Change, WriteContext } from './context.js';
import type { WrittenValues } from './large-ahead.js';

export interface MasterWrite {
  readonly step: RowStep;
  /** The image for the change record (`before-image.ts`). */
  readonly beforeImage: Buffer | undefined;
}

const FIRST_VERSION = counterBytes(1n);

export function masterWrite(context: WriteContext, change: Change, written: WrittenValues | undefined): MasterWrite {
  if (!change.after) return { step: deleteStep(change), beforeImage: undefined };
  if (change.before) return updateOf(context, change, written);
  return insertion(context, change, written ?? change.deletedRow?.movedValues.writtenValues);
}

function deleteStep({ id, before }: Change): RowStep {
  return { table: MASTER_TABLE.name, key: id, guards: [versionGuard(before!.row)], deleteRow: true };
}

function versionGuard(row: Buffer) {
  const value = cellValue(row, MASTER.treeInfo, Q.version)!;
  return { op: 'equals', family: MASTER.treeInfo, qualifier: Q.version, value } as const;
}

function treeInfoOf({ place: { to, upRdn } }: Change, version: Buffer): TreeInfo {
  return { parentId: to!.parent!.id, normRdn: to!.normRdn, upRdn, version };
}

/** Returns the step that inserts the row of an added or restored entry. */
function insertion(context: WriteContext, change: Change, written: WrittenValues | undefined): MasterWrite {
  const { id, after, deletedRow } = change;
  const version = deletedRow ? nextVersion(deletedRow.row!) : FIRST_VERSION;
  const { cells, newChunks } = entryCells(after!, treeInfoOf(change, version), LARGE_VALUE, written?.pointers);
  const absentGuard = { op: 'absent', family: MASTER.treeInfo, qualifier: Q.parentId } as const;
  const chunks = deletedRow ? [...newChunks, ...deletedRow.movedValues.chunkCells] : newChunks;
  const step = {
    table: MASTER_TABLE.name,
    key: id,
    guards: written ? [absentGuard, written.guard] : [absentGuard],
    ...(written && { delete: [written.mark] }),
    put: chunks.length > 0 ? [...cells, ...chunks] : cells,
  };
  return { step, beforeImage: deletedRow && beforeImageOf(context, withoutDeletion(deletedRow.row!), cells) };
}

/** Returns the master row from a row of table `deleted`. */
function withoutDeletion(row: Buffer): Buffer {
  let offset = 0;
  while (offset < row.length && row[offset]! <= MASTER.upAttributes) offset = nextCell(row, offset);
  return row.subarray(0, offset);
}

function beforeImageOf(context: WriteContext, row: Buffer, cells: readonly Cell[]): Buffer {
  return encodeBeforeImage(context.descriptions, row, cellChanges(row, cells));
}

/** Returns the step that updates the master row and guards its version. Writes only cells that differ. */
function updateOf(context: WriteContext, change: Change, written: WrittenValues | undefined): MasterWrite {
  const { row } = change.before!;
  const { cells, newChunks } = entryCells(
    change.after!,
    treeInfoOf(change, nextVersion(row)),
    LARGE_VALUE,
    written?.pointers,
  );
  const changes = cellChanges(row, cells);
  const removedCells = [...changes.removedCells, ...removedChunks(row, cells, newChunks)];
  const step = {
    table: MASTER_TABLE.name,
    key: change.id,
    guards: written ? [versionGuard(row), written.guard] : [versionGuard(row)],
    delete: written ? [...removedCells, written.mark] : removedCells,
    put: newChunks.length > 0 ? [...changes.writtenCells, ...newChunks] : changes.writtenCells,
  };
  return { step, beforeImage: encodeBeforeImage(context.descriptions, row, changes) };
}

/** Returns a version that the row has never had, so that cached versions are recognized as outdated. */
function nextVersion(row: Buffer): Buffer {
  return counterBytes(versionOf(row) + 1n);
}

/** Returns the chunks of removed and replaced large values, except chunks that are written again. */
function removedChunks(row: Buffer, cells: readonly Cell[], newChunks: readonly Cell[]): CellName[] {
  const largeKeys = largeQualifiers(row);
  if (!largeKeys) return [];
  const valuesAfter = new Map(cells.map((cell) => [cell.qualifier.toString('latin1'), cell.value]));
  const writtenChunks = new Set(newChunks.map((cell) => cell.qualifier.toString('latin1')));
  const removedNames: CellName[] = [];
  for (const cell of unpackRow(row)) {
    const key = cell.qualifier.toString('latin1');
    if (cell.family !== MASTER.upAttributes || !largeKeys.has(key) || valuesAfter.get(key)?.equals(cell.value))
      continue;
    for (const qualifier of chunkQualifiers(cell.qualifier, cell.value)) {
      if (!writtenChunks.has(qualifier.toString('latin1')))
        removedNames.push({ family: MASTER.largeValues, qualifier });
    }
  }
  return removedNames;
}
