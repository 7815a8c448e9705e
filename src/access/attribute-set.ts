import { descriptionMatches } from '../schema/describer.js';
import type { AttributeDescription, AttributeType } from '../schema/schema-types.js';
import type { AttributeSet } from './rule.js';

/** What a rule is about that names no attributes: all but secrets, the entry, and what comes below it. */
export const ALL_ATTRIBUTES: AttributeSet = {
  entry: true,
  children: true,
  user: true,
  operational: true,
  types: new Set(),
  descriptions: [],
};

/** Secrets that the server alone writes are for it alone: no rule gives them to anybody. */
export function isServersSecret({ secret, noUserModification }: AttributeType): boolean {
  return secret && noUserModification;
}

/** Whether the attribute is among them. Secrets are by their name alone. */
export function covers(set: AttributeSet, description: AttributeDescription): boolean {
  const { type } = description;
  if (isServersSecret(type)) return false;
  if (set.descriptions.some((named) => (!type.secret || named.type.secret) && descriptionMatches(named, description)))
    return true;
  if (type.secret) return false;
  return (type.operational ? set.operational : set.user) || set.types.has(type);
}

/** Whether all attributes but secrets are among them. */
export function coversAll(set: AttributeSet): boolean {
  return set.user && set.operational;
}
