import type { Modification } from '../../ldap/ldap-types.js';
import { DescriptionTable, type StoredDescription } from '../../partition/model/descriptions.js';
import { EntryReader } from '../../partition/model/entry-reader.js';
import { versionOf } from '../../partition/model/tables.js';
import type { Schema } from '../../schema/index.js';
import type { AttributeDescription } from '../../schema/schema-types.js';

const USER_PASSWORD = '2.5.4.35';

/** What a row says about its owner's credentials. */
export interface RowCredentials {
  readonly version: bigint;
  /** Values of userPassword as stored, but for those under options: views into the row. */
  readonly passwords: readonly Buffer[];
}

/** Whether a bind is verified against values of the description: userPassword itself. */
export function isCredential({ type, options }: AttributeDescription): boolean {
  return type.oid === USER_PASSWORD && options.length === 0;
}

/** Finds passwords in packed master rows. */
export class Credentials {
  readonly #reader: EntryReader;
  /** By description number: 1 a credential, 2 something else. */
  readonly #kinds = new Uint8Array(DescriptionTable.MAX + 1);

  constructor(table: DescriptionTable) {
    this.#reader = new EntryReader(table);
  }

  ofRow(row: Buffer): RowCredentials {
    const { count, stored, firsts } = this.#reader.read(row);
    const passwords: Buffer[] = [];
    for (let i = 0; i < count; i++) {
      if (!this.#isCredential(stored[i]!)) continue;
      for (let v = firsts[i]!; v < firsts[i + 1]!; v++) passwords.push(this.#reader.value(v));
    }
    return { version: versionOf(row), passwords };
  }

  #isCredential(stored: StoredDescription): boolean {
    const known = this.#kinds[stored.number];
    if (known) return known === 1;
    const credential = isCredential(stored.description);
    if (stored.number < this.#kinds.length - 1) this.#kinds[stored.number] = credential ? 1 : 2;
    return credential;
  }
}

/** The credentials that are left when `changes`, as they are to be stored, are made to an entry that has `stored`. */
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
    else after = values.length === 0 ? [] : after.filter((value) => !values.some((gone) => gone.equals(value)));
  }
  return after.map((value) => Buffer.from(value));
}

/** The same values, in whatever order. */
export function sameValues(a: readonly Buffer[], b: readonly Buffer[]): boolean {
  if (a.length !== b.length) return false;
  const left = [...b];
  return a.every((value) => {
    const at = left.findIndex((other) => other.equals(value));
    if (at >= 0) left.splice(at, 1);
    return at >= 0;
  });
}
