import { DEFAULT_ARGON2_COST, type PasswordPolicy } from '../../password/index.js';
import type { Config } from '../settings/index.js';

/** Returns the scheme and the costs of password hashes that the settings `passwords` ask for. */
export function hashPolicyOf({ passwords }: Config): PasswordPolicy {
  return { scheme: passwords.scheme, argon2: passwords.argon2, maxCost: passwords.maxCost * DEFAULT_ARGON2_COST };
}
