import { LdapError, type ResultName } from '../../ldap/ldap-error.js';
import type { PasswordPolicyErrorName } from '../../protocol/controls/password-policy.js';

/** The error when a password policy refuses an operation. `policyError` is sent in the password policy control. */
export class PolicyRefusal extends LdapError {
  readonly policyError: PasswordPolicyErrorName;

  constructor(result: ResultName, policyError: PasswordPolicyErrorName, message: string) {
    super(result, message);
    this.policyError = policyError;
  }
}
