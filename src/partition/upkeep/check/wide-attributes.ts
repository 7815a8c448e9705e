import { cellValue } from '../../../store/row.js';
import { type Draft, sortedAttributes, wideAttributeOf } from '../../model/draft.js';
import { MASTER, MASTER_TABLE, Q } from '../../model/tables.js';
import { WIDE_VALUES } from '../../model/thresholds.js';
import { uuidText } from '../../model/uuid.js';
import { type WideAttribute, wideAttributes, wideList } from '../../model/wide.js';
import { nextVersion, type Survey } from './survey.js';

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
  const family = MASTER.treeInfo;
  const put = [{ family, qualifier: Q.version, value: nextVersion(version) }];
  if (wides.length > 0) put.push({ family, qualifier: Q.wide, value: wideList(wides) });
  await survey.report(
    'wide',
    uuidText(id),
    'the list of attributes with very many values is not what the entry has; repair sets it',
    [
      ...survey.guards(id, version),
      { table: MASTER_TABLE.name, key: id, delete: [{ family, qualifier: Q.wide }], put },
    ],
  );
}
