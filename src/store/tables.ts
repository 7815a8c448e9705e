import type { ColumnRange, ScanOptions, TableSpec } from './contract.js';
import { MARK, packSorted } from './row.js';
import { StoreError } from './store-error.js';

/** The packed row of every key in a table with `suffixBytes`. */
export const MARK_ROW = packSorted([MARK]);

/** Checks a caller's spec and returns a copy of its known fields. An invalid spec is a programming error. */
export function checkSpec(spec: TableSpec): TableSpec {
  if (!/^[a-z0-9_.]{1,200}$/.test(spec.name)) throw new TypeError(`table name "${spec.name}": 1 to 200 of a-z 0-9 _ .`);
  if (spec.families.length < 1 || spec.families.length > 255) throw new TypeError('a table has 1 to 255 families');
  if (new Set(spec.families.map((f) => f.name)).size !== spec.families.length)
    throw new TypeError(`two families of table ${spec.name} have one name`);
  const suffix = spec.suffixBytes;
  if (suffix !== undefined && !(Number.isInteger(suffix) && suffix >= 1 && suffix <= 255))
    throw new TypeError('suffixBytes is 1 to 255');
  if (suffix !== undefined && spec.families.some((f) => f.separate))
    throw new TypeError('a table with suffixBytes has no separate family');
  return {
    name: spec.name,
    families: spec.families.map((f) => (f.separate ? { name: f.name, separate: true } : { name: f.name })),
    ...(suffix !== undefined && { suffixBytes: suffix }),
    ...(spec.rising && { rising: true }),
  };
}

/** Compares two specs as returned by `checkSpec`. */
export function sameSpec(a: TableSpec, b: TableSpec): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}

export function noTable(name: string): StoreError {
  return new StoreError('noTable', `table ${name} does not exist`);
}

/** Key of a separate cell: row key length (u16), row key, qualifier. Rows and their cells never overlap. */
export function cellKey(key: Buffer, qualifier: Buffer): Buffer {
  const out = Buffer.allocUnsafe(2 + key.length + qualifier.length);
  out.writeUInt16BE(key.length);
  out.set(key, 2);
  out.set(qualifier, 2 + key.length);
  return out;
}

/** The row key in a key made by `cellKey`. */
export function rowKeyOf(cell: Buffer): Buffer {
  return cell.subarray(2, 2 + cell.readUInt16BE());
}

/** The smallest key above `key`. */
export function keyAfter(key: Buffer): Buffer {
  const nextKey = Buffer.allocUnsafe(key.length + 1);
  key.copy(nextKey);
  nextKey[key.length] = 0;
  return nextKey;
}

/** The smallest key greater than every key that starts with `prefix`; undefined if the prefix is all 0xff bytes. */
export function afterPrefix(prefix: Buffer): Buffer | undefined {
  for (let i = prefix.length - 1; i >= 0; i--) {
    if (prefix[i]! < 0xff) {
      const out = Buffer.from(prefix.subarray(0, i + 1));
      out[i]!++;
      return out;
    }
  }
  return undefined;
}

/*
 * Argument checks that all engines share. A key of a wrong length throws `limit`, because key lengths depend on data. A
 * wrong family, range or option is a programming error and throws a TypeError.
 */

/** Throws `limit` if the key is too long, is empty, or lacks a prefix before the suffix of `suffixBytes`. */
export function checkKey(key: Buffer, spec: TableSpec, maxKey: number): void {
  if (key.length > maxKey)
    throw new StoreError('limit', `key of ${key.length} bytes in table ${spec.name}; ${maxKey} are the most`);
  if (key.length <= (spec.suffixBytes ?? 0))
    throw new StoreError('limit', `key of ${key.length} bytes in table ${spec.name} is too short`);
}

/** Returns whether a row can have this key. A row with any other key cannot exist. */
export function isKey(key: Buffer, maxKey: number): boolean {
  return key.length > 0 && key.length <= maxKey;
}

export function checkFamilies(cellNames: readonly { readonly family: number }[] | undefined, spec: TableSpec): void {
  if (!cellNames) return;
  for (let i = 0; i < cellNames.length; i++) {
    const { family } = cellNames[i]!;
    if (!(family < spec.families.length)) throw new TypeError(`table ${spec.name} has no family ${family}`);
  }
}

/** Throws TypeError if a range names a separate or unknown family. */
export function checkRanges(ranges: readonly ColumnRange[], spec: TableSpec): void {
  for (const { family } of ranges) {
    const familySpec = spec.families[family];
    if (!familySpec || familySpec.separate)
      throw new TypeError(`family ${family} of table ${spec.name} is not kept in its rows`);
  }
}

export function checkSeparate(spec: TableSpec, family: number): void {
  if (!spec.families[family]?.separate) throw new TypeError(`family ${family} of table ${spec.name} is not separate`);
}

export function checkScan(spec: TableSpec, options: ScanOptions): void {
  if (options.reverse && spec.suffixBytes !== undefined)
    throw new TypeError(`table ${spec.name} has suffixes: it is not scanned from its end`);
}

/** Returns `suffixBytes` of the table. Throws TypeError for a table without it, or if `after` is no suffix. */
export function suffixOf({ name, suffixBytes }: TableSpec, after?: Buffer): number {
  if (suffixBytes === undefined) throw new TypeError(`table ${name} has no suffixBytes`);
  if (after && after.length !== suffixBytes)
    throw new TypeError(`after is ${after.length} bytes; a suffix is ${suffixBytes}`);
  return suffixBytes;
}
