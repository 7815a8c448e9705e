import { BoundedMap } from '../cache/bounded-map.js';
import { LdapError } from '../ldap/ldap-error.js';
import type { Modification, PartialAttribute } from '../ldap/ldap-types.js';
import { isPassword } from '../partition/index.js';
import {
  clearText,
  givenAs,
  hashPasswordFast,
  isSlow,
  kindText,
  MAX_STORED_BYTES,
  type PasswordPolicy,
  tooDearOf,
} from '../password/index.js';
import type { Schema } from '../schema/index.js';
import { lockingValues } from '../server/passwords/account-lock.js';
import { credentialsAfter } from '../server/passwords/credentials.js';
import { refuseCostly, refuseUnusableHash } from '../server/passwords/refusals.js';

const MAX_KNOWN = 1000;
/** Entries with foreign passwords that are named. */
const MOST_NAMED = 20;
/** What else of an account is told when an import takes it over. */
const TAKEN_OVER: ReadonlySet<string> = new Set(['pwdChangedTime', 'pwdFailureTime', 'pwdHistory', 'pwdReset']);

/** What was made of the passwords of a record, or of many. */
export class PasswordCounts {
  /** Came in the clear. */
  hashed = 0;
  /** Nobody can bind with them. */
  foreign = 0;
  /** Kinds of the foreign ones, for people. */
  readonly kinds = new Set<string>();
  /** DNs of the first entries that have some. */
  readonly named = new Set<string>();
  /** Left out: verifying them, alone or with the others of their entry, costs more than the settings allow. */
  dear = 0;
  /** Accounts of which the file says that they are locked: nobody binds with their passwords. */
  locked = 0;
  /** Accounts by what an attribute of the name has brought of them. */
  readonly taken = new Map<string, number>();

  add(other: PasswordCounts): void {
    this.hashed += other.hashed;
    this.foreign += other.foreign;
    this.dear += other.dear;
    this.locked += other.locked;
    for (const kind of other.kinds) this.kinds.add(kind);
    for (const dn of other.named) if (this.named.size < MOST_NAMED) this.named.add(dn);
    for (const [name, accounts] of other.taken) this.take(name, accounts);
  }

  take(name: string, accounts = 1): void {
    this.taken.set(name, (this.taken.get(name) ?? 0) + accounts);
  }
}

/** What an attribute is to a bind. */
interface Meaning {
  /** It holds passwords. */
  readonly holds: boolean;
  /** Which of its values lock the account. */
  readonly locking: ((value: Buffer) => boolean) | undefined;
  /** Its name, where it says more of the account. */
  readonly taken: string | undefined;
}

/**
 * Hashes passwords that come in the clear as {SSHA512}, and leaves out those that cost too much. Refuses empty and
 * overlong ones by an `LdapError`.
 */
export class ImportedPasswords {
  readonly #policy: PasswordPolicy;
  readonly #schema: Schema;
  readonly #refuses: boolean;
  /** By description as given. */
  readonly #known = new BoundedMap<string, Meaning>(MAX_KNOWN);

  /** `refuses`: those that cost too much are refused, too. */
  constructor(schema: Schema, policy: PasswordPolicy, refuses = false) {
    this.#schema = schema;
    this.#refuses = refuses;
    this.#policy = policy;
  }

