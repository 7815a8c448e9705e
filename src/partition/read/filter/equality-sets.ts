import type { AttributeDescription } from '../../../schema/schema-types.js';

/** The asserted values in an OR of equalities, by attribute description. */
export class EqualitySets {
  readonly #sets = new Map<AttributeDescription, Set<string>>();

  /** Adds a value in its normal form. */
  add(description: AttributeDescription, norm: Buffer): void {
    const set = this.#sets.get(description);
    const normText = norm.toString('latin1');
    if (set) set.add(normText);
    else this.#sets.set(description, new Set([normText]));
  }

  /** Yields the descriptions, each with its normal forms as Latin-1. */
  *[Symbol.iterator](): Generator<{ readonly description: AttributeDescription; readonly forms: ReadonlySet<string> }> {
    for (const [description, forms] of this.#sets) yield { description, forms };
  }
}
