import type { Schema } from '../schema/schema.js';
import type { AttributeType } from '../schema/types.js';
import { StoreError } from '../store/errors.js';
import { indexTable } from './tables.js';
import type { IndexInfo } from './types.js';

/** One index: writers keep it up to date from the moment it exists; searches use it only once it is `ready`. */
export interface Index {
  readonly type: AttributeType;
  /** Name of its table. */
  readonly table: string;
  readonly substring: boolean;
  readonly ready: boolean;
}

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
  'entryUUID',
  'entryCSN',
] as const;

/** As stored in the shared row. */
export interface IndexRecord {
  readonly oid: string;
  readonly substring: boolean;
  readonly ready: boolean;
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

  constructor(schema: Schema, bytes: Buffer) {
    this.bytes = bytes;
    this.list = parseRecords(bytes).map((record) => {
      const type = schema.attribute(record.oid);
      if (!type) throw new StoreError('format', `index ${record.oid} is of an attribute that the schema does not define; load its schema file, or drop the index`);
      return { type, table: indexTable(record.oid).name, substring: record.substring, ready: record.ready };
    });
    for (const index of this.list) this.#byOid.set(index.type.oid, index);
  }

  of(type: AttributeType): Index | undefined {
    return this.#byOid.get(type.oid);
  }

  info(): IndexInfo[] {
    return this.list.map((i) => ({ attribute: i.type.name, oid: i.type.oid, substring: i.substring, state: i.ready ? 'ready' : 'building' }));
  }
}

export function parseRecords(bytes: Buffer): IndexRecord[] {
  return JSON.parse(bytes.toString()) as IndexRecord[];
}

export function formatRecords(records: readonly IndexRecord[]): Buffer {
  return Buffer.from(JSON.stringify(records));
}
