/** Stored passwords: making, verifying and judging them. Knows no entry and no LDAP. */
export type { Argon2Parameters } from './argon2.js';
export { CredentialCache, type CredentialCacheOptions } from './cache.js';
export { MAX_PASSWORD_BYTES } from './limits.js';
export {
  DEFAULT_POLICY,
  dummyVerify,
  type HashScheme,
  hashPassword,
  hashPasswordFast,
  needsUpgrade,
  type PasswordPolicy,
} from './policy.js';
export { clearText, givenAs, isHashed, isSlow, schemeOf } from './schemes.js';
export { slowWork } from './slow-work.js';
export { PasswordVerifier } from './verifier.js';
export { verifyPassword } from './verify.js';
