import type { Filter } from '../ldap/types.js';
import type { Schema } from '../schema/schema.js';
import type { AttributeDescription, AttributeType, MatchingRule } from '../schema/types.js';
import { nextCell } from '../store/row.js';
import type { DescriptionTable } from './descriptions.js';
import { type Candidate, type CompiledFilter, FALSE, type Lookup, type Needs, TRUE } from './filter.js';
import { cellBytes, computedTerm, hasParts, isComputed, isOrBelow, ruleTest, undefinedTerm } from './filter-terms.js';
import { MASTER } from './tables.js';
import type { View } from './types.js';
import { ValuesTerm } from './values-term.js';
import { WantedDescriptions } from './wanted.js';

/** Whether the lookup's forms (the equality rule's, as rows and indexes hold them) are also those of `rule`. */
function sharesForms(equality: MatchingRule | undefined, rule: MatchingRule): boolean {
  return equality !== undefined && stem(equality) === stem(rule);
}

function stem(rule: MatchingRule): string {
  return (rule.names[0] ?? rule.oid).replace(/(Ordering|Substrings)?Match$/, '');
}

/** Compiles filters by a schema. It never fails: what cannot be asked is an undefined term. */
export class FilterCompiler {
  readonly #schema: Schema;
  readonly #descriptions: DescriptionTable;
  readonly #wanted: WantedDescriptions;

  constructor(schema: Schema, descriptions: DescriptionTable) {
    this.#schema = schema;
    this.#descriptions = descriptions;
    this.#wanted = new WantedDescriptions(schema, descriptions);
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
        const wanted = this.#asked(filter.attribute, view);
        return 'kind' in wanted ? wanted : this.#attributeTerm(filter, wanted, view, needs);
      }
    }
  }

  /** What a filter asks for, or the term that it comes to where it cannot be asked. */
  #asked(attribute: string, view: View): AttributeDescription | CompiledFilter {
    const wanted = this.#schema.describe(attribute);
    if (!wanted) return undefinedTerm(`attribute '${attribute.slice(0, 100)}' is not in the schema`);
    if (wanted.type.secret || view.hides(wanted.type))
      return undefinedTerm(`attribute '${wanted.text}' may not be searched`);
    return wanted;
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
    const wanted = this.#asked(filter.attribute, view);
    if ('kind' in wanted) return wanted;
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
    const compiled = this.#wanted.of(wanted, view);
    if (test && needs.values !== 'all') {
      needs.values = needs.values ? [...needs.values, ...compiled.types] : compiled.types;
    }
    return new ValuesTerm(this.#wanted, filter, compiled, test, lookup, exact);
  }
}
