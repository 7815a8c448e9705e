import { LdapError } from '../../ldap/ldap-error.js';
import type { PartialAttribute } from '../../ldap/ldap-types.js';
import { MAX_PASSWORDS } from '../../partition/index.js';
import {
  costOf,
  costTogether,
  isAffordable,
  MAX_STORED_BYTES,
  mostTogether,
  ONE_COST,
  type PasswordPolicy,
} from '../../password/index.js';

export function refuseMany(values: number): void {
  if (values > MAX_PASSWORDS)
    throw new LdapError('constraintViolation', `${values} passwords are given; an entry has ${MAX_PASSWORDS} at most`);
}

export function refuseTwice({ type, values }: PartialAttribute): void {
  if (values.some((value, i) => values.findIndex((other) => other.equals(value)) < i))
    throw new LdapError('attributeOrValueExists', `attribute '${type}' is given the same value twice`);
}

/** Hashed values that cost too much or are too long are not stored: nobody could bind with them. */
export function refuseUnfit(value: Buffer, policy: PasswordPolicy): void {
  if (value.length > MAX_STORED_BYTES)
    throw new LdapError(
      'constraintViolation',
      `a stored password of ${value.length} bytes is too long; ${MAX_STORED_BYTES} is the most`,
    );
  if (isAffordable(value, policy)) return;
  const times = Math.ceil(costOf(value) / ONE_COST);
  throw new LdapError(
    'constraintViolation',
    `verifying this password hash costs ${times} times what a hash should (see passwords.maxCost); give the password itself, or a cheaper hash`,
  );
}

/** Hashes of one entry that cost too much together are not stored: not all of them would be tried. */
export function refuseDear(together: readonly Buffer[], policy: PasswordPolicy): void {
  const cost = costTogether(together, policy);
  if (cost <= mostTogether(policy)) return;
  const times = Math.ceil(cost / ONE_COST);
  throw new LdapError(
    'constraintViolation',
    `verifying these password hashes costs ${times} times what a hash should (see passwords.maxCost); give the passwords themselves, or fewer`,
  );
}
