import type { Filter } from '../ldap/types.js';
import type { AttributeType } from '../schema/types.js';

/**
 * LDAP filters compiled for evaluation over packed master rows, three-valued as RFC 4511 §4.5.1.7 says: an undefined
 * term is neither true nor false, and NOT of undefined is undefined.
 */
export type Tri = 0 | 1 | 2;
export const FALSE: Tri = 0;
export const TRUE: Tri = 1;
export const UNDEFINED: Tri = 2;

/** What evaluation may look at besides the row; filled by the search as `Needs` says. */
export interface Candidate {
  row: Buffer;
  dn: Buffer;
  hasSubordinates: boolean;
  numSubordinates: number;
  /** Values over 64 KiB by latin-1 qualifier, when the filter looks into values and the row has such. */
  large: ReadonlyMap<string, Buffer> | undefined;
}

/** How a term can be found in an index; `norm`s are not yet cut. */
export type Lookup =
  | { readonly kind: 'equality'; readonly norm: Buffer }
  | { readonly kind: 'presence' }
  | { readonly kind: 'from' | 'upTo'; readonly norm: Buffer }
  | {
      readonly kind: 'pattern';
      readonly initial: Buffer | undefined;
      readonly any: readonly Buffer[];
      readonly final: Buffer | undefined;
    };

export interface Term {
  readonly kind: 'term';
  readonly filter: Filter;
  /** The type asked for and every visible type below it. */
  readonly types: readonly AttributeType[];
  /** Undefined when neither an index nor a store filter can tell anything. */
  readonly lookup: Lookup | undefined;
  /** The lookup finds exactly the entries for which the term is true, and it is false for all others. */
  readonly exact: boolean;
  evaluate(candidate: Candidate): Tri;
}

export type CompiledFilter =
  | Term
  | { readonly kind: 'and' | 'or'; readonly of: readonly CompiledFilter[] }
  | { readonly kind: 'not'; readonly of: CompiledFilter }
  | { readonly kind: 'undefined'; readonly why: string };

export interface Needs {
  dn: boolean;
  subordinates: boolean;
  /** Types whose values are looked into, not only at their presence: large ones have to be read. */
  values: readonly AttributeType[] | 'all' | undefined;
}

export function evaluate(filter: CompiledFilter, candidate: Candidate): Tri {
  switch (filter.kind) {
    case 'term':
      return filter.evaluate(candidate);
    case 'undefined':
      return UNDEFINED;
    case 'not': {
      const t = evaluate(filter.of, candidate);
      return t === UNDEFINED ? UNDEFINED : t === TRUE ? FALSE : TRUE;
    }
    default: {
      const decides = filter.kind === 'and' ? FALSE : TRUE;
      let result: Tri = decides === FALSE ? TRUE : FALSE;
      for (const part of filter.of) {
        const t = evaluate(part, candidate);
        if (t === decides) return decides;
        if (t === UNDEFINED) result = UNDEFINED;
      }
      return result;
    }
  }
}
