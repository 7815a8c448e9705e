import type { Modification, PartialAttribute } from '../ldap/ldap-types.js';
import type { AddRequest, ModifyRequest } from './ldap-messages.js';
import type { DecodeLimits } from './limits.js';
import type { Reader } from './reader.js';
import { changeOperations, opTags, SEQUENCE, SET } from './tags.js';

/** Decodes add and modify requests, which carry attributes with values. */

interface Budget {
  /** Remaining number of values that the request may have. */
  remainingValues: number;
  readonly limits: DecodeLimits;
}

/** Decodes an AddRequest (RFC 4511 §4.7). */
export function decodeAdd(reader: Reader, limits: DecodeLimits): AddRequest {
  const outerEnd = reader.enter(opTags.add, 'add request');
  const dn = reader.text('entry');
  const list = reader.enter(SEQUENCE, 'attributes');
  const budget: Budget = { remainingValues: limits.maxValues, limits };
  const attributes: PartialAttribute[] = [];
  while (reader.at < reader.end) {
    if (attributes.length === limits.maxAttributes) throw tooManyError(reader, 'attributes', limits.maxAttributes);
    const attribute = decodeAttribute(reader, budget);
    if (attribute.values.length === 0) throw reader.refusal('attribute to add has no value');
    attributes.push(attribute);
  }
  reader.leave(list, 'attributes');
  reader.leaveSequence(outerEnd, 'add request');
  return { op: 'add', dn, attributes };
}

/** Decodes a ModifyRequest (RFC 4511 §4.6). */
export function decodeModify(reader: Reader, limits: DecodeLimits): ModifyRequest {
  const outerEnd = reader.enter(opTags.modify, 'modify request');
  const dn = reader.text('object');
  const list = reader.enter(SEQUENCE, 'changes');
  const budget: Budget = { remainingValues: limits.maxValues, limits };
  const changes: Modification[] = [];
  while (reader.at < reader.end) {
    if (changes.length === limits.maxAttributes) throw tooManyError(reader, 'changes', limits.maxAttributes);
    changes.push(decodeChange(reader, budget));
  }
  reader.leave(list, 'changes');
  reader.leaveSequence(outerEnd, 'modify request');
  return { op: 'modify', dn, changes };
}

function decodeChange(reader: Reader, budget: Budget): Modification {
  const outerEnd = reader.enter(SEQUENCE, 'change');
  const operation = changeOperations[reader.enumerated('operation', changeOperations.length - 1)]!;
  const attribute = decodeAttribute(reader, budget);
  reader.leaveSequence(outerEnd, 'change');
  return { operation, attribute };
}

function decodeAttribute(reader: Reader, budget: Budget): PartialAttribute {
  const outerEnd = reader.enter(SEQUENCE, 'attribute');
  const type = reader.text('attribute description');
  const set = reader.enter(SET, 'attribute values');
  const values: Buffer[] = [];
  while (reader.at < reader.end) {
    if (--budget.remainingValues < 0) throw tooManyError(reader, 'values', budget.limits.maxValues);
    values.push(reader.bytes('attribute value'));
  }
  reader.leave(set, 'attribute values');
  reader.leaveSequence(outerEnd, 'attribute');
  return { type, values };
}

function tooManyError(reader: Reader, label: string, limit: number): Error {
  return reader.refusal(`request has over ${limit} ${label}`);
}
