import { BoundedMap } from '../cache/bounded-map.js';
import { LdapError } from '../ldap/ldap-error.js';
import type { Modification, PartialAttribute } from '../ldap/ldap-types.js';
import { isPassword } from '../partition/index.js';
import {
  clearText,
  describeKind,
  hashPasswordFast,
  isSlow,
  MAX_STORED_BYTES,
  type PasswordPolicy,
  passwordKind,
  storedForm,
  unaffordableValues,
} from '../password/index.js';
import type { Schema } from '../schema/index.js';
import { lockPredicate } from '../server/passwords/account-lock.js';
import { credentialsAfter } from '../server/passwords/credentials.js';
import { equalHash } from '../server/passwords/deleted-values.js';
import { refuseCostly, refuseUnusableHash } from '../server/passwords/password-hashing.js';
import { historyInStoredForm } from '../server/passwords/password-rules.js';

const MAX_CACHED_ROLES = 1000;
/** The most entries with foreign passwords whose DNs are listed. */
const MAX_LISTED_ENTRIES = 20;
/** Attributes with the state of an account. An import stores and counts them. */
const ACCOUNT_STATE: ReadonlySet<string> = new Set(['pwdChangedTime', 'pwdFailureTime', 'pwdHistory', 'pwdReset']);

/** Counts of passwords in a record or in a whole import. */
export class PasswordCounts {
  /** Passwords in clear text that were hashed. */
  hashedCount = 0;
  /** Hashes of unknown schemes. No bind can verify them. */
  foreignCount = 0;
  /** Schemes of the foreign hashes, for messages. */
  readonly foreignSchemes = new Set<string>();
  /** DNs of the first entries with foreign hashes. */
  readonly foreignEntryDns = new Set<string>();
  /** Number of further entries with foreign hashes. */
  unlistedEntryCount = 0;
  /** Hashes that were left out: verifying the entry's passwords would cost more than the settings allow. */
  tooCostlyCount = 0;
  /** Accounts that the file declares locked. No bind with their passwords succeeds. */
  lockedCount = 0;
  /** Number of accounts by attribute of account state. */
  readonly accountStates = new Map<string, number>();

  add(counts: PasswordCounts): void {
    this.hashedCount += counts.hashedCount;
    this.foreignCount += counts.foreignCount;
    this.tooCostlyCount += counts.tooCostlyCount;
    this.lockedCount += counts.lockedCount;
    for (const kind of counts.foreignSchemes) this.foreignSchemes.add(kind);
    for (const dn of counts.foreignEntryDns) this.listForeign(dn);
    this.unlistedEntryCount += counts.unlistedEntryCount;
    for (const [name, accounts] of counts.accountStates) this.countState(name, accounts);
  }

  listForeign(dn: string): void {
    if (this.foreignEntryDns.size < MAX_LISTED_ENTRIES) this.foreignEntryDns.add(dn);
    else if (!this.foreignEntryDns.has(dn)) this.unlistedEntryCount++;
  }

  countState(name: string, accountCount = 1): void {
    this.accountStates.set(name, (this.accountStates.get(name) ?? 0) + accountCount);
  }
}

/** The effect of an attribute on binds. */
interface AttributeRole {
  readonly isPassword: boolean;
  /** Tests whether a value locks the account. */
  readonly lockPredicate: ((value: Buffer) => boolean) | undefined;
  /** Name of the attribute if it holds account state. */
  readonly stateAttribute: string | undefined;
}

/**
 * Converts the passwords of imported records: hashes clear text as {SSHA512}, takes hashes in their `storedForm`, and
 * leaves out those that cost too much to verify. Throws `LdapError` on empty and overlong passwords.
 */
export class ImportedPasswords {
  readonly #policy: PasswordPolicy;
  readonly #schema: Schema;
  readonly #refusesCostly: boolean;
  /** Roles by attribute description as in the file. */
  readonly #roles = new BoundedMap<string, AttributeRole>(MAX_CACHED_ROLES);

  /** `refusesCostly`: whether a hash that costs too much is an error. Default: such a hash is left out. */
  constructor(schema: Schema, policy: PasswordPolicy, refusesCostly = false) {
    this.#schema = schema;
    this.#refusesCostly = refusesCostly;
    this.#policy = policy;
  }

