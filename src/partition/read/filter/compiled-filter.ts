import type { AttributeType } from '../../../schema/schema-types.js';
import { EMPTY } from '../../../store/row.js';
import type { EvaluatedTypes } from '../../model/large.js';
import type { Sight } from '../../model/viewer.js';

/**
 * The result of a filter, in the three-valued logic of RFC 4511 §4.5.1.7: an Undefined term is neither true nor false,
 * and NOT of Undefined is Undefined. Compiled filters are evaluated on packed master rows.
 */
export type Tri = 0 | 1 | 2;
export const FALSE: Tri = 0;
export const TRUE: Tri = 1;
export const UNDEFINED: Tri = 2;

/** The entry on which a filter is evaluated. The search sets the fields that `FilterInputs` requires. */
export interface Candidate {
  /** The entryUUID. Absent where no search of stored entries evaluates the filter. */
  id?: Buffer;
  /** Packed master row. Lacks attributes by which the viewer may not search. */
  row: Buffer;
  dn: Buffer;
  hasSubordinates: boolean;
  numSubordinates: number;
  /** The viewer's rights on the attributes of the entry; undefined: all except secrets. */
  sight: Sight | undefined;
  /** Large values by qualifier (Latin-1), if the filter tests values and the row has large ones. */
  largeValues: ReadonlyMap<string, Buffer> | undefined;
  /** Names of the entry's groups (`Dn.norm`, Latin-1). Absent: not known yet, and terms on groups are Undefined. */
  groups?: ReadonlySet<string>;
  /** Like `groups`, without nested groups. */
  directGroups?: ReadonlySet<string>;
  /** Of the groups that the filter names, those of the entry. Terms on other groups are Undefined. */
  namedGroups?: ReadonlySet<string> | undefined;
  /** Whether a chain contains the entry. Absent: not known yet, and terms on chains are Undefined. */
  isInChain?: (chain: Chain) => boolean;
}

/** Returns an empty candidate, which the caller fills in and reuses. An object made by a spread would be slow. */
export function emptyCandidate(): Candidate {
  return {
    row: EMPTY,
    dn: EMPTY,
    hasSubordinates: false,
    numSubordinates: 0,
    sight: undefined,
    largeValues: undefined,
  };
}

/** The entries from which references lead to one of some given entries, its ends. Finding them takes reads. */
export interface Chain {
  /** `chain`: values lead to an end, directly or over other entries. `url`: a URL of the group selects an end. */
  readonly kind: 'chain' | 'url';
  /** `chain`: the attribute whose values name the next entry. `url`: the attribute with the URLs. */
  readonly type: AttributeType;
  /** Normal forms of the DNs of the ends. */
  readonly endDns: readonly Buffer[];
  /** Normal form of an object class that all entries in the chain have. */
  readonly classNorm?: Buffer | undefined;
}

/** The index rows of a term. Normal forms are not cut yet. */
export type Lookup =
  | { readonly kind: 'equality'; readonly norm: Buffer }
  /** The value equals one of several normal forms, which are sorted and distinct. */
  | { readonly kind: 'anyOf'; readonly norms: readonly Buffer[] }
  | { readonly kind: 'presence' }
  | { readonly kind: 'from' | 'upTo'; readonly norm: Buffer }
  | {
      readonly kind: 'pattern';
      readonly initial: Buffer | undefined;
      readonly any: readonly Buffer[];
      readonly final: Buffer | undefined;
    };

/** Returns the normal form of a value; undefined if the value does not fit the rule. */
export type Normalize = (value: Buffer) => Buffer | undefined;

/** Tests a value by its normal form. */
export interface FormTest {
  readonly normalize: Normalize;
  matches(norm: Buffer): boolean;
  /** For a test of equality with one value: its normal form as Latin-1. */
  readonly equalNorm?: string;
}

export interface Term {
  readonly kind: 'term';
  /** The type in the filter and its subtypes, without hidden types. */
  readonly types: readonly AttributeType[];
  /** The index rows that have all matching entries. Undefined: neither an index nor a store filter helps. */
  readonly lookup: Lookup | undefined;
  /** A group (`Dn.norm`). The term is True only for its members. */
  readonly group?: Buffer | undefined;
  /** A chain. The term is True for its entries and for the entries of `lookup`. */
  readonly chain?: Chain | undefined;
  /**
   * Ids of entries, concatenated and sorted, for which the term may be True, beside those of `lookup`, for reasons that
   * no store filter knows.
   */
  readonly moreIds?: Buffer | undefined;
  /** Whether the term, but for `chain` and `moreIds`, is True for the entries of `lookup` and False for all others. */
  readonly isExact: boolean;
  evaluate(candidate: Candidate): Tri;
}

export type CompiledFilter =
  | Term
  | { readonly kind: 'and' | 'or'; readonly parts: readonly CompiledFilter[] }
  | { readonly kind: 'not'; readonly part: CompiledFilter }
  | { readonly kind: 'undefined'; readonly reason: string };

/** The inputs that a filter needs besides the row. */
export interface FilterInputs {
  needsDn: boolean;
  needsSubordinates: boolean;
  /** Whether the filter tests groups of the entry. Only needed while the filter is Undefined without them. */
  needsGroups: boolean;
  /** Like `needsGroups`, without nested groups. */
  needsDirectGroups: boolean;
  /** Whether the filter tests pwdAccountLockedTime, which account states may have. */
  needsLockTimes: boolean;
  /** The groups that the filter names (`Dn.norm`, Latin-1). */
  readonly groupNames: string[];
  /** The chains in the filter. Only needed while the filter is Undefined without them. */
  readonly chains: Chain[];
  /** Types whose values the filter tests, not only for presence. Their large values have to be read. */
  valueTypes: EvaluatedTypes;
}

export function evaluate(filter: CompiledFilter, candidate: Candidate): Tri {
  switch (filter.kind) {
    case 'term':
      return filter.evaluate(candidate);
    case 'undefined':
      return UNDEFINED;
    case 'not': {
      const t = evaluate(filter.part, candidate);
      return t === UNDEFINED ? UNDEFINED : t === TRUE ? FALSE : TRUE;
    }
    default: {
      const decidingResult = filter.kind === 'and' ? FALSE : TRUE;
      let result: Tri = decidingResult === FALSE ? TRUE : FALSE;
      for (const operand of filter.parts) {
        const t = evaluate(operand, candidate);
        if (t === decidingResult) return decidingResult;
        if (t === UNDEFINED) result = UNDEFINED;
      }
      return result;
    }
  }
}

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
