import { batchesOf } from '../../store/batches.js';
import type { PlanStep, Store } from '../../store/contract.js';
import { cellValue } from '../../store/row.js';
import { guardsHold, StoreError } from '../../store/store-error.js';
import type { DeletedEntry } from '../model/directory-types.js';
import { type Piecework, withFence } from '../model/piecework.js';
import { DELETED, DELETED_TABLE, DELETION, PURGE_TABLE, parentIdOf, UUID_BYTES } from '../model/tables.js';
import { uuidText } from '../model/uuid.js';
import type { WriteContext } from './context.js';

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
