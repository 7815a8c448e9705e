import type { Schema } from '../../schema/schema.js';
import type { AttributeType } from '../../schema/schema-types.js';
import type { Cell, PlanStep, RowStep } from '../../store/contract.js';
import { EMPTY, nextCell, qualifierStart, valueStart } from '../../store/row.js';
import { namesEntries } from './group-rows.js';
import type { IndexSet } from './index-set.js';
import { DELETED, DELETED_TABLE, DELETION, META_TABLE, UUID_BYTES } from './tables.js';

/** A value that referred to a deleted entry. */
export interface SavedReference {
  /** entryUUID of the entry that had the value. */
  readonly id: Buffer;
  readonly description: string;
  /** The UID after the DN in the value; empty if there is none. */
  readonly uid: Buffer;
}

const SAVED = Buffer.from('reference:');
const DEFERRED = Buffer.from('owed:');

/** Returns the step that saves a removed reference in the row of the deleted entry in table `deleted`. */
export function saveReferenceStep(deletedId: Buffer, time: Buffer, reference: SavedReference): PlanStep {
  return referenceStep(deletedId, time, SAVED, reference);
}

/** Returns the step that records in the row of a deleted entry a reference that it gets back when it is restored. */
export function deferReferenceStep(deletedId: Buffer, time: Buffer, reference: SavedReference): PlanStep {
  return referenceStep(deletedId, time, DEFERRED, reference);
}

function referenceStep(deletedId: Buffer, time: Buffer, prefix: Buffer, reference: SavedReference): PlanStep {
  const family = DELETED.deletion;
  return {
    table: DELETED_TABLE.name,
    key: deletedId,
    guards: [{ op: 'equals', family, qualifier: DELETION.time, value: time }],
    put: [savedCell(family, prefix, reference)],
    add: [{ family, qualifier: DELETION.references, by: 1n }],
  };
}

function savedCell(family: number, prefix: Buffer, { id, description, uid }: SavedReference): Cell {
  // The NUL separates description and UID: a description contains none.
  return {
    family,
    qualifier: Buffer.concat([prefix, id, Buffer.from(`${description}\0`, 'latin1'), uid]),
    value: EMPTY,
  };
}

/** Returns the references in the row of a deleted entry, or in a row with key `restoredKey`. */
export function savedReferences(row: Buffer): SavedReference[] {
  return parseReferences(row, SAVED);
}

/** Returns the references that a deleted entry gets back when it is restored. */
export function deferredReferences(row: Buffer): SavedReference[] {
  return parseReferences(row, DEFERRED);
}

function parseReferences(row: Buffer, prefix: Buffer): SavedReference[] {
  const references: SavedReference[] = [];
  for (let offset = 0; offset < row.length; offset = nextCell(row, offset)) {
    const nameOffset = qualifierStart(offset);
    const valueOffset = valueStart(row, offset);
    const idOffset = nameOffset + prefix.length;
    if (valueOffset < idOffset + UUID_BYTES || !row.subarray(nameOffset, idOffset).equals(prefix)) continue;
    const descriptionEnd = row.indexOf(0, idOffset + UUID_BYTES);
    references.push({
      id: Buffer.from(row.subarray(idOffset, idOffset + UUID_BYTES)),
      description: row.toString('latin1', idOffset + UUID_BYTES, descriptionEnd),
      uid: Buffer.from(row.subarray(descriptionEnd + 1, valueOffset)),
    });
  }
  return references;
}

/** Returns the key of the row of table `meta` with the references to a restored entry that are to be restored. */
export function restoredKey(id: Buffer): Buffer {
  return Buffer.concat([Buffer.from('references,'), id]);
}

export function restoredStep(id: Buffer, references: readonly SavedReference[]): RowStep {
  return {
    table: META_TABLE.name,
    key: restoredKey(id),
    put: references.map((reference) => savedCell(0, SAVED, reference)),
  };
}

/** OIDs of member, uniqueMember, manager and owner. */
const DEFAULT_REFERENCES: readonly string[] = ['2.5.4.31', '2.5.4.50', '0.9.2342.19200300.100.1.10', '2.5.4.32'];

/**
 * Returns the attributes whose values follow the names of entries: `oids` and their subtypes, limited to types with DN
 * values and a ready index, which is needed to find the values. While an index is lost, no name changes.
 */
export function referenceTypes(
  schema: Schema,
  indexes: IndexSet,
  oids: readonly string[] = DEFAULT_REFERENCES,
): ReadonlySet<AttributeType> {
  return new Set(namingTypes(schema, oids).filter((type) => indexes.ofType(type)?.isReady || indexes.isLost(type)));
}

/** Returns the attributes of `oids` and their subtypes that have DN values, with or without an index. */
export function namingTypes(schema: Schema, oids: readonly string[] = DEFAULT_REFERENCES): readonly AttributeType[] {
  return oids.flatMap((oid) => schema.attribute(oid)?.subtypes ?? []).filter(namesEntries);
}
