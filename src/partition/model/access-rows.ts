import type { Guard, Reader, RowStep } from '../../store/contract.js';
import { cellValue } from '../../store/row.js';
import { StoreError } from '../../store/store-error.js';
import { META_TABLE, numberedKey } from './tables.js';

/** Key prefix of the `meta` rows with access rules, one row per version (docs/formats/tables.md). */
const PREFIX = 'access,';
const F = 0;
const q = (text: string) => Buffer.from(text);
const CELL = { text: q('text'), by: q('by'), time: q('time') } as const;

export interface StoredAccess {
  /** The first version is 1. */
  readonly version: number;
  readonly text: string;
  /** The operator who set the rules, as `ann@host`; '' if Rowan itself set them. */
  readonly author: string;
  /** Milliseconds since 1970. */
  readonly time: number;
}

/** Returns the step that stores a new version. Its guard fails if the version exists. */
export function accessStep({ version, text, author, time }: StoredAccess): RowStep {
  const guards: Guard[] = [{ op: 'absent', family: F, qualifier: CELL.text }];
  const put = [
    { family: F, qualifier: CELL.text, value: Buffer.from(text) },
    { family: F, qualifier: CELL.by, value: Buffer.from(author) },
    { family: F, qualifier: CELL.time, value: Buffer.from(String(time)) },
  ];
  return { table: META_TABLE.name, key: numberedKey(PREFIX, version), guards, put };
}

/** Returns a version of the access rules; undefined if it does not exist. */
export async function readAccess(reader: Reader, version: number): Promise<StoredAccess | undefined> {
  const row = await reader.get(META_TABLE.name, numberedKey(PREFIX, version));
  return row && toAccess(version, row);
}

/** Returns all versions up to `latest`, newest first. */
export async function accessHistory(reader: Reader, latest: number): Promise<StoredAccess[]> {
  const versions: StoredAccess[] = [];
  for (let version = latest; version > 0; version--) {
    const access = await readAccess(reader, version);
    if (access) versions.push(access);
  }
  return versions;
}

function toAccess(version: number, row: Buffer): StoredAccess {
  const text = cellValue(row, F, CELL.text);
  if (!text) throw new StoreError('corrupt', `access rules of version ${version} (table meta) have no text`);
  const author = cellValue(row, F, CELL.by)?.toString() ?? '';
  return { version, text: text.toString(), author, time: Number(cellValue(row, F, CELL.time)?.toString() ?? 0) };
}
