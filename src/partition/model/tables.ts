import { createHash } from 'node:crypto';
import type { TableSpec } from '../../store/contract.js';
import { cellCounter, cellValue, EMPTY } from '../../store/row.js';
import { MAX_NORM } from './thresholds.js';

/** An entry's position in the tree: what is needed to name the entry and to find its children. */
export interface Node {
  readonly id: Buffer;
  readonly parent: Node | undefined;
  /** Normalized RDN (cut), as in the key of the tree row; for a suffix the whole DN. */
  readonly normRdn: Buffer;
  /** DN as the client wrote it, UTF-8. */
  readonly dn: Buffer;
}

/** The tables of a directory, their keys and their qualifiers (docs/formats/tables.md). */

export const MASTER_TABLE: TableSpec = {
  name: 'master',
  families: [{ name: 'treeInfo' }, { name: 'upAttributes' }, { name: 'largeValues', separate: true }],
  rising: true,
};
/** Numbers of the families in packed rows of `master`. Table `deleted` has the same families, and `deletion`. */
export const MASTER = { treeInfo: 0, upAttributes: 1, largeValues: 2 } as const;

export const TREE_TABLE: TableSpec = { name: 'tree', families: [{ name: 'treeInfo' }, { name: 'normAttributes' }] };
export const TREE = { treeInfo: 0, normAttributes: 1 } as const;

export const CHANGES_TABLE: TableSpec = { name: 'changes', families: [{ name: 'change' }], rising: true };
export const DELETED_TABLE: TableSpec = {
  name: 'deleted',
  families: [...MASTER_TABLE.families, { name: 'deletion' }],
};
export const DELETED = { ...MASTER, deletion: 3 } as const;
/** Key: 8-byte time of the deletion in milliseconds + entryUUID. */
export const PURGE_TABLE: TableSpec = { name: 'purge', families: [{ name: 'mark' }], rising: true, suffixBytes: 16 };

export const DELETION = {
  dn: Buffer.from('dn'),
  time: Buffer.from('time'),
  by: Buffer.from('by'),
  /** Counter of the removed references to the entry. Each reference has a cell of its own (`reference-rows.ts`). */
  references: Buffer.from('references'),
} as const;

export function purgeKey(time: Buffer, id: Buffer): Buffer {
  return Buffer.concat([time, id]);
}

export const META_TABLE: TableSpec = { name: 'meta', families: [{ name: 'meta' }] };

/** Account states. The key is the entryUUID. A directory of an older version gets the table when it is opened. */
export const STATE_TABLE: TableSpec = { name: 'state', families: [{ name: 'account' }] };

export const FIXED_TABLES = [
  MASTER_TABLE,
  TREE_TABLE,
  CHANGES_TABLE,
  DELETED_TABLE,
  PURGE_TABLE,
  STATE_TABLE,
  META_TABLE,
];

const latin1Bytes = (text: string) => Buffer.from(text, 'latin1');

export const Q = {
  large: latin1Bytes('large'),
  normRdn: latin1Bytes('normRdn'),
  parentId: latin1Bytes('parentId'),
  upRdn: latin1Bytes('upRdn'),
  version: latin1Bytes('version'),
  wide: latin1Bytes('wide'),
  id: latin1Bytes('id'),
  oneLevelCount: latin1Bytes('oneLevelCount'),
  subLevelCount: latin1Bytes('subLevelCount'),
} as const;

export const UUID_BYTES = 16;
/** entryUUID of the virtual root, the parent of every suffix. */
export const ROOT_ID = Buffer.alloc(UUID_BYTES);
/** Stands for the parent of an entry that a tree delete has taken out of the tree (`write/delete-tree.ts`). */
export const DETACHED_ID = Buffer.alloc(UUID_BYTES, 0xff);

const COMMA = 0x2c;

/** Cuts a long normal form: first 512 bytes, `#` and SHA-256. Keeps equality, and order within the 512 bytes. */
export function cutNorm(norm: Buffer): Buffer {
  if (norm.length <= MAX_NORM) return norm;
  const cut = Buffer.allocUnsafe(MAX_NORM + 33);
  norm.copy(cut, 0, 0, MAX_NORM);
  cut[MAX_NORM] = 0x23;
  createHash('sha256')
    .update(norm)
    .digest()
    .copy(cut, MAX_NORM + 1);
  return cut;
}

/** Returns the key of the tree row of the child of `parentId` with this `normRdn` (cut). */
export function treeKey(parentId: Buffer, normRdn: Buffer): Buffer {
  const key = Buffer.allocUnsafe(UUID_BYTES + 1 + normRdn.length);
  key.set(parentId, 0);
  key[UUID_BYTES] = COMMA;
  key.set(normRdn, UUID_BYTES + 1);
  return key;
}

/** Returns the range of the tree rows of the children of `parentId`. */
export function childrenRange(parentId: Buffer): { from: Buffer; to: Buffer } {
  const from = Buffer.allocUnsafe(UUID_BYTES + 1);
  parentId.copy(from);
  from[UUID_BYTES] = COMMA;
  const to = Buffer.from(from);
  to[UUID_BYTES] = COMMA + 1;
  return { from, to };
}

/** Returns a key that consists of `prefix` and a 4-byte number. */
export function numberedKey(prefix: string, number: number): Buffer {
  const key = Buffer.from(`${prefix}####`);
  key.writeUInt32BE(number, key.length - 4);
  return key;
}

/** Returns the key of the row with this number in a table to which rows are appended. */
export function numberKey(number: bigint): Buffer {
  const key = Buffer.allocUnsafe(8);
  key.writeBigUInt64BE(number);
  return key;
}

