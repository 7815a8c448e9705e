import { sameBytes } from '../../../bytes/compare.js';
import { findBytes } from '../../../bytes/find.js';
import type { AttributeDescription, AttributeType, MatchingRule } from '../../../schema/schema-types.js';
import { CELL_HEADER, valueStart } from '../../../store/row.js';
import { isMembership, SUBSCHEMA_DN } from '../../model/computed.js';
import type { LockTimes } from '../search-params.js';
import {
  type Candidate,
  type CompiledFilter,
  FALSE,
  type FilterInputs,
  type FormTest,
  type Lookup,
  type Term,
  TRUE,
  type Tri,
  UNDEFINED,
} from './compiled-filter.js';
import { parseSubstrings, type Substrings } from './substring-assertion.js';

/** Returns the value of the cell `[offset, end)` as a view of the row; for a pointer, the large value. */
export function cellBytes(candidate: Candidate, offset: number, end: number): Buffer {
  const { row, largeValues } = candidate;
  const start = valueStart(row, offset);
  if (largeValues) {
    const largeValue = largeValues.get(row.toString('latin1', offset + CELL_HEADER, start));
    if (largeValue) return largeValue;
  }
  return row.subarray(start, end);
}

export function undefinedTerm(reason: string): CompiledFilter {
  return { kind: 'undefined', reason };
}

/** Whether a type is `superior` or a subtype of `superior`. */
export function isSubtypeOf(type: AttributeType, superior: AttributeType): boolean {
  for (let t: AttributeType | undefined = type; t; t = t.superior) if (t === superior) return true;
  return false;
}

/** Returns a test of values against an assertion in normal form. */
export function ruleTest({ normalize, test }: MatchingRule, assertion: Buffer): FormTest {
  if (test) return { normalize, matches: (form) => test(form, assertion) };
  return { normalize, matches: (form) => form.equals(assertion), equalNorm: assertion.toString('latin1') };
}

/** Returns the normal forms of the parts of a substrings assertion; undefined if a part does not fit the rule. */
export function normalizeParts(rule: MatchingRule, { initial, any, final }: Substrings): Substrings | undefined {
  const initialNorm = initial && rule.normalizePart!(initial, 'initial');
  const finalNorm = final && rule.normalizePart!(final, 'final');
  if ((initial && !initialNorm) || (final && !finalNorm)) return undefined;
  const anyNorms: Buffer[] = [];
  for (const part of any) {
    const norm = rule.normalizePart!(part, 'any');
    if (!norm) return undefined;
    anyNorms.push(norm);
  }
  return { initial: initialNorm, any: anyNorms, final: finalNorm };
}

/** Returns a test whether values contain the parts, which are in normal form. */
export function partsTest({ normalize, pad }: MatchingRule, { initial, any, final }: Substrings): FormTest {
  const hasOuterSpace = (part: Buffer | undefined) => part?.[0] === SPACE || part?.at(-1) === SPACE;
  if (!pad || !(hasOuterSpace(initial) || hasOuterSpace(final) || any.some(hasOuterSpace)))
    return { normalize, matches: (form) => hasParts(form, initial, any, final) };
  const [paddedInitial, paddedFinal] = [initial && pad(initial, 'initial'), final && pad(final, 'final')];
  const paddedAny = any.map((part) => pad(part, 'any'));
  return { normalize, matches: (form) => hasParts(pad(form, 'whole'), paddedInitial, paddedAny, paddedFinal) };
}

/**
 * Returns the lookup for a substrings assertion. It finds all matching normal forms and possibly more: spaces at the
 * ends of parts are removed, since stored normal forms may lack them.
 */
export function partsLookup({ pad }: MatchingRule, { initial, any, final }: Substrings): Lookup {
  const trim = (part: Buffer | undefined, isAtStart: boolean, isAtEnd: boolean): Buffer | undefined => {
    const start = pad && isAtStart && part?.[0] === SPACE ? 1 : 0;
    const trimmed = part?.subarray(
      start,
      pad && isAtEnd && part.length > start && part.at(-1) === SPACE ? -1 : undefined,
    );
    return trimmed?.length ? trimmed : undefined;
  };
  const [trimmedInitial, trimmedFinal] = [trim(initial, false, true), trim(final, true, false)];
  const trimmedAny = any.map((part) => trim(part, true, true)).filter((part) => part !== undefined);
  if (!trimmedInitial && !trimmedFinal && trimmedAny.length === 0) return { kind: 'presence' };
  return { kind: 'pattern', initial: trimmedInitial, any: trimmedAny, final: trimmedFinal };
}

const SPACE = 0x20;

/** Returns the test for the assertion of an extensible match; undefined if the assertion has a wrong syntax. */
export function assertionTest(rule: MatchingRule, assertion: Buffer): FormTest | undefined {
  if (rule.kind === 'substrings') {
    const substrings = parseSubstrings(assertion);
    const normalizedParts = substrings && normalizeParts(rule, substrings);
    return normalizedParts && partsTest(rule, normalizedParts);
  }
  const norm = rule.normalizeAssertion(assertion);
  return norm && ruleTest(rule, norm);
}

/** Returns a test whether values have one of several normal forms (Latin-1). */
export function setTest({ normalize }: MatchingRule, norms: ReadonlySet<string>): FormTest {
  return { normalize, matches: (form) => norms.has(form.toString('latin1')) };
}

export function passes({ normalize, matches }: FormTest, value: Buffer): boolean {
  const norm = normalize(value);
  return norm !== undefined && matches(norm);
}

