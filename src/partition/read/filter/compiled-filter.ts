import type { AttributeType } from '../../../schema/schema-types.js';
import type { ValuesNeeded } from '../../model/large.js';
import type { Sight } from '../viewer/viewer.js';

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
  /** What the viewer may see of the entry; undefined: all but secrets. What it may not search for is not in `row`. */
  sight: Sight | undefined;
  /** Values over 64 KiB by latin-1 qualifier, when the filter looks into values and the row has such. */
  large: ReadonlyMap<string, Buffer> | undefined;
}

/** How a term can be found in an index; `norm`s are not yet cut. */
export type Lookup =
  | { readonly kind: 'equality'; readonly norm: Buffer }
  /** Equal to one of several: at least two, rising, each once. */
  | { readonly kind: 'anyOf'; readonly norms: readonly Buffer[] }
  | { readonly kind: 'presence' }
  | { readonly kind: 'from' | 'upTo'; readonly norm: Buffer }
  | {
      readonly kind: 'pattern';
      readonly initial: Buffer | undefined;
      readonly any: readonly Buffer[];
      readonly final: Buffer | undefined;
    };

/** Normal form of a value; undefined where it does not fit the rule. */
export type Normalize = (value: Buffer) => Buffer | undefined;

/** A test of values by their normal forms. */
export interface FormTest {
  readonly normalize: Normalize;
  matches(form: Buffer): boolean;
  /** Where it is equality with one form: that form as Latin-1. */
  readonly equal?: string;
}

export interface Term {
  readonly kind: 'term';
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
  values: ValuesNeeded;
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
