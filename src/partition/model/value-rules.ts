import { parseFilter } from '../../ldap/filter-text.js';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Filter } from '../../ldap/ldap-types.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeType, Dn } from '../../schema/schema-types.js';
import { StoreError } from '../../store/store-error.js';

/** A uniqueness constraint as the shared row has it. */
export interface UniqueRecord {
  /** Begins the keys of its rows. Never given twice. */
  readonly number: number;
  /** OIDs. */
  readonly attributes: readonly string[];
  /** Of entries at or below this DN; absent: of all. */
  readonly subtree?: string;
  /** Of entries that match; absent: of all. */
  readonly filter?: string;
  /** In force. Before, its rows are kept, and made of what was there before. */
  readonly ready: boolean;
}

/** Numbers that are given out, as the shared row has them. */
export interface NumberRecord {
  /** Ends the key of its row. Never given twice, nor the one of a constraint. */
  readonly number: number;
  /** OID. */
  readonly attribute: string;
  readonly first: number;
  readonly last: number;
}

/** What the cell `values` of the shared row holds, as JSON. */
export interface ValueRecords {
  /** Number of the constraint, or of the range, that was given last. */
  readonly last: number;
  readonly unique: readonly UniqueRecord[];
  /** Absent: none are given out. */
  readonly numbers?: readonly NumberRecord[];
  /** OIDs of the attributes whose values follow the names of entries; absent: `DEFAULT_REFERENCES`. */
  readonly references?: readonly string[];
}

const NO_RECORDS: ValueRecords = { last: 0, unique: [] };

/** A uniqueness constraint: no two entries in its scope have one value, in whichever of its attributes. */
export interface Unique {
  readonly record: UniqueRecord;
  /** Of its attributes, and of those below them. */
  readonly types: ReadonlySet<AttributeType>;
  readonly subtree: Dn | undefined;
  readonly filter: Filter | undefined;
  /** Types that decide which rows an entry has: `types` and those of the filter. */
  readonly looksAt: ReadonlySet<AttributeType>;
  /** For people: `'uid', 'mail' in the subtree 'dc=x' of (objectClass=y)`. */
  readonly text: string;
}

/** Whoever asks for a value of the attribute gets the next of these numbers. */
export interface NumberRange {
  readonly record: NumberRecord;
  readonly type: AttributeType;
  readonly first: bigint;
  readonly last: bigint;
}

/**
 * What the directory demands of values, besides the schema: as the shared row lists it. Every write plan guards the
 * list that it was made for, so that one that is added meanwhile misses nothing.
 */
export class ValueRules {
  /** The cell's bytes, for the guard; undefined: there is no such cell. */
  readonly bytes: Buffer | undefined;
  readonly records: ValueRecords;
  readonly unique: readonly Unique[];
  readonly numbers: readonly NumberRange[];

  constructor(schema: Schema, bytes: Buffer | undefined) {
    this.bytes = bytes;
    this.records = bytes ? (JSON.parse(bytes.toString()) as ValueRecords) : NO_RECORDS;
    this.unique = this.records.unique.map((record) => toUnique(schema, record));
    this.numbers = (this.records.numbers ?? []).map((record) => toRange(schema, record));
  }

  /** Whether rows are made of values of the type, or of whether entries have it. */
  looksAt(type: AttributeType): boolean {
    return this.unique.some((unique) => unique.looksAt.has(type));
  }

  /** Whether all that is listed is in force. */
  get isReady(): boolean {
    return this.unique.every(({ record }) => record.ready);
  }
}

export function formatValueRules(records: ValueRecords): Buffer {
  return Buffer.from(JSON.stringify(records));
}

export function toUnique(schema: Schema, record: UniqueRecord): Unique {
  const types = new Set<AttributeType>();
  const names: string[] = [];
  for (const oid of record.attributes) {
    const type = schema.attribute(oid);
    if (!type) throw undefinedError(`attribute ${oid}`);
    names.push(`'${type.name}'`);
    for (const below of type.subtypes) types.add(below);
  }
  const filter = record.filter === undefined ? undefined : parseFilter(record.filter);
  const looksAt = new Set(types);
  for (const name of filter ? filterAttributes(filter) : []) {
    const type = typeOf(schema, name);
    if (!type) throw undefinedError(`attribute ${name}`);
    for (const below of type.subtypes) looksAt.add(below);
  }
  const subtree = record.subtree === undefined ? undefined : schema.parseDn(record.subtree);
  const where = record.subtree === undefined ? '' : ` in the subtree '${record.subtree}'`;
  const which = record.filter === undefined ? '' : ` of ${record.filter}`;
  return { record, types, subtree, filter, looksAt, text: `${names.join(', ')}${where}${which}` };
}

function toRange(schema: Schema, record: NumberRecord): NumberRange {
  const type = schema.attribute(record.attribute);
  if (!type) throw undefinedError(`attribute ${record.attribute}`);
  return { record, type, first: BigInt(record.first), last: BigInt(record.last) };
}

function undefinedError(what: string): StoreError {
  return new StoreError(
    'format',
    `the directory demands something of values, and the schema does not define ${what}; load its schema file`,
  );
}

/** The type of a description; undefined where there is none. */
export function typeOf(schema: Schema, description: string): AttributeType | undefined {
  try {
    return schema.requireDescription(description).type;
  } catch (error) {
    if (error instanceof LdapError) return undefined;
    throw error;
  }
}

/** Descriptions in a filter, as written; of a term that names none, nothing. */
export function filterAttributes(filter: Filter): string[] {
  if ('filters' in filter) return filter.filters.flatMap(filterAttributes);
  if ('filter' in filter) return filterAttributes(filter.filter);
  return filter.attribute === undefined ? [] : [filter.attribute];
}
