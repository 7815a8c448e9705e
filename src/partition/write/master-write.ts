import type { Cell, CellName, RowStep } from '../../store/contract.js';
import { cellValue, counterBytes, nextCell, unpackRow } from '../../store/row.js';
import { cellChanges } from '../../store/row-edit.js';
import { encodeBefore } from '../model/before-image.js';
import { entryCells, type TreeInfo } from '../model/entry-cells.js';
import { chunkNames } from '../model/large.js';
import { largeQualifiers, MASTER, MASTER_TABLE, Q, versionOf } from '../model/tables.js';
import { LARGE_VALUE } from '../model/thresholds.js';
import type { Change } from './change.js';
import type { WriteContext } from './context.js';
import type { WrittenAhead } from './large-ahead.js';

/** What a change does to the master row. */
export interface MasterWrite {
  readonly step: RowStep;
  /** Of what was there before: see `before-image.ts`. */
  readonly before: Buffer | undefined;
}

const FIRST_VERSION = counterBytes(1n);

export function masterWrite(context: WriteContext, change: Change, written: WrittenAhead | undefined): MasterWrite {
  if (!change.after) return { step: leaving(change), before: undefined };
  if (change.before) return changing(context, change, written);
  return coming(context, change, written ?? change.aside?.carried.ahead);
}

function leaving({ id, before }: Change): RowStep {
  return { table: MASTER_TABLE.name, key: id, guards: [isVersion(before!.row)], deleteRow: true };
}

function isVersion(row: Buffer) {
  const value = cellValue(row, MASTER.treeInfo, Q.version)!;
  return { op: 'equals', family: MASTER.treeInfo, qualifier: Q.version, value } as const;
}

function infoOf({ place: { to, upRdn } }: Change, version: Buffer): TreeInfo {
  return { parentId: to!.parent!.id, normRdn: to!.normRdn, upRdn, version };
}

/** An entry that is added, or comes back from table `deleted` with all that it had there. */
function coming(context: WriteContext, change: Change, ahead: WrittenAhead | undefined): MasterWrite {
  const { id, after, aside } = change;
  const version = aside ? nextVersion(aside.row!) : FIRST_VERSION;
  const { cells, separate } = entryCells(after!, infoOf(change, version), LARGE_VALUE, ahead?.pointers);
  const absent = { op: 'absent', family: MASTER.treeInfo, qualifier: Q.parentId } as const;
  const chunks = aside ? [...separate, ...aside.carried.separate] : separate;
  const step = {
    table: MASTER_TABLE.name,
    key: id,
    guards: ahead ? [absent, ahead.guard] : [absent],
    ...(ahead && { delete: [ahead.mark] }),
    put: chunks.length > 0 ? [...cells, ...chunks] : cells,
  };
  return { step, before: aside && beforeOf(context, withoutDeletion(aside.row!), cells) };
}

/** A row of table `deleted` as the master row that it was. */
function withoutDeletion(row: Buffer): Buffer {
  let at = 0;
  while (at < row.length && row[at]! <= MASTER.upAttributes) at = nextCell(row, at);
  return row.subarray(0, at);
}

function beforeOf(context: WriteContext, row: Buffer, cells: readonly Cell[]): Buffer {
  return encodeBefore(context.descriptions, row, cellChanges(row, cells));
}

/** Guarded by its version; only cells that differ are written. */
function changing(context: WriteContext, change: Change, ahead: WrittenAhead | undefined): MasterWrite {
  const { row } = change.before!;
  const { cells, separate } = entryCells(change.after!, infoOf(change, nextVersion(row)), LARGE_VALUE, ahead?.pointers);
  const changes = cellChanges(row, cells);
  const chunks = goneChunks(row, cells, separate);
  const step = {
    table: MASTER_TABLE.name,
    key: change.id,
    guards: ahead ? [isVersion(row), ahead.guard] : [isVersion(row)],
    delete: ahead ? [...changes.gone, ...chunks, ahead.mark] : [...changes.gone, ...chunks],
    put: separate.length > 0 ? [...changes.come, ...separate] : changes.come,
  };
  return { step, before: encodeBefore(context.descriptions, row, changes) };
}

/** Above every version that the row had: whoever remembers one sees that the entry has changed. */
function nextVersion(row: Buffer): Buffer {
  return counterBytes(versionOf(row) + 1n);
}

/** Chunks of the row's large values that are gone or replaced, but for those that are written anew. */
function goneChunks(row: Buffer, cells: readonly Cell[], separate: readonly Cell[]): CellName[] {
  const large = largeQualifiers(row);
  if (!large) return [];
  const kept = new Map(cells.map((cell) => [cell.qualifier.toString('latin1'), cell.value]));
  const written = new Set(separate.map((cell) => cell.qualifier.toString('latin1')));
  const gone: CellName[] = [];
  for (const cell of unpackRow(row)) {
    const name = cell.qualifier.toString('latin1');
    if (cell.family !== MASTER.upAttributes || !large.has(name) || kept.get(name)?.equals(cell.value)) continue;
    for (const qualifier of chunkNames(cell.qualifier, cell.value)) {
      if (!written.has(qualifier.toString('latin1'))) gone.push({ family: MASTER.largeValues, qualifier });
    }
  }
  return gone;
}
