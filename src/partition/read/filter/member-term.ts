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
 * Whether an entry has a member: among its values, or because one of its URLs finds it. A dynamic group's members are
 * not gone through: it is asked of the one.
 */
export class MemberTerm implements Term {
  readonly kind = 'term';
  readonly chain: Chain;
  readonly #values: Term;
  readonly #hasUrl: Term;

  /** `values`, `hasUrl`: terms over the values of `member`, and on the presence of memberURL. */
  constructor(values: Term, hasUrl: Term, chain: Chain) {
    this.#values = values;
    this.#hasUrl = hasUrl;
    this.chain = chain;
  }

  get exact(): boolean {
    return this.#values.exact;
  }

  get types(): readonly AttributeType[] {
    return this.#values.types;
  }

  get lookup(): Lookup | undefined {
    return this.#values.lookup;
  }

  evaluate(candidate: Candidate): Tri {
    if (this.#values.evaluate(candidate) === TRUE) return TRUE;
    if (this.#hasUrl.evaluate(candidate) !== TRUE) return FALSE;
    const { isIn } = candidate;
    return isIn ? (isIn(this.chain) ? TRUE : FALSE) : UNDEFINED;
  }
}
