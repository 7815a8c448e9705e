import type { AttributeType } from '../../../schema/schema-types.js';
import { EMPTY } from '../../../store/row.js';
import type { EvaluatedTypes } from '../../model/large.js';
import type { Sight } from '../../model/viewer.js';

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
  /** Names of the groups that the entry is in (`Dn.norm`, Latin-1); absent: not known, terms on them are Undefined. */
  groups?: ReadonlySet<string>;
  /** The same, but those by way of other groups. */
  ownGroups?: ReadonlySet<string>;
  /** The same of some of these: what these leave open is Undefined. */
  someGroups?: ReadonlySet<string> | undefined;
  /** Whether the entry is in the chain; absent: not known, terms on chains are Undefined. */
  isIn?: (chain: Chain) => boolean;
}

/** To be filled in. */
export function emptyCandidate(): Candidate {
  return { row: EMPTY, dn: EMPTY, hasSubordinates: false, numSubordinates: 0, sight: undefined, large: undefined };
}

/** What refers to one of several entries in a way that the entry at hand does not tell. */
export interface Chain {
  /** `chain`: by values, directly or by way of others; `url`: dynamic groups, whose URLs find it. */
  readonly by: 'chain' | 'url';
  /** The attribute whose values refer. */
  readonly type: AttributeType;
  /** Normal forms of the DNs where the chains end. */
  readonly ends: readonly Buffer[];
  /** Normal form of an object class that all entries of it have. */
  readonly among?: Buffer | undefined;
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
  /** The group (`Dn.norm`) in whose members alone the term can be true. */
  readonly group?: Buffer | undefined;
  /** The chain whose entries are those for which the term is true; beside a lookup: together with those it finds. */
  readonly chain?: Chain | undefined;
  /** The lookup finds all for which the term is true but those of the chain, and no others: of these it is false. */
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
  /** The groups of an entry, where what is known without them leaves the filter Undefined. */
  groups: boolean;
  /** The same, but those by way of other groups. */
  ownGroups: boolean;
  /** Groups that terms name (`Dn.norm`, Latin-1). */
  readonly named: string[];
  /** Those that terms ask for, where what is known without them leaves the filter Undefined. */
  readonly chains: Chain[];
  /** Types whose values are looked into, not only at their presence: large ones have to be read. */
  values: EvaluatedTypes;
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
