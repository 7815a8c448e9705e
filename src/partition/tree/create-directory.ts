import { randomBytes } from 'node:crypto';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Schema } from '../../schema/schema.js';
import type { Guard, Store } from '../../store/contract.js';
import { counterBytes } from '../../store/row.js';
import { guardsHold } from '../../store/store-error.js';
import { accessStep } from '../model/access-rows.js';
import { NO_GROUPS_STEP } from '../model/group-rows.js';
import { DEFAULT_INDEXES, formatIndexRecords, type IndexRecord } from '../model/index-set.js';
import { schemaDigest, schemaStep } from '../model/schema-row.js';
import { FIXED_TABLES, indexTable, META_TABLE } from '../model/tables.js';
import { parseNames } from './directory-names.js';
import { CELL, F, FORMAT, SHARED_KEY } from './shared-row.js';

export interface NewSettings {
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
