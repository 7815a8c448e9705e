import type { Schema } from '../../schema/schema.js';
import type { AttributeType } from '../../schema/schema-types.js';
import { namesEntries } from './group-rows.js';
import type { IndexSet } from './index-set.js';

/** OIDs of member, uniqueMember, manager and owner. */
export const DEFAULT_REFERENCES: readonly string[] = ['2.5.4.31', '2.5.4.50', '0.9.2342.19200300.100.1.10', '2.5.4.32'];

/**
 * Attributes whose values follow the names of the entries that they name: the ones asked for, and those below them,
 * whose values are DNs and have an index, by which the values are found.
 */
export function referenceTypes(
  schema: Schema,
  indexes: IndexSet,
  oids: readonly string[] = DEFAULT_REFERENCES,
): ReadonlySet<AttributeType> {
  const types = oids.flatMap((oid) => schema.attribute(oid)?.subtypes ?? []);
  return new Set(types.filter((type) => namesEntries(type) && indexes.of(type)?.ready));
}
