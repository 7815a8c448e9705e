import { uidStart } from '../../../schema/syntaxes.js';
import type { Draft } from '../../model/draft.js';
import { GROUPS_STEP, type GroupTypes, groupTypes, UID_STEP, UNIQUE_MEMBER_MATCH } from '../../model/group-rows.js';
import { type Change, changedTypes } from '../change.js';
import type { Rule } from '../context.js';

/**
 * Whoever remembers who is in which group learns that it may be otherwise now. Of names that change the shared row
 * tells.
 */
export const GROUPS: Rule = {
  name: 'groups',

  change({ schema }, change) {
    const types = groupTypes(schema);
    if (!changesGroups(types, change)) return undefined;
    return { steps: [change.after && hasUid(change.after, types) ? UID_STEP : GROUPS_STEP] };
  },
};

function changesGroups({ all }: GroupTypes, change: Change): boolean {
  const { before, after } = change;
  if (!before || !after) return isGroup(after ?? before!.draft, all);
  for (const type of changedTypes(change)) if (all.has(type)) return true;
  return false;
}

function isGroup({ attributes }: Draft, types: GroupTypes['all']): boolean {
  for (let i = 0; i < attributes.length; i++) if (types.has(attributes[i]!.description.type)) return true;
  return false;
}

/** Whether a value that is at hand, as all are that come, has a UID behind the DN. */
function hasUid({ attributes }: Draft, { all }: GroupTypes): boolean {
  return attributes.some(({ description: { type }, values }) => {
    const takesUid = all.has(type) && type.equality?.oid === UNIQUE_MEMBER_MATCH;
    return takesUid && values.some(({ bytes }) => uidStart(bytes) >= 0);
  });
}
