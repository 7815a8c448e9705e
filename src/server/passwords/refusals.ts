import { LdapError, type ResultName } from '../../ldap/ldap-error.js';
import type { PartialAttribute } from '../../ldap/ldap-types.js';
import { MAX_PASSWORDS } from '../../partition/index.js';
import {
  costOf,
  DEFAULT_ARGON2_COST,
  isAffordable,
  MAX_STORED_BYTES,
  maxTotalCost,
  type PasswordPolicy,
  totalCost,
} from '../../password/index.js';
import type { PasswordPolicyErrorName } from '../../protocol/controls/password-policy.js';

export function refuseTooMany(values: number): void {
  if (values > MAX_PASSWORDS)
    throw new LdapError('constraintViolation', `${values} passwords are given; an entry has ${MAX_PASSWORDS} at most`);
}

export function refuseDuplicates({ type, values }: PartialAttribute): void {
  if (values.some((value, i) => values.findIndex((other) => other.equals(value)) < i))
    throw new LdapError('attributeOrValueExists', `attribute '${type}' is given the same value twice`);
}

/** Refuses a hash that is too long or costs too much to verify: no bind could use the hash. */
export function refuseUnusableHash(value: Buffer, policy: PasswordPolicy): void {
  if (value.length > MAX_STORED_BYTES)
    throw new LdapError(
      'constraintViolation',
      `a stored password of ${value.length} bytes is too long; ${MAX_STORED_BYTES} is the most`,
    );
  if (isAffordable(value, policy)) return;
  const costFactor = Math.ceil(costOf(value) / DEFAULT_ARGON2_COST);
  throw new LdapError(
    'constraintViolation',
    `verifying this password hash costs ${costFactor} times what a hash should (see passwords.maxCost); give the password itself, or a cheaper hash`,
  );
}

/** Refuses hashes of one entry that cost too much together: a bind would not try all of them. */
export function refuseCostly(hashes: readonly Buffer[], policy: PasswordPolicy): void {
  const cost = totalCost(hashes, policy);
  if (cost <= maxTotalCost(policy)) return;
  const costFactor = Math.ceil(cost / DEFAULT_ARGON2_COST);
  throw new LdapError(
    'constraintViolation',
    `verifying these password hashes costs ${costFactor} times what a hash should (see passwords.maxCost); give the passwords themselves, or fewer`,
  );
}

/** Refuses a change of the hashes `stored` to `after` when they cost too much and more than before. */
export function refuseCostlier(stored: readonly Buffer[], after: readonly Buffer[], policy: PasswordPolicy): void {
  if (totalCost(after, policy) > totalCost(stored, policy)) refuseCostly(after, policy);
}

/** The error when a password policy refuses an operation. `policyError` is sent in the password policy control. */
export class PolicyRefusal extends LdapError {
  readonly policyError: PasswordPolicyErrorName;

  constructor(result: ResultName, policyError: PasswordPolicyErrorName, message: string) {
    super(result, message);
    this.policyError = policyError;
  }
}
