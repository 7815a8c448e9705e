import { hasOptions } from '../../../schema/entry-check.js';
import { parseStateOptions } from '../../../schema/state-options.js';
import type { Cell } from '../../../store/contract.js';
import { type Draft, type DraftAttribute, wideAttributeOf } from '../../model/draft.js';
import { largeList, valueQualifier } from '../../model/entry-cells.js';
import { isPassword, secretAttributeOf } from '../../model/secrets.js';
import { largeQualifiers, MASTER, Q, upRdnOf } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { valueKey } from '../../model/value-set.js';
import { type CheckedEntry, parsedDn, recordedFix, valueCells } from './record.js';
import type { Survey } from './survey.js';

const family = MASTER.upAttributes;

/** Checks that no operational attribute has options, and no attribute has state options of another server. */
export async function checkOptions(survey: Survey, entry: CheckedEntry): Promise<void> {
  const { id, row, draft } = entry;
  const wrongAttributes = draft.attributes.filter(hasWrongOptions);
  if (wrongAttributes.length === 0) return;
  const largeNames = largeQualifiers(row) ?? new Set<string>();
  const removedCells = wrongAttributes.flatMap((attribute) => valueCells(attribute));
  const removedNames = new Set(removedCells.map(({ qualifier }) => qualifier.toString('latin1')));
  const { keptCells, hasLargeValue } = valuesToKeep(survey, draft, wrongAttributes, largeNames);
  const attributeNames = wrongAttributes.map(({ text }) => text).join(', ');
  const problem = `${attributeNames}: operational attributes take no options, and state options of other servers are none`;
  if (hasLargeValue) {
    const message = `${problem}; repair leaves values over 64 KiB: add them without the options, and delete these`;
    return survey.report('options', uuidText(id), message);
  }
  const message = `${problem}; repair removes ${removedCells.length - keptCells.length} values, and keeps ${keptCells.length} without them`;
  const keptLarge = [...largeNames].filter((name) => !removedNames.has(name));
  if (keptLarge.length < largeNames.size) {
    const listName = { family: MASTER.treeInfo, qualifier: Q.large };
    if (keptLarge.length === 0) removedCells.push(listName);
    else keptCells.push({ ...listName, value: largeList(keptLarge.map((name) => Buffer.from(name, 'latin1'))) });
  }
  const fix = recordedFix(survey, entry, wrongAttributes, removedCells, keptCells);
  await survey.report('options', uuidText(id), message, fix);
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
export async function checkSecrets(survey: Survey, entry: CheckedEntry): Promise<void> {
  const { id, row, draft } = entry;
  const { attributes } = draft;
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
  const removedCells = wrongAttributes.flatMap((attribute) => valueCells(attribute));
  const put = keptAttributes.flatMap(({ description, values }) =>
    values.map(({ index, bytes }) => ({
      family,
      qualifier: valueQualifier(description.type.name, index),
      value: bytes,
    })),
  );
  const fix = recordedFix(survey, entry, wrongAttributes, removedCells, put);
  await survey.report('secret', uuidText(id), repairMessage(wrongAttributes, keptAttributes), fix);
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
