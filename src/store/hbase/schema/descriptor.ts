import type { FamilySpec, TableSpec } from '../../contract.js';
import { StoreError } from '../../store-error.js';
import type { TableHandle } from '../rpc/rpc-types.js';
import type { Durability, HBaseSettings } from '../settings.js';

/** The settings that determine the HBase name of a table. */
export type NameSettings = Pick<HBaseSettings, 'namespace' | 'prefix'>;

type TableSettings = NameSettings & Pick<HBaseSettings, 'durability'>;

/** Attributes as spelled by HBase's shell and REST gateway. Other attributes have HBase's defaults. */
export interface FamilyDescriptor {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
}

export interface TableDescriptor {
  /** Full name: `table` or `namespace:table`. */
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly families: readonly FamilyDescriptor[];
  /** Start keys of all regions but the first, in order. */
  readonly splitKeys: readonly Buffer[];
}

/** Single bytes in rising order. HBase therefore returns the cells of a row in the order of packed rows. */
const FAMILY_NAMES = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Returns the HBase name of a family. The name is short, because every cell of every answer repeats it. */
export function familyName(family: number): string {
  const name = FAMILY_NAMES[family];
  if (name === undefined) throw new StoreError('limit', `family ${family}: HBase tables have ${FAMILY_NAMES.length}`);
  return name;
}

export function tableName({ namespace, prefix }: NameSettings, name: string): string {
  return (namespace === 'default' ? '' : `${namespace}:`) + prefix + name;
}

/** The additional, last family of every table: the locks of write plans on rows. */
export const LOCK_FAMILY = 'lock';

export function tableHandle(naming: NameSettings, spec: TableSpec): TableHandle {
  const families = [...spec.families.map((_, i) => familyName(i)), LOCK_FAMILY];
  return { name: tableName(naming, spec.name), families };
}

/** A table for internal use of the engine. Its families have the same names in HBase. */
export interface InternalTable {
  readonly name: string;
  readonly families: readonly InternalFamily[];
  readonly splitKeys?: readonly Buffer[];
}

export interface InternalFamily {
  readonly name: string;
  /** Whether puts and deletes with the same timestamp take effect in the order of arrival. */
  readonly isOrdered?: boolean;
}

export function internalHandle(naming: NameSettings, table: InternalTable): TableHandle {
  return { name: tableName(naming, table.name), families: table.families.map(({ name }) => name) };
}

export function describeInternal(settings: TableSettings, table: InternalTable): TableDescriptor {
  return {
    name: tableName(settings, table.name),
    attributes: { DURABILITY: DURABILITY_NAMES[settings.durability] },
    families: table.families.map(({ name, isOrdered }) => ({
      name,
      attributes: { ...COMMON_ATTRIBUTES, BLOOMFILTER: 'ROW', ...(isOrdered && ORDERED_ATTRIBUTES) },
    })),
    splitKeys: table.splitKeys ?? [],
  };
}

/** Names of the durability levels in HBase. */
export const DURABILITY_NAMES: Readonly<Record<Durability, string>> = { default: 'USE_DEFAULT', fsync: 'FSYNC_WAL' };

/** Returns the description of the HBase table for a spec. docs/hbase.md gives the reasons. */
export function describeTable(settings: TableSettings, spec: TableSpec, keys: readonly Buffer[] = []): TableDescriptor {
  return {
    name: tableName(settings, spec.name),
    attributes: { DURABILITY: DURABILITY_NAMES[settings.durability] },
    families: [
      ...spec.families.map((family, i) => ({ name: familyName(i), attributes: familyAttributes(spec, family) })),
      { name: LOCK_FAMILY, attributes: { ...COMMON_ATTRIBUTES, BLOOMFILTER: 'ROW', ...ORDERED_ATTRIBUTES } },
    ],
    splitKeys: keys,
  };
}

const COMMON_ATTRIBUTES = { VERSIONS: '1', DATA_BLOCK_ENCODING: 'FAST_DIFF' };
const ORDERED_ATTRIBUTES = { NEW_VERSION_BEHAVIOR: 'true' };

/** A get decodes a block up to the requested row. Blocks are small, because many reads are of single rows. */
const BLOCK_BYTES = 4 * 1024;

function familyAttributes(spec: TableSpec, family: FamilySpec): Record<string, string> {
  // Chunks of large values are read rarely. They would displace other blocks from the cache, and their keys have no
  // common prefixes to compress.
  if (family.separate) return { VERSIONS: '1', BLOOMFILTER: 'ROW', BLOCKCACHE: 'false' };
  // Rows of index tables are only scanned, and scans do not use the Bloom filter.
  const bloomFilter = spec.suffixBytes === undefined ? 'ROW' : 'NONE';
  return { ...COMMON_ATTRIBUTES, BLOOMFILTER: bloomFilter, BLOCKSIZE: String(BLOCK_BYTES) };
}
