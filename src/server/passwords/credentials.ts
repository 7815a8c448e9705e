import type { Modification } from '../../ldap/ldap-types.js';
import { DescriptionTable, type StoredDescription } from '../../partition/model/descriptions.js';
import { EntryReader } from '../../partition/model/entry-reader.js';
import { versionOf } from '../../partition/model/tables.js';
import type { Schema } from '../../schema/index.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import { type EntryLock, lockPredicateOf, mergeLock } from './account-lock.js';
import { APPLICATION_PASSWORD } from './application-password.js';
import { addValue, isAccountAttribute, type RowAccount } from './row-account.js';
import { TOTP_SECRET } from './second-factor.js';

const USER_PASSWORD = '2.5.4.35';

export interface RowCredentials {
  readonly version: bigint;
  /** Stored values of userPassword without options: views into the row. */
  readonly passwords: readonly Buffer[];
  /** Stored application passwords: views into the row. */
  readonly applications: readonly Buffer[];
  /** Stored TOTP secret: a view into the row. */
  readonly totp: Buffer | undefined;
  /** The lock of the passwords by an attribute of the entry. */
  readonly lock: EntryLock | undefined;
  /** Other account attributes in the row. */
  readonly account: RowAccount | undefined;
}

/** Whether binds are verified against the values of an attribute: userPassword without options. */
export function isCredential({ type, options }: AttributeDescription): boolean {
  return type.oid === USER_PASSWORD && options.length === 0;
}

/** Role of an attribute in binds. */
const Kind = { credential: 1, lock: 2, account: 3, application: 4, totp: 5, other: 6 } as const;

const NAME_ATTRIBUTES: ReadonlySet<string> = new Set(['uid', 'cn', 'sn', 'givenname', 'displayname', 'mail']);

/** Reads passwords, locks and account attributes from packed master rows. */
export class CredentialReader {
  readonly #reader: EntryReader;
  readonly #shadow: boolean;
  /** Cache of `Kind` by description number. */
  readonly #kinds = new Uint8Array(DescriptionTable.MAX + 1);

  /** `shadow`: whether attributes of RFC 2307 are read, as the setting `passwords.shadow` says. */
  constructor(table: DescriptionTable, shadow = false) {
    this.#reader = new EntryReader(table);
    this.#shadow = shadow;
  }

  read(row: Buffer): RowCredentials {
    const { count, stored, firsts } = this.#reader.read(row);
    const passwords: Buffer[] = [];
    const applications: Buffer[] = [];
    let totp: Buffer | undefined;
    let lock: EntryLock | undefined;
    let account: RowAccount | undefined;
    for (let i = 0; i < count; i++) {
      const kind = this.#kindOf(stored[i]!);
      if (kind === Kind.other) continue;
      for (let v = firsts[i]!; v < firsts[i + 1]!; v++) {
        const value = this.#reader.value(v);
        if (kind === Kind.credential) passwords.push(value);
        else if (kind === Kind.application) applications.push(value);
        else if (kind === Kind.totp) totp = value;
        else if (kind === Kind.account) account = addValue(account, nameOf(stored[i]!), value);
        else if (lockPredicateOf(stored[i]!.description)!(value)) lock = mergeLock(stored[i]!.description, value, lock);
      }
    }
    return { version: versionOf(row), passwords, applications, totp, lock, account };
  }

  /** Returns the names of the person in an entry. */
  namesIn(row: Buffer): string[] {
    const { count, stored, firsts } = this.#reader.read(row);
    const names: string[] = [];
    for (let i = 0; i < count; i++) {
      if (!NAME_ATTRIBUTES.has(nameOf(stored[i]!))) continue;
      for (let v = firsts[i]!; v < firsts[i + 1]!; v++) names.push(this.#reader.value(v).toString());
    }
    return names;
  }

  #kindOf(stored: StoredDescription): number {
    const known = this.#kinds[stored.number];
    if (known) return known;
    const { description } = stored;
    const kind = kindOf(description, this.#shadow);
    if (stored.number < this.#kinds.length - 1) this.#kinds[stored.number] = kind;
    return kind;
  }
}

function kindOf(description: AttributeDescription, shadow: boolean): number {
  if (isCredential(description)) return Kind.credential;
  if (lockPredicateOf(description)) return Kind.lock;
  const { type, options } = description;
  if (options.length > 0) return Kind.other;
  if (type.name === APPLICATION_PASSWORD) return Kind.application;
  if (type.name === TOTP_SECRET) return Kind.totp;
  return isAccountAttribute(type.name.toLowerCase(), shadow) ? Kind.account : Kind.other;
}

function nameOf({ description }: StoredDescription): string {
  return description.type.name.toLowerCase();
}

/** Returns the credentials of an entry with the credentials `stored` after the stored form of `changes`. */
export function credentialsAfter(
  schema: Schema,
  stored: readonly Buffer[],
  changes: readonly Modification[],
): readonly Buffer[] {
  let after = stored;
  for (const { operation, attribute } of changes) {
    if (!isCredential(schema.requireDescription(attribute.type))) continue;
    const { values } = attribute;
    if (operation === 'replace') after = values;
    else if (operation === 'add') after = [...after, ...values];
    else after = values.length === 0 ? [] : after.filter((value) => !values.some((deleted) => deleted.equals(value)));
  }
  return after.map((value) => Buffer.from(value));
}

/** Whether two lists contain the same values in any order. */
export function sameValues(a: readonly Buffer[], b: readonly Buffer[]): boolean {
  if (a.length !== b.length) return false;
  const left = [...b];
  return a.every((value) => {
    const at = left.findIndex((other) => other.equals(value));
    if (at >= 0) left.splice(at, 1);
    return at >= 0;
  });
}
