import { hasOptions } from '../../../schema/entry-check.js';
import { parseStateOptions } from '../../../schema/state-options.js';
import type { Cell, CellName } from '../../../store/contract.js';
import { type Draft, type DraftAttribute, wideAttributeOf } from '../../model/draft.js';
import { largeList, valueQualifier } from '../../model/entry-cells.js';
import { isPassword, secretAttributeOf } from '../../model/secrets.js';
import { largeQualifiers, MASTER, MASTER_TABLE, Q, upRdnOf } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { valueKey } from '../../model/value-set.js';
import { editedCells, parsedDn, repairRecord } from './record.js';
import { nextVersion, type Survey } from './survey.js';

const family = MASTER.upAttributes;

/** Checks that no operational attribute has options, and no attribute has state options of another server. */
export async function checkOptions(
  survey: Survey,
  id: Buffer,
  row: Buffer,
  version: Buffer,
  draft: Draft,
): Promise<void> {
  const wrongAttributes = draft.attributes.filter(hasWrongOptions);
  if (wrongAttributes.length === 0) return;
  const largeNames = largeQualifiers(row) ?? new Set<string>();
  const qualifiers = wrongAttributes.flatMap(({ text, values }) =>
    values.map(({ index }) => valueQualifier(text, index)),
  );
  const removedLarge = qualifiers.map((q) => q.toString('latin1')).filter((name) => largeNames.has(name));
  const { keptCells, hasLargeValue } = valuesToKeep(survey, draft, wrongAttributes, largeNames);
  const attributeNames = wrongAttributes.map(({ text }) => text).join(', ');
  const problem = `${attributeNames}: operational attributes take no options, and state options of other servers are none`;
  if (hasLargeValue) {
    const message = `${problem}; repair leaves values over 64 KiB: add them without the options, and delete these`;
    return survey.report('options', uuidText(id), message);
  }
  const removedCells: CellName[] = qualifiers.map((qualifier) => ({ family, qualifier }));
  const put: Cell[] = [...keptCells, { family: MASTER.treeInfo, qualifier: Q.version, value: nextVersion(version) }];
  const keptNames = [...largeNames].filter((name) => !removedLarge.includes(name));
  const keptLarge = keptNames.map((name) => Buffer.from(name, 'latin1'));
  if (removedLarge.length > 0 && keptLarge.length === 0)
    removedCells.push({ family: MASTER.treeInfo, qualifier: Q.large });
  else if (removedLarge.length > 0)
    put.push({ family: MASTER.treeInfo, qualifier: Q.large, value: largeList(keptLarge) });
  const isRemoved = (cell: CellName) =>
    removedCells.some((name) => name.family === cell.family && name.qualifier.equals(cell.qualifier));
  const typeNames = [...new Set(wrongAttributes.map(({ description }) => description.type.name))];
  await survey.report(
    'options',
    uuidText(id),
    `${problem}; repair removes ${qualifiers.length - keptCells.length} values, and keeps ${keptCells.length} without them`,
    [
      ...survey.guards(id, version),
      { table: MASTER_TABLE.name, key: id, delete: removedCells, put },
      repairRecord(survey, id, row, editedCells(row, isRemoved, put), { op: 'modify', attributes: typeNames }),
    ],
  );
}

/** Whether the options of an attribute are wrong. `checkSecrets` handles options of secrets. */
function hasWrongOptions({ description: { type, options }, text }: DraftAttribute): boolean {
  if (options.length === 0 || type.secret) return false;
  return type.operational || parseStateOptions(text) !== undefined;
}

