import type { Filter } from '../../../ldap/ldap-types.js';
import { isRequestable } from '../../../schema/describer.js';
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
  type FilterInputs,
  type FormTest,
  type Lookup,
  type Term,
  TRUE,
} from './compiled-filter.js';
import { EqualitySets } from './equality-sets.js';
import { FilterDescriptions } from './filter-descriptions.js';
import {
  assertionTest,
  cellBytes,
  chainTerm,
  computedTerm,
  isSubtypeOf,
  normalizeParts,
  partsLookup,
  partsTest,
  passes,
  restrictedTerm,
  ruleTest,
  setTest,
  undefinedTerm,
} from './filter-terms.js';
import { SharedForms } from './forms.js';
import { MemberTerm } from './member-term.js';
import { parseSubstrings, type Substrings } from './substring-assertion.js';
import { ValuesTerm } from './values-term.js';

/** Whether `rule` has the same normal forms as the equality rule, whose forms rows and indexes hold. */
function sharesForms(equality: MatchingRule | undefined, rule: MatchingRule): boolean {
  return equality !== undefined && stem(equality) === stem(rule);
}

function stem(rule: MatchingRule): string {
  return (rule.names[0] ?? rule.oid).replace(/(Ordering|Substrings)?Match$/, '');
}

type ItemFilter = Exclude<Filter, { type: 'and' | 'or' | 'not' | 'extensible' }>;
type Extensible = Extract<Filter, { type: 'extensible' }>;

/** The parts of a partition that compilations use. */
interface Parts {
  readonly schema: Schema;
  readonly descriptions: DescriptionTable;
  readonly filterDescriptions: FilterDescriptions;
  readonly naming: NamesContext | undefined;
}

/** Compiles filters. Never fails: an assertion that is not valid in the schema becomes an Undefined term. */
export class FilterCompiler {
  readonly #parts: Parts;

  /** `naming`: the renames of entries that stored references do not reflect yet. */
  constructor(schema: Schema, descriptions: DescriptionTable, naming?: NamesContext) {
    const filterDescriptions = new FilterDescriptions(schema, descriptions);
    this.#parts = { schema, descriptions, filterDescriptions, naming };
  }

  /**
   * Compiles a filter. `isLocal`: terms that need other entries, such as groups, stay Undefined. `directGroupsOnly`: as
   * in `SearchParams`.
   */
  compile(
    filter: Filter,
    viewer: Viewer,
    isLocal = false,
    directGroupsOnly = false,
  ): { filter: CompiledFilter; inputs: FilterInputs } {
    const compilation = new Compilation(this.#parts, viewer, directGroupsOnly);
    const compiled = compilation.filter(filter);
    const { inputs } = compilation;
    return {
      filter: compiled,
      inputs: isLocal ? { ...inputs, groups: false, directGroups: false, chains: [] } : inputs,
    };
  }
}

/** The compilation of one filter. */
class Compilation {
  readonly inputs: FilterInputs = {
    dn: false,
    subordinates: false,
    groups: false,
    directGroups: false,
    groupNames: [],
    chains: [],
    values: undefined,
  };
  readonly #schema: Schema;
  readonly #parts: Parts;
  readonly #viewer: Viewer;
  readonly #directGroupsOnly: boolean;
  readonly #forms: SharedForms;

