import type { Filter } from '../../../ldap/ldap-types.js';
import { isRequestable } from '../../../schema/describer.js';
import type { Schema } from '../../../schema/schema.js';
import type { AttributeDescription, AttributeType, MatchingRule } from '../../../schema/schema-types.js';
import { nextCell } from '../../../store/row.js';
import { isInAccountState } from '../../model/account-state.js';
import { isComputed, isMembership } from '../../model/computed.js';
import type { DescriptionTable } from '../../model/descriptions.js';
import { groupTypes } from '../../model/group-rows.js';
import type { NamesContext } from '../../model/present-row.js';
import { MASTER } from '../../model/tables.js';
import { isHidden, type Viewer } from '../../model/viewer.js';
import type { LockTimes } from '../search-params.js';
import {
  type Candidate,
  type CompiledFilter,
  FALSE,
  type FilterInputs,
  type FormTest,
  type Lookup,
  MemberTerm,
  type Term,
  TRUE,
} from './compiled-filter.js';
import {
  assertionTest,
  cellBytes,
  chainTerm,
  computedTerm,
  EqualitySets,
  isSubtypeOf,
  lockTerm,
  normalizeParts,
  partsLookup,
  partsTest,
  passes,
  restrictedTerm,
  ruleTest,
  setTest,
  undefinedTerm,
} from './filter-terms.js';
import { FilterDescriptions, SharedForms } from './forms.js';
import { parseSubstrings, type Substrings } from './substring-assertion.js';
import { ValuesTerm } from './values-term.js';

/** Whether `rule` has the same normal forms as the equality rule. Rows and indexes have those of the equality rule. */
function sharesForms(equality: MatchingRule | undefined, rule: MatchingRule): boolean {
  return equality !== undefined && ruleStem(equality) === ruleStem(rule);
}

function ruleStem(rule: MatchingRule): string {
  return (rule.names[0] ?? rule.oid).replace(/(Ordering|Substrings)?Match$/, '');
}

type ItemFilter = Exclude<Filter, { type: 'and' | 'or' | 'not' | 'extensible' }>;
type ExtensibleFilter = Extract<Filter, { type: 'extensible' }>;

/** The parts of a partition that compiling uses. */
interface CompilerContext {
  readonly schema: Schema;
  readonly descriptions: DescriptionTable;
  readonly filterDescriptions: FilterDescriptions;
  readonly namesContext: NamesContext | undefined;
}

/** Compiles filters. Never throws: an assertion that is invalid in the schema becomes an Undefined term. */
export class FilterCompiler {
  readonly #context: CompilerContext;

  /** `namesContext`: the pending changes of names. */
  constructor(schema: Schema, descriptions: DescriptionTable, namesContext?: NamesContext) {
    const filterDescriptions = new FilterDescriptions(schema, descriptions);
    this.#context = { schema, descriptions, filterDescriptions, namesContext };
  }

  /** Compiles a filter. `isLocal`: terms that need other entries are Undefined. For the others see `SearchParams`. */
  compile(
    filter: Filter,
    viewer: Viewer,
    isLocal = false,
    directGroupsOnly = false,
    lockTimes?: LockTimes | 'unread',
  ): { filter: CompiledFilter; inputs: FilterInputs } {
    const compilation = new Compilation(this.#context, viewer, directGroupsOnly, lockTimes);
    const compiledFilter = compilation.compileFilter(filter);
    const { inputs } = compilation;
    return {
      filter: compiledFilter,
      inputs: isLocal ? { ...inputs, needsGroups: false, needsDirectGroups: false, chains: [] } : inputs,
    };
  }
}

class Compilation {
  readonly inputs: FilterInputs = {
    needsDn: false,
    needsSubordinates: false,
    needsGroups: false,
    needsDirectGroups: false,
    needsLockTimes: false,
    groupNames: [],
    chains: [],
    valueTypes: undefined,
  };
  readonly #schema: Schema;
  readonly #context: CompilerContext;
  readonly #viewer: Viewer;
  readonly #directGroupsOnly: boolean;
  /** `unread`: no index answers a filter on pwdAccountLockedTime. Undefined: no lock times apply. */
  readonly #lockTimes: LockTimes | 'unread' | undefined;
  #lockedIds: Buffer | undefined;
  readonly #sharedForms: SharedForms;

