import type { AttributeType } from '../../../schema/schema-types.js';
import {
  type Candidate,
  type Chain,
  FALSE,
  type Lookup,
  type Term,
  TRUE,
  type Tri,
  UNDEFINED,
} from './compiled-filter.js';

/**
 * A term on `member`: true where a value matches, or where a URL of the entry, a dynamic group, finds the member. The
 * other members of a dynamic group are not read.
 */
export class MemberTerm implements Term {
  readonly kind = 'term';
  readonly chain: Chain;
  readonly #values: Term;
  readonly #urlPresence: Term;

  /** `values`: the term on the values of `member`. `urlPresence`: the term on the presence of memberURL. */
  constructor(values: Term, urlPresence: Term, chain: Chain) {
    this.#values = values;
    this.#urlPresence = urlPresence;
    this.chain = chain;
  }

  get isExact(): boolean {
    return this.#values.isExact;
  }

  get types(): readonly AttributeType[] {
    return this.#values.types;
  }

  get lookup(): Lookup | undefined {
    return this.#values.lookup;
  }

  evaluate(candidate: Candidate): Tri {
    if (this.#values.evaluate(candidate) === TRUE) return TRUE;
    if (this.#urlPresence.evaluate(candidate) !== TRUE) return FALSE;
    const { isInChain } = candidate;
    return isInChain ? (isInChain(this.chain) ? TRUE : FALSE) : UNDEFINED;
  }
}
