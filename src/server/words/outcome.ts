import { type LdapError, ResultCode, type ResultName } from '../../ldap/ldap-error.js';
import type { Control, Result } from '../../protocol/ldap-messages.js';

/** How an operation ends: its LDAPResult and what the response carries beside it. */
export interface Outcome extends Result {
  readonly controls?: readonly Control[];
  /** responseName and responseValue of an extended operation. */
  readonly oid?: string;
  readonly value?: Buffer;
}

export const SUCCESS: Outcome = { code: ResultCode.success, matchedDN: '', message: '' };
export const COMPARE_TRUE: Outcome = { code: ResultCode.compareTrue, matchedDN: '', message: '' };
export const COMPARE_FALSE: Outcome = { code: ResultCode.compareFalse, matchedDN: '', message: '' };

export function outcome(result: ResultName, message: string): Outcome {
  return { code: ResultCode[result], matchedDN: '', message };
}

export function outcomeOf(error: LdapError): Outcome {
  return { code: error.code, matchedDN: error.matchedDN, message: error.message, referrals: error.referrals };
}