  #roleOf(type: string): AttributeRole {
    let role = this.#roles.get(type);
    if (!role) {
      const description = this.#schema.describe(type);
      const name = description?.type.name ?? '';
      role = {
        isPassword: description !== undefined && isPassword(description.type),
        lockPredicate: description && lockPredicate(description),
        stateAttribute: ACCOUNT_STATE.has(name) ? name : undefined,
      };
      this.#roles.set(type, role);
    }
    return role;
  }

  #isPassword(type: string): boolean {
    return this.#roleOf(type).isPassword;
  }

  #locksAccount({ type, values }: PartialAttribute): boolean {
    const { lockPredicate } = this.#roleOf(type);
    return lockPredicate !== undefined && values.some(lockPredicate);
  }

  hasPasswords(attributes: readonly PartialAttribute[]): boolean {
    for (const { type } of attributes) if (this.#isPassword(type)) return true;
    return false;
  }

  /** Returns the attributes to store in a new entry, and counts their passwords. */
  convertAdd(dn: string, attributes: readonly PartialAttribute[], counts: PasswordCounts): readonly PartialAttribute[] {
    if (this.#areStoredUnchanged(attributes) || !this.hasPasswords(attributes)) return attributes;
    if (attributes.some((attribute) => this.#locksAccount(attribute))) counts.lockedCount++;
    for (const { type, values } of attributes) {
      const { stateAttribute } = this.#roleOf(type);
      if (stateAttribute && String(values[0]).toUpperCase() !== 'FALSE') counts.countState(stateAttribute);
    }
    return this.#convert(dn, attributes, [], counts).filter(({ values }) => values.length > 0);
  }

  /**
   * Whether `#convert` would change and count nothing: there are no locks and account states, and all passwords are
   * hashes. Hashes that are slow to verify are counted.
   */
  #areStoredUnchanged(attributes: readonly PartialAttribute[]): boolean {
    if (this.#refusesCostly) return false;
    for (const { type, values } of attributes) {
      const { isPassword, lockPredicate, stateAttribute } = this.#roleOf(type);
      if (lockPredicate || stateAttribute) return false;
      if (!isPassword) continue;
      for (const value of values)
        if (value.length > MAX_STORED_BYTES || isSlow(value) || passwordKind(value) !== 'hashed') return false;
    }
    return true;
  }

  /** Returns the modifications to apply. `passwords`: the stored passwords of the entry. */
  convertModify(
    dn: string,
    requested: readonly Modification[],
    passwords: readonly Buffer[],
    counts: PasswordCounts,
  ): Modification[] {
    const changes = requested.map((change): Modification => {
      const { type, values } = change.attribute;
      if (change.operation !== 'delete' || !this.#isPassword(type)) return change;
      return { operation: 'delete', attribute: { type, values: values.map((value) => equalHash(value, passwords)) } };
    });
    const removals = changes.map(({ operation, attribute }) =>
      operation === 'delete' ? { operation, attribute } : { operation, attribute: { ...attribute, values: [] } },
    );
    const keptPasswords = credentialsAfter(this.#schema, passwords, removals);
    const additions = changes.filter(({ operation }) => operation !== 'delete');
    const convertedAttributes = this.#convert(
      dn,
      additions.map(({ attribute }) => attribute),
      keptPasswords,
      counts,
    );
    return changes.flatMap((change) => {
      const index = additions.indexOf(change);
      if (index < 0) return change;
      const { operation } = change;
      const attribute = convertedAttributes[index]!;
      const isLeftOut = attribute.values.length === 0 && change.attribute.values.length > 0;
      return isLeftOut && operation === 'add' ? [] : { operation, attribute };
    });
  }

  /** Returns the attributes to store, without values that cost too much. `keptPasswords`: those that stay. */
  #convert(
    dn: string,
    attributes: readonly PartialAttribute[],
    keptPasswords: readonly Buffer[],
    counts: PasswordCounts,
  ): PartialAttribute[] {
    const passwords = attributes.flatMap(({ type, values }) => (this.#isPassword(type) ? values : []));
    const storable = passwords.filter((value) => value.length <= MAX_STORED_BYTES);
    const costlyPasswords = unaffordableValues(storable, keptPasswords, this.#policy);
    if (this.#refusesCostly) this.#requireAcceptable(passwords, costlyPasswords, keptPasswords);
    return attributes.map((attribute) => {
      const { type, values } = attribute;
      if (this.#roleOf(type).stateAttribute === 'pwdHistory') return { type, values: values.map(historyInStoredForm) };
      if (!this.#isPassword(type)) return attribute;
      return {
        type,
        values: values.flatMap((value) => this.#convertValue(dn, value, costlyPasswords.includes(value), counts) ?? []),
      };
    });
  }

  #requireAcceptable(passwords: readonly Buffer[], costly: readonly Buffer[], keptPasswords: readonly Buffer[]): void {
    for (const value of passwords) if (passwordKind(value) !== 'clear') refuseUnusableHash(value, this.#policy);
    // Each of these hashes is cheap enough alone, but not together with the others.
    if (costly.length > 0) refuseCostly([...keptPasswords, ...passwords], this.#policy);
  }

  /** Returns undefined when the value is left out. */
  #convertValue(dn: string, value: Buffer, isTooCostly: boolean, counts: PasswordCounts): Buffer | undefined {
    const kind = passwordKind(value);
    if (kind === 'clear') {
      counts.hashedCount++;
      return hashClearText(clearText(value));
    }
    if (isTooCostly || value.length > MAX_STORED_BYTES) {
      counts.tooCostlyCount++;
      return undefined;
    }
    if (kind === 'foreign') {
      counts.foreignCount++;
      counts.foreignSchemes.add(describeKind(value));
      counts.listForeign(dn);
    }
    return storedForm(value);
  }
}

function hashClearText(clear: Buffer): Buffer {
  try {
    return hashPasswordFast(clear);
  } catch (error) {
    if (error instanceof RangeError) throw new LdapError('constraintViolation', error.message);
    throw error;
  }
}
