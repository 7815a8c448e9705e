import type { Filter } from '../../../ldap/ldap-types.js';
import { isAskable } from '../../../schema/describer.js';
import type { Schema } from '../../../schema/schema.js';
import type { AttributeDescription, AttributeType, MatchingRule } from '../../../schema/schema-types.js';
import { nextCell } from '../../../store/row.js';
import { isComputed, isMembership } from '../../model/computed.js';
import type { DescriptionTable } from '../../model/descriptions.js';
import { groupTypes } from '../../model/group-rows.js';
import type { NamesContext } from '../../model/present-row.js';
import { MASTER } from '../../model/tables.js';
import { isHidden, type Viewer } from '../../model/viewer.js';
import {
  type Candidate,
  type CompiledFilter,
  FALSE,
  type FormTest,
  type Lookup,
  type Needs,
  type Term,
  TRUE,
} from './compiled-filter.js';
import { EqualitySets } from './equality-sets.js';
import {
  assertionTest,
  cellBytes,
  chainTerm,
  computedTerm,
  isOrBelow,
  normalizeParts,
  partsLookup,
  partsTest,
  passes,
  ruleTest,
  seenTerm,
  setTest,
  undefinedTerm,
} from './filter-terms.js';
import { SharedForms } from './forms.js';
import { MemberTerm } from './member-term.js';
import { parseSubstrings, type Substrings } from './substring-assertion.js';
import { ValuesTerm } from './values-term.js';
import { WantedDescriptions } from './wanted.js';

/** Whether the lookup's forms (the equality rule's, as rows and indexes hold them) are also those of `rule`. */
function sharesForms(equality: MatchingRule | undefined, rule: MatchingRule): boolean {
  return equality !== undefined && stem(equality) === stem(rule);
}

function stem(rule: MatchingRule): string {
  return (rule.names[0] ?? rule.oid).replace(/(Ordering|Substrings)?Match$/, '');
}

type ItemFilter = Exclude<Filter, { type: 'and' | 'or' | 'not' | 'extensible' }>;
type Extensible = Extract<Filter, { type: 'extensible' }>;

/** Compiles filters by a schema. It never fails: what cannot be asked is an undefined term. */
export class FilterCompiler {
  readonly #schema: Schema;
  readonly #descriptions: DescriptionTable;
  readonly #wanted: WantedDescriptions;
  readonly #naming: NamesContext | undefined;

  /** `naming`: how rows that filters are looked up in may differ from those that they are evaluated on. */
  constructor(schema: Schema, descriptions: DescriptionTable, naming?: NamesContext) {
    this.#schema = schema;
    this.#descriptions = descriptions;
    this.#naming = naming;
    this.#wanted = new WantedDescriptions(schema, descriptions);
  }

  /**
   * `alone`: of an entry alone; what is to be looked up elsewhere is Undefined. `ownGroups`: as `SearchParams` has it.
   */
  compile(filter: Filter, viewer: Viewer, alone = false, ownGroups = false): { filter: CompiledFilter; needs: Needs } {
    const compilation = new Compilation(
      this.#schema,
      this.#descriptions,
      this.#wanted,
      this.#naming,
      viewer,
      ownGroups,
    );
    const compiled = compilation.filter(filter);
    const { needs } = compilation;
    return { filter: compiled, needs: alone ? { ...needs, groups: false, ownGroups: false, chains: [] } : needs };
  }
}

/** The compilation of one filter. */
class Compilation {
  readonly needs: Needs = {
    dn: false,
    subordinates: false,
    groups: false,
    ownGroups: false,
    named: [],
    chains: [],
    values: undefined,
  };
  readonly #schema: Schema;
  readonly #descriptions: DescriptionTable;
  readonly #wanted: WantedDescriptions;
  readonly #naming: NamesContext | undefined;
  readonly #viewer: Viewer;
  readonly #ownGroups: boolean;
  readonly #forms: SharedForms;

  constructor(
    schema: Schema,
    descriptions: DescriptionTable,
    wanted: WantedDescriptions,
    naming: NamesContext | undefined,
    viewer: Viewer,
    ownGroups: boolean,
  ) {
    this.#schema = schema;
    this.#descriptions = descriptions;
    this.#wanted = wanted;
    this.#naming = naming;
    this.#viewer = viewer;
    this.#ownGroups = ownGroups;
    this.#forms = new SharedForms(wanted);
  }

