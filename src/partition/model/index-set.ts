import type { Schema } from '../../schema/schema.js';
import type { AttributeType } from '../../schema/schema-types.js';
import { StoreError } from '../../store/store-error.js';
import type { IndexInfo } from './directory-types.js';
import { RecentCounts } from './recent-counts.js';
import { indexTable } from './tables.js';

/** One index: writers keep it up to date from the moment it exists; searches use it only once it is `ready`. */
export interface Index {
  readonly type: AttributeType;
  /** Name of its table. */
  readonly table: string;
  /** Writers keep substring rows too. */
  readonly substring: boolean;
  /** Its equality and presence rows are complete. */
  readonly ready: boolean;
  /** Its substring rows are complete. */
  readonly substringReady: boolean;
  /** Keeps presence rows. Of attributes that every entry has it keeps none. */
  readonly presence: boolean;
}

/** Whether the index lacks no row. */
export function isComplete(index: Index): boolean {
  return index.ready && index.substring === index.substringReady;
}

export const OBJECT_CLASS_OID = '2.5.4.0';

/** Attributes of which presence tells nothing: every entry has them. */
const EVERYWHERE = new Set([OBJECT_CLASS_OID, '1.3.6.1.4.1.4203.666.1.7']);

/** entryUUID needs no index table: it is the key of the master row, so a search for one reads the row itself. */
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
  'memberUid',
  'uidNumber',
  'gidNumber',
  'entryCSN',
] as const;

/** As stored in the shared row. */
export interface IndexRecord {
  readonly oid: string;
  readonly substring: boolean;
  readonly ready: boolean;
  /** False while a ready index gets its substring rows; absent: as `ready`. */
  readonly substringReady?: boolean;
}

/**
 * The indexes as the shared row lists them. Every write plan guards the list it was made for, so that an index that is
 * added meanwhile misses nothing.
 */
export class IndexSet {
  readonly list: readonly Index[];
  readonly #byOid = new Map<string, Index>();
  /** The cell's bytes, for the guard. */
  readonly bytes: Buffer;
  readonly recent = new RecentCounts();

  constructor(schema: Schema, bytes: Buffer) {
    this.bytes = bytes;
    this.list = parseRecords(bytes).map((record) => {
      const type = schema.attribute(record.oid);
      if (!type)
        throw new StoreError(
          'format',
          `index ${record.oid} is of an attribute that the schema does not define; load its schema file, or drop the index`,
        );
      const { substring, ready } = record;
      const substringReady = substring && ready && record.substringReady !== false;
      return {
        type,
        table: indexTable(record.oid).name,
        substring,
        ready,
        substringReady,
        presence: !EVERYWHERE.has(type.oid),
      };
    });
    for (const index of this.list) this.#byOid.set(index.type.oid, index);
  }

  of(type: AttributeType): Index | undefined {
    return this.#byOid.get(type.oid);
  }

  info(): IndexInfo[] {
    const key: IndexInfo = {
      attribute: 'entryUUID',
      oid: ENTRY_UUID_OID,
      substring: false,
      presence: false,
      state: 'ready',
    };
    return [
      key,
      ...this.list.map(
        (i): IndexInfo => ({
          attribute: i.type.name,
          oid: i.type.oid,
          substring: i.substring,
          presence: i.presence,
          state: isComplete(i) ? 'ready' : 'building',
        }),
      ),
    ];
  }
}

export function parseRecords(bytes: Buffer): IndexRecord[] {
  return JSON.parse(bytes.toString()) as IndexRecord[];
}

export function formatRecords(records: readonly IndexRecord[]): Buffer {
  return Buffer.from(JSON.stringify(records));
}
