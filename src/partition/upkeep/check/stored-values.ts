import type { Cell } from '../../../store/contract.js';
import { cellValue } from '../../../store/row.js';
import { isComputed } from '../../model/computed.js';
import { sortedAttributes, wideAttributeOf } from '../../model/draft.js';
import { valueQualifier } from '../../model/entry-cells.js';
import { MASTER, Q } from '../../model/tables.js';
import { WIDE_VALUES } from '../../model/thresholds.js';
import { uuidText } from '../../model/uuid.js';
import { type WideAttribute, wideAttributes, wideList } from '../../model/wide.js';
import { settingsStep } from '../../tree/shared-row.js';
import { type CheckedEntry, entryFix, parsedDn, valueCells } from './record.js';
import { printable, type Survey } from './survey.js';

const OBJECT_CLASS = '2.5.4.0';

export async function checkComputed(survey: Survey, entry: CheckedEntry): Promise<void> {
  const computedAttributes = entry.draft.attributes.filter(({ description }) => isComputed(description.type));
  if (computedAttributes.length === 0) return;
  const attributeNames = computedAttributes.map(({ text }) => text).join(', ');
  const message = `${attributeNames} is stored, and worked out besides when it is asked for; repair removes it`;
  const cells = computedAttributes.flatMap((attribute) => valueCells(attribute));
  await survey.report('computed', uuidText(entry.id), message, entryFix(survey, entry, cells));
}

/** Checks that all values of objectClass, under options, too, name classes of the schema. */
export async function checkClassNames(survey: Survey, entry: CheckedEntry): Promise<void> {
  const { id, draft } = entry;
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
    const cells = valueCells({ text, values: wrongValues });
    const message = `${problem}; repair removes ${cells.length} such values`;
    await survey.report('objectClass', uuidText(id), message, entryFix(survey, entry, cells));
  }
}

/** Checks that values have the form in which they are stored, such as that of RFC 4514 for DNs. */
export async function checkSpelling(survey: Survey, entry: CheckedEntry): Promise<void> {
  const put: Cell[] = [];
  let firstWrong: string | undefined;
  for (const { description, text, values } of entry.draft.attributes) {
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
  const count = put.length === 1 ? 'a value is' : `${put.length} values are`;
  const message = `${count} not in the proper form (DNs as RFC 4514 writes them, DER with nothing behind it), the first is ${firstWrong}; repair writes it so`;
  await survey.report('spelling', uuidText(entry.id), message, entryFix(survey, entry, [], put));
}

/** Checks the list of wide attributes in a row: that value counts are right, and that new values get unused indexes. */
export async function checkWide(survey: Survey, entry: CheckedEntry): Promise<void> {
  const { id, row, draft } = entry;
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
  const put = wides.length > 0 ? [{ ...listName, value: wideList(wides) }] : [];
  const message = 'the list of attributes with very many values is not what the entry has; repair sets it';
  await survey.report('wide', uuidText(id), message, entryFix(survey, entry, [listName], put));
}

/** Checks that suffixes and administrator's DN have the form of RFC 4514. */
export async function checkSettings(survey: Survey): Promise<void> {
  const { schema, shared } = survey.context;
  const { suffixes, adminDn } = shared.settings;
  const properDn = (dn: string): string => parsedDn(schema, Buffer.from(dn))?.text ?? dn;
  const properSettings = { suffixes: suffixes.map(properDn), adminDn: properDn(adminDn) };
  const wrongDn = [...suffixes, adminDn].find((dn) => properDn(dn) !== dn);
  if (wrongDn === undefined) return;
  await survey.report('spelling', 'settings', `'${wrongDn}' is not written as RFC 4514 does; repair writes it so`, [
    settingsStep({ suffixes, adminDn }, properSettings),
  ]);
}
