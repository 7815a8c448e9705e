import { LdapError } from '../../../ldap/ldap-error.js';
import { countFilterItems, parseLdapUrl } from '../../../ldap/ldap-url.js';
import { uidStart } from '../../../schema/syntaxes.js';
import type { Draft } from '../../model/draft.js';
import { GROUPS_STEP, type GroupTypes, groupTypes, UID_STEP, UNIQUE_MEMBER_MATCH } from '../../model/group-rows.js';
import { MEMBER_URLS } from '../../model/thresholds.js';
import { type Change, changedTypes, type Rule } from '../context.js';

/**
 * Invalidates cached memberships when groups change; changes of names do so by the shared row. Refuses new member URLs
 * that exceed the limits (`MEMBER_URLS`).
 */
export const GROUPS: Rule = {
  name: 'groups',

  checkChange({ schema }, change) {
    const types = groupTypes(schema);
    if (!changesGroups(types, change)) return undefined;
    const fault = urlFault(types, change);
    if (fault) return { refuse: new LdapError('constraintViolation', `memberURL: ${fault}`) };
    return { steps: [change.after && hasUid(change.after, types) ? UID_STEP : GROUPS_STEP] };
  },
};

function changesGroups({ allTypes }: GroupTypes, change: Change): boolean {
  const { before, after } = change;
  if (!before || !after) return isGroup(after ?? before!.draft, allTypes);
  for (const type of changedTypes(change)) if (allTypes.has(type)) return true;
  return false;
}

/** Returns the fault of new member URLs. URLs of older versions may stay, and restored entries are not checked. */
function urlFault({ urlTypes: urls }: GroupTypes, { op, before, after }: Change): string | undefined {
  let urlCount = 0;
  let byteCount = 0;
  const newUrls: Buffer[] = [];
  for (const { description, values, unread } of after?.attributes ?? []) {
    if (!urls.has(description.type)) continue;
    const valuesBefore = new Set(before?.draft.get(description)?.values);
    urlCount += values.length + (unread?.count ?? 0);
    for (const value of values) {
      byteCount += value.bytes.length;
      if (!valuesBefore.has(value)) newUrls.push(value.bytes);
    }
  }
  if (op === 'restore' || newUrls.length === 0) return undefined;
  if (urlCount > MEMBER_URLS.values) return `an entry has ${MEMBER_URLS.values} at most`;
  if (byteCount > MEMBER_URLS.bytes) return `those of an entry have ${MEMBER_URLS.bytes} bytes at most`;
  const hasTooManyItems = newUrls
    .map((bytes) => parseLdapUrl(bytes.toString()))
    .some((url) => url && countFilterItems(url) > MEMBER_URLS.items);
  return hasTooManyItems ? `a filter has ${MEMBER_URLS.items} items at most` : undefined;
}

function isGroup({ attributes }: Draft, types: GroupTypes['allTypes']): boolean {
  for (let i = 0; i < attributes.length; i++) if (types.has(attributes[i]!.description.type)) return true;
  return false;
}

/** Whether a value that is in memory, as all new values are, has a UID after its DN. */
function hasUid({ attributes }: Draft, { allTypes }: GroupTypes): boolean {
  return attributes.some(({ description: { type }, values }) => {
    const mayHaveUid = allTypes.has(type) && type.equality?.oid === UNIQUE_MEMBER_MATCH;
    return mayHaveUid && values.some(({ bytes }) => uidStart(bytes) >= 0);
  });
}
