import type { CellName } from '../../../store/contract.js';
import type { DraftAttribute } from '../../model/draft.js';
import { valueQualifier } from '../../model/entry-cells.js';
import { isPassword, secretIn } from '../../model/secrets.js';
import { MASTER, MASTER_TABLE, Q, upRdnOf } from '../../model/tables.js';
import { uuidText } from '../../model/uuid.js';
import { parsedDn } from './place.js';
import { editedCells, repairRecord } from './record.js';
import { nextVersion, type Survey } from './survey.js';

/** Secrets stand under their own name alone, without options, and never in the name of an entry. */
export async function checkSecrets(
  survey: Survey,
  id: Buffer,
  row: Buffer,
  version: Buffer,
  attributes: readonly DraftAttribute[],
): Promise<void> {
  const naming = parsedDn(survey, upRdnOf(row))
    ?.rdns.map(secretIn)
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
  const hidden = attributes.filter(({ description }) => description.type.secret && description.options.length > 0);
  if (hidden.length === 0) return;
  const names = hidden.map(({ text }) => `'${text}'`).join(', ');
  const gone = hidden.flatMap(({ text, values }) =>
    values.map(({ index }) => ({ family: MASTER.upAttributes, qualifier: valueQualifier(text, index) })),
  );
  const put = [{ family: MASTER.treeInfo, qualifier: Q.version, value: nextVersion(version) }];
  const isGone = ({ family, qualifier }: CellName) =>
    gone.some((name) => name.family === family && name.qualifier.equals(qualifier));
  const types = [...new Set(hidden.map(({ description }) => description.type.name))];
  await survey.report('secret', uuidText(id), `${names}: secrets take no options; repair removes the values`, [
    ...survey.guards(id, version),
    { table: MASTER_TABLE.name, key: id, delete: gone, put },
    repairRecord(survey, id, row, editedCells(row, isGone, put), { op: 'modify', attributes: types }),
  ]);
}
