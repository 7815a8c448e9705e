/** Makes, verifies and judges stored passwords. Independent of entries and LDAP. */
export type { Argon2Parameters } from './argon2.js';
export { CredentialCache, type CredentialCacheOptions } from './cache.js';
export { maxTotalCost, totalCost, unaffordableValues, untriedValues } from './cost-groups.js';
export { MAX_PASSWORD_BYTES, MAX_STORED_BYTES } from './limits.js';
export {
  costOf,
  DEFAULT_ARGON2_COST,
  DEFAULT_POLICY,
  type HashScheme,
  hashPassword,
  hashPasswordFast,
  isAffordable,
  needsUpgrade,
  type PasswordPolicy,
  policyCost,
} from './policy.js';
export {
  BreachedListFault,
  isBreached,
  requireBreachedList,
} from './quality/breached.js';
export { Judge, JudgingFault, judge } from './quality/judge.js';
export { wordsOfNames } from './quality/strength.js';
export { clearText, isHashed, isSlow, storedForm } from './schemes.js';
export type { Source } from './slow-work.js';
export { SlowWorkAbandoned, SlowWorkFull, slowWork } from './slow-work.js';
export { base32, matchingSteps, newTotpSecret, totpUri } from './totp.js';
export { failureCost, PasswordMatcher, PasswordVerifier } from './verifier.js';
export { describeKind, isVerifiable, passwordKind, unverifiableReason, verifyPassword } from './verify.js';
