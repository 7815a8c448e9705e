import type { Reader } from '../../store/contract.js';
import type { DescriptionTable } from './descriptions.js';
import type { Draft } from './draft.js';
import { draftFromRow, valueQualifier } from './entry-cells.js';
import { normRule } from './implied.js';
import { largeOffsetsWhere, readAllLarge } from './large.js';

/** Returns the draft of a stored entry, with all large values that have normal forms. */
export async function implyingDraft(
  context: { readonly store: Reader; readonly descriptions: DescriptionTable },
  table: string,
  id: Buffer,
  row: Buffer,
): Promise<Draft> {
  const largeOffsets = largeOffsetsWhere(context.descriptions, row, (type) => normRule(type) !== undefined);
  return draftWithLarge(context, row, await readAllLarge(context.store, table, id, row, largeOffsets));
}

export function draftWithLarge(
  context: { readonly descriptions: DescriptionTable },
  row: Buffer,
  largeValues: ReadonlyMap<string, Buffer> | undefined,
): Draft {
  const draft = draftFromRow(context.descriptions, row, undefined);
  if (!largeValues) return draft;
  for (const attribute of [...draft.attributes]) {
    const values = attribute.values.map((v) => {
      const qualifier = valueQualifier(attribute.text, v.index);
      return { bytes: largeValues.get(qualifier.toString('latin1')) ?? v.bytes, index: v.index };
    });
    draft.set({ ...attribute, values });
  }
  return draft;
}
