import type { CheckedAttribute, Rdn } from '../../../schema/index.js';
import type { Draft, DraftAttribute } from '../../model/draft.js';
import { textBytes } from '../../model/texts.js';
import type { Rule, WriteContext } from '../context.js';

/** Checks the entry against the schema, and sets structuralObjectClass. Restored entries come back unchecked. */
export const SCHEMA: Rule = {
  name: 'schema',

  checkChange(context, { op, before, after, place, isSettlement }) {
    if (!after || op === 'restore' || isSettlement) return undefined;
    const structural = checkDraft(context, after, place.rdn, before?.draft);
    const known = before?.draft.firstValue('structuralObjectClass');
    const was = known && context.schema.objectClass(known.toString('latin1'));
    if (was) context.schema.checkObjectClassChange(was, structural);
    if (known?.equals(textBytes(structural.name))) return undefined;
    return { amend: (draft) => setStructuralClass(context, draft, structural.name) };
  },
};

function setStructuralClass({ schema }: WriteContext, draft: Draft, structural: string): void {
  const name = 'structuralObjectClass';
  draft.replace(schema.requireDescription(name), name, [textBytes(structural)]);
}

/** Checks the whole entry. Values that are unchanged from `before` have been checked when they were written. */
function checkDraft({ schema }: WriteContext, draft: Draft, rdn: Rdn, before?: Draft) {
  const attributes: CheckedAttribute[] = [];
  for (const attribute of draft.attributes) {
    const known = before?.get(attribute.description);
    attributes.push(checked(attribute, known !== undefined && hasNoNewValue(attribute, known)));
  }
  return schema.checkEntry(attributes, rdn, { system: true });
}

/**
 * Whether the attribute has no new value. Older versions accepted values that are refused now; such values may stay
 * when other values are deleted.
 */
function hasNoNewValue(attribute: DraftAttribute, known: DraftAttribute): boolean {
  if (attribute === known) return true;
  if (attribute.unread !== known.unread || attribute.values.length >= known.values.length) return false;
  let at = 0;
  for (const value of attribute.values) {
    while (at < known.values.length && known.values[at] !== value) at++;
    if (at++ === known.values.length) return false;
  }
  return true;
}

function checked({ description, values, unread: rest }: DraftAttribute, asBefore: boolean): CheckedAttribute {
  if (values.length === 1)
    return { description, values: [values[0]!.bytes], unchanged: asBefore || values[0]!.isPointer === true };
  const bytes: Buffer[] = [];
  // Values that were not read, large ones or those of a wide attribute, show that the attribute is unchanged.
  let unchanged = asBefore || (rest !== undefined && values.length === 0);
  for (let i = 0; i < values.length; i++) {
    bytes.push(values[i]!.bytes);
    if (values[i]!.isPointer) unchanged = true;
  }
  return { description, values: bytes, unchanged };
}
