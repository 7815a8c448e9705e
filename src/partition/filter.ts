import type { Filter } from '../ldap/types.js';
import type { Schema } from '../schema/schema.js';
import type { AttributeDescription, AttributeType, MatchingRule } from '../schema/types.js';
import { CELL_HEADER, nextCell } from '../store/row.js';
import type { DescriptionTable } from './descriptions.js';
import { cellBytes, computedTerm, hasParts, isComputed, isOrBelow, ruleTest, undefinedTerm } from './filter-terms.js';
import { MASTER } from './tables.js';
import type { View } from './types.js';

/**
 * LDAP filters compiled for evaluation over packed master rows, three-valued as RFC 4511 §4.5.1.7 says: an undefined
 * term is neither true nor false, and NOT of undefined is undefined.
 */
export type Tri = 0 | 1 | 2;
export const FALSE: Tri = 0;
export const TRUE: Tri = 1;
export const UNDEFINED: Tri = 2;

/** What evaluation may look at besides the row; filled by the search as `CompiledFilter.needs` asks. */
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

/** Whether the lookup's forms (the equality rule's, as rows and indexes hold them) are also those of `rule`. */
function sharesForms(equality: MatchingRule | undefined, rule: MatchingRule): boolean {
  return equality !== undefined && stem(equality) === stem(rule);
}

function stem(rule: MatchingRule): string {
  return (rule.names[0] ?? rule.oid).replace(/(Ordering|Substrings)?Match$/, '');
}

/** What terms over one description have in common, for one view. */
interface Wanted {
  readonly description: AttributeDescription;
  /** The type and those below it that may be searched. */
  readonly types: readonly AttributeType[];
  /** Nothing is left out: no option was asked for, no type is hidden. */
  readonly whole: boolean;
  /** By number of a stored description: 1 it is meant, 2 it is not, absent: not asked yet. */
  readonly meant: number[];
  /** 1 for bytes that a description which is meant may begin with: most cells need no closer look. */
  readonly begins: Uint8Array;
}

function firstBytes(wanted: AttributeDescription): Uint8Array {
  const begins = new Uint8Array(256);
  for (const type of wanted.type.subtypes) {
    for (const name of [...type.names, type.oid, 'oid']) {
      begins[name.toLowerCase().charCodeAt(0)] = 1;
      begins[name.toUpperCase().charCodeAt(0)] = 1;
    }
  }
  return begins;
}

/** A term over the values of one description; without `test` it asks for presence. */
class ValuesTerm implements Term {
  readonly kind = 'term';
  readonly filter: Filter;
  readonly lookup: Lookup | undefined;
  readonly exact: boolean;
  readonly #compiler: FilterCompiler;
  readonly #wanted: Wanted;
  readonly #test: ((value: Buffer) => boolean) | undefined;

  constructor(
    compiler: FilterCompiler,
    filter: Filter,
    wanted: Wanted,
    test: ((value: Buffer) => boolean) | undefined,
    lookup: Lookup | undefined,
    exact: boolean,
  ) {
    this.#compiler = compiler;
    this.filter = filter;
    this.#wanted = wanted;
    this.#test = test;
    this.lookup = lookup;
    this.exact = exact && wanted.whole;
  }

  get types(): readonly AttributeType[] {
    return this.#wanted.types;
  }

  evaluate(candidate: Candidate): Tri {
    const { row } = candidate;
    const { begins } = this.#wanted;
    const test = this.#test;
    for (let at = 0; at < row.length; ) {
      const next = nextCell(row, at);
      if (row[at] === MASTER.upAttributes && begins[row[at + CELL_HEADER]!] === 1) {
        if (this.#compiler.means(this.#wanted, row, at) && (!test || test(cellBytes(candidate, at, next)))) return TRUE;
      }
      at = next;
    }
    return FALSE;
  }
}

/** So many descriptions that filters ask for are kept compiled. */
const MAX_WANTED = 4096;

export class FilterCompiler {
  readonly #schema: Schema;
  readonly #descriptions: DescriptionTable;
  readonly #wanted = new Map<AttributeDescription, Wanted>();
  /** The view that `#wanted` is for. */
  #view: View | undefined;

  constructor(schema: Schema, descriptions: DescriptionTable) {
    this.#schema = schema;
    this.#descriptions = descriptions;
  }

