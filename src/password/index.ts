/** Stored passwords: making, verifying and judging them. Knows no entry and no LDAP. */
export type { Argon2Parameters } from './argon2.js';
export { CredentialCache, type CredentialCacheOptions } from './cache.js';
export { costOf, ONE_COST } from './cost.js';
export { MAX_PASSWORD_BYTES, MAX_STORED_BYTES } from './limits.js';
export { Matches } from './matches.js';
export {
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
export { clearText, isHashed, isSlow, schemeOf } from './schemes.js';
export { SlowWorkFull, SlowWorkLeft, slowWork } from './slow-work.js';
export type { Source } from './source.js';
export { base32, matchingSteps, newTotpSecret, totpUri } from './totp.js';
export { costTogether, mostTogether, tooDearOf, untriedOf } from './tried.js';
export { givenAs, isVerifiable, kindText } from './verifiable.js';
export { failureCost, PasswordVerifier } from './verifier.js';
export { verifyPassword } from './verify.js';