/** Returns the smallest key above all keys that begin with `prefix`; undefined if there is none (all 0xff). */
export function prefixEnd(prefix: Buffer): Buffer | undefined {
  let n = prefix.length;
  while (n > 0 && prefix[n - 1] === 0xff) n--;
  if (n === 0) return undefined;
  const end = Buffer.from(prefix.subarray(0, n));
  end[n - 1]!++;
  return end;
}

export function indexTable(oid: string): TableSpec {
  return { name: `index_${oid}`, families: [{ name: 'mark' }], suffixBytes: UUID_BYTES };
}

/** First byte of the keys of equality rows. */
export const EQUALITY = 0x3d;

/** Returns the key prefix of the equality rows of one value: `=`, normal form (cut), `\0`. */
export function equalityPrefix(cut: Buffer): Buffer {
  const key = Buffer.allocUnsafe(cut.length + 2);
  key[0] = EQUALITY;
  key.set(cut, 1);
  key[cut.length + 1] = 0;
  return key;
}

export const PRESENCE_PREFIX = latin1Bytes('*');

/** First byte of the keys of substring rows. */
export const GRAM = 0x7e;

/** Returns the key prefix of the substring rows of three bytes of the normal form: `~`, the bytes, `\0`. */
export function gramPrefix(norm: Buffer, offset: number): Buffer {
  return Buffer.from([GRAM, norm[offset]!, norm[offset + 1]!, norm[offset + 2]!, 0]);
}

/** Returns the qualifier `OID=normal form` (cut) of family normAttributes. */
export function normQualifier(oidBytes: Buffer, cut: Buffer): Buffer {
  const q = Buffer.allocUnsafe(oidBytes.length + 1 + cut.length);
  q.set(oidBytes, 0);
  q[oidBytes.length] = 0x3d;
  q.set(cut, oidBytes.length + 1);
  return q;
}

const oidBuffers = new Map<string, Buffer>();

/** Returns an OID as bytes, with which qualifiers begin. Caches the results; the schema limits their number. */
export function oidBytes(oid: string): Buffer {
  const cached = oidBuffers.get(oid);
  if (cached) return cached;
  const oidBuffer = latin1Bytes(oid);
  oidBuffers.set(oid, oidBuffer);
  return oidBuffer;
}

const cutMarks = new Map<string, Buffer>();

/** Returns the qualifier `OID#`, a mark that a value of this type was cut: a search has to read the entry. */
export function cutMarkQualifier(oid: string): Buffer {
  const cached = cutMarks.get(oid);
  if (cached) return cached;
  const qualifier = latin1Bytes(`${oid}#`);
  cutMarks.set(oid, qualifier);
  return qualifier;
}

/** Returns the entryUUID of the parent in a packed `master` row. */
export function parentIdOf(row: Buffer): Buffer {
  return cellValue(row, MASTER.treeInfo, Q.parentId) ?? EMPTY;
}
export function normRdnOf(row: Buffer): Buffer {
  return cellValue(row, MASTER.treeInfo, Q.normRdn) ?? EMPTY;
}
export function upRdnOf(row: Buffer): Buffer {
  return cellValue(row, MASTER.treeInfo, Q.upRdn) ?? EMPTY;
}
/** Returns the version of the entry. Every change of the entry increments the version. */
export function versionOf(row: Buffer): bigint {
  return cellCounter(row, MASTER.treeInfo, Q.version);
}

/** Returns the latin-1 qualifiers of the row's large values; undefined if it has none. */
export function largeQualifiers(row: Buffer): ReadonlySet<string> | undefined {
  // `large` sorts before every other qualifier of treeInfo: the first cell shows whether it exists.
  if (row.length === 0 || row[0] !== MASTER.treeInfo || row[2] !== Q.large.length || row[7] !== Q.large[0])
    return undefined;
  const list = cellValue(row, MASTER.treeInfo, Q.large);
  if (!list) return undefined;
  const qualifiers = new Set<string>();
  for (let offset = 0; offset < list.length; ) {
    const length = list.readUInt16BE(offset);
    qualifiers.add(list.toString('latin1', offset + 2, offset + 2 + length));
    offset += 2 + length;
  }
  return qualifiers;
}

/** First characters of normal forms, sorted. The equality rows of an index are split at these. */
const FIRST_CHARS = '0123456789abcdefghijklmnopqrstuvwxyz';

/**
 * Returns sorted keys at which a new table is split into about `regions` regions, if the engine spreads tables over
 * servers. Tables with few rows, or to which rows are appended, are not split. Later the engine itself splits growing
 * regions.
 */
export function splitKeys(spec: TableSpec, regions: number): Buffer[] {
  if (spec.name === MASTER_TABLE.name || spec.name === DELETED_TABLE.name || spec.name === TREE_TABLE.name) {
    return uuidSplits(regions);
  }
  return spec.name.startsWith('index_') ? indexSplits(regions) : [];
}

/** Returns split keys for tables whose keys begin with a random entryUUID. */
function uuidSplits(regions: number): Buffer[] {
  const keys: Buffer[] = [];
  for (let i = 1; i < regions; i++) {
    const key = Buffer.allocUnsafe(2);
    key.writeUInt16BE(Math.floor((0x10000 * i) / regions));
    keys.push(key);
  }
  return keys;
}

/** Returns split keys for presence rows (`*`), equality rows (`=`) by first character, and substring rows (`~`). */
function indexSplits(regions: number): Buffer[] {
  const keys: string[] = [];
  if (regions > 1) keys.push('=');
  const partCount = Math.min(regions - 2, FIRST_CHARS.length);
  for (let i = 1; i < partCount; i++) keys.push(`=${FIRST_CHARS[Math.floor((FIRST_CHARS.length * i) / partCount)]}`);
  if (regions > 2) keys.push('~');
  return keys.map((key) => Buffer.from(key, 'latin1'));
}
