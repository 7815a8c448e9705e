import type { Change, PartialAttribute } from '../../ldap/types.js';
import { clearText, givenAs, hashPasswordFast } from '../../password/index.js';

const PASSWORD = 'userpassword';

function isPassword(type: string): boolean {
  return type.length === PASSWORD.length && type.toLowerCase() === PASSWORD;
}

/** Hashes passwords that come in the clear as {SSHA512}, and counts them and those that nobody can bind with. */
export class ClearPasswords {
  hashed = 0;
  foreign = 0;

  #attribute(attribute: PartialAttribute): PartialAttribute {
    if (!isPassword(attribute.type)) return attribute;
    let clear = 0;
    for (const value of attribute.values) {
      const given = givenAs(value);
      if (given === 'clear') clear++;
      else if (given === 'foreign') this.foreign++;
    }
    if (clear === 0) return attribute;
    this.hashed += clear;
    const hash = (value: Buffer) => (givenAs(value) === 'clear' ? hashPasswordFast(clearText(value)) : value);
    return { type: attribute.type, values: attribute.values.map(hash) };
  }

  /** The same array where nothing is in the clear. */
  attributes(attributes: readonly PartialAttribute[]): readonly PartialAttribute[] {
    for (const attribute of attributes) {
      if (isPassword(attribute.type)) return attributes.map((one) => this.#attribute(one));
    }
    return attributes;
  }

  changes(changes: readonly Change[]): readonly Change[] {
    return changes.map((change) =>
      change.operation === 'delete'
        ? change
        : { operation: change.operation, attribute: this.#attribute(change.attribute) },
    );
  }
}
