import type { TableSpec } from '../../store/contract.js';
import { DELETED_TABLE, MASTER_TABLE, TREE_TABLE } from '../model/tables.js';

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
