import type { Schema } from '../../schema/schema.js';
import { batchesOf } from '../../store/batches.js';
import type { Store } from '../../store/contract.js';
import { type ChangeRecord, changeRecord } from '../model/change-record.js';
import { type NameChange, NameChanges } from '../model/name-changes.js';
import { CHANGES_TABLE } from '../model/tables.js';

/** Assumed maximum difference between the clocks of front ends, in milliseconds. */
const CLOCK_SKEW_MS = 600_000;

/** Returns the renames, deletions and restorations since the entry was deleted at `time`. Reads the change records. */
export async function changesSince(
  { store, schema }: { readonly store: Store; readonly schema: Schema },
  id: Buffer,
  time: Buffer,
): Promise<NameChanges> {
  const changes: NameChange[] = [];
  for await (const { rows } of batchesOf(store.scan(CHANGES_TABLE.name, {}, { reverse: true }))) {
    for (const row of rows) {
      if (!row) continue;
      const record = changeRecord(row);
      const isDeletion = record.op === 'delete' && record.id.equals(id) && record.time.equals(time);
      if (isDeletion || decodeTimeMs(record.time) < decodeTimeMs(time) - CLOCK_SKEW_MS)
        return new NameChanges(schema, changes.reverse());
      const change = nameChange(record);
      if (change) changes.push(change);
    }
  }
  return new NameChanges(schema, changes.reverse());
}

function nameChange({ op, id, dn, newDn }: ChangeRecord): NameChange | undefined {
  const change = { id: id.toString('hex'), from: dn.toString() };
  if (op === 'rename' && newDn) return { ...change, to: newDn.toString(), below: true };
  if (op === 'delete') return change;
  return op === 'restore' ? { ...change, restored: true } : undefined;
}

function decodeTimeMs(time: Buffer): number {
  return time.length === 8 ? Number(time.readBigUInt64BE()) : 0;
}
