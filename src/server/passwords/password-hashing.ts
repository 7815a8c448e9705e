import type { Logger } from 'pino';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Modification, PartialAttribute } from '../../ldap/ldap-types.js';
import { isPassword } from '../../partition/index.js';
import {
  clearText,
  hashPassword,
  type PasswordPolicy,
  passwordKind,
  type Source,
  slowWork,
} from '../../password/index.js';
import type { Schema } from '../../schema/index.js';
import type { Config } from '../settings/index.js';
import { hashPolicyOf } from './hash-policy.js';
import { refuseCostly, refuseDuplicates, refuseTooMany, refuseUnusableHash } from './refusals.js';

/** Whether an attribute holds passwords. */
export function isPasswordAttribute(schema: Schema, description: string): boolean {
  const known = schema.describe(description);
  return known !== undefined && isPassword(known.type);
}

/** Hashes the clear passwords that clients store. `source` is charged for the work. */
export class PasswordHashing {
  readonly policy: PasswordPolicy;
  readonly #schema: Schema;
  readonly #log: Logger;
  #warnedOfForeign = false;

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
    const hashed: PartialAttribute[] = [];
    const known = [...siblings];
    for (const attribute of attributes) {
      const { type, values } = attribute;
      if (!isPasswordAttribute(this.#schema, type)) hashed.push(attribute);
      else {
        refuseDuplicates(attribute);
        const stored: Buffer[] = [];
        for (const value of values) {
          stored.push(await this.#hashUnlessHashed(value, known, source));
          known.push(stored.at(-1)!);
        }
        hashed.push({ type, values: stored });
      }
    }
    return hashed;
  }

  /** Returns the changes with the clear passwords that they add or replace hashed, like `hashAttributes`. */
  async hashChanges(
    changes: readonly Modification[],
    siblings: readonly Buffer[],
    source: Source,
  ): Promise<readonly Modification[]> {
    const stored = changes.filter(({ operation }) => operation !== 'delete').map(({ attribute }) => attribute);
    const attributes = await this.hashAttributes(stored, siblings, source);
    const deleted = changes.filter(
      ({ operation, attribute: { type } }) => operation === 'delete' && isPasswordAttribute(this.#schema, type),
    );
    refuseTooMany(deleted.reduce((sum, { attribute }) => sum + attribute.values.length, 0));
    let next = 0;
    return changes.map((change) => {
      const { operation } = change;
      return operation === 'delete' ? change : { operation, attribute: attributes[next++]! };
    });
  }

  /** Returns the value to store for one that a client sent. Throws `constraintViolation` for an unusable hash. */
  async #hashUnlessHashed(value: Buffer, siblings: readonly Buffer[], source: Source): Promise<Buffer> {
    const form = passwordKind(value);
    if (form === 'clear') return this.hash(clearText(value), siblings, source);
    refuseUnusableHash(value, this.policy);
    if (form === 'foreign') this.#warnOfForeign();
    return value;
  }

  /** Warns once of hashes in unknown schemes. Does not log the scheme: it may be a part of a clear password. */
  #warnOfForeign(): void {
    if (this.#warnedOfForeign) return;
    this.#warnedOfForeign = true;
    this.#log.warn(
      'a password was stored as it came, in a scheme or form that is not verified here: no bind will succeed',
    );
  }
}
