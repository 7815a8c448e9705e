import type { Filter } from '../ldap/ldap-types.js';
import type { DecodeLimits } from './limits.js';
import { hex, type Reader } from './reader.js';
import { contextTag, filterTags, SEQUENCE } from './tags.js';

/** Decodes the filter of a search (RFC 4511 §4.5.1.7). Limits nesting and the number of items. */
export function decodeFilter(reader: Reader, limits: DecodeLimits): Filter {
  const budget: Budget = { remainingItems: limits.maxFilterNodes, limits };
  return decodeNested(reader, budget, limits.maxFilterDepth);
}

interface Budget {
  /** Remaining number of items that the filter may have. */
  remainingItems: number;
  readonly limits: DecodeLimits;
}

function spendItem(reader: Reader, budget: Budget): void {
  if (--budget.remainingItems < 0) throw reader.refusal(`filter has over ${budget.limits.maxFilterNodes} items`);
}

function decodeNested(reader: Reader, budget: Budget, depth: number): Filter {
  spendItem(reader, budget);
  const tag = reader.peek();
  switch (tag) {
    case filterTags.equal:
      return decodeAssertion(reader, 'equal', tag);
    case filterTags.present:
      return { type: 'present', attribute: reader.text('filter attribute', tag) };
    case filterTags.and:
      return decodeSet(reader, budget, depth, 'and', tag);
    case filterTags.or:
      return decodeSet(reader, budget, depth, 'or', tag);
    case filterTags.not:
      return decodeNot(reader, budget, depth);
    case filterTags.substring:
      return decodeSubstring(reader, budget);
    case filterTags.greaterOrEqual:
      return decodeAssertion(reader, 'greaterOrEqual', tag);
    case filterTags.lessOrEqual:
      return decodeAssertion(reader, 'lessOrEqual', tag);
    case filterTags.approx:
      return decodeAssertion(reader, 'approx', tag);
    case filterTags.extensible:
      return decodeExtensible(reader);
    case -1:
      throw reader.error('filter is missing');
    default:
      throw reader.error(`unknown filter choice ${hex(tag)}`);
  }
}

function depthBelow(reader: Reader, budget: Budget, depth: number): number {
  if (depth <= 0) throw reader.refusal(`filter is nested over ${budget.limits.maxFilterDepth} deep`);
  return depth - 1;
}

function decodeSet(reader: Reader, budget: Budget, depth: number, type: 'and' | 'or', tag: number): Filter {
  const nextDepth = depthBelow(reader, budget, depth);
  const outerEnd = reader.enter(tag, 'filter set');
  const filters: Filter[] = [];
  while (reader.at < reader.end) filters.push(decodeNested(reader, budget, nextDepth));
  reader.leave(outerEnd, 'filter set');
  return { type, filters };
}

function decodeNot(reader: Reader, budget: Budget, depth: number): Filter {
  const nextDepth = depthBelow(reader, budget, depth);
  const outerEnd = reader.enter(filterTags.not, 'filter negation');
  const subfilter = decodeNested(reader, budget, nextDepth);
  reader.leave(outerEnd, 'filter negation');
  return { type: 'not', filter: subfilter };
}

function decodeAssertion(
  reader: Reader,
  type: 'equal' | 'greaterOrEqual' | 'lessOrEqual' | 'approx',
  tag: number,
): Filter {
  const outerEnd = reader.enter(tag, 'filter assertion');
  const attribute = reader.text('filter attribute');
  const value = reader.bytes('filter value');
  reader.leaveSequence(outerEnd, 'filter assertion');
  return { type, attribute, value };
}

function decodeSubstring(reader: Reader, budget: Budget): Filter {
  const substringEnd = reader.enter(filterTags.substring, 'substring filter');
  const attribute = reader.text('filter attribute');
  const outerEnd = reader.enter(SEQUENCE, 'substrings');
  let initial: Buffer | undefined;
  let final: Buffer | undefined;
  const anyParts: Buffer[] = [];
  if (reader.peek() === contextTag(0)) initial = decodeSubstringPiece(reader, budget, contextTag(0));
  while (reader.peek() === contextTag(1)) anyParts.push(decodeSubstringPiece(reader, budget, contextTag(1)));
  if (reader.peek() === contextTag(2)) final = decodeSubstringPiece(reader, budget, contextTag(2));
  reader.leave(outerEnd, 'substrings');
  reader.leaveSequence(substringEnd, 'substring filter');
  if (!initial && !final && anyParts.length === 0) throw reader.refusal('substring filter without a substring');
  return { type: 'substring', attribute, initial, any: anyParts, final };
}

function decodeSubstringPiece(reader: Reader, budget: Budget, tag: number): Buffer {
  spendItem(reader, budget);
  const bytes = reader.bytes('substring', tag);
  if (bytes.length === 0) throw reader.refusal('substring is empty');
  return bytes;
}

function decodeExtensible(reader: Reader): Filter {
  const outerEnd = reader.enter(filterTags.extensible, 'extensible filter');
  const rule = reader.peek() === contextTag(1) ? reader.text('matching rule', contextTag(1)) : undefined;
  const attribute = reader.peek() === contextTag(2) ? reader.text('filter attribute', contextTag(2)) : undefined;
  const value = reader.bytes('filter value', contextTag(3));
  const dnAttributes = reader.peek() === contextTag(4) && reader.boolean('dnAttributes', contextTag(4));
  reader.leaveSequence(outerEnd, 'extensible filter', 4);
  if (rule === undefined && attribute === undefined) {
    throw reader.refusal('extensible filter names neither attribute nor matching rule');
  }
  return { type: 'extensible', rule, attribute, value, dnAttributes };
}
