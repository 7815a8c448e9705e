import type { Cell, CellName, RowStep } from '../../store/contract.js';
import { cellValue, counterBytes, nextCell, unpackRow } from '../../store/row.js';
import { cellChanges } from '../../store/row-edit.js';
import { encodeBeforeImage } from '../model/before-image.js';
import { entryCells, type TreeInfo } from '../model/entry-cells.js';
import { chunkQualifiers } from '../model/large.js';
import { largeQualifiers, MASTER, MASTER_TABLE, Q, versionOf } from '../model/tables.js';
import { LARGE_VALUE } from '../model/thresholds.js';
import type { Change } from './change.js';
import type { WriteContext } from './context.js';
import type { WrittenValues } from './large-ahead.js';

/** The write of the master row. */
export interface MasterWrite {
  readonly step: RowStep;
  /** The before image for the change record (`before-image.ts`). */
  readonly before: Buffer | undefined;
}

const FIRST_VERSION = counterBytes(1n);

/** Returns the step that writes the master row of a change. */
export function masterWrite(context: WriteContext, change: Change, written: WrittenValues | undefined): MasterWrite {
  if (!change.after) return { step: deleteStep(change), before: undefined };
  if (change.before) return update(context, change, written);
  return insert(context, change, written ?? change.deletedRow?.carried.written);
}

function deleteStep({ id, before }: Change): RowStep {
  return { table: MASTER_TABLE.name, key: id, guards: [isVersion(before!.row)], deleteRow: true };
}

function isVersion(row: Buffer) {
  const value = cellValue(row, MASTER.treeInfo, Q.version)!;
  return { op: 'equals', family: MASTER.treeInfo, qualifier: Q.version, value } as const;
}

function infoOf({ place: { to, upRdn } }: Change, version: Buffer): TreeInfo {
  return { parentId: to!.parent!.id, normRdn: to!.normRdn, upRdn, version };
}

/** Inserts an entry that is added, or restored from table `deleted`. */
function insert(context: WriteContext, change: Change, written: WrittenValues | undefined): MasterWrite {
  const { id, after, deletedRow } = change;
  const version = deletedRow ? nextVersion(deletedRow.row!) : FIRST_VERSION;
  const { cells, newChunks: separate } = entryCells(after!, infoOf(change, version), LARGE_VALUE, written?.pointers);
  const absent = { op: 'absent', family: MASTER.treeInfo, qualifier: Q.parentId } as const;
  const chunks = deletedRow ? [...separate, ...deletedRow.carried.separate] : separate;
  const step = {
    table: MASTER_TABLE.name,
    key: id,
    guards: written ? [absent, written.guard] : [absent],
    ...(written && { delete: [written.mark] }),
    put: chunks.length > 0 ? [...cells, ...chunks] : cells,
  };
  return { step, before: deletedRow && beforeOf(context, withoutDeletion(deletedRow.row!), cells) };
}

/** Returns the master row that a row of table `deleted` was. */
function withoutDeletion(row: Buffer): Buffer {
  let at = 0;
  while (at < row.length && row[at]! <= MASTER.upAttributes) at = nextCell(row, at);
  return row.subarray(0, at);
}

function beforeOf(context: WriteContext, row: Buffer, cells: readonly Cell[]): Buffer {
  return encodeBeforeImage(context.descriptions, row, cellChanges(row, cells));
}

/** Updates the master row, guarded by its version. Only cells that differ are written. */
function update(context: WriteContext, change: Change, written: WrittenValues | undefined): MasterWrite {
  const { row } = change.before!;
  const { cells, newChunks: separate } = entryCells(
    change.after!,
    infoOf(change, nextVersion(row)),
    LARGE_VALUE,
    written?.pointers,
  );
  const changes = cellChanges(row, cells);
  const chunks = goneChunks(row, cells, separate);
  const step = {
    table: MASTER_TABLE.name,
    key: change.id,
    guards: written ? [isVersion(row), written.guard] : [isVersion(row)],
    delete: written ? [...changes.removedCells, ...chunks, written.mark] : [...changes.removedCells, ...chunks],
    put: separate.length > 0 ? [...changes.writtenCells, ...separate] : changes.writtenCells,
  };
  return { step, before: encodeBeforeImage(context.descriptions, row, changes) };
}

/** Returns a version above every version that the row has had, so that cached versions are recognized as outdated. */
function nextVersion(row: Buffer): Buffer {
  return counterBytes(versionOf(row) + 1n);
}

/** Returns the chunks of large values that are removed or replaced, except chunks that are written again. */
function goneChunks(row: Buffer, cells: readonly Cell[], separate: readonly Cell[]): CellName[] {
  const large = largeQualifiers(row);
  if (!large) return [];
  const kept = new Map(cells.map((cell) => [cell.qualifier.toString('latin1'), cell.value]));
  const written = new Set(separate.map((cell) => cell.qualifier.toString('latin1')));
  const gone: CellName[] = [];
  for (const cell of unpackRow(row)) {
    const name = cell.qualifier.toString('latin1');
    if (cell.family !== MASTER.upAttributes || !large.has(name) || kept.get(name)?.equals(cell.value)) continue;
    for (const qualifier of chunkQualifiers(cell.qualifier, cell.value)) {
      if (!written.has(qualifier.toString('latin1'))) gone.push({ family: MASTER.largeValues, qualifier });
    }
  }
  return gone;
}
