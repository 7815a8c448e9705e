import type { Schema } from '../../schema/schema.js';
import type { AttributeType } from '../../schema/schema-types.js';
import { namesEntries } from './group-rows.js';
import type { IndexSet } from './index-set.js';

/** OIDs of member, uniqueMember, manager and owner. */
export const DEFAULT_REFERENCES: readonly string[] = ['2.5.4.31', '2.5.4.50', '0.9.2342.19200300.100.1.10', '2.5.4.32'];

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
