import { hasOptions } from '../../../schema/entry-check.js';
import type { Cell, CellName } from '../../../store/contract.js';
import type { DraftAttribute } from '../../model/draft.js';
import { valueQualifier } from '../../model/entry-cells.js';
import { isPassword, secretAttributeOf } from '../../model/secrets.js';
import { MASTER, MASTER_TABLE, Q, upRdnOf } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { parsedDn } from './place.js';
import { editedCells, repairRecord } from './record.js';
import { nextVersion, type Survey } from './survey.js';

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
    values.map(({ index }) => ({ family: MASTER.upAttributes, qualifier: valueQualifier(text, index) })),
  );
  const put: Cell[] = [{ family: MASTER.treeInfo, qualifier: Q.version, value: nextVersion(version) }];
  for (const { description, values } of keptAttributes) {
    const { name } = description.type;
    for (const { index, bytes } of values)
      put.push({ family: MASTER.upAttributes, qualifier: valueQualifier(name, index), value: bytes });
  }
  const isRemoved = ({ family, qualifier }: CellName) =>
    removedNames.some((name) => name.family === family && name.qualifier.equals(qualifier));
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
