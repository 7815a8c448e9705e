import type { ColumnRange, ScanOptions, TableSpec } from './contract.js';
import { StoreError } from './store-error.js';

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
