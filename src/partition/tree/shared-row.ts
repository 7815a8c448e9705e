import type { Schema } from '../../schema/schema.js';
import type { Guard, Maybe, Reader, RowStep } from '../../store/contract.js';
import { chain } from '../../store/maybe.js';
import { cellValue } from '../../store/row.js';
import { parseStoredJson, StoreError } from '../../store/store-error.js';
import type { DirectorySettings } from '../model/directory-types.js';
import { IndexSet } from '../model/index-set.js';
import { META_TABLE } from '../model/tables.js';
import { ValueRules } from '../model/value-rules.js';

/** Key of the row of table `meta` whose settings and lists all front ends use. */
export const SHARED_KEY = Buffer.from('shared');
export const F = 0;
const q = (text: string) => Buffer.from(text);
export const CELL = {
  format: q('format'),
  suffixes: q('suffixes'),
  adminDn: q('adminDn'),
  adminPassword: q('adminPassword'),
  cookieKey: q('cookieKey'),
  indexes: q('indexes'),
  treeVersion: q('treeVersion'),
  schema: q('schema'),
  access: q('access'),
  values: q('values'),
  names: q('names'),
} as const;

/** Version of the table format. A process refuses to open a directory with a higher version. */
export const FORMAT = 1n;

type NameSettings = Pick<DirectorySettings, 'suffixes' | 'adminDn'>;

/** Returns the step that replaces suffixes and administrator's DN. Its guard fails if they are not `oldSettings`. */
export function settingsStep(oldSettings: NameSettings, newSettings: NameSettings): RowStep {
  const cells = ({ suffixes, adminDn }: NameSettings) => [
    { family: F, qualifier: CELL.suffixes, value: Buffer.from(JSON.stringify(suffixes)) },
    { family: F, qualifier: CELL.adminDn, value: Buffer.from(adminDn) },
  ];
  const guards = cells(oldSettings).map((cell) => ({ op: 'equals', ...cell }) as const);
  return { table: META_TABLE.name, key: SHARED_KEY, guards, put: cells(newSettings) };
}

/** The lists in the shared row that a plan depends on. */
export interface SharedLists {
  readonly indexes: Pick<IndexSet, 'bytes'>;
  readonly values: Pick<ValueRules, 'bytes'>;
}

/** Returns the guard step that `SharedState.guardStep` describes, for these lists. */
export function sharedGuard({ indexes, values }: SharedLists, isTreeChanged: boolean): RowStep {
  const cell = { family: F, qualifier: CELL.values };
  const guards: Guard[] = [
    { op: 'equals', family: F, qualifier: CELL.indexes, value: indexes.bytes },
    values.bytes ? { op: 'equals', ...cell, value: values.bytes } : { op: 'absent', ...cell },
  ];
  if (!isTreeChanged) return { table: META_TABLE.name, key: SHARED_KEY, guards };
  return { table: META_TABLE.name, key: SHARED_KEY, guards, add: [{ family: F, qualifier: CELL.treeVersion, by: 1n }] };
}

export interface SharedRow {
  readonly indexes: IndexSet;
  readonly values: ValueRules;
  readonly suffixNormTexts: ReadonlySet<string>;
}

export function readSharedRow(reader: Reader, schema: Schema): Maybe<SharedRow> {
  return chain(reader.get(META_TABLE.name, SHARED_KEY), (row) => {
    if (!row) throw new StoreError('format', 'the store holds no directory; create one with `rowan init`');
    return {
      indexes: new IndexSet(schema, requireCell(row, CELL.indexes)),
      values: new ValueRules(schema, cellValue(row, F, CELL.values)),
      suffixNormTexts: new Set(readSuffixes(row).map((suffix) => schema.parseDn(suffix).norm.toString('latin1'))),
    };
  });
}

export function readSuffixes(row: Buffer): string[] {
  return parseStoredJson(requireCell(row, CELL.suffixes), 'cell suffixes of row shared in table meta');
}

/** Returns the value of a cell. Throws `StoreError` `corrupt` if the row does not have the cell. */
export function requireCell(row: Buffer, qualifier: Buffer): Buffer {
  const value = cellValue(row, F, qualifier);
  if (!value) throw new StoreError('corrupt', `the shared row has no ${qualifier.toString()}`);
  return value;
}