  compile(filter: Filter, view: View): { filter: CompiledFilter; needs: Needs } {
    const needs: Needs = { dn: false, subordinates: false, values: undefined };
    return { filter: this.#compile(filter, view, needs), needs };
  }

  #compile(filter: Filter, view: View, needs: Needs): CompiledFilter {
    switch (filter.type) {
      case 'and':
      case 'or':
        return { kind: filter.type, of: filter.filters.map((f) => this.#compile(f, view, needs)) };
      case 'not':
        return { kind: 'not', of: this.#compile(filter.filter, view, needs) };
      case 'extensible':
        return this.#extensible(filter, view, needs);
      default: {
        const wanted = this.#schema.describe(filter.attribute);
        if (!wanted) return undefinedTerm(`attribute '${filter.attribute.slice(0, 100)}' is not in the schema`);
        if (wanted.type.secret || view.hides(wanted.type))
          return undefinedTerm(`attribute '${wanted.text}' may not be searched`);
        return this.#attributeTerm(filter, wanted, view, needs);
      }
    }
  }

  #attributeTerm(
    filter: Exclude<Filter, { type: 'and' | 'or' | 'not' | 'extensible' }>,
    wanted: AttributeDescription,
    view: View,
    needs: Needs,
  ): CompiledFilter {
    const type = wanted.type;
    switch (filter.type) {
      case 'present':
        return this.#term(filter, wanted, view, needs, undefined, { kind: 'presence' }, true);
      case 'equal':
      case 'approx':
        return this.#ruleTerm(filter, wanted, view, needs, type.equality, filter.value);
      case 'greaterOrEqual':
      case 'lessOrEqual': {
        const rule = type.ordering;
        if (!rule) return undefinedTerm(`attribute '${wanted.text}' has no ordering rule`);
        const bound = rule.normalizeAssertion(filter.value);
        if (!bound) return undefinedTerm(`the value asked of '${wanted.text}' is not of its syntax`);
        const up = filter.type === 'greaterOrEqual';
        const lookup: Lookup | undefined = sharesForms(type.equality, rule)
          ? { kind: up ? 'from' : 'upTo', norm: bound }
          : undefined;
        const test = (value: Buffer): boolean => {
          const norm = rule.normalize(value);
          if (!norm) return false;
          const order = Buffer.compare(norm, bound);
          return up ? order >= 0 : order <= 0;
        };
        return this.#term(filter, wanted, view, needs, test, lookup, false);
      }
      case 'substring':
        return this.#substringTerm(filter, wanted, view, needs);
    }
  }

  #ruleTerm(
    filter: Filter,
    wanted: AttributeDescription,
    view: View,
    needs: Needs,
    rule: MatchingRule | undefined,
    assertion: Buffer,
  ): CompiledFilter {
    if (!rule) return undefinedTerm(`attribute '${wanted.text}' has no equality rule`);
    const norm = rule.normalizeAssertion(assertion);
    if (!norm) return undefinedTerm(`the value asked of '${wanted.text}' is not of its syntax`);
    const same = rule === wanted.type.equality && rule.test === undefined;
    const lookup: Lookup | undefined = same ? { kind: 'equality', norm } : undefined;
    return this.#term(filter, wanted, view, needs, ruleTest(rule, norm), lookup, same);
  }

  #substringTerm(
    filter: Extract<Filter, { type: 'substring' }>,
    wanted: AttributeDescription,
    view: View,
    needs: Needs,
  ): CompiledFilter {
    const rule = wanted.type.substrings;
    if (!rule?.normalizePart) return undefinedTerm(`attribute '${wanted.text}' has no substrings rule`);
    const bad = () => undefinedTerm(`a part asked of '${wanted.text}' is not of its syntax`);
    const initial = filter.initial && rule.normalizePart(filter.initial, 'initial');
    const final = filter.final && rule.normalizePart(filter.final, 'final');
    if ((filter.initial && !initial) || (filter.final && !final)) return bad();
    const any: Buffer[] = [];
    for (const part of filter.any) {
      const norm = rule.normalizePart(part, 'any');
      if (!norm) return bad();
      any.push(norm);
    }
    const lookup: Lookup | undefined = sharesForms(wanted.type.equality, rule)
      ? { kind: 'pattern', initial, any, final }
      : undefined;
    const test = (value: Buffer): boolean => {
      const norm = rule.normalize(value);
      return norm !== undefined && hasParts(norm, initial, any, final);
    };
    return this.#term(filter, wanted, view, needs, test, lookup, false);
  }

