import type { Rule } from '../context.js';
import { ACCESS, SERVER_KEPT } from './access.js';
import { ACCOUNT_STATE } from './account-state.js';
import { GROUPS } from './groups.js';
import { DRAWN_NUMBERS, NUMBERS } from './numbers.js';
import { PASSWORD_POLICY, SECRETS } from './password-policy.js';
import { REFERENCES } from './references.js';
import { NAMES, SCHEMA } from './schema.js';
import { UNIQUE } from './unique.js';

/**
 * The rules of every directory, in the order in which they are applied. Access comes first, so that an actor without
 * rights learns nothing from other rules. Rules that derive data from the entry come after the rules that check and
 * complete it.
 */
export const RULES: readonly Rule[] = [
  ACCESS,
  SECRETS,
  NAMES,
  NUMBERS,
  SCHEMA,
  PASSWORD_POLICY,
  SERVER_KEPT,
  DRAWN_NUMBERS,
  UNIQUE,
  REFERENCES,
  GROUPS,
  ACCOUNT_STATE,
];