  filter(filter: Filter): CompiledFilter {
    switch (filter.type) {
      case 'and':
        return this.#and(filter.filters);
      case 'or':
        return this.#or(filter.filters);
      case 'not':
        return { kind: 'not', of: this.filter(filter.filter) };
      case 'extensible':
        return this.#extensible(filter);
      default: {
        const wanted = this.#asked(filter.attribute);
        return 'kind' in wanted ? wanted : this.#attributeTerm(filter, wanted);
      }
    }
  }

  /**
   * ANDs within it are taken apart. What several NOTs exclude is one OR: neither this nor that is not (this or that).
   */
  #and(filters: readonly Filter[]): CompiledFilter {
    const of: CompiledFilter[] = [];
    const excluded: Filter[] = [];
    const visit = (part: Filter): void => {
      if (part.type === 'and') part.filters.forEach(visit);
      else if (part.type === 'not') excluded.push(part.filter);
      else of.push(this.filter(part));
    };
    filters.forEach(visit);
    if (excluded.length > 0) of.push({ kind: 'not', of: this.#or(excluded) });
    return of.length === 1 ? of[0]! : { kind: 'and', of };
  }

  /** ORs within it are taken apart; equalities of one description become one term. */
  #or(filters: readonly Filter[]): CompiledFilter {
    const of: CompiledFilter[] = [];
    const sets = new EqualitySets();
    let unknown: CompiledFilter | undefined;
    const visit = (part: Filter): void => {
      if (part.type === 'or') {
        part.filters.forEach(visit);
        return;
      }
      const equality = part.type === 'equal' || part.type === 'approx';
      const made = equality ? this.#intoSet(part.attribute, part.value, sets) : this.filter(part);
      // One undefined term says what many say.
      if (made?.kind === 'undefined') unknown ??= made;
      else if (made) of.push(made);
    };
    filters.forEach(visit);
    for (const { wanted, forms } of sets) of.push(this.#setTerm(wanted, forms));
    if (unknown) of.push(unknown);
    return of.length === 1 ? of[0]! : { kind: 'or', of };
  }

  /** Undefined when the equality is now among `sets`, else a term of its own. */
  #intoSet(attribute: string, assertion: Buffer, sets: EqualitySets): CompiledFilter | undefined {
    const wanted = this.#asked(attribute);
    if ('kind' in wanted) return wanted;
    const rule = wanted.type.equality;
    if (!rule || rule.test || isComputed(wanted.type)) return this.#ruleTerm(wanted, rule, assertion);
    const norm = rule.normalizeAssertion(assertion);
    if (!norm) return noValueOf(wanted);
    sets.add(wanted, norm);
  }

