import { parseFilter } from '../../ldap/filter-text.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Filter } from '../../ldap/ldap-types.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import { parseStoredJson, StoreError } from '../../store/store-error.js';

export interface UniqueRecord {
  /** Number of the constraint, in the keys of its rows. Never reused. */
  readonly number: number;
  /** OIDs of the attributes. */
  readonly attributes: readonly string[];
  /** The entries at or below this DN have to have different values. Default: all entries. */
  readonly subtree?: string;
  /** Only entries that match this filter have to have different values. Default: all entries. */
  readonly filter?: string;
  /** Whether the constraint is in force. Before that, writers maintain its rows, and a build adds the others. */
  readonly ready: boolean;
}

/** A range from which the server assigns numbers, as the shared row stores it. */
export interface NumberRecord {
  /** Number of the range, in the key of its row. Never reused, also not for a constraint. */
  readonly number: number;
  readonly attribute: string;
  readonly first: number;
  readonly last: number;
  /** Numbers of the range that are never assigned. Default: none. */
  readonly except?: readonly number[];
}

/** JSON content of the cell `values` of the shared row. */
export interface ValueRecords {
  /** The number that the newest constraint or range got. */
  readonly last: number;
  readonly unique: readonly UniqueRecord[];
  /** Default: the server assigns no numbers. */
  readonly numbers?: readonly NumberRecord[];
  /** OIDs of the attributes whose values follow the names of entries. Default: `DEFAULT_REFERENCES`. */
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
  /** Types whose values decide which rows of the constraint an entry has: `types` and the types in the filter. */
  readonly relevantTypes: ReadonlySet<AttributeType>;
  /** Describes the constraint in messages: `'uid', 'mail' in the subtree 'dc=x' of (objectClass=y)`. */
  readonly text: string;
}

/** A range of numbers. A client that requests a number of the attribute gets the next number of the range. */
export interface NumberRange {
  readonly record: NumberRecord;
  readonly type: AttributeType;
  readonly firstNumber: bigint;
  readonly lastNumber: bigint;
  readonly exceptedNumbers: ReadonlySet<bigint>;
}

/**
 * The constraints, number ranges and reference attributes of a directory, as listed in the shared row. Every plan
 * guards the list that it was made for, so that a new constraint or range misses no entry.
 */
export class ValueRules {
  /** The bytes of the list in the shared row, for guards. Undefined: the cell does not exist. */
  readonly bytes: Buffer | undefined;
  readonly records: ValueRecords;
  readonly constraints: readonly Constraint[];
  readonly numberRanges: readonly NumberRange[];

  constructor(schema: Schema, bytes: Buffer | undefined) {
    this.bytes = bytes;
    this.records = bytes ? parseStoredJson(bytes, 'cell values of row shared in table meta') : NO_RECORDS;
    this.constraints = this.records.unique.map((record) => toConstraint(schema, record));
    this.numberRanges = (this.records.numbers ?? []).map((record) => toRange(schema, record));
  }

  /** Whether rows of a constraint depend on values of the type or on its presence. */
  dependsOnType(type: AttributeType): boolean {
    return this.constraints.some((unique) => unique.relevantTypes.has(type));
  }

  /** Whether all listed constraints are in force. */
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
  const exceptedNumbers = new Set((record.except ?? []).map(BigInt));
  return { record, type, firstNumber: BigInt(record.first), lastNumber: BigInt(record.last), exceptedNumbers };
}

function undefinedError(missingAttribute: string): StoreError {
  return new StoreError(
    'format',
    `the directory demands something of values, and the schema does not define ${missingAttribute}; load its schema file`,
  );
}

export function typeOfDescription(schema: Schema, description: string): AttributeType | undefined {
  try {
    return schema.requireDescription(description).type;
  } catch (error) {
    if (error instanceof LdapError) return undefined;
    throw error;
  }
}

/** Returns the attribute descriptions in a filter, as written. */
export function filterAttributes(filter: Filter): string[] {
  if ('filters' in filter) return filter.filters.flatMap(filterAttributes);
  if ('filter' in filter) return filterAttributes(filter.filter);
  return filter.attribute === undefined ? [] : [filter.attribute];
}
