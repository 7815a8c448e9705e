import { LdapError, type ResultName } from '../../ldap/ldap-error.js';
import type { PasswordPolicyErrorName } from '../../protocol/controls/password-policy.js';

/** What a password policy refuses. The control tells `policyError` to those who asked for it. */
export class PolicyRefusal extends LdapError {
  readonly policyError: PasswordPolicyErrorName;

  constructor(result: ResultName, policyError: PasswordPolicyErrorName, message: string) {
    super(result, message);
    this.policyError = policyError;
  }
}