  constructor(
    context: CompilerContext,
    viewer: Viewer,
    directGroupsOnly: boolean,
    lockTimes: LockTimes | 'unread' | undefined,
  ) {
    this.#schema = context.schema;
    this.#context = context;
    this.#viewer = viewer;
    this.#directGroupsOnly = directGroupsOnly;
    this.#lockTimes = lockTimes;
    this.#sharedForms = new SharedForms(context.filterDescriptions);
  }

  compileFilter(filter: Filter): CompiledFilter {
    switch (filter.type) {
      case 'and':
        return this.#compileAnd(filter.filters);
      case 'or':
        return this.#compileOr(filter.filters);
      case 'not':
        return { kind: 'not', part: this.compileFilter(filter.filter) };
      case 'extensible':
        return this.#compileExtensible(filter);
      default: {
        const description = this.#describe(filter.attribute);
        return 'kind' in description ? description : this.#attributeTerm(filter, description);
      }
    }
  }

  /** Compiles an AND. Nested ANDs are flattened. Several NOTs are merged into the NOT of an OR. */
  #compileAnd(filters: readonly Filter[]): CompiledFilter {
    const operands: CompiledFilter[] = [];
    const negatedFilters: Filter[] = [];
    const addOperand = (operand: Filter): void => {
      if (operand.type === 'and') operand.filters.forEach(addOperand);
      else if (operand.type === 'not') negatedFilters.push(operand.filter);
      else operands.push(this.compileFilter(operand));
    };
    filters.forEach(addOperand);
    if (negatedFilters.length > 0) operands.push({ kind: 'not', part: this.#compileOr(negatedFilters) });
    return operands.length === 1 ? operands[0]! : { kind: 'and', parts: operands };
  }

  /** Compiles an OR. Nested ORs are flattened. Equalities on the same description are merged into one term. */
  #compileOr(filters: readonly Filter[]): CompiledFilter {
    const operands: CompiledFilter[] = [];
    const sets = new EqualitySets();
    let undefinedOperand: CompiledFilter | undefined;
    const addOperand = (operand: Filter): void => {
      if (operand.type === 'or') {
        operand.filters.forEach(addOperand);
        return;
      }
      const isEquality = operand.type === 'equal' || operand.type === 'approx';
      const compiledOperand = isEquality
        ? this.#addToSet(operand.attribute, operand.value, sets)
        : this.compileFilter(operand);
      // Several Undefined terms have the same effect as one.
      if (compiledOperand?.kind === 'undefined') undefinedOperand ??= compiledOperand;
      else if (compiledOperand) operands.push(compiledOperand);
    };
    filters.forEach(addOperand);
    for (const { description, forms: normTexts } of sets) operands.push(this.#setTerm(description, normTexts));
    if (undefinedOperand) operands.push(undefinedOperand);
    return operands.length === 1 ? operands[0]! : { kind: 'or', parts: operands };
  }

  /** Adds an equality to `sets` and returns undefined. If this is impossible, returns the equality as a term. */
  #addToSet(attribute: string, assertion: Buffer, sets: EqualitySets): CompiledFilter | undefined {
    const description = this.#describe(attribute);
    if ('kind' in description) return description;
    const rule = description.type.equality;
    if (!rule || rule.test || isComputed(description.type)) return this.#ruleTerm(description, rule, assertion);
    const norm = rule.normalizeAssertion(assertion);
    if (!norm) return invalidValue(description);
    sets.add(description, norm);
  }

  #setTerm(description: AttributeDescription, normTexts: ReadonlySet<string>): CompiledFilter {
    const rule = description.type.equality!;
    const norms = Array.from(normTexts.size > 1 ? [...normTexts].sort() : normTexts, (norm) =>
      Buffer.from(norm, 'latin1'),
    );
    if (norms.length === 1)
      return this.#term(description, ruleTest(rule, norms[0]!), { kind: 'equality', norm: norms[0]! }, true);
    return this.#term(description, setTest(rule, normTexts), { kind: 'anyOf', norms }, true);
  }

  /** Returns the description of an attribute; an Undefined term if the viewer may not search by it. */
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
    const matches = (norm: Buffer): boolean => {
      const order = Buffer.compare(norm, bound);
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
    const isEqualityRule = rule === description.type.equality && rule.test === undefined;
    const lookup: Lookup | undefined = isEqualityRule ? { kind: 'equality', norm } : undefined;
    return this.#term(description, ruleTest(rule, norm), lookup, isEqualityRule, directGroupsOnly);
  }

