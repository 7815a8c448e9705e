import type { Guard, Reader, RowStep } from '../../store/contract.js';
import { cellValue } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import { META_TABLE } from './tables.js';

/** Rows of table `meta` that hold the sets of access rules, one row a version (docs/formats/tables.md). */
const PREFIX = Buffer.from('access,');
const F = 0;
const q = (text: string) => Buffer.from(text);
const CELL = { text: q('text'), by: q('by'), time: q('time') } as const;

/** A set of access rules as it was given to the directory. */
export interface StoredAccess {
  /** From 1. */
  readonly version: number;
  readonly text: string;
  /** Who gave it, as `ann@host`; '' for the program itself. */
  readonly by: string;
  /** Milliseconds since 1970. */
  readonly time: number;
}

function accessKey(version: number): Buffer {
  const key = Buffer.alloc(PREFIX.length + 4);
  PREFIX.copy(key);
  key.writeUInt32BE(version, PREFIX.length);
  return key;
}

/** Step of a plan: this version is new. */
export function accessStep({ version, text, by, time }: StoredAccess): RowStep {
  const guards: Guard[] = [{ op: 'absent', family: F, qualifier: CELL.text }];
  const put = [
    { family: F, qualifier: CELL.text, value: Buffer.from(text) },
    { family: F, qualifier: CELL.by, value: Buffer.from(by) },
    { family: F, qualifier: CELL.time, value: Buffer.from(String(time)) },
  ];
  return { table: META_TABLE.name, key: accessKey(version), guards, put };
}

/** What the directory had as this version; undefined where there is none. */
export async function readAccess(reader: Reader, version: number): Promise<StoredAccess | undefined> {
  const row = await reader.get(META_TABLE.name, accessKey(version));
  return row && toAccess(version, row);
}

/** All versions, the latest first. */
export async function accessHistory(reader: Reader, latest: number): Promise<StoredAccess[]> {
  const found: StoredAccess[] = [];
  for (let version = latest; version > 0; version--) {
    const access = await readAccess(reader, version);
    if (access) found.push(access);
  }
  return found;
}

function toAccess(version: number, row: Buffer): StoredAccess {
  const text = cellValue(row, F, CELL.text);
  if (!text) throw new StoreError('corrupt', `access rules of version ${version} (table meta) have no text`);
  const by = cellValue(row, F, CELL.by)?.toString() ?? '';
  return { version, text: text.toString(), by, time: Number(cellValue(row, F, CELL.time)?.toString() ?? 0) };
}