  #setTerm(wanted: AttributeDescription, forms: ReadonlySet<string>): CompiledFilter {
    const rule = wanted.type.equality!;
    const norms = Array.from(forms.size > 1 ? [...forms].sort() : forms, (form) => Buffer.from(form, 'latin1'));
    if (norms.length === 1)
      return this.#term(wanted, ruleTest(rule, norms[0]!), { kind: 'equality', norm: norms[0]! }, true);
    return this.#term(wanted, setTest(rule, forms), { kind: 'anyOf', norms }, true);
  }

  /** What a filter asks for, or the term that it comes to where it cannot be asked. */
  #asked(attribute: string): AttributeDescription | CompiledFilter {
    const wanted = this.#schema.describe(attribute);
    if (!wanted) return undefinedTerm(`attribute '${attribute.slice(0, 100)}' is not in the schema`);
    if (!isAskable(wanted)) return undefinedTerm(`attribute '${wanted.type.name}' has no binary form`);
    if (isHidden(wanted.type)) return undefinedTerm(`attribute '${wanted.text}' may not be searched`);
    return wanted;
  }

  #attributeTerm(filter: ItemFilter, wanted: AttributeDescription): CompiledFilter {
    switch (filter.type) {
      case 'present':
        return this.#term(wanted, undefined, { kind: 'presence' }, true);
      case 'equal':
      case 'approx':
        return this.#ruleTerm(wanted, wanted.type.equality, filter.value);
      case 'greaterOrEqual':
      case 'lessOrEqual':
        return this.#boundTerm(wanted, filter.value, filter.type === 'greaterOrEqual');
      case 'substring':
        return this.#substringTerm(filter, wanted);
    }
  }

  #boundTerm(wanted: AttributeDescription, assertion: Buffer, up: boolean): CompiledFilter {
    const { equality, ordering: rule } = wanted.type;
    if (!rule) return undefinedTerm(`attribute '${wanted.text}' has no ordering rule`);
    const bound = rule.normalizeAssertion(assertion);
    if (!bound) return noValueOf(wanted);
    const lookup: Lookup | undefined = sharesForms(equality, rule)
      ? { kind: up ? 'from' : 'upTo', norm: bound }
      : undefined;
    const matches = (form: Buffer): boolean => {
      const order = Buffer.compare(form, bound);
      return up ? order >= 0 : order <= 0;
    };
    return this.#term(wanted, { normalize: rule.normalize, matches }, lookup, false);
  }

  #ruleTerm(
    wanted: AttributeDescription,
    rule: MatchingRule | undefined,
    assertion: Buffer,
    ownGroups = this.#ownGroups,
  ): CompiledFilter {
    if (!rule) return undefinedTerm(`attribute '${wanted.text}' has no equality rule`);
    const norm = rule.normalizeAssertion(assertion);
    if (!norm) return noValueOf(wanted);
    const same = rule === wanted.type.equality && rule.test === undefined;
    const lookup: Lookup | undefined = same ? { kind: 'equality', norm } : undefined;
    return this.#term(wanted, ruleTest(rule, norm), lookup, same, ownGroups);
  }

  #substringTerm(asked: Substrings, wanted: AttributeDescription, rule = wanted.type.substrings): CompiledFilter {
    if (!rule?.normalizePart) return undefinedTerm(`attribute '${wanted.text}' has no substrings rule`);
    const parts = normalizeParts(rule, asked);
    if (!parts) return undefinedTerm(`a part asked of '${wanted.text}' is not of its syntax`);
    const lookup = sharesForms(wanted.type.equality, rule) ? partsLookup(rule, parts) : undefined;
    return this.#term(wanted, partsTest(rule, parts), lookup, false);
  }

  #extensible(filter: Extensible): CompiledFilter {
    const rule = filter.rule === undefined ? undefined : this.#schema.rule(filter.rule);
    if (filter.rule !== undefined && !rule)
      return undefinedTerm(`matching rule '${filter.rule.slice(0, 100)}' is not known`);
    if (rule?.inChain) return this.#inChain(filter, rule);
    if (filter.attribute === undefined) {
      if (!rule) return undefinedTerm('an extensible match needs an attribute or a matching rule');
      return this.#anyAttributeTerm(filter, rule);
    }
    const wanted = this.#asked(filter.attribute);
    if ('kind' in wanted) return wanted;
    if (rule && !this.#schema.ruleApplies(rule, wanted.type))
      return undefinedTerm(`matching rule '${filter.rule}' does not suit attribute '${wanted.text}'`);
    const term = this.#extensibleTerm(wanted, rule ?? wanted.type.equality, filter.value);
    if (!filter.dnAttributes || term.kind !== 'term') return term;
    const test = assertionTest((rule ?? wanted.type.equality)!, filter.value)!;
    this.needs.dn = true;
    const inDn = (candidate: Candidate) =>
      this.#dnValues(
        candidate.dn,
        (type) => wanted.options.length === 0 && type !== undefined && isOrBelow(type, wanted.type),
        test,
      );
    return {
      kind: 'term',
      types: term.types,
      lookup: undefined,
      exact: false,
      evaluate: (candidate) => {
        const t = term.evaluate(candidate);
        return t === TRUE ? TRUE : inDn(candidate) ? TRUE : t;
      },
    };
  }

  #inChain({ attribute, dnAttributes, value }: Extensible, rule: MatchingRule): CompiledFilter {
    if (attribute === undefined) return undefinedTerm('an in-chain match needs an attribute');
    if (dnAttributes) return undefinedTerm("an in-chain match does not look at names: leave out ':dn'");
    const wanted = this.#asked(attribute);
    if ('kind' in wanted) return wanted;
    const { type, options, text } = wanted;
    if (!this.#schema.ruleApplies(rule, type))
      return undefinedTerm(`an in-chain match does not suit attribute '${text}', whose values are no DNs`);
    if (options.length > 0) return undefinedTerm('an in-chain match takes an attribute without options');
    // Groups in groups count there in any case.
    if (isMembership(type)) return this.#ruleTerm(wanted, type.equality, value, false);
    if (isComputed(type)) return undefinedTerm(`attribute '${text}' leads to no other entry`);
    const end = rule.normalizeAssertion(value);
    if (!end) return noValueOf(wanted);
    const term = chainTerm(type, end, this.needs);
    return this.#viewer.sightOf ? seenTerm(term, wanted) : term;
  }

  #extensibleTerm(wanted: AttributeDescription, rule: MatchingRule | undefined, assertion: Buffer): CompiledFilter {
    if (rule?.kind !== 'substrings') return this.#ruleTerm(wanted, rule, assertion);
    const parts = parseSubstrings(assertion);
    return parts ? this.#substringTerm(parts, wanted, rule) : noValueOf(wanted);
  }

  /** `(:rule:=value)`: every attribute the rule applies to. */
  #anyAttributeTerm(filter: Extensible, rule: MatchingRule): CompiledFilter {
    const test = assertionTest(rule, filter.value);
    if (!test) return undefinedTerm('the value asked for is not of the rule’s assertion syntax');
    const applies = (type: AttributeType) => !isHidden(type) && this.#schema.ruleApplies(rule, type);
    this.needs.values = 'all';
    if (filter.dnAttributes) this.needs.dn = true;
    const descriptions = this.#descriptions;
    return {
      kind: 'term',
      types: [],
      lookup: undefined,
      exact: false,
      evaluate: (candidate) => {
        const { row } = candidate;
        for (let at = 0; at < row.length; ) {
          const next = nextCell(row, at);
          if (row[at] === MASTER.upAttributes && applies(descriptions.ofCell(row, at).description.type)) {
            if (passes(test, cellBytes(candidate, at, next))) return TRUE;
          }
          at = next;
        }
        return filter.dnAttributes && this.#dnValues(candidate.dn, applies, test) ? TRUE : FALSE;
      },
    };
  }

  #dnValues(dn: Buffer, meant: (type: AttributeType) => boolean, test: FormTest): boolean {
    for (const rdn of this.#schema.parseDnBytes(dn).rdns) {
      for (const ava of rdn.avas) if (meant(ava.type) && passes(test, ava.value)) return true;
    }
    return false;
  }

  /** A term over the values of one description; `test` undefined: presence. */
  #term(
    asked: AttributeDescription,
    test: FormTest | undefined,
    lookup: Lookup | undefined,
    exact: boolean,
    ownGroups = this.#ownGroups,
  ): CompiledFilter {
    const { needs } = this;
    const term = isComputed(asked.type)
      ? computedTerm(asked.type, test, needs, ownGroups)
      : this.#memberTerm(asked, this.#valuesTerm(asked, test, lookup, exact));
    return this.#viewer.sightOf ? seenTerm(term, asked) : term;
  }

  /** Dynamic groups have members, too. */
  #memberTerm(asked: AttributeDescription, values: Term): Term {
    const { lookup } = values;
    const { member, urls, dynamic } = groupTypes(this.#schema);
    if (asked.type !== member || asked.options.length > 0) return values;
    if (lookup?.kind !== 'equality' && lookup?.kind !== 'anyOf') return values;
    const [url] = urls;
    const hasUrl = url && this.#valuesTerm(this.#schema.requireDescription(url.name), undefined, undefined, false);
    const ends = lookup.kind === 'anyOf' ? lookup.norms : [lookup.norm];
    if (!hasUrl) return values;
    const links = { by: 'url', type: url, ends, among: dynamic } as const;
    this.needs.chains.push(links);
    return new MemberTerm(values, hasUrl, links);
  }

  #valuesTerm(
    asked: AttributeDescription,
    test: FormTest | undefined,
    lookup: Lookup | undefined,
    exact: boolean,
  ): Term {
    const { needs } = this;
    const wanted = this.#wanted.of(asked);
    const stored = lookup && this.#storedLookup(wanted.types, lookup);
    if (test && needs.values !== 'all') needs.values = union(needs.values, wanted.types);
    const forms = test && this.#forms.of(wanted, test.normalize);
    return new ValuesTerm(this.#wanted, wanted, test, forms, stored, exact);
  }

  /** Rows may hold references under older names of their entries. */
  #storedLookup(types: readonly AttributeType[], lookup: Lookup): Lookup {
    const { names, references } = this.#naming?.shared ?? {};
    if (!names || names.isEmpty || !types.some((type) => references!.has(type))) return lookup;
    if (lookup.kind !== 'equality' && lookup.kind !== 'anyOf') return lookup;
    const asked = lookup.kind === 'anyOf' ? lookup.norms : [lookup.norm];
    const forms = new Set(
      asked.flatMap((norm) => [norm.toString('latin1'), ...names.storedForms(norm.toString('latin1'))]),
    );
    const norms = [...forms].sort().map((form) => Buffer.from(form, 'latin1'));
    return norms.length === 1 ? { kind: 'equality', norm: norms[0]! } : { kind: 'anyOf', norms };
  }
}

function union(some: ReadonlySet<AttributeType> | undefined, more: readonly AttributeType[]): Set<AttributeType> {
  const all = (some as Set<AttributeType> | undefined) ?? new Set();
  for (const type of more) all.add(type);
  return all;
}

function noValueOf({ text }: AttributeDescription): CompiledFilter {
  return undefinedTerm(`the value asked of '${text}' is not of its syntax`);
}