  #meaningOf(type: string): Meaning {
    let meaning = this.#known.get(type);
    if (!meaning) {
      const description = this.#schema.describe(type);
      const holds = description !== undefined && isPassword(description.type);
      const name = description?.type.name ?? '';
      const taken = TAKEN_OVER.has(name) ? name : undefined;
      meaning = { holds, locking: description && lockingValues(description), taken };
      this.#known.set(type, meaning);
    }
    return meaning;
  }

  #holds(type: string): boolean {
    return this.#meaningOf(type).holds;
  }

  #locks({ type, values }: PartialAttribute): boolean {
    const { locking } = this.#meaningOf(type);
    return locking !== undefined && values.some(locking);
  }

  /** Whether any of them holds passwords. */
  anyIn(attributes: readonly PartialAttribute[]): boolean {
    for (const { type } of attributes) if (this.#holds(type)) return true;
    return false;
  }

  /** As they are to be stored in the new entry, and counted. */
  attributes(dn: string, attributes: readonly PartialAttribute[], counts: PasswordCounts): readonly PartialAttribute[] {
    if (this.#areAsGiven(attributes) || !this.anyIn(attributes)) return attributes;
    if (attributes.some((attribute) => this.#locks(attribute))) counts.locked++;
    for (const { type, values } of attributes) {
      const { taken } = this.#meaningOf(type);
      if (taken && String(values[0]).toUpperCase() !== 'FALSE') counts.take(taken);
    }
    const foreign = (value: Buffer) => givenAs(value) === 'foreign';
    if (attributes.some(({ type, values }) => this.#holds(type) && values.some(foreign))) counts.named.add(dn);
    return this.#made(attributes, [], counts).filter(({ values }) => values.length > 0);
  }

  /** Whether they are stored as they came, and nothing is told of them: their hashes cost next to nothing. */
  #areAsGiven(attributes: readonly PartialAttribute[]): boolean {
    if (this.#refuses) return false;
    for (const { type, values } of attributes) {
      const { holds, locking, taken } = this.#meaningOf(type);
      if (locking || taken) return false;
      if (!holds) continue;
      for (const value of values)
        if (value.length > MAX_STORED_BYTES || isSlow(value) || givenAs(value) !== 'hashed') return false;
    }
    return true;
  }

  /** The changes as they are to be made to an entry that has the credentials `stored`. */
  changes(changes: readonly Modification[], stored: readonly Buffer[], counts: PasswordCounts): Modification[] {
    const removals = changes.map(({ operation, attribute }) =>
      operation === 'delete' ? { operation, attribute } : { operation, attribute: { ...attribute, values: [] } },
    );
    const left = credentialsAfter(this.#schema, stored, removals);
    const brings = changes.filter(({ operation }) => operation !== 'delete');
    const made = this.#made(
      brings.map(({ attribute }) => attribute),
      left,
      counts,
    );
    return changes.flatMap((change) => {
      const at = brings.indexOf(change);
      if (at < 0) return change;
      const { operation } = change;
      const attribute = made[at]!;
      const isLeftOut = attribute.values.length === 0 && change.attribute.values.length > 0;
      return isLeftOut && operation === 'add' ? [] : { operation, attribute };
    });
  }

  /**
   * The attributes as they are to be stored in an entry that keeps the passwords `beside`; without values where all of
   * them cost too much.
   */
  #made(
    attributes: readonly PartialAttribute[],
    beside: readonly Buffer[],
    counts: PasswordCounts,
  ): PartialAttribute[] {
    const given = attributes.flatMap(({ type, values }) => (this.#holds(type) ? values : []));
    const storable = given.filter((value) => value.length <= MAX_STORED_BYTES);
    const dear = tooDearOf(storable, beside, this.#policy);
    if (this.#refuses) this.#refuse(given, dear, beside);
    return attributes.map((attribute) => {
      const { type, values } = attribute;
      if (!this.#holds(type)) return attribute;
      return { type, values: values.flatMap((value) => this.#stored(value, dear.includes(value), counts) ?? []) };
    });
  }

  #refuse(given: readonly Buffer[], dear: readonly Buffer[], beside: readonly Buffer[]): void {
    for (const value of given) if (givenAs(value) !== 'clear') refuseUnusableHash(value, this.#policy);
    // Each of them does alone, and is too much beside the others.
    if (dear.length > 0) refuseCostly([...beside, ...given], this.#policy);
  }

  /** Undefined where the value is left out. */
  #stored(value: Buffer, isDear: boolean, counts: PasswordCounts): Buffer | undefined {
    const given = givenAs(value);
    if (given === 'clear') {
      counts.hashed++;
      return hashed(clearText(value));
    }
    if (isDear || value.length > MAX_STORED_BYTES) {
      counts.dear++;
      return undefined;
    }
    if (given === 'foreign') {
      counts.foreign++;
      counts.kinds.add(kindText(value));
    }
    return value;
  }
}

function hashed(clear: Buffer): Buffer {
  try {
    return hashPasswordFast(clear);
  } catch (error) {
    if (error instanceof RangeError) throw new LdapError('constraintViolation', error.message);
    throw error;
  }
}
