import type { AttributeType } from '../../schema/schema-types.js';
import { type DraftAttribute, type DraftValue, nextIndex } from './draft.js';
import { largePointer } from './entry-cells.js';
import { LARGE_VALUE } from './thresholds.js';

/** Returns a text that is the same for equal values of an attribute. Short even for long values. */
export function valueKey(type: AttributeType, value: Buffer): string {
  const norm = type.equality?.normalize(value) ?? value;
  return (norm.length > LARGE_VALUE ? largePointer(norm) : norm).toString('latin1');
}

/** The values of one attribute while a modify changes them. Each change takes constant time. */
export class ValueSet {
  readonly attribute: DraftAttribute;
  readonly #valuesByKey = new Map<string, DraftValue>();
  #nextIndex: number;

  constructor(attribute: DraftAttribute) {
    this.attribute = attribute;
    this.#nextIndex = nextIndex(attribute);
    const { type } = attribute.description;
    for (const value of attribute.values) {
      const key = valueKey(type, value.bytes);
      // Stored duplicates, which should not exist, are kept under a changed key. `\u0100` does not occur in keys.
      this.#valuesByKey.set(this.#valuesByKey.has(key) ? `${key}\u0100${value.index}` : key, value);
    }
  }

  get isEmpty(): boolean {
    return this.#valuesByKey.size === 0 && !this.attribute.unread;
  }

  /** Adds a value. Returns false if it exists. */
  add(key: string, bytes: Buffer): boolean {
    if (this.#valuesByKey.has(key)) return false;
    this.#valuesByKey.set(key, { bytes, index: this.#nextIndex++ });
    return true;
  }

  /** Deletes a value. Returns false if it does not exist. */
  delete(key: string): boolean {
    return this.#valuesByKey.delete(key);
  }

  toAttribute(): DraftAttribute {
    return { ...this.attribute, values: [...this.#valuesByKey.values()] };
  }
}
