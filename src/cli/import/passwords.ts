import { BoundedMap } from '../../cache/bounded-map.js';
import type { Modification, PartialAttribute } from '../../ldap/types.js';
import { isPassword } from '../../partition/index.js';
import {
  clearText,
  givenAs,
  hashPasswordFast,
  isAffordable,
  kindText,
  MAX_STORED_BYTES,
  type PasswordPolicy,
} from '../../password/index.js';
import type { Schema } from '../../schema/index.js';

const MAX_KNOWN = 1000;

/** What was made of the passwords of a record, or of many. */
export class PasswordCounts {
  /** Came in the clear. */
  hashed = 0;
  /** Nobody can bind with them. */
  foreign = 0;
  /** Kinds of the foreign ones, for people. */
  readonly kinds = new Set<string>();
  /** Left out: verifying them costs more than the settings allow. */
  dear = 0;

  add(other: PasswordCounts): void {
    this.hashed += other.hashed;
    this.foreign += other.foreign;
    this.dear += other.dear;
    for (const kind of other.kinds) this.kinds.add(kind);
  }
}

/** Hashes passwords that come in the clear as {SSHA512}, and leaves out those that cost too much. */
export class ImportedPasswords {
  readonly #policy: PasswordPolicy;
  readonly #schema: Schema;
  /** By description as given: whether it holds passwords. */
  readonly #known = new BoundedMap<string, boolean>(MAX_KNOWN);

  constructor(schema: Schema, policy: PasswordPolicy) {
    this.#schema = schema;
    this.#policy = policy;
  }

  #holds(type: string): boolean {
    let holds = this.#known.get(type);
    if (holds === undefined) {
      const description = this.#schema.describe(type);
      holds = description !== undefined && isPassword(description.type);
      this.#known.set(type, holds);
    }
    return holds;
  }

  /** The attribute itself where nothing changes; without values where all of them cost too much. */
  #attribute(attribute: PartialAttribute, counts: PasswordCounts): PartialAttribute {
    if (!this.#holds(attribute.type)) return attribute;
    const values: Buffer[] = [];
    for (const value of attribute.values) {
      const given = givenAs(value);
      if (given === 'clear') {
        counts.hashed++;
        values.push(hashPasswordFast(clearText(value)));
      } else if (value.length > MAX_STORED_BYTES || !isAffordable(value, this.#policy)) counts.dear++;
      else {
        if (given === 'foreign') {
          counts.foreign++;
          counts.kinds.add(kindText(value));
        }
        values.push(value);
      }
    }
    return { type: attribute.type, values };
  }

  /** Whether any of them holds passwords. */
  anyIn(attributes: readonly PartialAttribute[]): boolean {
    for (const { type } of attributes) if (this.#holds(type)) return true;
    return false;
  }

  /** As they are to be stored, and counted. */
  attributes(attributes: readonly PartialAttribute[], counts: PasswordCounts): readonly PartialAttribute[] {
    if (!this.anyIn(attributes)) return attributes;
    return attributes.map((one) => this.#attribute(one, counts)).filter(({ values }) => values.length > 0);
  }

  changes(changes: readonly Modification[], counts: PasswordCounts): readonly Modification[] {
    return changes.flatMap(({ operation, attribute }) => {
      if (operation === 'delete') return { operation, attribute };
      const made = this.#attribute(attribute, counts);
      const isLeftOut = made.values.length === 0 && attribute.values.length > 0;
      return isLeftOut && operation === 'add' ? [] : { operation, attribute: made };
    });
  }
}
