import type { Cell, PlanStep, RowStep } from '../../store/contract.js';
import { EMPTY, nextCell, qualifierStart, valueStart } from '../../store/row.js';
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
const OWED = Buffer.from('owed:');

/** Step of the plan that removes such a value: the row of the deleted entry, of this time, remembers it. */
export function saveStep(gone: Buffer, time: Buffer, saved: SavedReference): PlanStep {
  return keepStep(gone, time, SAVED, saved);
}

/**
 * The other way round: the row of a deleted entry remembers that it is to name an entry, whose entryUUID `owed.id` is,
 * when it comes back.
 */
export function oweStep(gone: Buffer, time: Buffer, owed: SavedReference): PlanStep {
  return keepStep(gone, time, OWED, owed);
}

function keepStep(gone: Buffer, time: Buffer, prefix: Buffer, reference: SavedReference): PlanStep {
  const family = DELETED.deletion;
  return {
    table: DELETED_TABLE.name,
    key: gone,
    guards: [{ op: 'equals', family, qualifier: DELETION.time, value: time }],
    put: [savedCell(family, prefix, reference)],
    add: [{ family, qualifier: DELETION.references, by: 1n }],
  };
}

function savedCell(family: number, prefix: Buffer, { id, description, uid }: SavedReference): Cell {
  // No description has a NUL.
  return {
    family,
    qualifier: Buffer.concat([prefix, id, Buffer.from(`${description}\0`, 'latin1'), uid]),
    value: EMPTY,
  };
}

/** What a row of a deleted entry, or the one that `broughtBackStep` puts, remembers. */
export function savedReferences(row: Buffer): SavedReference[] {
  return kept(row, SAVED);
}

/** Whom a deleted entry is to name when it comes back. */
export function owedReferences(row: Buffer): SavedReference[] {
  return kept(row, OWED);
}

function kept(row: Buffer, prefix: Buffer): SavedReference[] {
  const found: SavedReference[] = [];
  for (let at = 0; at < row.length; at = nextCell(row, at)) {
    const name = qualifierStart(at);
    const start = valueStart(row, at);
    const id = name + prefix.length;
    if (start < id + UUID_BYTES || !row.subarray(name, id).equals(prefix)) continue;
    const end = row.indexOf(0, id + UUID_BYTES);
    found.push({
      id: Buffer.from(row.subarray(id, id + UUID_BYTES)),
      description: row.toString('latin1', id + UUID_BYTES, end),
      uid: Buffer.from(row.subarray(end + 1, start)),
    });
  }
  return found;
}

/** Key of the row of table `meta` that has the references which a restored entry is to get back. */
export function broughtBackKey(id: Buffer): Buffer {
  return Buffer.concat([Buffer.from('references,'), id]);
}

export function broughtBackStep(id: Buffer, saved: readonly SavedReference[]): RowStep {
  return { table: META_TABLE.name, key: broughtBackKey(id), put: saved.map((one) => savedCell(0, SAVED, one)) };
}
