import { descriptionMatches } from '../schema/describer.js';
import type { AttributeDescription, AttributeType } from '../schema/schema-types.js';
import type { AttributeSet } from './rule.js';

/** The set of rules without `attributes`: all attributes except secrets, the entry itself, and its children. */
export const ALL_ATTRIBUTES: AttributeSet = {
  includesEntry: true,
  includesChildren: true,
  includesUser: true,
  includesOperational: true,
  types: new Set(),
  descriptions: [],
};

/** Whether only the server writes the secret attribute. No rule can grant rights on such an attribute. */
export function isServerSecret({ secret, noUserModification }: AttributeType): boolean {
  return secret && noUserModification;
}

/** Whether the set contains the attribute. A secret has to be named explicitly. */
export function covers(set: AttributeSet, description: AttributeDescription): boolean {
  const { type } = description;
  if (isServerSecret(type)) return false;
  if (set.descriptions.some((named) => (!type.secret || named.type.secret) && descriptionMatches(named, description)))
    return true;
  if (type.secret) return false;
  return (type.operational ? set.includesOperational : set.includesUser) || set.types.has(type);
}

/** Whether the set contains all attributes except secrets. */
export function coversAll(set: AttributeSet): boolean {
  return set.includesUser && set.includesOperational;
}
