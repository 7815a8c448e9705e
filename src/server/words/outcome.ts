import { LdapError, ResultCode, type ResultName } from '../../ldap/ldap-error.js';
import type { Control, Result } from '../../protocol/ldap-messages.js';

/** The result of an operation: its LDAPResult and the other fields of the response. */
export interface Outcome extends Result {
  readonly controls?: readonly Control[] | undefined;
  /** responseName of an extended operation; `value` is its responseValue. */
  readonly oid?: string;
  readonly value?: Buffer | undefined;
  /** Set for an error after which the directory is changed: replicas have not acknowledged the change. */
  readonly isChanged?: boolean;
}

export const SUCCESS: Outcome = { code: ResultCode.success, matchedDN: '', message: '' };
export const COMPARE_TRUE: Outcome = { code: ResultCode.compareTrue, matchedDN: '', message: '' };
export const COMPARE_FALSE: Outcome = { code: ResultCode.compareFalse, matchedDN: '', message: '' };

export function outcome(result: ResultName, message: string): Outcome {
  return { code: ResultCode[result], matchedDN: '', message };
}

/** Returns the error with which a replica sends a client to its primary. `urls`: of the primary. */
export function primaryReferral(urls: readonly string[]): LdapError {
  return new LdapError('referral', 'this is a replica', { referrals: urls });
}

export function errorOutcome(error: LdapError): Outcome {
  return { code: error.code, matchedDN: error.matchedDN, message: error.message, referrals: error.referrals };
}
