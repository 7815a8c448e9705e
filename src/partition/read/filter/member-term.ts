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
 * A term on `member`. True if a value matches, or if a URL of the entry, a dynamic group, selects the member. Other
 * members of a dynamic group are not read.
 */
export class MemberTerm implements Term {
  readonly kind = 'term';
  readonly chain: Chain;
  readonly #valuesTerm: Term;
  readonly #urlPresence: Term;

  /** `valuesTerm`: the term on the values of `member`. `urlPresence`: the term on the presence of memberURL. */
  constructor(valuesTerm: Term, urlPresence: Term, chain: Chain) {
    this.#valuesTerm = valuesTerm;
    this.#urlPresence = urlPresence;
    this.chain = chain;
  }

  get isExact(): boolean {
    return this.#valuesTerm.isExact;
  }

  get types(): readonly AttributeType[] {
    return this.#valuesTerm.types;
  }

  get lookup(): Lookup | undefined {
    return this.#valuesTerm.lookup;
  }

  evaluate(candidate: Candidate): Tri {
    if (this.#valuesTerm.evaluate(candidate) === TRUE) return TRUE;
    if (this.#urlPresence.evaluate(candidate) !== TRUE) return FALSE;
    const { isInChain } = candidate;
    return isInChain ? (isInChain(this.chain) ? TRUE : FALSE) : UNDEFINED;
  }
}
