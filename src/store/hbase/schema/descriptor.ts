import type { FamilySpec, TableSpec } from '../../contract.js';
import { StoreError } from '../../store-error.js';
import type { TableHandle } from '../rpc/rpc-types.js';
import type { Durability, HBaseSettings } from '../settings.js';

/** What names a table's HBase counterpart. */
export type Naming = Pick<HBaseSettings, 'namespace' | 'prefix'>;

/** Attributes as HBase's shell and REST gateway spell them; those that are not named have HBase's defaults. */
export interface FamilyDescriptor {
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
}

export interface TableDescriptor {
  /** Full name: `table` or `namespace:table`. */
  readonly name: string;
  readonly attributes: Readonly<Record<string, string>>;
  readonly families: readonly FamilyDescriptor[];
  /** Where its regions meet, rising. */
  readonly splits: readonly Buffer[];
}

/** One byte each, rising: cells of a row then come from HBase in the order of packed rows. */
const FAMILY_NAMES = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** HBase's name of family number `family`: every cell of every answer repeats it. */
export function familyName(family: number): string {
  const name = FAMILY_NAMES[family];
  if (name === undefined) throw new StoreError('limit', `family ${family}: HBase tables have ${FAMILY_NAMES.length}`);
  return name;
}

export function tableName({ namespace, prefix }: Naming, name: string): string {
  return (namespace === 'default' ? '' : `${namespace}:`) + prefix + name;
}

/** Every table of a spec has one more family, the last of its handle: the locks of write plans on its rows. */
export const LOCK_FAMILY = 'lock';

export function tableHandle(naming: Naming, spec: TableSpec): TableHandle {
  const families = [...spec.families.map((_, i) => familyName(i)), LOCK_FAMILY];
  return { name: tableName(naming, spec.name), families };
}

/** A table that the engine keeps for itself. Its families are named in HBase as here. */
export interface InternalTable {
  readonly name: string;
  readonly families: readonly InternalFamily[];
  readonly splits?: readonly Buffer[];
}

export interface InternalFamily {
  readonly name: string;
  /** Puts and deletes of one timestamp count in the order of arrival. */
  readonly ordered?: boolean;
}

export function internalHandle(naming: Naming, table: InternalTable): TableHandle {
  return { name: tableName(naming, table.name), families: table.families.map(({ name }) => name) };
}

export function describeInternal(
  settings: Naming & Pick<HBaseSettings, 'durability'>,
  table: InternalTable,
): TableDescriptor {
  return {
    name: tableName(settings, table.name),
    attributes: { DURABILITY: DURABILITY[settings.durability] },
    families: table.families.map(({ name, ordered }) => ({
      name,
      attributes: { ...COMMON, BLOOMFILTER: 'ROW', ...(ordered && ORDERED) },
    })),
    splits: table.splits ?? [],
  };
}

/** How HBase spells the durability of a table. */
export const DURABILITY: Readonly<Record<Durability, string>> = { default: 'USE_DEFAULT', fsync: 'FSYNC_WAL' };

/** The table that a spec asks for. docs/hbase.md gives the reasons. */
export function describeTable(
  settings: Naming & Pick<HBaseSettings, 'durability'>,
  spec: TableSpec,
  splits: readonly Buffer[] = [],
): TableDescriptor {
  return {
    name: tableName(settings, spec.name),
    attributes: { DURABILITY: DURABILITY[settings.durability] },
    families: [
      ...spec.families.map((family, i) => ({ name: familyName(i), attributes: familyAttributes(spec, family) })),
      { name: LOCK_FAMILY, attributes: { ...COMMON, BLOOMFILTER: 'ROW', ...ORDERED } },
    ],
    splits,
  };
}

const COMMON = { VERSIONS: '1', DATA_BLOCK_ENCODING: 'FAST_DIFF' };
const ORDERED = { NEW_VERSION_BEHAVIOR: 'true' };

/** A get decodes a block up to its row, so blocks are small where rows are read one by one. */
const BLOCK_BYTES = 4 * 1024;

function familyAttributes(spec: TableSpec, family: FamilySpec): Record<string, string> {
  // Chunks of large values are read seldom: they would push everything else out of the cache, and share no key to save.
  if (family.separate) return { VERSIONS: '1', BLOOMFILTER: 'ROW', BLOCKCACHE: 'false' };
  // Rows of index tables are found by scans alone, which ask no filter of row keys.
  return { ...COMMON, BLOOMFILTER: spec.suffixBytes === undefined ? 'ROW' : 'NONE', BLOCKSIZE: String(BLOCK_BYTES) };
}