/** Returns the values that the attribute without options lacks, and whether large ones are among them. */
function valuesToKeep(
  survey: Survey,
  draft: Draft,
  wrong: readonly DraftAttribute[],
  large: ReadonlySet<string>,
): { keptCells: Cell[]; hasLargeValue: boolean } {
  const { schema } = survey.context;
  const targetsByName = new Map<string, { text: string; nextIndex: number; valueNames: Set<string> }>();
  const keptCells: Cell[] = [];
  let hasLargeValue = false;
  for (const { description, text, values } of wrong) {
    const { type } = description;
    const stateOptions = parseStateOptions(text);
    const bareDescription =
      stateOptions && !stateOptions.isDeleted ? schema.requireDescription(stateOptions.text) : undefined;
    if (!bareDescription || (type.operational && bareDescription.options.length > 0)) continue;
    const bareAttribute = draft.get(bareDescription);
    const target = targetsByName.get(bareDescription.text) ?? {
      text: bareAttribute?.text ?? bareDescription.text,
      nextIndex: bareAttribute ? wideAttributeOf(bareAttribute).nextIndex : 0,
      valueNames: new Set(bareAttribute?.values.map(({ bytes }) => valueKey(type, bytes))),
    };
    targetsByName.set(bareDescription.text, target);
    for (const { index, bytes } of values) {
      if (target.valueNames.has(valueKey(type, bytes)) || (type.singleValue && target.valueNames.size > 0)) continue;
      hasLargeValue ||= large.has(valueQualifier(text, index).toString('latin1'));
      target.valueNames.add(valueKey(type, bytes));
      keptCells.push({ family, qualifier: valueQualifier(target.text, target.nextIndex++), value: bytes });
    }
  }
  return { keptCells, hasLargeValue };
}

/** Checks that secrets have no options and are not part of names. */
export async function checkSecrets(
  survey: Survey,
  id: Buffer,
  row: Buffer,
  version: Buffer,
  attributes: readonly DraftAttribute[],
): Promise<void> {
  const secretInRdn = parsedDn(survey.context.schema, upRdnOf(row))
    ?.rdns.map(secretAttributeOf)
    .find((name) => name !== undefined);
  if (secretInRdn !== undefined) {
    const message = `attribute '${secretInRdn}', which holds secrets, names the entry, so that everybody reads its value: rename the entry, and change what the value has given away`;
    await survey.report('secret', uuidText(id), message);
  }
  const passwords = attributes.filter(({ description }) => isPassword(description.type));
  if (passwords.length > 0)
    await survey.onPasswords?.(
      id,
      passwords.flatMap(({ values }) => values.map(({ bytes }) => bytes)),
    );
  const wrongAttributes = attributes.filter(({ description }) => description.type.secret && hasOptions(description));
  if (wrongAttributes.length === 0) return;
  const keptAttributes = wrongAttributes.filter(isKeptByRepair);
  const removedNames = wrongAttributes.flatMap(({ text, values }) =>
    values.map(({ index }) => ({ family, qualifier: valueQualifier(text, index) })),
  );
  const put: Cell[] = [{ family: MASTER.treeInfo, qualifier: Q.version, value: nextVersion(version) }];
  for (const { description, values } of keptAttributes) {
    const { name } = description.type;
    for (const { index, bytes } of values) put.push({ family, qualifier: valueQualifier(name, index), value: bytes });
  }
  const isRemoved = (cell: CellName) =>
    removedNames.some((name) => name.family === cell.family && name.qualifier.equals(cell.qualifier));
  const typeNames = [...new Set(wrongAttributes.map(({ description }) => description.type.name))];
  await survey.report('secret', uuidText(id), repairMessage(wrongAttributes, keptAttributes), [
    ...survey.guards(id, version),
    { table: MASTER_TABLE.name, key: id, delete: removedNames, put },
    repairRecord(survey, id, row, editedCells(row, isRemoved, put), { op: 'modify', attributes: typeNames }),
  ]);
}

/** Whether a repair keeps the values: only the option `binary` is wrong, which makes no separate attribute. */
function isKeptByRepair({ description, values }: DraftAttribute): boolean {
  return description.options.length === 0 && values.every(({ isPointer: stored, pointer }) => !stored && !pointer);
}

function repairMessage(wrongAttributes: readonly DraftAttribute[], keptAttributes: readonly DraftAttribute[]): string {
  const listNames = (attributes: readonly DraftAttribute[]) => attributes.map(({ text }) => `'${text}'`).join(', ');
  const removedAttributes = wrongAttributes.filter((attribute) => !keptAttributes.includes(attribute));
  const sentences: string[] = [];
  if (removedAttributes.length > 0)
    sentences.push(`${listNames(removedAttributes)}: secrets take no options; repair removes the values`);
  if (keptAttributes.length > 0)
    sentences.push(`${listNames(keptAttributes)}: secrets take no options; repair keeps the values without them`);
  return sentences.join('; ');
}
