import type { Reader } from '../../store/contract.js';
import type { DescriptionTable } from './descriptions.js';
import type { Draft } from './draft.js';
import { draftFromRow, valueQualifier } from './entry-cells.js';
import { formRule } from './implied.js';
import { largeCellsWhere, readAllLarge } from './large.js';

/** Returns the draft of a stored entry, having read the large values that imply normal forms. */
export async function implyingDraft(
  context: { readonly store: Reader; readonly descriptions: DescriptionTable },
  table: string,
  id: Buffer,
  row: Buffer,
): Promise<Draft> {
  const cells = largeCellsWhere(context.descriptions, row, (type) => formRule(type) !== undefined);
  return draftWithLarge(context, row, await readAllLarge(context.store, table, id, row, cells));
}

export function draftWithLarge(
  context: { readonly descriptions: DescriptionTable },
  row: Buffer,
  large: ReadonlyMap<string, Buffer> | undefined,
): Draft {
  const draft = draftFromRow(context.descriptions, row, undefined);
  if (!large) return draft;
  for (const attribute of [...draft.attributes]) {
    const values = attribute.values.map((v) => {
      const qualifier = valueQualifier(attribute.text, v.index);
      return { bytes: large.get(qualifier.toString('latin1')) ?? v.bytes, index: v.index };
    });
    draft.set({ ...attribute, values });
  }
  return draft;
}
