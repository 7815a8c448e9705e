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

/** Checks that secrets have no options and are not part of the name of an entry. */
export async function checkSecrets(
  survey: Survey,
  id: Buffer,
  row: Buffer,
  version: Buffer,
  attributes: readonly DraftAttribute[],
): Promise<void> {
  const naming = parsedDn(survey, upRdnOf(row))
    ?.rdns.map(secretAttributeOf)
    .find((name) => name !== undefined);
  if (naming !== undefined) {
    const message = `attribute '${naming}', which holds secrets, names the entry, so that everybody reads its value: rename the entry, and change what the value has given away`;
    await survey.report('secret', uuidText(id), message);
  }
  const passwords = attributes.filter(({ description }) => isPassword(description.type));
  if (passwords.length > 0)
    survey.onPasswords?.(
      uuidText(id),
      passwords.flatMap(({ values }) => values.map(({ bytes }) => bytes)),
    );
  const hidden = attributes.filter(({ description }) => description.type.secret && hasOptions(description));
  if (hidden.length === 0) return;
  const kept = hidden.filter(isKept);
  const gone = hidden.flatMap(({ text, values }) =>
    values.map(({ index }) => ({ family: MASTER.upAttributes, qualifier: valueQualifier(text, index) })),
  );
  const put: Cell[] = [{ family: MASTER.treeInfo, qualifier: Q.version, value: nextVersion(version) }];
  for (const { description, values } of kept) {
    const { name } = description.type;
    for (const { index, bytes } of values)
      put.push({ family: MASTER.upAttributes, qualifier: valueQualifier(name, index), value: bytes });
  }
  const isGone = ({ family, qualifier }: CellName) =>
    gone.some((name) => name.family === family && name.qualifier.equals(qualifier));
  const types = [...new Set(hidden.map(({ description }) => description.type.name))];
  await survey.report('secret', uuidText(id), whatRepairDoes(hidden, kept), [
    ...survey.guards(id, version),
    { table: MASTER_TABLE.name, key: id, delete: gone, put },
    repairRecord(survey, id, row, editedCells(row, isGone, put), { op: 'modify', attributes: types }),
  ]);
}

/**
 * Whether repair keeps the values. The option `binary` does not make another attribute, so its values are the secret.
 */
function isKept({ description, values }: DraftAttribute): boolean {
  return description.options.length === 0 && values.every(({ isPointer: stored, pointer }) => !stored && !pointer);
}

function whatRepairDoes(hidden: readonly DraftAttribute[], kept: readonly DraftAttribute[]): string {
  const names = (attributes: readonly DraftAttribute[]) => attributes.map(({ text }) => `'${text}'`).join(', ');
  const removed = hidden.filter((attribute) => !kept.includes(attribute));
  const parts: string[] = [];
  if (removed.length > 0) parts.push(`${names(removed)}: secrets take no options; repair removes the values`);
  if (kept.length > 0) parts.push(`${names(kept)}: secrets take no options; repair keeps the values without them`);
  return parts.join('; ');
}
