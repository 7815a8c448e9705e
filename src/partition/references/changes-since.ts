import { TimeSlice } from '../../fair/time-slice.js';
import type { Schema } from '../../schema/schema.js';
import type { Store } from '../../store/contract.js';
import { batchesOf } from '../../store/maybe.js';
import { qualifierStart, valueStart } from '../../store/row.js';
import { decodeBefore } from '../model/before-image.js';
import { type ChangeRecord, changeRecord } from '../model/change-record.js';
import { valueQualifier } from '../model/entry-cells.js';
import { type NameChange, NameChanges } from '../model/name-changes.js';
import { CHANGES_TABLE } from '../model/tables.js';

/** Assumed maximum difference between the clocks of front ends, in milliseconds. */
const CLOCK_SKEW_MS = 600_000;

/**
 * Returns the renames, deletions and restorations since the entry was deleted at `time`. Reads the change records. The
 * other entries of a tree delete were deleted at the same time, whatever the order of the records.
 */
export async function changesSince(
  { store, schema }: { readonly store: Store; readonly schema: Schema },
  id: Buffer,
  time: Buffer,
): Promise<NameChanges> {
  const changes: NameChange[] = [];
  let isBehind = false;
  for await (const { rows } of batchesOf(store.scan(CHANGES_TABLE.name, {}, { reverse: true }))) {
    for (const row of rows) {
      if (!row) continue;
      const record = changeRecord(row);
      const isAtTime = record.op === 'delete' && record.time.equals(time);
      const isOwn = isAtTime && record.id.equals(id);
      const earliest = decodeTimeMs(time) - (isBehind ? 0 : CLOCK_SKEW_MS);
      if (decodeTimeMs(record.time) < earliest) return new NameChanges(schema, changes.reverse());
      const change = !isOwn && (!isBehind || isAtTime) && nameChange(record);
      if (change) changes.push(change);
      isBehind ||= isOwn;
    }
  }
  return new NameChanges(schema, changes.reverse());
}

/** The values that entries have been given since the name of another entry changed. */
export class LaterValues {
  /** entryUUIDs of entries that were added or restored, and entryUUIDs with the qualifier of a value, as Latin-1. */
  readonly #keys = new Set<string>();

  /** Reads change records back to the record of `change`; all records if that one is trimmed. `ids`: the entries. */
  static async since(store: Store, change: NameChange, ids: readonly Buffer[]): Promise<LaterValues> {
    const values = new LaterValues();
    const idTexts = new Set(ids.map((id) => id.toString('latin1')));
    const slice = new TimeSlice();
    for await (const { rows } of batchesOf(store.scan(CHANGES_TABLE.name, {}, { reverse: true }))) {
      for (const row of rows) {
        if (!row) continue;
        const record = changeRecord(row);
        if (isRecordOf(record, change)) return values;
        if (idTexts.has(record.id.toString('latin1'))) values.#add(record);
      }
      const pause = slice.yieldIfOver();
      if (pause) await pause;
    }
    return values;
  }

  /** Whether the value in the cell at `offset` is one of them. `row`: the master row of the entry `id`. */
  includes(id: Buffer, row: Buffer, offset: number): boolean {
    const idText = id.toString('latin1');
    const qualifier = row.toString('latin1', qualifierStart(offset), valueStart(row, offset));
    return this.#keys.has(idText) || this.#keys.has(idText + qualifier);
  }

  #add({ op, id, beforeImage }: ChangeRecord): void {
    const idText = id.toString('latin1');
    if (op === 'add' || op === 'restore') this.#keys.add(idText);
    else if (beforeImage)
      for (const { description, old, added } of decodeBefore(beforeImage).attributes)
        for (const index of [...old.map((value) => value.index), ...added])
          this.#keys.add(idText + valueQualifier(description, index).toString('latin1'));
  }
}

function isRecordOf({ op, id, dn, newDn }: ChangeRecord, change: NameChange): boolean {
  return (
    id.toString('hex') === change.id &&
    dn.toString() === change.from &&
    (change.to === undefined ? op === 'delete' : newDn?.toString() === change.to)
  );
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