  #extensible(filter: Extract<Filter, { type: 'extensible' }>, view: View, needs: Needs): CompiledFilter {
    const rule = filter.rule === undefined ? undefined : this.#schema.rule(filter.rule);
    if (filter.rule !== undefined && !rule)
      return undefinedTerm(`matching rule '${filter.rule.slice(0, 100)}' is not known`);
    if (filter.attribute === undefined) {
      if (!rule) return undefinedTerm('an extensible match needs an attribute or a matching rule');
      return this.#anyAttributeTerm(filter, rule, view, needs);
    }
    const wanted = this.#schema.describe(filter.attribute);
    if (!wanted) return undefinedTerm(`attribute '${filter.attribute.slice(0, 100)}' is not in the schema`);
    if (wanted.type.secret || view.hides(wanted.type))
      return undefinedTerm(`attribute '${wanted.text}' may not be searched`);
    const term = this.#ruleTerm(filter, wanted, view, needs, rule ?? wanted.type.equality, filter.value);
    if (!filter.dnAttributes || term.kind !== 'term') return term;
    const test = ruleTest(
      (rule ?? wanted.type.equality)!,
      (rule ?? wanted.type.equality)!.normalizeAssertion(filter.value)!,
    );
    needs.dn = true;
    const inDn = (candidate: Candidate) =>
      this.#dnValues(
        candidate.dn,
        (type) => wanted.options.length === 0 && type !== undefined && isOrBelow(type, wanted.type),
        test,
      );
    return {
      kind: 'term',
      filter,
      types: term.types,
      lookup: undefined,
      exact: false,
      evaluate: (candidate) => {
        const t = term.evaluate(candidate);
        return t === TRUE ? TRUE : inDn(candidate) ? TRUE : t;
      },
    };
  }

  /** `(:rule:=value)`: every attribute the rule applies to. */
  #anyAttributeTerm(
    filter: Extract<Filter, { type: 'extensible' }>,
    rule: MatchingRule,
    view: View,
    needs: Needs,
  ): CompiledFilter {
    const norm = rule.normalizeAssertion(filter.value);
    if (!norm) return undefinedTerm('the value asked for is not of the rule’s assertion syntax');
    const test = ruleTest(rule, norm);
    const applies = (type: AttributeType) => !type.secret && !view.hides(type) && this.#schema.ruleApplies(rule, type);
    needs.values = 'all';
    if (filter.dnAttributes) needs.dn = true;
    const descriptions = this.#descriptions;
    return {
      kind: 'term',
      filter,
      types: [],
      lookup: undefined,
      exact: false,
      evaluate: (candidate) => {
        const { row } = candidate;
        for (let at = 0; at < row.length; ) {
          const next = nextCell(row, at);
          if (row[at] === MASTER.upAttributes && applies(descriptions.ofCell(row, at).description.type)) {
            if (test(cellBytes(candidate, at, next))) return TRUE;
          }
          at = next;
        }
        return filter.dnAttributes && this.#dnValues(candidate.dn, applies, test) ? TRUE : FALSE;
      },
    };
  }

  #dnValues(dn: Buffer, meant: (type: AttributeType) => boolean, test: (value: Buffer) => boolean): boolean {
    for (const rdn of this.#schema.parseDnBytes(dn).rdns) {
      for (const ava of rdn.avas) if (meant(ava.type) && test(ava.value)) return true;
    }
    return false;
  }

  /** A term over the values of one description; `test` undefined: presence. */
  #term(
    filter: Filter,
    wanted: AttributeDescription,
    view: View,
    needs: Needs,
    test: ((value: Buffer) => boolean) | undefined,
    lookup: Lookup | undefined,
    exact: boolean,
  ): CompiledFilter {
    if (isComputed(wanted.type)) return computedTerm(filter, wanted.type, test, needs);
    const compiled = this.#wantedOf(wanted, view);
    if (test && needs.values !== 'all') {
      needs.values = needs.values ? [...needs.values, ...compiled.types] : compiled.types;
    }
    return new ValuesTerm(this, filter, compiled, test, lookup, exact);
  }

  /** Whether the cell of `row` at `at` holds a value of what is wanted. */
  means(wanted: Wanted, row: Buffer, at: number): boolean {
    const stored = this.#descriptions.ofCell(row, at);
    let decision = wanted.meant[stored.number];
    if (decision === undefined) {
      const { type } = stored.description;
      const seen = wanted.types.includes(type) && this.#schema.matches(wanted.description, stored.description);
      decision = seen ? 1 : 2;
      wanted.meant[stored.number] = decision;
    }
    return decision === 1;
  }

  #wantedOf(description: AttributeDescription, view: View): Wanted {
    if (view !== this.#view || this.#wanted.size >= MAX_WANTED) {
      this.#wanted.clear();
      this.#view = view;
    }
    let wanted = this.#wanted.get(description);
    if (!wanted) {
      const { subtypes } = description.type;
      const types = subtypes.filter((type) => !type.secret && !view.hides(type));
      const whole = description.options.length === 0 && types.length === subtypes.length;
      wanted = { description, types, whole, meant: [], begins: firstBytes(description) };
      this.#wanted.set(description, wanted);
    }
    return wanted;
  }
}
