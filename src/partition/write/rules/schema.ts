import type { CheckedAttribute, Rdn } from '../../../schema/index.js';
import type { Draft, DraftAttribute } from '../../model/draft.js';
import { textBytes } from '../../model/texts.js';
import type { Rule, WriteContext } from '../context.js';

/**
 * The entry as it will be obeys the schema; keeps structuralObjectClass. What comes back from table `deleted` comes as
 * it was.
 */
export const SCHEMA: Rule = {
  name: 'schema',

  change(context, { op, before, after, place, settles }) {
    if (!after || op === 'restore' || settles) return undefined;
    const structural = checkDraft(context, after, place.rdn, before?.draft);
    const known = before?.draft.value('structuralObjectClass');
    const was = known && context.schema.objectClass(known.toString('latin1'));
    if (was) context.schema.checkObjectClassChange(was, structural);
    if (known?.equals(textBytes(structural.name))) return undefined;
    return { amend: (draft) => keep(context, draft, structural.name) };
  },
};

function keep({ schema }: WriteContext, draft: Draft, structural: string): void {
  const name = 'structuralObjectClass';
  draft.replace(schema.requireDescription(name), name, [textBytes(structural)]);
}

/** Every check on the whole entry. Values that are as in `before`, the stored entry, were checked when they came. */
function checkDraft({ schema }: WriteContext, draft: Draft, rdn: Rdn, before?: Draft) {
  const attributes: CheckedAttribute[] = [];
  for (const attribute of draft.attributes) {
    const known = before?.get(attribute.description);
    attributes.push(checked(attribute, known !== undefined && isRest(attribute, known)));
  }
  return schema.checkEntry(attributes, rdn, { system: true });
}

/**
 * Whether it has no value that was not there before: older versions took some that are refused now, which stay when
 * others are deleted.
 */
function isRest(attribute: DraftAttribute, known: DraftAttribute): boolean {
  if (attribute === known) return true;
  if (attribute.rest !== known.rest || attribute.values.length >= known.values.length) return false;
  let at = 0;
  for (const value of attribute.values) {
    while (at < known.values.length && known.values[at] !== value) at++;
    if (at++ === known.values.length) return false;
  }
  return true;
}

function checked({ description, values, rest }: DraftAttribute, asBefore: boolean): CheckedAttribute {
  if (values.length === 1)
    return { description, values: [values[0]!.bytes], unchanged: asBefore || values[0]!.stored === true };
  const bytes: Buffer[] = [];
  // Large values, or the values of a wide attribute, that were not read: the attribute was not touched.
  let unchanged = asBefore || (rest !== undefined && values.length === 0);
  for (let i = 0; i < values.length; i++) {
    bytes.push(values[i]!.bytes);
    if (values[i]!.stored) unchanged = true;
  }
  return { description, values: bytes, unchanged };
}