/** Whether a normal form has the parts of a substrings assertion, in order, without overlap (RFC 4517 §4.2.6). */
export function hasParts(
  norm: Buffer,
  initial: Buffer | undefined,
  any: readonly Buffer[],
  final: Buffer | undefined,
): boolean {
  let start = 0;
  let end = norm.length;
  if (initial) {
    if (initial.length > end || !sameBytes(initial, norm, 0, initial.length)) return false;
    start = initial.length;
  }
  if (final) {
    end -= final.length;
    if (end < start || !sameBytes(final, norm, end)) return false;
  }
  for (const part of any) {
    const offset = findBytes(norm, part, start);
    if (offset < 0 || offset + part.length > end) return false;
    start = offset + part.length;
  }
  return true;
}

/**
 * Adapts the term to a viewer with restricted rights: it is Undefined for an entry by whose attribute the viewer may
 * not search. Rows lack hidden subtypes, so the term may be False for an entry that the lookup finds.
 */
export function restrictedTerm(term: Term, description: AttributeDescription): Term {
  return {
    kind: 'term',
    types: term.types,
    lookup: term.lookup,
    group: term.group,
    chain: term.chain,
    moreIds: term.moreIds,
    isExact: term.isExact && description.type.subtypes.length === 1,
    evaluate(candidate) {
      const { sight } = candidate;
      return !sight || sight.all('search') || sight.allows('search', description)
        ? term.evaluate(candidate)
        : UNDEFINED;
    },
  };
}

/** Returns the term on a computed attribute (RFC 5020, RFC 4512 §4.2, X.501 hasSubordinates). */
export function computedTerm(
  type: AttributeType,
  test: FormTest | undefined,
  inputs: FilterInputs,
  directGroups: boolean,
): Term {
  if (isMembership(type)) return membershipTerm(type, test, inputs, directGroups ? 'directGroups' : 'groups');
  const attributeName = type.name.toLowerCase();
  if (attributeName === 'entrydn') inputs.needsDn = true;
  if (attributeName.endsWith('subordinates')) inputs.needsSubordinates = true;
  const computedValue = (candidate: Candidate): Buffer => {
    if (attributeName === 'entrydn') return candidate.dn;
    if (attributeName === 'hassubordinates') return Buffer.from(candidate.hasSubordinates ? 'TRUE' : 'FALSE');
    if (attributeName === 'numsubordinates') return Buffer.from(String(candidate.numSubordinates));
    return SUBSCHEMA_DN;
  };
  // No filter finds the suffix entry by contextCSN, which changes all the time.
  const isFound = attributeName !== 'contextcsn';
  return {
    kind: 'term',
    types: [type],
    lookup: undefined,
    isExact: false,
    evaluate: (candidate) => (isFound && (!test || passes(test, computedValue(candidate))) ? TRUE : FALSE),
  };
}

/** Returns the term on the groups of an entry. `norms`: names of groups. */
function membershipTerm(
  type: AttributeType,
  test: FormTest | undefined,
  inputs: FilterInputs,
  key: 'groups' | 'directGroups',
): Term {
  inputs[key === 'groups' ? 'needsGroups' : 'needsDirectGroups'] = true;
  const matches = (groups: ReadonlySet<string>): boolean => {
    if (!test) return groups.size > 0;
    if (test.equalNorm !== undefined) return groups.has(test.equalNorm);
    for (const name of groups) if (test.matches(Buffer.from(name, 'latin1'))) return true;
    return false;
  };
  const evaluate = ({ [key]: groups, namedGroups }: Candidate): Tri => {
    if (groups) return matches(groups) ? TRUE : FALSE;
    return namedGroups && matches(namedGroups) ? TRUE : UNDEFINED;
  };
  const group = test?.equalNorm === undefined ? undefined : Buffer.from(test.equalNorm, 'latin1');
  if (test?.equalNorm !== undefined) inputs.groupNames.push(test.equalNorm);
  return { kind: 'term', types: [type], lookup: undefined, group, isExact: false, evaluate };
}

/** Returns `term`, which is on pwdAccountLockedTime, with lock times taking precedence over values in entries. */
export function lockTerm(term: Term, test: FormTest | undefined, times: LockTimes, ids: Buffer): Term {
  const evaluate = (candidate: Candidate): Tri => {
    const time = candidate.id && times.get(candidate.id.toString('latin1'));
    if (time === undefined) return term.evaluate(candidate);
    return !test || passes(test, time) ? TRUE : FALSE;
  };
  return { kind: 'term', types: term.types, lookup: term.lookup, moreIds: ids, isExact: false, evaluate };
}

/** Returns the term that is True for the entries from which values of an attribute lead to the entry `end`. */
export function chainTerm(type: AttributeType, end: Buffer, inputs: FilterInputs): Term {
  const chain = { kind: 'chain', type, endDns: [end] } as const;
  inputs.chains.push(chain);
  const evaluate = ({ isInChain }: Candidate): Tri => (isInChain ? (isInChain(chain) ? TRUE : FALSE) : UNDEFINED);
  return { kind: 'term', types: [type], lookup: undefined, chain, isExact: false, evaluate };
}

/** The asserted values in an OR of equalities, by attribute description. */
export class EqualitySets {
  readonly #sets = new Map<AttributeDescription, Set<string>>();

  /** Adds a value in its normal form. */
  add(description: AttributeDescription, norm: Buffer): void {
    const set = this.#sets.get(description);
    const normText = norm.toString('latin1');
    if (set) set.add(normText);
    else this.#sets.set(description, new Set([normText]));
  }

  /** Yields the descriptions, each with its normal forms as Latin-1. */
  *[Symbol.iterator](): Generator<{ readonly description: AttributeDescription; readonly forms: ReadonlySet<string> }> {
    for (const [description, forms] of this.#sets) yield { description, forms };
  }
}
