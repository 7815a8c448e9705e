import type { Logger } from 'pino';
import { LdapError, type ResultName } from '../../ldap/ldap-error.js';
import type { Modification, PartialAttribute } from '../../ldap/ldap-types.js';
import { isPassword, MAX_PASSWORDS } from '../../partition/index.js';
import {
  clearText,
  costOf,
  DEFAULT_ARGON2_COST,
  hashPassword,
  isAffordable,
  MAX_STORED_BYTES,
  maxTotalCost,
  type PasswordPolicy,
  passwordKind,
  type Source,
  slowWork,
  storedForm,
  totalCost,
} from '../../password/index.js';
import type { PasswordPolicyErrorName } from '../../protocol/controls/password-policy.js';
import type { Schema } from '../../schema/index.js';
import type { Config } from '../settings/index.js';
import { hashPolicyOf } from './hash-policy.js';

/** Whether an attribute holds passwords. */
export function isPasswordAttribute(schema: Schema, attribute: string): boolean {
  const description = schema.describe(attribute);
  return description !== undefined && isPassword(description.type);
}

/** Hashes the clear passwords that clients store. `source` is charged for the work. */
export class PasswordHashing {
  policy: PasswordPolicy;
  readonly #schema: Schema;
  readonly #log: Logger;
  #hasWarnedOfForeign = false;

  constructor(schema: Schema, config: Config, log: Logger) {
    this.policy = hashPolicyOf(config);
    this.#schema = schema;
    this.#log = log;
  }

  /** Hashes a clear password, whatever it looks like. `siblings`: the other passwords of its entry. */
  async hash(clear: Buffer, siblings: readonly Buffer[], source: Source): Promise<Buffer> {
    try {
      if (this.policy.scheme === 'ssha512') return await hashPassword(clear, this.policy);
      return await slowWork.run(() => hashPassword(clear, this.policy, siblings), source);
    } catch (error) {
      if (error instanceof RangeError) throw new LdapError('constraintViolation', error.message);
      throw error;
    }
  }

  /**
   * Returns the attributes with their clear passwords hashed and all other values unchanged. `siblings`: the passwords
   * that the entry has already. Too many or too costly passwords are refused before the first one is hashed.
   */
  async hashAttributes(
    attributes: readonly PartialAttribute[],
    siblings: readonly Buffer[],
    source: Source,
  ): Promise<readonly PartialAttribute[]> {
    const passwords = attributes.flatMap(({ type, values }) => (isPasswordAttribute(this.#schema, type) ? values : []));
    refuseTooMany(passwords.length);
    refuseCostly(passwords, this.policy);
    const hashedAttributes: PartialAttribute[] = [];
    const knownPasswords = [...siblings];
    for (const attribute of attributes) {
      const { type, values } = attribute;
      if (!isPasswordAttribute(this.#schema, type)) hashedAttributes.push(attribute);
      else {
        refuseDuplicates(attribute);
        const storedValues: Buffer[] = [];
        for (const value of values) {
          storedValues.push(await this.#hashIfClear(value, knownPasswords, source));
          knownPasswords.push(storedValues.at(-1)!);
        }
        hashedAttributes.push({ type, values: storedValues });
      }
    }
    return hashedAttributes;
  }

  /** Returns the changes with the clear passwords that they add or replace hashed, like `hashAttributes`. */
  async hashChanges(
    changes: readonly Modification[],
    siblings: readonly Buffer[],
    source: Source,
  ): Promise<readonly Modification[]> {
    const storedValues = changes.filter(({ operation }) => operation !== 'delete').map(({ attribute }) => attribute);
    const attributes = await this.hashAttributes(storedValues, siblings, source);
    const deletions = changes.filter(
      ({ operation, attribute: { type } }) => operation === 'delete' && isPasswordAttribute(this.#schema, type),
    );
    refuseTooMany(deletions.reduce((sum, { attribute }) => sum + attribute.values.length, 0));
    let attributeIndex = 0;
    return changes.map((change) => {
      const { operation } = change;
      return operation === 'delete' ? change : { operation, attribute: attributes[attributeIndex++]! };
    });
  }

  /** Returns the value to store for one that a client sent. Throws `constraintViolation` for an unusable hash. */
  async #hashIfClear(value: Buffer, siblings: readonly Buffer[], source: Source): Promise<Buffer> {
    const kind = passwordKind(value);
    if (kind === 'clear') return this.hash(clearText(value), siblings, source);
    refuseUnusableHash(value, this.policy);
    if (kind === 'foreign') this.#warnOfForeign();
    return storedForm(value);
  }

  /** Warns once of hashes in unknown schemes. Does not log the scheme: it may be a part of a clear password. */
  #warnOfForeign(): void {
    if (this.#hasWarnedOfForeign) return;
    this.#hasWarnedOfForeign = true;
    this.#log.warn(
      'a password was stored as it came, in a scheme or form that is not verified here: no bind will succeed',
    );
  }
}

function refuseTooMany(values: number): void {
  if (values > MAX_PASSWORDS)
    throw new LdapError('constraintViolation', `${values} passwords are given; an entry has ${MAX_PASSWORDS} at most`);
}

function refuseDuplicates({ type, values }: PartialAttribute): void {
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
