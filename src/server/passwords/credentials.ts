import type { Modification } from '../../ldap/ldap-types.js';
import { DescriptionTable, type StoredDescription } from '../../partition/model/descriptions.js';
import { EntryReader } from '../../partition/model/entry-reader.js';
import { versionOf } from '../../partition/model/tables.js';
import type { Schema } from '../../schema/index.js';
import type { AttributeDescription } from '../../schema/schema-types.js';
import { type EntryLock, lockPredicate, mergeLock } from './account-lock.js';
import { APPLICATION_PASSWORD } from './application-password.js';
import { addValue, isAccountAttribute, type RowAccount, withShadow } from './row-account.js';
import { TOTP_SECRET } from './second-factor.js';

const USER_PASSWORD_OID = '2.5.4.35';

export interface RowCredentials {
  readonly version: bigint;
  /** Stored values of userPassword without options: views into the row. */
  readonly passwords: readonly Buffer[];
  /** Stored application passwords: views into the row. */
  readonly applications: readonly Buffer[];
  /** Stored TOTP secret: a view into the row. */
  readonly totp: Buffer | undefined;
  /** How an attribute of the entry locks the account; undefined: no attribute does. */
  readonly lock: EntryLock | undefined;
  /** Other account attributes in the row. */
  readonly account: RowAccount | undefined;
}

/** Whether binds are verified against the values of an attribute: userPassword without options. */
export function isCredential({ type, options }: AttributeDescription): boolean {
  return type.oid === USER_PASSWORD_OID && options.length === 0;
}

/** What an attribute is to a bind. */
const BindRole = { credential: 1, lock: 2, account: 3, application: 4, totp: 5, other: 6 } as const;

const NAME_ATTRIBUTES: ReadonlySet<string> = new Set(['uid', 'cn', 'sn', 'givenname', 'displayname', 'mail']);

/** Reads passwords, locks and account attributes from packed master rows. */
export class CredentialReader {
  readonly #reader: EntryReader;
  readonly #readsShadow: boolean;
  /** Cache of `BindRole` by description number. */
  readonly #rolesByNumber = new Uint8Array(DescriptionTable.MAX + 1);

  /** `shadow`: whether attributes of RFC 2307 are read, as the setting `passwords.shadow` says. */
  constructor(table: DescriptionTable, shadow = false) {
    this.#reader = new EntryReader(table);
    this.#readsShadow = shadow;
  }

  read(row: Buffer): RowCredentials {
    const { attributeCount: count, descriptions: stored, firstValues: firsts } = this.#reader.read(row);
    const passwords: Buffer[] = [];
    const applications: Buffer[] = [];
    let totp: Buffer | undefined;
    let lock: EntryLock | undefined;
    let account: RowAccount | undefined;
    for (let i = 0; i < count; i++) {
      const role = this.#cachedRole(stored[i]!);
      if (role === BindRole.other) continue;
      for (let v = firsts[i]!; v < firsts[i + 1]!; v++) {
        const value = this.#reader.value(v);
        if (role === BindRole.credential) passwords.push(value);
        else if (role === BindRole.application) applications.push(value);
        else if (role === BindRole.totp) totp = value;
        else if (role === BindRole.account) account = addValue(account, lowerCaseName(stored[i]!), value);
        else if (lockPredicate(stored[i]!.description)!(value)) lock = mergeLock(stored[i]!.description, value, lock);
      }
    }
    if (account && this.#readsShadow) account = withShadow(account);
    return { version: versionOf(row), passwords, applications, totp, lock, account };
  }

  /** Returns the values of uid, cn, sn, givenName and displayName in a row, and of mail what stands before the `@`. */
  personNames(row: Buffer): string[] {
    const { attributeCount: count, descriptions: stored, firstValues: firsts } = this.#reader.read(row);
    const names: string[] = [];
    for (let i = 0; i < count; i++) {
      const type = lowerCaseName(stored[i]!);
      if (!NAME_ATTRIBUTES.has(type)) continue;
      for (let v = firsts[i]!; v < firsts[i + 1]!; v++) {
        const name = this.#reader.value(v).toString();
        names.push(type === 'mail' ? name.replace(/@[^@]*$/, '') : name);
      }
    }
    return names;
  }

  #cachedRole(stored: StoredDescription): number {
    const cachedRole = this.#rolesByNumber[stored.number];
    if (cachedRole) return cachedRole;
    const { description } = stored;
    const role = bindRole(description, this.#readsShadow);
    if (stored.number < this.#rolesByNumber.length - 1) this.#rolesByNumber[stored.number] = role;
    return role;
  }
}

function bindRole(description: AttributeDescription, shadow: boolean): number {
  if (isCredential(description)) return BindRole.credential;
  if (lockPredicate(description)) return BindRole.lock;
  const { type, options } = description;
  if (options.length > 0) return BindRole.other;
  if (type.name === APPLICATION_PASSWORD) return BindRole.application;
  if (type.name === TOTP_SECRET) return BindRole.totp;
  return isAccountAttribute(type.name.toLowerCase(), shadow) ? BindRole.account : BindRole.other;
}

function lowerCaseName({ description }: StoredDescription): string {
  return description.type.name.toLowerCase();
}

/** Returns the passwords of an entry that has the passwords `stored`, after `changes` with hashed values. */
export function credentialsAfter(
  schema: Schema,
  stored: readonly Buffer[],
  changes: readonly Modification[],
): readonly Buffer[] {
  let passwords = stored;
  for (const { operation, attribute } of changes) {
    if (!isCredential(schema.requireDescription(attribute.type))) continue;
    const { values } = attribute;
    if (operation === 'replace') passwords = values;
    else if (operation === 'add') passwords = [...passwords, ...values];
    else
      passwords =
        values.length === 0 ? [] : passwords.filter((value) => !values.some((deleted) => deleted.equals(value)));
  }
  return passwords.map((value) => Buffer.from(value));
}

/** Whether two lists contain the same values in any order. */
export function sameValues(a: readonly Buffer[], b: readonly Buffer[]): boolean {
  if (a.length !== b.length) return false;
  const unmatched = [...b];
  return a.every((value) => {
    const index = unmatched.findIndex((other) => other.equals(value));
    if (index >= 0) unmatched.splice(index, 1);
    return index >= 0;
  });
}
