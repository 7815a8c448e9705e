import { LdapError } from '../../../ldap/ldap-error.js';
import type { Cell, CellName } from '../../../store/contract.js';
import { cellValue } from '../../../store/row.js';
import { isComputed } from '../../model/computed.js';
import { type Draft, sortedAttributes, wideAttributeOf } from '../../model/draft.js';
import { valueQualifier } from '../../model/entry-cells.js';
import { MASTER, MASTER_TABLE, Q } from '../../model/tables.js';
import { WIDE_VALUES } from '../../model/thresholds.js';
import { uuidText } from '../../model/uuid.js';
import { type WideAttribute, wideAttributes, wideList } from '../../model/wide.js';
import { settingsStep } from '../../tree/shared-row.js';
import { nextVersion, printable, type Survey } from './survey.js';

const OBJECT_CLASS = '2.5.4.0';

export async function checkComputed(survey: Survey, id: Buffer, version: Buffer, { attributes }: Draft): Promise<void> {
  const computedAttributes = attributes.filter(({ description }) => isComputed(description.type));
  if (computedAttributes.length === 0) return;
  const cells: CellName[] = computedAttributes.flatMap(({ text, values }) =>
    values.map(({ index }) => ({ family: MASTER.upAttributes, qualifier: valueQualifier(text, index) })),
  );
  const attributeNames = computedAttributes.map(({ text }) => text).join(', ');
  await survey.report(
    'computed',
    uuidText(id),
    `${attributeNames} is stored, and worked out besides when it is asked for; repair removes it`,
    [...survey.guards(id, version), { table: MASTER_TABLE.name, key: id, delete: cells, put: [versionCell(version)] }],
  );
}

/** Checks that all values of objectClass, under options, too, name classes of the schema. */
export async function checkClassNames(survey: Survey, id: Buffer, version: Buffer, draft: Draft): Promise<void> {
  const { schema } = survey.context;
  for (const { description, text, values } of draft.attributes) {
    if (description.type.oid !== OBJECT_CLASS) continue;
    const wrongValues = values.filter(({ bytes }) => !schema.objectClass(bytes.toString('latin1')));
    if (wrongValues.length === 0) continue;
    const problem = `'${printable(wrongValues[0]!.bytes)}' of ${text} names no object class of the schema`;
    if (description.options.length === 0) {
      await survey.report('objectClass', uuidText(id), `${problem}: define it, or take it from the entry`);
      continue;
    }
    const cells = wrongValues.map(({ index }) => ({
      family: MASTER.upAttributes,
      qualifier: valueQualifier(text, index),
    }));
    await survey.report('objectClass', uuidText(id), `${problem}; repair removes ${cells.length} such values`, [
      ...survey.guards(id, version),
      { table: MASTER_TABLE.name, key: id, delete: cells, put: [versionCell(version)] },
    ]);
  }
}

/** Checks that values have the form in which they are stored, such as that of RFC 4514 for DNs. */
export async function checkSpelling(survey: Survey, id: Buffer, version: Buffer, draft: Draft): Promise<void> {
  const put: Cell[] = [];
  let firstWrong: string | undefined;
  for (const { description, text, values } of draft.attributes) {
    const { proper } = description.type.syntax;
    if (!proper) continue;
    for (const { bytes, index, isPointer: stored, pointer } of values) {
      if (stored || pointer) continue;
      const value = proper(bytes);
      if (value === bytes) continue;
      firstWrong ??= `'${printable(bytes)}' of ${text}`;
      put.push({ family: MASTER.upAttributes, qualifier: valueQualifier(text, index), value });
    }
  }
  if (firstWrong === undefined) return;
  await survey.report(
    'spelling',
    uuidText(id),
    `${put.length === 1 ? 'a value is' : `${put.length} values are`} not in the proper form (DNs as RFC 4514 writes them, DER with nothing behind it), the first is ${firstWrong}; repair writes it so`,
    [...survey.guards(id, version), { table: MASTER_TABLE.name, key: id, put: [...put, versionCell(version)] }],
  );
}

/** Checks the list of wide attributes in a row: that value counts are right, and that new values get unused indexes. */
export async function checkWide(survey: Survey, id: Buffer, row: Buffer, version: Buffer, draft: Draft): Promise<void> {
  const storedList = cellValue(row, MASTER.treeInfo, Q.wide);
  if (!storedList) return;
  const wideByText = new Map(sortedAttributes(draft).map((attribute) => [attribute.text, wideAttributeOf(attribute)]));
  const listedAttributes = wideAttributes(row);
  const isRight = ({ text, nextIndex, valueCount: count }: WideAttribute) => {
    const attribute = wideByText.get(text);
    return attribute?.valueCount === count && attribute.nextIndex <= nextIndex;
  };
  if (listedAttributes.every(isRight) && wideList(listedAttributes).equals(storedList)) return;
  const wides = [...wideByText.values()].filter(({ valueCount: count }) => count > WIDE_VALUES);
  const listName = { family: MASTER.treeInfo, qualifier: Q.wide };
  const put = [versionCell(version)];
  if (wides.length > 0) put.push({ ...listName, value: wideList(wides) });
  await survey.report(
    'wide',
    uuidText(id),
    'the list of attributes with very many values is not what the entry has; repair sets it',
    [...survey.guards(id, version), { table: MASTER_TABLE.name, key: id, delete: [listName], put }],
  );
}

function versionCell(version: Buffer): Cell {
  return { family: MASTER.treeInfo, qualifier: Q.version, value: nextVersion(version) };
}

/** Checks that suffixes and administrator's DN have the form of RFC 4514. */
export async function checkSettings(survey: Survey): Promise<void> {
  const { schema, shared } = survey.context;
  const { suffixes, adminDn } = shared.settings;
  const properDn = (dn: string): string => {
    try {
      return schema.parseDn(dn).text;
    } catch (error) {
      if (error instanceof LdapError) return dn;
      throw error;
    }
  };
  const properSettings = { suffixes: suffixes.map(properDn), adminDn: properDn(adminDn) };
  const wrongDn = [...suffixes, adminDn].find((dn) => properDn(dn) !== dn);
  if (wrongDn === undefined) return;
  await survey.report('spelling', 'settings', `'${wrongDn}' is not written as RFC 4514 does; repair writes it so`, [
    settingsStep({ suffixes, adminDn }, properSettings),
  ]);
}
