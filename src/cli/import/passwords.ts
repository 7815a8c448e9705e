import { BoundedMap } from '../../cache/bounded-map.js';
import type { Change, PartialAttribute } from '../../ldap/types.js';
import { isPassword } from '../../partition/index.js';
import {
  clearText,
  givenAs,
  hashPasswordFast,
  isAffordable,
  MAX_STORED_BYTES,
  type PasswordPolicy,
} from '../../password/index.js';
import type { Schema } from '../../schema/index.js';

const MAX_KNOWN = 1000;

/**
 * Hashes passwords that come in the clear as {SSHA512}, leaves out those that cost too much, and counts both and those
 * that nobody can bind with.
 */
export class ImportedPasswords {
  hashed = 0;
  foreign = 0;
  /** Left out: verifying them costs more than the settings allow. */
  dear = 0;
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
  #attribute(attribute: PartialAttribute): PartialAttribute {
    if (!this.#holds(attribute.type)) return attribute;
    const values: Buffer[] = [];
    for (const value of attribute.values) {
      const given = givenAs(value);
      if (given === 'clear') {
        this.hashed++;
        values.push(hashPasswordFast(clearText(value)));
      } else if (value.length > MAX_STORED_BYTES || !isAffordable(value, this.#policy)) this.dear++;
      else {
        if (given === 'foreign') this.foreign++;
        values.push(value);
      }
    }
    return { type: attribute.type, values };
  }

  /** The same array where nothing is in the clear. */
  attributes(attributes: readonly PartialAttribute[]): readonly PartialAttribute[] {
    for (const attribute of attributes) {
      if (this.#holds(attribute.type))
        return attributes.map((one) => this.#attribute(one)).filter(({ values }) => values.length > 0);
    }
    return attributes;
  }

  changes(changes: readonly Change[]): readonly Change[] {
    return changes.flatMap(({ operation, attribute }) => {
      if (operation === 'delete') return { operation, attribute };
      const made = this.#attribute(attribute);
      const isLeftOut = made.values.length === 0 && attribute.values.length > 0;
      return isLeftOut && operation === 'add' ? [] : { operation, attribute: made };
    });
  }
}
