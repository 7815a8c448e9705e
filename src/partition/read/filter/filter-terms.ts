import { sameBytes } from '../../../bytes/compare.js';
import { findBytes } from '../../../bytes/find.js';
import type { AttributeDescription, AttributeType, MatchingRule } from '../../../schema/schema-types.js';
import { CELL_HEADER, valueStart } from '../../../store/row.js';
import { isMembership, SUBSCHEMA_DN } from '../../model/computed.js';
import type { Candidate, CompiledFilter, FormTest, Lookup, Needs, Term, Tri } from './compiled-filter.js';
import { FALSE, TRUE, UNDEFINED } from './compiled-filter.js';
import { parseSubstrings, type Substrings } from './substring-assertion.js';

/** The value of the cell `[at, next)`, a view; large values from the candidate. */
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

export function isOrBelow(type: AttributeType, above: AttributeType): boolean {
  for (let t: AttributeType | undefined = type; t; t = t.superior) if (t === above) return true;
  return false;
}

/** Whether values match an assertion that is in its normal form. */
export function ruleTest({ normalize, test }: MatchingRule, assertion: Buffer): FormTest {
  if (test) return { normalize, matches: (form) => test(form, assertion) };
  return { normalize, matches: (form) => form.equals(assertion), equal: assertion.toString('latin1') };
}

/** The parts in the rule's normal form; undefined when one is not of its syntax. */
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

/** Whether values have these parts, which are in the rule's normal form. */
export function partsTest({ normalize, pad }: MatchingRule, { initial, any, final }: Substrings): FormTest {
  const isSpaced = (part: Buffer | undefined) => part?.[0] === SPACE || part?.at(-1) === SPACE;
  if (!pad || !(isSpaced(initial) || isSpaced(final) || any.some(isSpaced)))
    return { normalize, matches: (form) => hasParts(form, initial, any, final) };
  const [first, last] = [initial && pad(initial, 'initial'), final && pad(final, 'final')];
  const between = any.map((part) => pad(part, 'any'));
  return { normalize, matches: (form) => hasParts(pad(form, 'whole'), first, between, last) };
}

/** What finds the forms that have these parts, and perhaps more: of parts the spaces that a form may lack are cut. */
export function partsLookup({ pad }: MatchingRule, { initial, any, final }: Substrings): Lookup {
  const bare = (part: Buffer | undefined, atStart: boolean, atEnd: boolean): Buffer | undefined => {
    const from = pad && atStart && part?.[0] === SPACE ? 1 : 0;
    const cut = part?.subarray(from, pad && atEnd && part.length > from && part.at(-1) === SPACE ? -1 : undefined);
    return cut?.length ? cut : undefined;
  };
  const [first, last] = [bare(initial, false, true), bare(final, true, false)];
  const between = any.map((part) => bare(part, true, true)).filter((part) => part !== undefined);
  if (!first && !last && between.length === 0) return { kind: 'presence' };
  return { kind: 'pattern', initial: first, any: between, final: last };
}

const SPACE = 0x20;

/**
 * Whether values match an assertion as an extensible match has it; undefined when it is not of the rule's assertion
 * syntax.
 */
export function assertionTest(rule: MatchingRule, assertion: Buffer): FormTest | undefined {
  if (rule.kind === 'substrings') {
    const asked = parseSubstrings(assertion);
    const parts = asked && normalizeParts(rule, asked);
    return parts && partsTest(rule, parts);
  }
  const norm = rule.normalizeAssertion(assertion);
  return norm && ruleTest(rule, norm);
}

/** Whether values have one of several normal forms, given as Latin-1. */
export function setTest({ normalize }: MatchingRule, forms: ReadonlySet<string>): FormTest {
  return { normalize, matches: (form) => forms.has(form.toString('latin1')) };
}

export function passes({ normalize, matches }: FormTest, value: Buffer): boolean {
  const form = normalize(value);
  return form !== undefined && matches(form);
}

/** Parts of a substrings assertion in a normal form: in order, without overlap (RFC 4517 §4.2.6). */
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
 * Where rights differ from entry to entry: the term is Undefined where the type asked for may not be searched. Types
 * below it that may not are not in the row, so that the term may be false where the lookup finds the entry.
 */
export function seenTerm(term: Term, asked: AttributeDescription): Term {
  return {
    kind: 'term',
    types: term.types,
    lookup: term.lookup,
    group: term.group,
    chain: term.chain,
    exact: term.exact && asked.type.subtypes.length === 1,
    evaluate(candidate) {
      const { sight } = candidate;
      return !sight || sight.all('search') || sight.allows('search', asked) ? term.evaluate(candidate) : UNDEFINED;
    },
  };
}

/** Attributes that are computed when read (RFC 5020, RFC 4512 §4.2, X.501 hasSubordinates). */
export function computedTerm(type: AttributeType, test: FormTest | undefined, needs: Needs, ownGroups: boolean): Term {
  if (isMembership(type)) return membershipTerm(type, test, needs, ownGroups ? 'ownGroups' : 'groups');
  const name = type.name.toLowerCase();
  if (name === 'entrydn') needs.dn = true;
  if (name.endsWith('subordinates')) needs.subordinates = true;
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

/** The groups of an entry; their names are the forms of the values. */
function membershipTerm(
  type: AttributeType,
  test: FormTest | undefined,
  needs: Needs,
  which: 'groups' | 'ownGroups',
): Term {
  needs[which] = true;
  const holds = (groups: ReadonlySet<string>): boolean => {
    if (!test) return groups.size > 0;
    if (test.equal !== undefined) return groups.has(test.equal);
    for (const name of groups) if (test.matches(Buffer.from(name, 'latin1'))) return true;
    return false;
  };
  const evaluate = ({ [which]: groups, someGroups }: Candidate): Tri => {
    if (groups) return holds(groups) ? TRUE : FALSE;
    return someGroups && holds(someGroups) ? TRUE : UNDEFINED;
  };
  const group = test?.equal === undefined ? undefined : Buffer.from(test.equal, 'latin1');
  if (test?.equal !== undefined) needs.named.push(test.equal);
  return { kind: 'term', types: [type], lookup: undefined, group, exact: false, evaluate };
}

/** Entries that lead to an end by values of an attribute. */
export function chainTerm(type: AttributeType, end: Buffer, needs: Needs): Term {
  const chain = { by: 'chain', type, ends: [end] } as const;
  needs.chains.push(chain);
  const evaluate = ({ isIn }: Candidate): Tri => (isIn ? (isIn(chain) ? TRUE : FALSE) : UNDEFINED);
  return { kind: 'term', types: [type], lookup: undefined, chain, exact: false, evaluate };
}
