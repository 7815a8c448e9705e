import type { Cell, CellName, PlanStep, Store } from '../../store/contract.js';
import { batchesOf } from '../../store/maybe.js';
import { cellCounter, cellValue, MARK, nextCell, qualifierStart, unpackRow, valueStart } from '../../store/row.js';
import { guardsHold, StoreError } from '../../store/store-error.js';
import type { DeletedEntry } from '../model/directory-types.js';
import { chunkQualifiers, largeOffsets } from '../model/large.js';
import { type Piecework, withFence } from '../model/piecework.js';
import { type SavedReference, saveReferenceStep } from '../model/reference-rows.js';
import { DELETED, DELETED_TABLE, DELETION, PURGE_TABLE, parentIdOf, purgeKey, UUID_BYTES } from '../model/tables.js';
import { uuidText } from '../model/uuid.js';
import type { Change, WriteContext } from './context.js';
import { cellsWithMovedPointers } from './large-ahead.js';

/** Returns the steps that keep a deleted entry. They replace a formerly deleted entry with the same entryUUID. */
export function deletionSteps({ id, actor, before, place, deletedRow }: Change, time: Buffer): PlanStep[] {
  const { row: earlierRow, movedValues } = deletedRow!;
  const { chunkCells, writtenValues } = movedValues;
  const deletionCell = (qualifier: Buffer, value: Buffer): Cell => ({ family: DELETED.deletion, qualifier, value });
  const earlierTime = earlierRow && cellValue(earlierRow, DELETED.deletion, DELETION.time);
  const entryCells = [...cellsWithMovedPointers(before!.row, movedValues), ...chunkCells];
  return [
    ...(earlierTime ? [{ table: PURGE_TABLE.name, key: purgeKey(earlierTime, id), deleteRow: true }] : []),
    {
      table: DELETED_TABLE.name,
      key: id,
      guards: [
        earlierTime
          ? { op: 'equals', family: DELETED.deletion, qualifier: DELETION.time, value: earlierTime }
          : { op: 'absent', family: DELETED.deletion, qualifier: DELETION.time },
        ...(writtenValues ? [writtenValues.guard] : []),
      ],
      // Delete cells, not the row: it may have large values that were written ahead.
      delete: [...(earlierRow ? cellsWithChunks(earlierRow) : []), ...(writtenValues ? [writtenValues.mark] : [])],
      put: [
        ...entryCells,
        deletionCell(DELETION.dn, place.from!.dn),
        deletionCell(DELETION.time, time),
        deletionCell(DELETION.by, Buffer.from(actor.dn)),
      ],
    },
    { table: PURGE_TABLE.name, key: purgeKey(time, id), put: [MARK] },
  ];
}

/** Returns the names of all cells in a row, including the chunks of its large values. */
function cellsWithChunks(row: Buffer): CellName[] {
  const chunks = largeOffsets(row).flatMap((offset) => {
    const start = valueStart(row, offset);
    return chunkQualifiers(row.subarray(qualifierStart(offset), start), row.subarray(start, nextCell(row, offset)));
  });
  return [...unpackRow(row), ...chunks.map((qualifier) => ({ family: DELETED.largeValues, qualifier }))];
}

/** Returns the steps that remove an entry from the deleted entries when it is restored. */
export function restorationSteps({ id, deletedRow }: Change): PlanStep[] {
  const family = DELETED.deletion;
  const time = cellValue(deletedRow!.row!, family, DELETION.time)!;
  const references = cellCounter(deletedRow!.row!, family, DELETION.references);
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
 * Returns the steps that save a reference to a deleted entry in that entry's row, from which a restoration brings it
 * back. Empty if the entry was purged.
 */
export async function saveSteps(
  context: Pick<WriteContext, 'store'>,
  gone: Buffer,
  reference: SavedReference,
): Promise<PlanStep[]> {
  const time = await timeOfDeletion(context, gone);
  return time ? [saveReferenceStep(gone, time, reference)] : [];
}

/** Returns the time of deletion; undefined if the entry is not in table `deleted`. */
export async function timeOfDeletion({ store }: Pick<WriteContext, 'store'>, id: Buffer): Promise<Buffer | undefined> {
  const row = await store.get(DELETED_TABLE.name, id);
  return row && cellValue(row, DELETED.deletion, DELETION.time);
}

/** Yields the deleted entries that can be restored, in the order of their entryUUIDs. */
export async function* deletedEntries(store: Store): AsyncGenerator<DeletedEntry> {
  const scan = store.scan(DELETED_TABLE.name, {});
  for await (const { keys, rows } of batchesOf(scan))
    for (const [i, id] of keys.entries()) yield toDeletedEntry(id, rows[i]!);
}

function toDeletedEntry(id: Buffer, row: Buffer): DeletedEntry {
  const deletionValue = (qualifier: Buffer) => cellValue(row, DELETED.deletion, qualifier);
  const time = deletionValue(DELETION.time);
  if (time?.length !== 8)
    throw new StoreError('corrupt', `deleted entry ${uuidText(id)} has no time; run \`rowan check\``);
  return {
    id,
    parentId: Buffer.from(parentIdOf(row)),
    dn: deletionValue(DELETION.dn)?.toString() ?? '',
    time: Number(time.readBigUInt64BE()),
    by: deletionValue(DELETION.by)?.toString() ?? '',
  };
}

const PURGE_BATCH = 128;

/** Purges the entries that were deleted before `beforeMs` (ms since 1970). Returns their number. */
export async function purge(context: WriteContext, beforeMs: number, piecework?: Piecework): Promise<number> {
  const end = Buffer.allocUnsafe(8);
  end.writeBigUInt64BE(BigInt(Math.max(0, Math.ceil(beforeMs))));
  const scan = context.store.scan(PURGE_TABLE.name, { to: end }, { keysOnly: true });
  let purgedCount = 0;
  for await (const { keys } of batchesOf(scan))
    for (let offset = 0; offset < keys.length; offset += PURGE_BATCH)
      purgedCount += await purgeKeys(context, keys.slice(offset, offset + PURGE_BATCH), piecework);
  return purgedCount;
}

/** Purges entries in one plan; one by one if one of them was restored meanwhile. Returns their number. */
async function purgeKeys(
  context: WriteContext,
  keys: readonly Buffer[],
  piecework: Piecework | undefined,
): Promise<number> {
  await piecework?.proceed();
  const steps = withFence(keys.flatMap(purgeSteps), piecework);
  if (await guardsHold(context.store.commit({ steps, decisive: 0 }))) return keys.length;
  if (keys.length === 1) return 0;
  let purgedCount = 0;
  for (const key of keys) purgedCount += await purgeKeys(context, [key], piecework);
  return purgedCount;
}

function purgeSteps(key: Buffer): PlanStep[] {
  const time = key.subarray(0, key.length - UUID_BYTES);
  const id = key.subarray(key.length - UUID_BYTES);
  return [
    {
      table: DELETED_TABLE.name,
      key: id,
      guards: [{ op: 'equals', family: DELETED.deletion, qualifier: DELETION.time, value: time }],
      deleteRow: true,
    },
    { table: PURGE_TABLE.name, key, deleteRow: true },
  ];
}
