import type { AttributeType } from '../../schema/schema-types.js';
import { type DraftAttribute, type DraftValue, nextIndex } from './draft.js';
import { largePointer } from './entry-cells.js';
import { LARGE_VALUE } from './thresholds.js';

/** Identity of a value in its attribute: the same for equal values, and short even for long values. */
export function valueName(type: AttributeType, value: Buffer): string {
  const form = type.equality?.normalize(value) ?? value;
  return (form.length > LARGE_VALUE ? largePointer(form) : form).toString('latin1');
}

/** The values of one attribute during a series of changes. Each change takes constant time. */
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
      // Equal values should not exist, but stored duplicates are kept. `\u0100` does not occur in a name.
      this.#byName.set(this.#byName.has(name) ? `${name}\u0100${value.index}` : name, value);
    }
  }

  get isEmpty(): boolean {
    return this.#byName.size === 0 && !this.attribute.rest;
  }

  /** Returns false if the value exists. */
  add(name: string, bytes: Buffer): boolean {
    if (this.#byName.has(name)) return false;
    this.#byName.set(name, { bytes, index: this.#next++ });
    return true;
  }

  /** Returns false if the value does not exist. */
  delete(name: string): boolean {
    return this.#byName.delete(name);
  }

  close(): DraftAttribute {
    return { ...this.attribute, values: [...this.#byName.values()] };
  }
}