  constructor(parts: Parts, viewer: Viewer, directGroupsOnly: boolean) {
    this.#schema = parts.schema;
    this.#parts = parts;
    this.#viewer = viewer;
    this.#directGroupsOnly = directGroupsOnly;
    this.#forms = new SharedForms(parts.filterDescriptions);
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
        const description = this.#describe(filter.attribute);
        return 'kind' in description ? description : this.#attributeTerm(filter, description);
      }
    }
  }

  /** Compiles an AND. Nested ANDs are flattened. Several NOTs become the NOT of one OR. */
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

  /** Compiles an OR. Nested ORs are flattened. Equalities of the same description become a single term. */
  #or(filters: readonly Filter[]): CompiledFilter {
    const of: CompiledFilter[] = [];
    const sets = new EqualitySets();
    let undefinedPart: CompiledFilter | undefined;
    const visit = (part: Filter): void => {
      if (part.type === 'or') {
        part.filters.forEach(visit);
        return;
      }
      const equality = part.type === 'equal' || part.type === 'approx';
      const compiled = equality ? this.#addToSet(part.attribute, part.value, sets) : this.filter(part);
      // One Undefined term has the same effect as several.
      if (compiled?.kind === 'undefined') undefinedPart ??= compiled;
      else if (compiled) of.push(compiled);
    };
    filters.forEach(visit);
    for (const { description, forms } of sets) of.push(this.#setTerm(description, forms));
    if (undefinedPart) of.push(undefinedPart);
    return of.length === 1 ? of[0]! : { kind: 'or', of };
  }

  /**
   * Adds an equality to `sets` and returns undefined. Returns a term where the equality has to be a term of its own.
   */
  #addToSet(attribute: string, assertion: Buffer, sets: EqualitySets): CompiledFilter | undefined {
    const description = this.#describe(attribute);
    if ('kind' in description) return description;
    const rule = description.type.equality;
    if (!rule || rule.test || isComputed(description.type)) return this.#ruleTerm(description, rule, assertion);
    const norm = rule.normalizeAssertion(assertion);
    if (!norm) return invalidValue(description);
    sets.add(description, norm);
  }

  #setTerm(description: AttributeDescription, forms: ReadonlySet<string>): CompiledFilter {
    const rule = description.type.equality!;
    const norms = Array.from(forms.size > 1 ? [...forms].sort() : forms, (form) => Buffer.from(form, 'latin1'));
    if (norms.length === 1)
      return this.#term(description, ruleTest(rule, norms[0]!), { kind: 'equality', norm: norms[0]! }, true);
    return this.#term(description, setTest(rule, forms), { kind: 'anyOf', norms }, true);
  }

  /** Returns the description of an attribute, or an Undefined term where the attribute may not be searched by. */
  #describe(attribute: string): AttributeDescription | CompiledFilter {
    const description = this.#schema.describe(attribute);
    if (!description) return undefinedTerm(`attribute '${attribute.slice(0, 100)}' is not in the schema`);
    if (!isRequestable(description)) return undefinedTerm(`attribute '${description.type.name}' has no binary form`);
    if (isHidden(description.type)) return undefinedTerm(`attribute '${description.text}' may not be searched`);
    return description;
  }

  #attributeTerm(filter: ItemFilter, description: AttributeDescription): CompiledFilter {
    switch (filter.type) {
      case 'present':
        return this.#term(description, undefined, { kind: 'presence' }, true);
      case 'equal':
      case 'approx':
        return this.#ruleTerm(description, description.type.equality, filter.value);
      case 'greaterOrEqual':
      case 'lessOrEqual':
        return this.#boundTerm(description, filter.value, filter.type === 'greaterOrEqual');
      case 'substring':
        return this.#substringTerm(filter, description);
    }
  }

  #boundTerm(description: AttributeDescription, assertion: Buffer, isLower: boolean): CompiledFilter {
    const { equality, ordering: rule } = description.type;
    if (!rule) return undefinedTerm(`attribute '${description.text}' has no ordering rule`);
    const bound = rule.normalizeAssertion(assertion);
    if (!bound) return invalidValue(description);
    const lookup: Lookup | undefined = sharesForms(equality, rule)
      ? { kind: isLower ? 'from' : 'upTo', norm: bound }
      : undefined;
    const matches = (form: Buffer): boolean => {
      const order = Buffer.compare(form, bound);
      return isLower ? order >= 0 : order <= 0;
    };
    return this.#term(description, { normalize: rule.normalize, matches }, lookup, false);
  }

  #ruleTerm(
    description: AttributeDescription,
    rule: MatchingRule | undefined,
    assertion: Buffer,
    directGroupsOnly = this.#directGroupsOnly,
  ): CompiledFilter {
    if (!rule) return undefinedTerm(`attribute '${description.text}' has no equality rule`);
    const norm = rule.normalizeAssertion(assertion);
    if (!norm) return invalidValue(description);
    const same = rule === description.type.equality && rule.test === undefined;
    const lookup: Lookup | undefined = same ? { kind: 'equality', norm } : undefined;
    return this.#term(description, ruleTest(rule, norm), lookup, same, directGroupsOnly);
  }

  #substringTerm(
    substrings: Substrings,
    description: AttributeDescription,
    rule = description.type.substrings,
  ): CompiledFilter {
    if (!rule?.normalizePart) return undefinedTerm(`attribute '${description.text}' has no substrings rule`);
    const parts = normalizeParts(rule, substrings);
    if (!parts) return undefinedTerm(`a part asked of '${description.text}' is not of its syntax`);
    const lookup = sharesForms(description.type.equality, rule) ? partsLookup(rule, parts) : undefined;
    return this.#term(description, partsTest(rule, parts), lookup, false);
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
    const description = this.#describe(filter.attribute);
    if ('kind' in description) return description;
    if (rule && !this.#schema.ruleApplies(rule, description.type))
      return undefinedTerm(`matching rule '${filter.rule}' does not suit attribute '${description.text}'`);
    const term = this.#extensibleTerm(description, rule ?? description.type.equality, filter.value);
    if (!filter.dnAttributes || term.kind !== 'term') return term;
    const test = assertionTest((rule ?? description.type.equality)!, filter.value)!;
    this.inputs.dn = true;
    const inDn = (candidate: Candidate) =>
      this.#matchesDn(
        candidate.dn,
        (type) => description.options.length === 0 && type !== undefined && isSubtypeOf(type, description.type),
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
    const description = this.#describe(attribute);
    if ('kind' in description) return description;
    const { type, options, text } = description;
    if (!this.#schema.ruleApplies(rule, type))
      return undefinedTerm(`an in-chain match does not suit attribute '${text}', whose values are no DNs`);
    if (options.length > 0) return undefinedTerm('an in-chain match takes an attribute without options');
    // An in-chain match on memberOf includes groups of groups, whatever `directGroupsOnly` says.
    if (isMembership(type)) return this.#ruleTerm(description, type.equality, value, false);
    if (isComputed(type)) return undefinedTerm(`attribute '${text}' leads to no other entry`);
    const end = rule.normalizeAssertion(value);
    if (!end) return invalidValue(description);
    const term = chainTerm(type, end, this.inputs);
    return this.#viewer.sightOf ? restrictedTerm(term, description) : term;
  }

  #extensibleTerm(
    description: AttributeDescription,
    rule: MatchingRule | undefined,
    assertion: Buffer,
  ): CompiledFilter {
    if (rule?.kind !== 'substrings') return this.#ruleTerm(description, rule, assertion);
    const parts = parseSubstrings(assertion);
    return parts ? this.#substringTerm(parts, description, rule) : invalidValue(description);
  }

  /** Compiles `(:rule:=value)`: a term on every attribute to which the rule applies. */
  #anyAttributeTerm(filter: Extensible, rule: MatchingRule): CompiledFilter {
    const test = assertionTest(rule, filter.value);
    if (!test) return undefinedTerm('the value asked for is not of the rule’s assertion syntax');
    const applies = (type: AttributeType) => !isHidden(type) && this.#schema.ruleApplies(rule, type);
    this.inputs.values = 'all';
    if (filter.dnAttributes) this.inputs.dn = true;
    const descriptions = this.#parts.descriptions;
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
        return filter.dnAttributes && this.#matchesDn(candidate.dn, applies, test) ? TRUE : FALSE;
      },
    };
  }

  /** Whether a value in the DN, of a type that `applies` accepts, passes the test. */
  #matchesDn(dn: Buffer, applies: (type: AttributeType) => boolean, test: FormTest): boolean {
    for (const rdn of this.#schema.parseDnBytes(dn).rdns) {
      for (const ava of rdn.avas) if (applies(ava.type) && passes(test, ava.value)) return true;
    }
    return false;
  }

  /** Returns the term on the values of one description. `test` undefined: presence. */
  #term(
    description: AttributeDescription,
    test: FormTest | undefined,
    lookup: Lookup | undefined,
    exact: boolean,
    directGroupsOnly = this.#directGroupsOnly,
  ): CompiledFilter {
    const { inputs } = this;
    const term = isComputed(description.type)
      ? computedTerm(description.type, test, inputs, directGroupsOnly)
      : this.#memberTerm(description, this.#valuesTerm(description, test, lookup, exact));
    return this.#viewer.sightOf ? restrictedTerm(term, description) : term;
  }

  /** Extends an equality on `member` to the members that the URLs of dynamic groups find. */
  #memberTerm(description: AttributeDescription, values: Term): Term {
    const { lookup } = values;
    const { member, urlTypes: urls, dynamicClass: dynamic } = groupTypes(this.#schema);
    if (description.type !== member || description.options.length > 0) return values;
    if (lookup?.kind !== 'equality' && lookup?.kind !== 'anyOf') return values;
    const [url] = urls;
    const hasUrl = url && this.#valuesTerm(this.#schema.requireDescription(url.name), undefined, undefined, false);
    const ends = lookup.kind === 'anyOf' ? lookup.norms : [lookup.norm];
    if (!hasUrl) return values;
    const chain = { by: 'url', type: url, ends, among: dynamic } as const;
    this.inputs.chains.push(chain);
    return new MemberTerm(values, hasUrl, chain);
  }

  #valuesTerm(
    attribute: AttributeDescription,
    test: FormTest | undefined,
    lookup: Lookup | undefined,
    exact: boolean,
  ): Term {
    const { inputs } = this;
    const description = this.#parts.filterDescriptions.of(attribute);
    const stored = lookup && this.#storedLookup(description.types, lookup);
    if (test && inputs.values !== 'all') inputs.values = addTypes(inputs.values, description.types);
    const forms = test && this.#forms.of(description, test.normalize);
    return new ValuesTerm(this.#parts.filterDescriptions, description, test, forms, stored, exact);
  }

  /** Adds earlier names of renamed entries to a lookup of references, as rows may still hold these names. */
  #storedLookup(types: readonly AttributeType[], lookup: Lookup): Lookup {
    const { nameChanges: names, references } = this.#parts.naming?.shared ?? {};
    if (!names || names.isEmpty || !types.some((type) => references!.has(type))) return lookup;
    if (lookup.kind !== 'equality' && lookup.kind !== 'anyOf') return lookup;
    const current = lookup.kind === 'anyOf' ? lookup.norms : [lookup.norm];
    const forms = new Set(
      current.flatMap((norm) => [norm.toString('latin1'), ...names.storedNormTexts(norm.toString('latin1'))]),
    );
    const norms = [...forms].sort().map((form) => Buffer.from(form, 'latin1'));
    return norms.length === 1 ? { kind: 'equality', norm: norms[0]! } : { kind: 'anyOf', norms };
  }
}

function addTypes(set: ReadonlySet<AttributeType> | undefined, types: readonly AttributeType[]): Set<AttributeType> {
  const all = (set as Set<AttributeType> | undefined) ?? new Set();
  for (const type of types) all.add(type);
  return all;
}

function invalidValue({ text }: AttributeDescription): CompiledFilter {
  return undefinedTerm(`the value asked of '${text}' is not of its syntax`);
}
