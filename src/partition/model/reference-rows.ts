import type { Cell, PlanStep, RowStep } from '../../store/contract.js';
import { nextCell, qualifierStart, valueStart } from '../../store/row.js';
import { DELETED, DELETED_TABLE, DELETION, META_TABLE, UUID_BYTES } from './tables.js';

/** A value that named an entry until the entry was deleted. */
export interface SavedReference {
  /** entryUUID of the entry that had the value. */
  readonly id: Buffer;
  /** Description as stored. */
  readonly description: string;
  /** What the value had behind the DN. */
  readonly uid: Buffer;
}

const SAVED = Buffer.from('reference:');

/** Step of the plan that removes such a value: the row of the deleted entry, of this time, remembers it. */
export function saveStep(gone: Buffer, time: Buffer, saved: SavedReference): PlanStep {
  const family = DELETED.deletion;
  return {
    table: DELETED_TABLE.name,
    key: gone,
    guards: [{ op: 'equals', family, qualifier: DELETION.time, value: time }],
    put: [savedCell(family, saved)],
    add: [{ family, qualifier: DELETION.references, by: 1n }],
  };
}

function savedCell(family: number, { id, description, uid }: SavedReference): Cell {
  return { family, qualifier: Buffer.concat([SAVED, id, Buffer.from(description, 'latin1')]), value: uid };
}

/** What a row of a deleted entry, or the one that `broughtBackStep` puts, remembers. */
export function savedReferences(row: Buffer): SavedReference[] {
  const found: SavedReference[] = [];
  for (let at = 0; at < row.length; at = nextCell(row, at)) {
    const name = qualifierStart(at);
    const start = valueStart(row, at);
    const id = name + SAVED.length;
    if (start < id + UUID_BYTES || !row.subarray(name, id).equals(SAVED)) continue;
    found.push({
      id: Buffer.from(row.subarray(id, id + UUID_BYTES)),
      description: row.toString('latin1', id + UUID_BYTES, start),
      uid: Buffer.from(row.subarray(start, nextCell(row, at))),
    });
  }
  return found;
}

/** Key of the row of table `meta` that has the references which a restored entry is to get back. */
export function broughtBackKey(id: Buffer): Buffer {
  return Buffer.concat([Buffer.from('references,'), id]);
}

export function broughtBackStep(id: Buffer, saved: readonly SavedReference[]): RowStep {
  return { table: META_TABLE.name, key: broughtBackKey(id), put: saved.map((one) => savedCell(0, one)) };
}