  #substringTerm(
    substrings: Substrings,
    description: AttributeDescription,
    rule = description.type.substrings,
  ): CompiledFilter {
    if (!rule?.normalizePart) return undefinedTerm(`attribute '${description.text}' has no substrings rule`);
    const normalizedParts = normalizeParts(rule, substrings);
    if (!normalizedParts) return undefinedTerm(`a part asked of '${description.text}' is not of its syntax`);
    const lookup = sharesForms(description.type.equality, rule) ? partsLookup(rule, normalizedParts) : undefined;
    return this.#term(description, partsTest(rule, normalizedParts), lookup, false);
  }

  #compileExtensible(filter: ExtensibleFilter): CompiledFilter {
    const rule = filter.rule === undefined ? undefined : this.#schema.rule(filter.rule);
    if (filter.rule !== undefined && !rule)
      return undefinedTerm(`matching rule '${filter.rule.slice(0, 100)}' is not known`);
    if (rule?.inChain) return this.#compileInChain(filter, rule);
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
    this.inputs.needsDn = true;
    const isInDn = (candidate: Candidate) =>
      this.#matchesDn(
        candidate.dn,
        (type) => description.options.length === 0 && type !== undefined && isSubtypeOf(type, description.type),
        test,
      );
    return {
      kind: 'term',
      types: term.types,
      lookup: undefined,
      isExact: false,
      evaluate: (candidate) => {
        const t = term.evaluate(candidate);
        return t === TRUE ? TRUE : isInDn(candidate) ? TRUE : t;
      },
    };
  }

  #compileInChain({ attribute, dnAttributes, value }: ExtensibleFilter, rule: MatchingRule): CompiledFilter {
    if (attribute === undefined) return undefinedTerm('an in-chain match needs an attribute');
    if (dnAttributes) return undefinedTerm("an in-chain match does not look at names: leave out ':dn'");
    const description = this.#describe(attribute);
    if ('kind' in description) return description;
    const { type, options, text } = description;
    if (!this.#schema.ruleApplies(rule, type))
      return undefinedTerm(`an in-chain match does not suit attribute '${text}', whose values are no DNs`);
    if (options.length > 0) return undefinedTerm('an in-chain match takes an attribute without options');
    // An in-chain match on memberOf includes nested groups, whatever `directGroupsOnly` says.
    if (isMembership(type)) return this.#ruleTerm(description, type.equality, value, false);
    if (isComputed(type)) return undefinedTerm(`attribute '${text}' leads to no other entry`);
    const endDn = rule.normalizeAssertion(value);
    if (!endDn) return invalidValue(description);
    const term = chainTerm(type, endDn, this.inputs);
    return this.#viewer.sightOf ? restrictedTerm(term, description) : term;
  }

  #extensibleTerm(
    description: AttributeDescription,
    rule: MatchingRule | undefined,
    assertion: Buffer,
  ): CompiledFilter {
    if (rule?.kind !== 'substrings') return this.#ruleTerm(description, rule, assertion);
    const substrings = parseSubstrings(assertion);
    return substrings ? this.#substringTerm(substrings, description, rule) : invalidValue(description);
  }

  /** Compiles `(:rule:=value)` to a term on all attributes to which the rule applies. */
  #anyAttributeTerm(filter: ExtensibleFilter, rule: MatchingRule): CompiledFilter {
    const test = assertionTest(rule, filter.value);
    if (!test) return undefinedTerm('the value asked for is not of the rule’s assertion syntax');
    const isApplicable = (type: AttributeType) => !isHidden(type) && this.#schema.ruleApplies(rule, type);
    this.inputs.valueTypes = 'all';
    if (filter.dnAttributes) this.inputs.needsDn = true;
    const descriptions = this.#context.descriptions;
    return {
      kind: 'term',
      types: [],
      lookup: undefined,
      isExact: false,
      evaluate: (candidate) => {
        const { row } = candidate;
        for (let offset = 0; offset < row.length; ) {
          const cellEnd = nextCell(row, offset);
          if (row[offset] === MASTER.upAttributes && isApplicable(descriptions.ofCell(row, offset).description.type)) {
            if (passes(test, cellBytes(candidate, offset, cellEnd))) return TRUE;
          }
          offset = cellEnd;
        }
        return filter.dnAttributes && this.#matchesDn(candidate.dn, isApplicable, test) ? TRUE : FALSE;
      },
    };
  }

  /** Whether the test accepts a value in the DN whose type `applies` accepts. */
  #matchesDn(dn: Buffer, applies: (type: AttributeType) => boolean, test: FormTest): boolean {
    for (const rdn of this.#schema.parseDnBytes(dn).rdns) {
      for (const ava of rdn.avas) if (applies(ava.type) && passes(test, ava.value)) return true;
    }
    return false;
  }

  /** Returns the term on the values of one description. Without `test`, a term on their presence. */
  #term(
    description: AttributeDescription,
    test: FormTest | undefined,
    lookup: Lookup | undefined,
    isExact: boolean,
    directGroupsOnly = this.#directGroupsOnly,
  ): CompiledFilter {
    const { inputs } = this;
    const term = isComputed(description.type)
      ? computedTerm(description.type, test, inputs, directGroupsOnly)
      : this.#memberTerm(description, this.#valuesTerm(description, test, lookup, isExact));
    const told = isInAccountState(description) ? this.#withLockTimes(term, test) : term;
    return this.#viewer.sightOf ? restrictedTerm(told, description) : told;
  }

  #withLockTimes(term: Term, test: FormTest | undefined): Term {
    this.inputs.needsLockTimes = true;
    const lockTimes = this.#lockTimes;
    if (lockTimes === 'unread') return { ...term, lookup: undefined };
    if (!lockTimes || lockTimes.size === 0) return term;
    this.#lockedIds ??= Buffer.from([...lockTimes.keys()].sort().join(''), 'latin1');
    return lockTerm(term, test, lockTimes, this.#lockedIds);
  }

  /** Extends an equality on `member` to members that the URLs of dynamic groups select. */
  #memberTerm(description: AttributeDescription, values: Term): Term {
    const { lookup } = values;
    const { member, urlTypes: urls, dynamicClass: dynamic } = groupTypes(this.#schema);
    if (description.type !== member || description.options.length > 0) return values;
    if (lookup?.kind !== 'equality' && lookup?.kind !== 'anyOf') return values;
    const [url] = urls;
    const urlPresence = url && this.#valuesTerm(this.#schema.requireDescription(url.name), undefined, undefined, false);
    const endDns = lookup.kind === 'anyOf' ? lookup.norms : [lookup.norm];
    if (!urlPresence) return values;
    const chain = { kind: 'url', type: url, endDns, classNorm: dynamic } as const;
    this.inputs.chains.push(chain);
    return new MemberTerm(values, urlPresence, chain);
  }

  #valuesTerm(
    attribute: AttributeDescription,
    test: FormTest | undefined,
    lookup: Lookup | undefined,
    isExact: boolean,
  ): Term {
    const { inputs } = this;
    const description = this.#context.filterDescriptions.get(attribute);
    const storedLookup = lookup && this.#storedLookup(description.types, lookup);
    if (test && inputs.valueTypes !== 'all') inputs.valueTypes = addTypes(inputs.valueTypes, description.types);
    const normalForms = test && this.#sharedForms.formsFor(description, test.normalize);
    return new ValuesTerm(this.#context.filterDescriptions, description, test, normalForms, storedLookup, isExact);
  }

  /** Adds former names of renamed entries to a lookup of references, since rows may still have them. */
  #storedLookup(types: readonly AttributeType[], lookup: Lookup): Lookup {
    const { nameChanges: names, references } = this.#context.namesContext?.shared ?? {};
    if (!names || names.isEmpty || !types.some((type) => references!.has(type))) return lookup;
    if (lookup.kind !== 'equality' && lookup.kind !== 'anyOf') return lookup;
    const currentNorms = lookup.kind === 'anyOf' ? lookup.norms : [lookup.norm];
    const normTexts = new Set(
      currentNorms.flatMap((norm) => [norm.toString('latin1'), ...names.storedNormTexts(norm.toString('latin1'))]),
    );
    const norms = [...normTexts].sort().map((norm) => Buffer.from(norm, 'latin1'));
    return norms.length === 1 ? { kind: 'equality', norm: norms[0]! } : { kind: 'anyOf', norms };
  }
}

function addTypes(set: ReadonlySet<AttributeType> | undefined, types: readonly AttributeType[]): Set<AttributeType> {
  const allTypes = (set as Set<AttributeType> | undefined) ?? new Set();
  for (const type of types) allTypes.add(type);
  return allTypes;
}

function invalidValue({ text }: AttributeDescription): CompiledFilter {
  return undefinedTerm(`the value asked of '${text}' is not of its syntax`);
}
