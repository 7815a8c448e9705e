import type { Rule } from '../context.js';
import { ACCESS } from './access.js';
import { NAMES } from './names.js';
import { SCHEMA } from './schema.js';
import { SECRETS } from './secrets.js';
import { SERVER_KEPT } from './server-kept.js';

/**
 * The rules of every directory. Who may not write learns nothing of the others; what the server keeps is made of what
 * they leave.
 */
export const RULES: readonly Rule[] = [ACCESS, SECRETS, NAMES, SCHEMA, SERVER_KEPT];
