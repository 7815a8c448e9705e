import type { Change, PartialAttribute } from '../../ldap/types.js';
import { clearText, hashPasswordFast, isHashed } from '../../password/index.js';

const PASSWORD = 'userpassword';

function isPassword(type: string): boolean {
  return type.length === PASSWORD.length && type.toLowerCase() === PASSWORD;
}

/** Hashes passwords that come in the clear as {SSHA512}, and counts them. */
export class ClearPasswords {
  hashed = 0;

  #attribute(attribute: PartialAttribute): PartialAttribute {
    if (!isPassword(attribute.type) || attribute.values.every(isHashed)) return attribute;
    const values = attribute.values.map((value) => {
      if (isHashed(value)) return value;
      this.hashed++;
      return hashPasswordFast(clearText(value));
    });
    return { type: attribute.type, values };
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
