import { LdapError } from '../../../ldap/ldap-error.js';
import type { CheckedAttribute, Rdn } from '../../../schema/index.js';
import { textBytes } from '../../model/change-record.js';
import type { Draft, DraftAttribute } from '../../model/draft.js';
import type { Rule, WriteContext } from '../context.js';

/** Requires that attributes in RDNs have an equality rule: otherwise names cannot be compared. */
export const NAMES: Rule = {
  name: 'names',

  checkRequest(_, { rdn }) {
    const type = rdn?.avas.find((ava) => !ava.type.equality)?.type;
    if (!type) return undefined;
    return new LdapError('namingViolation', `attribute '${type.name}' has no equality rule and cannot name an entry`);
  },
};

/** Checks the entry against the schema, and sets structuralObjectClass. Restored entries are not checked. */
export const SCHEMA: Rule = {
  name: 'schema',

  checkChange(context, { op, before, after, place, isSettlement }) {
    if (!after || op === 'restore' || isSettlement) return undefined;
    const structural = checkDraft(context, after, place.rdn, before?.draft);
    const classNameBefore = before?.draft.firstValue('structuralObjectClass');
    const classBefore = classNameBefore && context.schema.objectClass(classNameBefore.toString('latin1'));
    if (classBefore) context.schema.checkObjectClassChange(classBefore, structural);
    if (classNameBefore?.equals(textBytes(structural.name))) return undefined;
    return { amend: (draft) => setStructuralClass(context, draft, structural.name) };
  },
};

function setStructuralClass({ schema }: WriteContext, draft: Draft, structural: string): void {
  const attributeName = 'structuralObjectClass';
  draft.replace(schema.requireDescription(attributeName), attributeName, [textBytes(structural)]);
}

/** Checks the whole entry. Values that are the same in `before` were checked when they were written. */
function checkDraft({ schema }: WriteContext, draft: Draft, rdn: Rdn, before?: Draft) {
  const attributes: CheckedAttribute[] = [];
  for (const attribute of draft.attributes) {
    const attributeBefore = before?.get(attribute.description);
    attributes.push(toChecked(attribute, attributeBefore !== undefined && hasNoNewValue(attribute, attributeBefore)));
  }
  return schema.checkEntry(attributes, rdn, { system: true });
}

/**
 * Whether the attribute has no new value. Values that older versions accepted and that are refused now may stay when
 * other values are deleted.
 */
function hasNoNewValue(attribute: DraftAttribute, oldAttribute: DraftAttribute): boolean {
  if (attribute === oldAttribute) return true;
  if (attribute.unread !== oldAttribute.unread || attribute.values.length >= oldAttribute.values.length) return false;
  let offset = 0;
  for (const value of attribute.values) {
    while (offset < oldAttribute.values.length && oldAttribute.values[offset] !== value) offset++;
    if (offset++ === oldAttribute.values.length) return false;
  }
  return true;
}

function toChecked({ description, values, unread }: DraftAttribute, isAsBefore: boolean): CheckedAttribute {
  if (values.length === 1)
    return { description, values: [values[0]!.bytes], unchanged: isAsBefore || values[0]!.isPointer === true };
  const valueBytes: Buffer[] = [];
  // Large values and values of wide attributes are only read when they change.
  let isUnchanged = isAsBefore || (unread !== undefined && values.length === 0);
  for (let i = 0; i < values.length; i++) {
    valueBytes.push(values[i]!.bytes);
    if (values[i]!.isPointer) isUnchanged = true;
  }
  return { description, values: valueBytes, unchanged: isUnchanged };
}
