import type { Cell, CellName, PlanStep } from '../../store/contract.js';
import { cellCounter, cellValue, MARK, nextCell, qualifierStart, unpackRow, valueStart } from '../../store/row.js';
import { chunkNames, largeCells } from '../model/large.js';
import { type SavedReference, saveStep } from '../model/reference-rows.js';
import { DELETED, DELETED_TABLE, DELETION, PURGE_TABLE, purgeKey } from '../model/tables.js';
import type { Change } from './change.js';
import type { WriteContext } from './context.js';
import { carriedCells } from './large-ahead.js';

/** Steps that keep a deleted entry's rows; one of the same entryUUID that was deleted earlier makes room. */
export function keepSteps({ id, actor, before, place, aside }: Change, time: Buffer): PlanStep[] {
  const { row: earlier, carried } = aside!;
  const { separate, ahead } = carried;
  const about = (qualifier: Buffer, value: Buffer): Cell => ({ family: DELETED.deletion, qualifier, value });
  const earlierTime = earlier && cellValue(earlier, DELETED.deletion, DELETION.time);
  const put = [...carriedCells(before!.row, carried), ...separate];
  return [
    ...(earlierTime ? [{ table: PURGE_TABLE.name, key: purgeKey(earlierTime, id), deleteRow: true }] : []),
    {
      table: DELETED_TABLE.name,
      key: id,
      guards: [
        earlierTime
          ? { op: 'equals', family: DELETED.deletion, qualifier: DELETION.time, value: earlierTime }
          : { op: 'absent', family: DELETED.deletion, qualifier: DELETION.time },
        ...(ahead ? [ahead.guard] : []),
      ],
      // Not the whole row: what was written ahead is in it.
      delete: [...(earlier ? cellsWithChunks(earlier) : []), ...(ahead ? [ahead.mark] : [])],
      put: [
        ...put,
        about(DELETION.dn, place.from!.dn),
        about(DELETION.time, time),
        about(DELETION.by, Buffer.from(actor.dn)),
      ],
    },
    { table: PURGE_TABLE.name, key: purgeKey(time, id), put: [MARK] },
  ];
}

/** Names of all cells of a row and of the chunks of its large values. */
function cellsWithChunks(row: Buffer): CellName[] {
  const chunks = largeCells(row).flatMap((at) => {
    const start = valueStart(row, at);
    return chunkNames(row.subarray(qualifierStart(at), start), row.subarray(start, nextCell(row, at)));
  });
  return [...unpackRow(row), ...chunks.map((qualifier) => ({ family: DELETED.largeValues, qualifier }))];
}

/** Steps that take an entry that is restored out of the deleted ones. */
export function bringBackSteps({ id, aside }: Change): PlanStep[] {
  const family = DELETED.deletion;
  const time = cellValue(aside!.row!, family, DELETION.time)!;
  const references = cellCounter(aside!.row!, family, DELETION.references);
  return [
    {
      table: DELETED_TABLE.name,
      key: id,
      guards: [
        { op: 'equals', family, qualifier: DELETION.time, value: time },
        { op: 'counterEquals', family, qualifier: DELETION.references, value: references },
      ],
      deleteRow: true,
    },
    { table: PURGE_TABLE.name, key: purgeKey(time, id), deleteRow: true },
  ];
}

/**
 * Steps by which the row of a deleted entry remembers a value that named it, to come back with it. None where the entry
 * is forgotten.
 */
export async function saveSteps(
  context: Pick<WriteContext, 'store'>,
  gone: Buffer,
  reference: SavedReference,
): Promise<PlanStep[]> {
  const time = await timeOfDeletion(context, gone);
  return time ? [saveStep(gone, time, reference)] : [];
}

/** Undefined where the entry is not in table `deleted`. */
export async function timeOfDeletion({ store }: Pick<WriteContext, 'store'>, id: Buffer): Promise<Buffer | undefined> {
  const row = await store.get(DELETED_TABLE.name, id);
  return row && cellValue(row, DELETED.deletion, DELETION.time);
}
