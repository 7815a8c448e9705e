import { randomBytes } from 'node:crypto';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import type { Dn } from '../../schema/schema-types.js';
import type { Guard, Maybe, Reader, RowStep, Store } from '../../store/contract.js';
import { chain } from '../../store/maybe.js';
import { cellValue, counterBytes } from '../../store/row.js';
import { guardsHold, parseStoredJson, StoreError } from '../../store/store-error.js';
import { accessStep } from '../model/access-rows.js';
import type { DirectorySettings } from '../model/directory-types.js';
import { NO_GROUPS_STEP } from '../model/group-rows.js';
import { DEFAULT_INDEXES, formatIndexRecords, type IndexRecord, IndexSet } from '../model/index-set.js';
import { schemaDigest, schemaStep } from '../model/schema-row.js';
import { refuseSecretNames } from '../model/secrets.js';
import { FIXED_TABLES, indexTable, META_TABLE } from '../model/tables.js';
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

interface NewSettings {
  readonly suffixes: readonly string[];
  readonly adminDn: string;
  /** The administrator's password, hashed. */
  readonly adminPassword: Buffer;
  /** Text of the first access rules. Default: the default preset. */
  readonly access?: string | undefined;
}

/** Creates the tables and the shared row. Throws `entryAlreadyExists` if the store already holds a directory. */
export async function initDirectory(store: Store, settings: NewSettings, schema: Schema): Promise<void> {
  const { suffixes, admin } = parseNames(settings, schema);
  for (const table of FIXED_TABLES) await store.createTable(table);
  const records: IndexRecord[] = [];
  for (const attribute of DEFAULT_INDEXES) {
    const type = schema.attribute(attribute);
    if (!type) continue;
    await store.createTable(indexTable(type.oid));
    records.push({ oid: type.oid, substring: false, ready: true });
  }
  const put = [
    { family: F, qualifier: CELL.format, value: counterBytes(FORMAT) },
    { family: F, qualifier: CELL.suffixes, value: Buffer.from(JSON.stringify(suffixes.map(({ text }) => text))) },
    { family: F, qualifier: CELL.adminDn, value: Buffer.from(admin.text) },
    { family: F, qualifier: CELL.adminPassword, value: settings.adminPassword },
    { family: F, qualifier: CELL.cookieKey, value: randomBytes(32) },
    { family: F, qualifier: CELL.indexes, value: formatIndexRecords(records) },
    { family: F, qualifier: CELL.schema, value: schemaDigest(schema.source) },
  ];
  const { access } = settings;
  const accessSteps =
    access === undefined ? [] : [accessStep({ version: 1, text: access, author: '', time: Date.now() })];
  if (accessSteps.length > 0) put.push({ family: F, qualifier: CELL.access, value: counterBytes(1n) });
  const guards: Guard[] = [{ op: 'absent', family: F, qualifier: CELL.format }];
  const sharedStep = { table: META_TABLE.name, key: SHARED_KEY, guards, put };
  const steps = [sharedStep, schemaStep(schema.source), NO_GROUPS_STEP, ...accessSteps];
  if (!(await guardsHold(store.commit({ steps, decisive: 0 }))))
    throw new LdapError('entryAlreadyExists', 'the store already holds a directory');
}

/** Parses suffixes and administrator's DN of a new directory. Throws `LdapError` if they are not usable. */
export function parseNames(
  { suffixes, adminDn }: { readonly suffixes: readonly string[]; readonly adminDn: string },
  schema: Schema,
): { suffixes: Dn[]; admin: Dn } {
  const admin = schema.parseDn(adminDn);
  if (admin.rdns.length === 0) throw new LdapError('invalidDNSyntax', "the administrator's DN is empty");
  return { suffixes: parseSuffixes(suffixes, schema), admin };
}

function parseSuffixes(texts: readonly string[], schema: Schema): Dn[] {
  if (texts.length === 0) throw new LdapError('unwillingToPerform', 'a directory needs at least one suffix');
  const suffixes: Dn[] = [];
  for (const text of texts) {
    const dn = schema.parseDn(text);
    checkSuffix(dn, suffixes);
    dn.rdns.forEach(refuseSecretNames);
    suffixes.push(dn);
  }
  return suffixes;
}

/** Throws if `dn` is empty, or equal to, above or below a suffix: entries below a suffix belong to it. */
export function checkSuffix(dn: Dn, suffixes: readonly Dn[]): void {
  if (dn.rdns.length === 0) throw new LdapError('invalidDNSyntax', 'the empty DN cannot be a suffix');
  for (const suffix of suffixes) {
    if (suffix.norm.equals(dn.norm)) throw new LdapError('entryAlreadyExists', `'${dn.text}' is a suffix already`);
    const [inner, outer] = dn.rdns.length > suffix.rdns.length ? [dn, suffix] : [suffix, dn];
    const offset = inner.rdns.length - outer.rdns.length;
    if (outer.rdns.every((rdn, i) => rdn.norm.equals(inner.rdns[offset + i]!.norm))) {
      throw new LdapError(
        'unwillingToPerform',
        `'${inner.text}' lies below '${outer.text}'; both cannot be suffixes: keep one, and make the other an entry`,
      );
    }
  }
}
