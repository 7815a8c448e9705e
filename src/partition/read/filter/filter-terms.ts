import { sameBytes } from '../../../bytes/compare.js';
import { findBytes } from '../../../bytes/find.js';
import type { AttributeDescription, AttributeType, MatchingRule } from '../../../schema/schema-types.js';
import { CELL_HEADER, valueStart } from '../../../store/row.js';
import { isMembership, SUBSCHEMA_DN } from '../../model/computed.js';
import type { Candidate, CompiledFilter, FilterInputs, FormTest, Lookup, Term, Tri } from './compiled-filter.js';
import { FALSE, TRUE, UNDEFINED } from './compiled-filter.js';
import { parseSubstrings, type Substrings } from './substring-assertion.js';

/** Returns the value of the cell `[at, next)` as a view of the row, or the large value that the cell points to. */
export function cellBytes(candidate: Candidate, at: number, next: number): Buffer {
  const { row, large } = candidate;
  const start = valueStart(row, at);
  if (large) {
    const whole = large.get(row.toString('latin1', at + CELL_HEADER, start));
    if (whole) return whole;
  }
  return row.subarray(start, next);
}

export function undefinedTerm(why: string): CompiledFilter {
  return { kind: 'undefined', why };
}

/** Whether a type is `superior` or a subtype of `superior`. */
export function isSubtypeOf(type: AttributeType, superior: AttributeType): boolean {
  for (let t: AttributeType | undefined = type; t; t = t.superior) if (t === superior) return true;
  return false;
}

/** Returns the test of values against an assertion in normal form. */
export function ruleTest({ normalize, test }: MatchingRule, assertion: Buffer): FormTest {
  if (test) return { normalize, matches: (form) => test(form, assertion) };
  return { normalize, matches: (form) => form.equals(assertion), equal: assertion.toString('latin1') };
}

/** Returns the parts in the rule's normal form; undefined where a part does not have the rule's syntax. */
export function normalizeParts(rule: MatchingRule, { initial, any, final }: Substrings): Substrings | undefined {
  const first = initial && rule.normalizePart!(initial, 'initial');
  const last = final && rule.normalizePart!(final, 'final');
  if ((initial && !first) || (final && !last)) return undefined;
  const between: Buffer[] = [];
  for (const part of any) {
    const norm = rule.normalizePart!(part, 'any');
    if (!norm) return undefined;
    between.push(norm);
  }
  return { initial: first, any: between, final: last };
}

/** Returns the test whether values have these parts, which are in the rule's normal form. */
export function partsTest({ normalize, pad }: MatchingRule, { initial, any, final }: Substrings): FormTest {
  const isSpaced = (part: Buffer | undefined) => part?.[0] === SPACE || part?.at(-1) === SPACE;
  if (!pad || !(isSpaced(initial) || isSpaced(final) || any.some(isSpaced)))
    return { normalize, matches: (form) => hasParts(form, initial, any, final) };
  const [first, last] = [initial && pad(initial, 'initial'), final && pad(final, 'final')];
  const between = any.map((part) => pad(part, 'any'));
  return { normalize, matches: (form) => hasParts(pad(form, 'whole'), first, between, last) };
}

/**
 * Returns the lookup that finds every form with these parts, and possibly more forms: spaces at the ends of parts are
 * cut, as stored forms may lack these spaces.
 */
export function partsLookup({ pad }: MatchingRule, { initial, any, final }: Substrings): Lookup {
  const trim = (part: Buffer | undefined, atStart: boolean, atEnd: boolean): Buffer | undefined => {
    const from = pad && atStart && part?.[0] === SPACE ? 1 : 0;
    const cut = part?.subarray(from, pad && atEnd && part.length > from && part.at(-1) === SPACE ? -1 : undefined);
    return cut?.length ? cut : undefined;
  };
  const [first, last] = [trim(initial, false, true), trim(final, true, false)];
  const between = any.map((part) => trim(part, true, true)).filter((part) => part !== undefined);
  if (!first && !last && between.length === 0) return { kind: 'presence' };
  return { kind: 'pattern', initial: first, any: between, final: last };
}

const SPACE = 0x20;

/**
 * Returns the test of values against the assertion of an extensible match; undefined where the assertion does not have
 * the rule's assertion syntax.
 */
