import type { AttributeType } from '../../schema/schema-types.js';
import { type DraftAttribute, type DraftValue, nextIndex } from './draft.js';
import { largePointer } from './entry-cells.js';
import { LARGE_VALUE } from './thresholds.js';

/** What a value is known by among those of its attribute: equal for values that are equal, short for long ones. */
export function valueName(type: AttributeType, value: Buffer): string {
  const form = type.equality?.normalize(value) ?? value;
  return (form.length > LARGE_VALUE ? largePointer(form) : form).toString('latin1');
}

/** The values of one attribute while they are changed one by one: what that costs does not grow with their number. */
export class ValueSet {
  readonly attribute: DraftAttribute;
  readonly #byName = new Map<string, DraftValue>();
  #next: number;

  constructor(attribute: DraftAttribute) {
    this.attribute = attribute;
    this.#next = nextIndex(attribute);
    const { type } = attribute.description;
    for (const value of attribute.values) {
      const name = valueName(type, value.bytes);
      // Equal ones should not be there; they stay all the same. No name has such a character.
      this.#byName.set(this.#byName.has(name) ? `${name}\u0100${value.index}` : name, value);
    }
  }

  get isEmpty(): boolean {
    return this.#byName.size === 0 && !this.attribute.rest;
  }

  /** False when it is there. */
  add(name: string, bytes: Buffer): boolean {
    if (this.#byName.has(name)) return false;
    this.#byName.set(name, { bytes, index: this.#next++ });
    return true;
  }

  /** False when it is not there. */
  delete(name: string): boolean {
    return this.#byName.delete(name);
  }

  /** The attribute with these values. */
  close(): DraftAttribute {
    return { ...this.attribute, values: [...this.#byName.values()] };
  }
}
