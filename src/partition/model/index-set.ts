import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import type { AttributeType } from '../../schema/schema-types.js';
import { parseStoredJson, StoreError } from '../../store/store-error.js';
import type { IndexInfo } from './directory-types.js';
import { indexTable } from './tables.js';

/** An index of an attribute. Writers update it once it is in the list; searches use it once `isReady` is set. */
export interface Index {
  readonly type: AttributeType;
  readonly table: string;
  readonly hasSubstrings: boolean;
  /** Whether the equality and presence rows of all entries exist. */
  readonly isReady: boolean;
  /** Whether the substring rows of all entries exist. */
  readonly hasAllSubstrings: boolean;
  /** Whether the index has presence rows. False for attributes that every entry has. */
  readonly hasPresence: boolean;
  /** Job `indexes` has made the index, and may drop it. */
  readonly isMade: boolean;
}

/** An index that would serve a search. */
export interface MissingIndex {
  readonly type: AttributeType;
  /** Whether the index also has to serve any and final substrings. */
  readonly substring: boolean;
}

export function isMissing(indexes: IndexSet, { type, substring }: MissingIndex): boolean {
  const index = indexes.ofType(type);
  return !index || (substring && !index.hasSubstrings);
}

export function isComplete(index: Index): boolean {
  return index.isReady && index.hasSubstrings === index.hasAllSubstrings;
}

export const OBJECT_CLASS_OID = '2.5.4.0';

/** OIDs of attributes that every entry has. Presence rows for these are useless. */
const IN_EVERY_ENTRY = new Set([OBJECT_CLASS_OID, '1.3.6.1.4.1.4203.666.1.7']);

/** OID of entryUUID. It needs no index, because it is the key of the master row. */
export const ENTRY_UUID_OID = '1.3.6.1.1.16.4';

export const DEFAULT_INDEXES = [
  'objectClass',
  'uid',
  'mail',
  'cn',
  'sn',
  'givenName',
  'member',
  'uniqueMember',
  'manager',
  'owner',
  'memberUid',
  'uidNumber',
  'gidNumber',
  'entryCSN',
] as const;

export interface IndexRecord {
  readonly oid: string;
  readonly substring: boolean;
  readonly ready: boolean;
  /** False while substring rows are being added to a ready index. Default: the value of `ready`. */
  readonly substringReady?: boolean;
  /** Absent on an index that a person has added. */
  readonly made?: boolean | undefined;
  /** True if the table was found missing: nobody uses or updates the index until it is built anew. */
  readonly lost?: boolean;
  /** True while an index that was lost is built anew. */
  readonly rebuilt?: boolean;
}

/** The list of indexes in the shared row. Every plan guards the list it was made for: a new index misses no entry. */
export class IndexSet {
  /** The indexes that are not lost. */
  readonly list: readonly Index[];
  readonly #all: readonly Index[];
  readonly #byOid = new Map<string, Index>();
  readonly #lostTypes: ReadonlySet<AttributeType>;
  /** The bytes of the list in the shared row, for guards. */
  readonly bytes: Buffer;
  readonly recentCounts = new RecentCounts();

  constructor(schema: Schema, bytes: Buffer) {
    this.bytes = bytes;
    const records = parseIndexRecords(bytes);
    this.#all = records.map((record) => {
      const type = schema.attribute(record.oid);
      if (!type)
        throw new StoreError(
          'format',
          `index ${record.oid} is of an attribute that the schema does not define; load its schema file, or drop the index`,
        );
      const { oid, substring: hasSubstrings, ready: isReady } = record;
      const hasAllSubstrings = hasSubstrings && isReady && record.substringReady !== false;
      const hasPresence = !IN_EVERY_ENTRY.has(oid);
      const isMade = record.made === true;
      return { type, table: indexTable(oid).name, hasSubstrings, isReady, hasAllSubstrings, hasPresence, isMade };
    });
    this.list = this.#all.filter((_, i) => !records[i]!.lost);
    this.#lostTypes = new Set(
      this.#all.filter((_, i) => records[i]!.lost || records[i]!.rebuilt).map(({ type }) => type),
    );
    for (const index of this.list) this.#byOid.set(index.type.oid, index);
  }

  ofType(type: AttributeType): Index | undefined {
    return this.#byOid.get(type.oid);
  }

  /** As `ofType`, for an index that answers depend on. Throws `unavailable` while it is lost. */
  require(type: AttributeType): Index {
    const index = this.ofType(type);
    if (!index || this.isLost(type))
      throw new LdapError('unavailable', `the index on ${type.name} is lost; run "rowan repair"`);
    return index;
  }

  /** Whether the table of the index was found missing, until the index is built anew. */
  isLost(type: AttributeType): boolean {
    return this.#lostTypes.has(type);
  }

  info(): IndexInfo[] {
    const infos = this.#all.map((index): IndexInfo => {
      const { type, hasSubstrings: substring, hasPresence: presence } = index;
      return {
        attribute: type.name,
        oid: type.oid,
        substring,
        presence,
        state: !this.ofType(type) ? 'lost' : isComplete(index) ? 'ready' : 'building',
        ...(index.isMade && { made: true }),
      };
    });
    const entryUuid = { attribute: 'entryUUID', oid: ENTRY_UUID_OID, substring: false, presence: false } as const;
    return [{ ...entryUuid, state: 'ready' }, ...infos];
  }
}

export function parseIndexRecords(bytes: Buffer): IndexRecord[] {
  return parseStoredJson(bytes, 'cell indexes of row shared in table meta');
}

export function formatIndexRecords(records: readonly IndexRecord[]): Buffer {
  return Buffer.from(JSON.stringify(records));
}

const MAX_AGE_MS = 1000;
const MAX_COUNTS = 16_384;

/**
 * Caches row counts of substring rows. A plan uses these counts to choose the shortest id lists for a pattern. An
 * outdated count makes a search slower, never incomplete (ADR 21).
 */
export class RecentCounts {
  readonly #countsByTable = new Map<string, Map<number, number>>();
  #count = 0;
  #sinceMs = 0;

  get(table: string, prefix: Buffer): number | undefined {
    const nowMs = performance.now();
    if (nowMs - this.#sinceMs > MAX_AGE_MS || this.#count >= MAX_COUNTS) {
      this.#countsByTable.clear();
      this.#count = 0;
      this.#sinceMs = nowMs;
    }
    return this.#countsByTable.get(table)?.get(gramNumber(prefix));
  }

  set(table: string, prefix: Buffer, count: number): void {
    let counts = this.#countsByTable.get(table);
    if (!counts) {
      counts = new Map();
      this.#countsByTable.set(table, counts);
    }
    counts.set(gramNumber(prefix), count);
    this.#count++;
  }
}

/** Returns the three bytes in a `gramPrefix` as a number. */
function gramNumber(prefix: Buffer): number {
  return (prefix[1]! << 16) | (prefix[2]! << 8) | prefix[3]!;
}
