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
  unaffordableValues,
} from '../password/index.js';
import type { Schema } from '../schema/index.js';
import { lockPredicateOf } from '../server/passwords/account-lock.js';
import { credentialsAfter } from '../server/passwords/credentials.js';
import { refuseCostly, refuseUnusableHash } from '../server/passwords/refusals.js';

const MAX_CACHED_ROLES = 1000;
/** Entries with foreign passwords that are listed. */
const MAX_LISTED_ENTRIES = 20;
/** Attributes of account state that an import takes over and counts. */
const ACCOUNT_STATE: ReadonlySet<string> = new Set(['pwdChangedTime', 'pwdFailureTime', 'pwdHistory', 'pwdReset']);

/** Counts of passwords in a record or in a whole import. */
export class PasswordCounts {
  /** Passwords in the clear, now hashed. */
  hashed = 0;
  /** Hashes of unknown schemes. No bind can verify them. */
  foreign = 0;
  /** Schemes of the foreign hashes, for people. */
  readonly kinds = new Set<string>();
  /** DNs of the first entries with foreign hashes. */
  readonly foreignEntries = new Set<string>();
  /** Hashes left out: verifying the passwords of the entry would cost more than the settings allow. */
  tooCostly = 0;
  /** Accounts that the file declares locked: no bind with their passwords succeeds. */
  locked = 0;
  /** Number of accounts by attribute of account state. */
  readonly accountStates = new Map<string, number>();

  add(other: PasswordCounts): void {
    this.hashed += other.hashed;
    this.foreign += other.foreign;
    this.tooCostly += other.tooCostly;
    this.locked += other.locked;
    for (const kind of other.kinds) this.kinds.add(kind);
    for (const dn of other.foreignEntries)
      if (this.foreignEntries.size < MAX_LISTED_ENTRIES) this.foreignEntries.add(dn);
    for (const [name, accounts] of other.accountStates) this.countState(name, accounts);
  }

  countState(name: string, accounts = 1): void {
    this.accountStates.set(name, (this.accountStates.get(name) ?? 0) + accounts);
  }
}

/** The meaning of an attribute for binds. */
interface AttributeRole {
  readonly isPassword: boolean;
  /** Tests whether a value locks the account. */
  readonly isLocking: ((value: Buffer) => boolean) | undefined;
  /** Name of the attribute when it holds account state. */
  readonly accountState: string | undefined;
}

/**
 * Converts the passwords of imported records. Passwords in the clear are hashed as {SSHA512}; hashes that cost too much
 * to verify are left out. Throws `LdapError` on empty and overlong passwords.
 */
export class ImportedPasswords {
  readonly #policy: PasswordPolicy;
  readonly #schema: Schema;
  readonly #refuseCostly: boolean;
  /** By attribute description as in the file. */
  readonly #roles = new BoundedMap<string, AttributeRole>(MAX_CACHED_ROLES);

  /** `refuseCostly`: throws on hashes that cost too much instead of leaving them out. */
  constructor(schema: Schema, policy: PasswordPolicy, refuseCostly = false) {
    this.#schema = schema;
    this.#refuseCostly = refuseCostly;
    this.#policy = policy;
  }

