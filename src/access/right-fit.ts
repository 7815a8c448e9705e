import { isComputed } from '../partition/model/computed.js';
import type { AttributeType } from '../schema/schema-types.js';
import { isServerSecret } from './attribute-set.js';
import {
  ATTRIBUTE_RIGHTS,
  CHILDREN_RIGHTS,
  ENTRY_RIGHTS,
  NO_RIGHTS,
  type Right,
  type RightSet,
  rightSet,
} from './right.js';
import type { AttributeSet } from './rule.js';

const WRITING = rightSet('add', 'delete', 'replace');
const SEARCH = rightSet('search');

/** Returns the reason why no right that `right` stands for can apply to the attributes; undefined if one can. */
export function misfitReason(right: string, rights: readonly Right[], target: AttributeSet): string | undefined {
  const wordRights = rightSet(...rights);
  const types = [...target.types, ...target.descriptions.map(({ type }) => type)];
  const hasAttributeGroups = target.includesUser || target.includesOperational;
  const grantable =
    (target.includesEntry ? ENTRY_RIGHTS : NO_RIGHTS) |
    (target.includesChildren ? CHILDREN_RIGHTS : NO_RIGHTS) |
    (hasAttributeGroups ? ATTRIBUTE_RIGHTS : types.reduce((sum, type) => sum | rightsOn(type), NO_RIGHTS));
  if (wordRights & grantable) return undefined;
  if (types.length === 0 && !hasAttributeGroups && !target.includesEntry && !target.includesChildren)
    return 'this never applies: the classes named have secrets alone; name them, such as userPassword';
  return misfitText(right, wordRights, types);
}

/** The rights that a rule can grant: secrets are not searchable, computed attributes are not writable. */
function rightsOn(type: AttributeType): RightSet {
  if (isServerSecret(type)) return NO_RIGHTS;
  return ATTRIBUTE_RIGHTS & ~(type.secret ? SEARCH : NO_RIGHTS) & ~(isComputed(type) ? WRITING : NO_RIGHTS);
}

function misfitText(right: string, set: RightSet, types: readonly AttributeType[]): string {
  if (!(set & ATTRIBUTE_RIGHTS)) {
    const [place, name] = set & CHILDREN_RIGHTS ? ['what comes below an entry', 'children'] : ['the entry', 'entry'];
    return `'${right}' is a right on ${place}; add '${name}' to attributes`;
  }
  if (types.length === 0)
    return `'${right}' is a right on attributes; add them to attributes, or "*" for all but secrets`;
  const labels = types.map(({ name }) => `'${name}'`).join(', ');
  if (types.some(isServerSecret)) return `this never applies: ${labels} is for the server alone`;
  if (types.some(({ secret }) => secret)) return `this never applies: nobody searches for secrets such as ${labels}`;
  return `this never applies: ${labels} is worked out when it is asked for, and cannot be written`;
}
