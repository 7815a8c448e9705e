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

/** The entry on which a filter is evaluated. The search fills in the inputs that `FilterInputs` lists. */
export interface Candidate {
  /** Packed master row, without attributes that the viewer may not search by. */
  row: Buffer;
  dn: Buffer;
  hasSubordinates: boolean;
  numSubordinates: number;
  /** The viewer's rights to the attributes of the entry; undefined: all attributes except secrets. */
  sight: Sight | undefined;
  /** Values over 64 KiB by qualifier (Latin-1), if the filter tests values and the row has large ones. */
  largeValues: ReadonlyMap<string, Buffer> | undefined;
  /** Names of the groups of the entry (`Dn.norm`, Latin-1). Absent: not known, and terms on groups are Undefined. */
  groups?: ReadonlySet<string>;
  /** The same without groups of groups. */
  directGroups?: ReadonlySet<string>;
  /** The groups of the entry among the groups that the filter names; terms on other groups are Undefined. */
  namedGroups?: ReadonlySet<string> | undefined;
  /** Whether a chain contains the entry. Absent: not known, and terms on chains are Undefined. */
  isInChain?: (chain: Chain) => boolean;
}

/** Returns a candidate to be filled in and reused. */
export function emptyCandidate(): Candidate {
  const inputs = { hasSubordinates: false, numSubordinates: 0, sight: undefined, largeValues: undefined };
  return { row: EMPTY, dn: EMPTY, ...inputs };
}

/** The set of entries that lead to one of several end entries, which can be found out only from further entries. */
export interface Chain {
  /**
   * `chain`: entries that lead to an end by values, in one or more steps. `url`: groups with a URL that finds an end.
   */
  readonly kind: 'chain' | 'url';
  /** `chain`: the attribute whose values name the next entry. `url`: the attribute with the URLs. */
  readonly type: AttributeType;
  /** Normal forms of the DNs of the end entries. */
  readonly endDns: readonly Buffer[];
  /** Normal form of an object class of all entries in the chain. */
  readonly classNorm?: Buffer | undefined;
}

/** How an index finds the entries of a term. Normal forms are not yet cut to the length of index keys. */
export type Lookup =
  | { readonly kind: 'equality'; readonly norm: Buffer }
  /** Equal to one of at least two forms, which are sorted and distinct. */
  | { readonly kind: 'anyOf'; readonly norms: readonly Buffer[] }
  | { readonly kind: 'presence' }
  | { readonly kind: 'from' | 'upTo'; readonly norm: Buffer }
  | {
      readonly kind: 'pattern';
      readonly initial: Buffer | undefined;
      readonly any: readonly Buffer[];
      readonly final: Buffer | undefined;
    };

/** Returns the normal form of a value; undefined where the value does not have the syntax of the rule. */
export type Normalize = (value: Buffer) => Buffer | undefined;

/** A test of values by normal form. */
export interface FormTest {
  readonly normalize: Normalize;
  matches(norm: Buffer): boolean;
  /** For a test of equality with one form: the form as Latin-1. */
  readonly equalNorm?: string;
}

export interface Term {
  readonly kind: 'term';
  /** The type that the filter names and all visible subtypes. */
  readonly types: readonly AttributeType[];
  /** Undefined where neither an index nor a store filter helps. */
  readonly lookup: Lookup | undefined;
  /** The group (`Dn.norm`) outside whose members the term is never true. */
  readonly group?: Buffer | undefined;
  /** The term is true for the entries of the chain and, if there is a lookup, for the entries of the lookup. */
  readonly chain?: Chain | undefined;
  /** Whether the term, the chain aside, is true for exactly the entries of the lookup and false for all others. */
  readonly isExact: boolean;
  evaluate(candidate: Candidate): Tri;
}

export type CompiledFilter =
  | Term
  | { readonly kind: 'and' | 'or'; readonly parts: readonly CompiledFilter[] }
  | { readonly kind: 'not'; readonly part: CompiledFilter }
  | { readonly kind: 'undefined'; readonly reason: string };

/** The inputs of a filter besides the row. */
export interface FilterInputs {
  needsDn: boolean;
  needsSubordinates: boolean;
  /** The groups of the entry; needed only while the filter is Undefined without them. */
  needsGroups: boolean;
  /** The same without groups of groups. */
  needsDirectGroups: boolean;
  /** The groups that the filter names (`Dn.norm`, Latin-1). */
  readonly groupNames: string[];
  /** The chains that the filter names; needed only while the filter is Undefined without them. */
  readonly chains: Chain[];
  /** Types whose values are tested, not only for presence. Large values of these types have to be read. */
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
