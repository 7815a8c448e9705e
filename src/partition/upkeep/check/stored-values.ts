import { LdapError } from '../../../ldap/ldap-error.js';
import type { Cell, CellName } from '../../../store/contract.js';
import { isComputed } from '../../model/computed.js';
import type { Draft } from '../../model/draft.js';
import { valueQualifier } from '../../model/entry-cells.js';
import { MASTER, MASTER_TABLE, Q } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { settingsStep } from '../../tree/shared-row.js';
import { nextVersion, type Survey, shown } from './survey.js';

/** Checks that no computed attribute is stored. */
export async function checkComputed(survey: Survey, id: Buffer, version: Buffer, { attributes }: Draft): Promise<void> {
  const computed = attributes.filter(({ description }) => isComputed(description.type));
  if (computed.length === 0) return;
  const gone: CellName[] = computed.flatMap(({ text, values }) =>
    values.map(({ index }) => ({ family: MASTER.upAttributes, qualifier: valueQualifier(text, index) })),
  );
  const names = computed.map(({ text }) => text).join(', ');
  await survey.report(
    'computed',
    uuidText(id),
    `${names} is stored, and worked out besides when it is asked for; repair removes it`,
    [...survey.guards(id, version), { table: MASTER_TABLE.name, key: id, delete: gone, put: [versionCell(version)] }],
  );
}

/** Checks that values have their canonical spelling, such as that of RFC 4514 for DNs. */
export async function checkForms(survey: Survey, id: Buffer, version: Buffer, draft: Draft): Promise<void> {
  const put: Cell[] = [];
  let first: string | undefined;
  for (const { description, text, values } of draft.attributes) {
    const { proper } = description.type.syntax;
    if (!proper) continue;
    for (const { bytes, index, isPointer: stored, pointer } of values) {
      if (stored || pointer) continue;
      const value = proper(bytes);
      if (value === bytes) continue;
      first ??= `'${shown(bytes)}' of ${text}`;
      put.push({ family: MASTER.upAttributes, qualifier: valueQualifier(text, index), value });
    }
  }
  if (first === undefined) return;
  await survey.report(
    'spelling',
    uuidText(id),
    `${put.length === 1 ? 'a value is' : `${put.length} values are`} not in the proper form (DNs as RFC 4514 writes them, DER with nothing behind it), the first is ${first}; repair writes it so`,
    [...survey.guards(id, version), { table: MASTER_TABLE.name, key: id, put: [...put, versionCell(version)] }],
  );
}

function versionCell(version: Buffer): Cell {
  return { family: MASTER.treeInfo, qualifier: Q.version, value: nextVersion(version) };
}

/** Checks that suffixes and the administrator's DN have the spelling of RFC 4514. */
export async function checkSettings(survey: Survey): Promise<void> {
  const { schema, shared } = survey.context;
  const { suffixes, adminDn } = shared.settings;
  const written = (dn: string): string => {
    try {
      return schema.parseDn(dn).text;
    } catch (error) {
      if (error instanceof LdapError) return dn;
      throw error;
    }
  };
  const proper = { suffixes: suffixes.map(written), adminDn: written(adminDn) };
  const wrong = [...suffixes, adminDn].find((dn) => written(dn) !== dn);
  if (wrong === undefined) return;
  await survey.report('spelling', 'settings', `'${wrong}' is not written as RFC 4514 does; repair writes it so`, [
    settingsStep({ suffixes, adminDn }, proper),
  ]);
}