export function assertionTest(rule: MatchingRule, assertion: Buffer): FormTest | undefined {
  if (rule.kind === 'substrings') {
    const raw = parseSubstrings(assertion);
    const parts = raw && normalizeParts(rule, raw);
    return parts && partsTest(rule, parts);
  }
  const norm = rule.normalizeAssertion(assertion);
  return norm && ruleTest(rule, norm);
}

/** Returns the test whether values have one of several normal forms (Latin-1). */
export function setTest({ normalize }: MatchingRule, forms: ReadonlySet<string>): FormTest {
  return { normalize, matches: (form) => forms.has(form.toString('latin1')) };
}

export function passes({ normalize, matches }: FormTest, value: Buffer): boolean {
  const form = normalize(value);
  return form !== undefined && matches(form);
}

/**
 * Whether a normal form contains the parts of a substrings assertion, in order and without overlap (RFC 4517 §4.2.6).
 */
export function hasParts(
  norm: Buffer,
  initial: Buffer | undefined,
  any: readonly Buffer[],
  final: Buffer | undefined,
): boolean {
  let from = 0;
  let to = norm.length;
  if (initial) {
    if (initial.length > to || !sameBytes(initial, norm, 0, initial.length)) return false;
    from = initial.length;
  }
  if (final) {
    to -= final.length;
    if (to < from || !sameBytes(final, norm, to)) return false;
  }
  for (const part of any) {
    const at = findBytes(norm, part, from);
    if (at < 0 || at + part.length > to) return false;
    from = at + part.length;
  }
  return true;
}

/**
 * Returns the term as a viewer with restricted rights has it: Undefined for an entry whose attribute the viewer may not
 * search by. Hidden subtypes are missing from the row, so the term may be false for an entry that the lookup finds.
 */
export function restrictedTerm(term: Term, description: AttributeDescription): Term {
  return {
    kind: 'term',
    types: term.types,
    lookup: term.lookup,
    group: term.group,
    chain: term.chain,
    exact: term.exact && description.type.subtypes.length === 1,
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
  const name = type.name.toLowerCase();
  if (name === 'entrydn') inputs.dn = true;
  if (name.endsWith('subordinates')) inputs.subordinates = true;
  const value = (candidate: Candidate): Buffer => {
    if (name === 'entrydn') return candidate.dn;
    if (name === 'hassubordinates') return Buffer.from(candidate.hasSubordinates ? 'TRUE' : 'FALSE');
    if (name === 'numsubordinates') return Buffer.from(String(candidate.numSubordinates));
    return SUBSCHEMA_DN;
  };
  return {
    kind: 'term',
    types: [type],
    lookup: undefined,
    exact: false,
    evaluate: (candidate) => (!test || passes(test, value(candidate)) ? TRUE : FALSE),
  };
}

/** Returns the term on the groups of an entry, whose names are the normal forms of the values. */
function membershipTerm(
  type: AttributeType,
  test: FormTest | undefined,
  inputs: FilterInputs,
  key: 'groups' | 'directGroups',
): Term {
  inputs[key] = true;
  const matches = (groups: ReadonlySet<string>): boolean => {
    if (!test) return groups.size > 0;
    if (test.equal !== undefined) return groups.has(test.equal);
    for (const name of groups) if (test.matches(Buffer.from(name, 'latin1'))) return true;
    return false;
  };
  const evaluate = ({ [key]: groups, namedGroups }: Candidate): Tri => {
    if (groups) return matches(groups) ? TRUE : FALSE;
    return namedGroups && matches(namedGroups) ? TRUE : UNDEFINED;
  };
  const group = test?.equal === undefined ? undefined : Buffer.from(test.equal, 'latin1');
  if (test?.equal !== undefined) inputs.groupNames.push(test.equal);
  return { kind: 'term', types: [type], lookup: undefined, group, exact: false, evaluate };
}

/** Returns the term that is true for entries that lead to an end by values of an attribute. */
export function chainTerm(type: AttributeType, end: Buffer, inputs: FilterInputs): Term {
  const chain = { by: 'chain', type, ends: [end] } as const;
  inputs.chains.push(chain);
  const evaluate = ({ isInChain }: Candidate): Tri => (isInChain ? (isInChain(chain) ? TRUE : FALSE) : UNDEFINED);
  return { kind: 'term', types: [type], lookup: undefined, chain, exact: false, evaluate };
}
