import { parseFilter } from '../../ldap/filter-text.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Filter } from '../../ldap/ldap-types.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import { StoreError } from '../../store/store-error.js';

export interface UniqueRecord {
  /** Prefix of the keys of the constraint's rows. Numbers are never reused. */
  readonly number: number;
  /** OIDs. */
  readonly attributes: readonly string[];
  /** Covers the entries at or below this DN. Absent: all entries. */
  readonly subtree?: string;
  /** Covers the entries that match this filter. Absent: all entries. */
  readonly filter?: string;
  /** True if the constraint is in force. Until then writers maintain its rows, and a build adds the rest. */
  readonly ready: boolean;
}

/** A range of numbers that the server assigns, as the shared row stores it. */
export interface NumberRecord {
  /** Suffix of the key of the range's row. Numbers are never reused, and differ from the numbers of constraints. */
  readonly number: number;
  readonly attribute: string;
  readonly first: number;
  readonly last: number;
}

/** JSON content of the cell `values` of the shared row. */
export interface ValueRecords {
  /** The number of the newest constraint or range. */
  readonly last: number;
  readonly unique: readonly UniqueRecord[];
  /** Absent: the server assigns no numbers. */
  readonly numbers?: readonly NumberRecord[];
  /** OIDs of the attributes whose values follow the names of entries. Absent: `DEFAULT_REFERENCES`. */
  readonly references?: readonly string[];
}

const NO_RECORDS: ValueRecords = { last: 0, unique: [] };

/** A uniqueness constraint: no two entries in its scope may have the same value in any of its attributes. */
export interface Constraint {
  readonly record: UniqueRecord;
  /** The attributes of the constraint and their subtypes. */
  readonly types: ReadonlySet<AttributeType>;
  readonly subtree: Dn | undefined;
  readonly filter: Filter | undefined;
  /** Types that determine which rows an entry has: `types` and the types in the filter. */
  readonly relevantTypes: ReadonlySet<AttributeType>;
  /** Text for messages: `'uid', 'mail' in the subtree 'dc=x' of (objectClass=y)`. */
  readonly text: string;
}

/** A range of numbers. A request for a number of the attribute is answered with the next number of the range. */
export interface NumberRange {
  readonly record: NumberRecord;
  readonly type: AttributeType;
  readonly firstNumber: bigint;
  readonly lastNumber: bigint;
}

/**
 * Demands of the directory on values beyond the schema, as listed in the shared row. Every write plan guards the list
 * that it was made for, so a demand that is added at the same time misses no entry.
 */
export class ValueRules {
  /** Bytes of the cell, for the guard. Undefined: the cell does not exist. */
  readonly bytes: Buffer | undefined;
  readonly records: ValueRecords;
  readonly constraints: readonly Constraint[];
  readonly numberRanges: readonly NumberRange[];

  constructor(schema: Schema, bytes: Buffer | undefined) {
    this.bytes = bytes;
    this.records = bytes ? (JSON.parse(bytes.toString()) as ValueRecords) : NO_RECORDS;
    this.constraints = this.records.unique.map((record) => toConstraint(schema, record));
    this.numberRanges = (this.records.numbers ?? []).map((record) => toRange(schema, record));
  }

  /** True if rows of a constraint depend on values of the type, or on its presence. */
  dependsOnType(type: AttributeType): boolean {
    return this.constraints.some((unique) => unique.relevantTypes.has(type));
  }

  /** True if all listed constraints are in force. */
  get isReady(): boolean {
    return this.constraints.every(({ record }) => record.ready);
  }
}

export function formatValueRules(records: ValueRecords): Buffer {
  return Buffer.from(JSON.stringify(records));
}

export function toConstraint(schema: Schema, record: UniqueRecord): Constraint {
  const types = new Set<AttributeType>();
  const typeNames: string[] = [];
  for (const oid of record.attributes) {
    const type = schema.attribute(oid);
    if (!type) throw undefinedError(`attribute ${oid}`);
    typeNames.push(`'${type.name}'`);
    for (const subtype of type.subtypes) types.add(subtype);
  }
  const filter = record.filter === undefined ? undefined : parseFilter(record.filter);
  const relevantTypes = new Set(types);
  for (const attribute of filter ? filterAttributes(filter) : []) {
    const type = typeOfDescription(schema, attribute);
    if (!type) throw undefinedError(`attribute ${attribute}`);
    for (const subtype of type.subtypes) relevantTypes.add(subtype);
  }
  const subtree = record.subtree === undefined ? undefined : schema.parseDn(record.subtree);
  const subtreeText = record.subtree === undefined ? '' : ` in the subtree '${record.subtree}'`;
  const filterText = record.filter === undefined ? '' : ` of ${record.filter}`;
  return { record, types, subtree, filter, relevantTypes, text: `${typeNames.join(', ')}${subtreeText}${filterText}` };
}

function toRange(schema: Schema, record: NumberRecord): NumberRange {
  const type = schema.attribute(record.attribute);
  if (!type) throw undefinedError(`attribute ${record.attribute}`);
  return { record, type, firstNumber: BigInt(record.first), lastNumber: BigInt(record.last) };
}

function undefinedError(missingAttribute: string): StoreError {
  return new StoreError(
    'format',
    `the directory demands something of values, and the schema does not define ${missingAttribute}; load its schema file`,
  );
}

/** Returns the type of an attribute description; undefined for an unknown type. */
export function typeOfDescription(schema: Schema, description: string): AttributeType | undefined {
  try {
    return schema.requireDescription(description).type;
  } catch (error) {
    if (error instanceof LdapError) return undefined;
    throw error;
  }
}

/** Returns the attribute descriptions in a filter, as written. A term without a description contributes nothing. */
export function filterAttributes(filter: Filter): string[] {
  if ('filters' in filter) return filter.filters.flatMap(filterAttributes);
  if ('filter' in filter) return filterAttributes(filter.filter);
  return filter.attribute === undefined ? [] : [filter.attribute];
}
