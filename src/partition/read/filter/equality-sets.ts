import type { AttributeDescription } from '../../../schema/schema-types.js';

/** The equalities of an OR, by what they are equalities of. */
export class EqualitySets {
  readonly #sets = new Map<AttributeDescription, Set<string>>();

  /** `form`: a normal form of the description's equality rule. */
  add(wanted: AttributeDescription, form: Buffer): void {
    const set = this.#sets.get(wanted);
    const name = form.toString('latin1');
    if (set) set.add(name);
    else this.#sets.set(wanted, new Set([name]));
  }

  /** Normal forms as Latin-1. */
  *[Symbol.iterator](): Generator<{ readonly wanted: AttributeDescription; readonly forms: ReadonlySet<string> }> {
    for (const [wanted, forms] of this.#sets) yield { wanted, forms };
  }
}