  #roleOf(type: string): AttributeRole {
    let role = this.#roles.get(type);
    if (!role) {
      const description = this.#schema.describe(type);
      const name = description?.type.name ?? '';
      role = {
        isPassword: description !== undefined && isPassword(description.type),
        isLocking: description && lockPredicateOf(description),
        accountState: ACCOUNT_STATE.has(name) ? name : undefined,
      };
      this.#roles.set(type, role);
    }
    return role;
  }

  #isPassword(type: string): boolean {
    return this.#roleOf(type).isPassword;
  }

  #locksAccount({ type, values }: PartialAttribute): boolean {
    const { isLocking } = this.#roleOf(type);
    return isLocking !== undefined && values.some(isLocking);
  }

  hasPasswords(attributes: readonly PartialAttribute[]): boolean {
    for (const { type } of attributes) if (this.#isPassword(type)) return true;
    return false;
  }

  /** Returns the attributes to store in a new entry, and counts their passwords. */
  forAdd(dn: string, attributes: readonly PartialAttribute[], counts: PasswordCounts): readonly PartialAttribute[] {
    if (this.#areStoredUnchanged(attributes) || !this.hasPasswords(attributes)) return attributes;
    if (attributes.some((attribute) => this.#locksAccount(attribute))) counts.locked++;
    for (const { type, values } of attributes) {
      const { accountState } = this.#roleOf(type);
      if (accountState && String(values[0]).toUpperCase() !== 'FALSE') counts.countState(accountState);
    }
    const foreign = (value: Buffer) => passwordKind(value) === 'foreign';
    if (attributes.some(({ type, values }) => this.#isPassword(type) && values.some(foreign)))
      counts.foreignEntries.add(dn);
    return this.#convert(attributes, [], counts).filter(({ values }) => values.length > 0);
  }

  /** Whether the attributes are stored unchanged without counting anything. Their hashes then cost next to nothing. */
  #areStoredUnchanged(attributes: readonly PartialAttribute[]): boolean {
    if (this.#refuseCostly) return false;
    for (const { type, values } of attributes) {
      const { isPassword, isLocking, accountState } = this.#roleOf(type);
      if (isLocking || accountState) return false;
      if (!isPassword) continue;
      for (const value of values)
        if (value.length > MAX_STORED_BYTES || isSlow(value) || passwordKind(value) !== 'hashed') return false;
    }
    return true;
  }

  /** Returns the modifications to make to an entry with the stored passwords `stored`. */
  forModify(changes: readonly Modification[], stored: readonly Buffer[], counts: PasswordCounts): Modification[] {
    const removals = changes.map(({ operation, attribute }) =>
      operation === 'delete' ? { operation, attribute } : { operation, attribute: { ...attribute, values: [] } },
    );
    const kept = credentialsAfter(this.#schema, stored, removals);
    const additions = changes.filter(({ operation }) => operation !== 'delete');
    const converted = this.#convert(
      additions.map(({ attribute }) => attribute),
      kept,
      counts,
    );
    return changes.flatMap((change) => {
      const at = additions.indexOf(change);
      if (at < 0) return change;
      const { operation } = change;
      const attribute = converted[at]!;
      const isLeftOut = attribute.values.length === 0 && change.attribute.values.length > 0;
      return isLeftOut && operation === 'add' ? [] : { operation, attribute };
    });
  }

  /** Returns the attributes to store beside the passwords `kept`. Values that cost too much are left out. */
  #convert(
    attributes: readonly PartialAttribute[],
    kept: readonly Buffer[],
    counts: PasswordCounts,
  ): PartialAttribute[] {
    const passwords = attributes.flatMap(({ type, values }) => (this.#isPassword(type) ? values : []));
    const storable = passwords.filter((value) => value.length <= MAX_STORED_BYTES);
    const costly = unaffordableValues(storable, kept, this.#policy);
    if (this.#refuseCostly) this.#requireAcceptable(passwords, costly, kept);
    return attributes.map((attribute) => {
      const { type, values } = attribute;
      if (!this.#isPassword(type)) return attribute;
      return {
        type,
        values: values.flatMap((value) => this.#convertValue(value, costly.includes(value), counts) ?? []),
      };
    });
  }

  #requireAcceptable(passwords: readonly Buffer[], costly: readonly Buffer[], kept: readonly Buffer[]): void {
    for (const value of passwords) if (passwordKind(value) !== 'clear') refuseUnusableHash(value, this.#policy);
    // Each hash is cheap enough alone, but not together with the others.
    if (costly.length > 0) refuseCostly([...kept, ...passwords], this.#policy);
  }

  /** Returns undefined when the value is left out. */
  #convertValue(value: Buffer, isTooCostly: boolean, counts: PasswordCounts): Buffer | undefined {
    const form = passwordKind(value);
    if (form === 'clear') {
      counts.hashed++;
      return hashClear(clearText(value));
    }
    if (isTooCostly || value.length > MAX_STORED_BYTES) {
      counts.tooCostly++;
      return undefined;
    }
    if (form === 'foreign') {
      counts.foreign++;
      counts.kinds.add(describeKind(value));
    }
    return value;
  }
}

function hashClear(clear: Buffer): Buffer {
  try {
    return hashPasswordFast(clear);
  } catch (error) {
    if (error instanceof RangeError) throw new LdapError('constraintViolation', error.message);
    throw error;
  }
}
