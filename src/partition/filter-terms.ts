import type { Filter } from '../ldap/types.js';
import type { AttributeType, MatchingRule } from '../schema/types.js';
import { CELL_HEADER, sameBytes, valueStart } from '../store/row.js';
import type { Candidate, CompiledFilter, Needs } from './filter.js';
import { FALSE, TRUE } from './filter.js';

const COMPUTED = new Set(['entrydn', 'hassubordinates', 'numsubordinates', 'subschemasubentry']);

/** Whether the attribute is not stored but made up when it is read. */
export function isComputed(type: AttributeType): boolean {
  return COMPUTED.has(type.name.toLowerCase());
}

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

export function ruleTest(rule: MatchingRule, assertion: Buffer): (value: Buffer) => boolean {
  const { test } = rule;
  return (value) => {
    const norm = rule.normalize(value);
    return norm !== undefined && (test ? test(norm, assertion) : norm.equals(assertion));
  };
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
    const at = norm.indexOf(part, from);
    if (at < 0 || at + part.length > to) return false;
    from = at + part.length;
  }
  return true;
}

/** Attributes that are computed when read (RFC 5020, RFC 4512 §4.2, X.501 hasSubordinates). */
export function computedTerm(
  filter: Filter,
  type: AttributeType,
  test: ((value: Buffer) => boolean) | undefined,
  needs: Needs,
): CompiledFilter {
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
    filter,
    types: [type],
    lookup: undefined,
    exact: false,
    evaluate: (candidate) => (!test || test(value(candidate)) ? TRUE : FALSE),
  };
}

export const SUBSCHEMA_DN = Buffer.from('cn=Subschema');
