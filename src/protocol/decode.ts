import type { Modification, PartialAttribute } from '../ldap/ldap-types.js';
import { decodeControls } from './decode-controls.js';
import { decodeFilter } from './decode-filter.js';
import type {
  AbandonRequest,
  AddRequest,
  BindRequest,
  CompareRequest,
  DeleteRequest,
  ExtendedRequest,
  ModifyDnRequest,
  ModifyRequest,
  Request,
  RequestMessage,
  SearchRequest,
  UnbindRequest,
} from './ldap-messages.js';
import { type DecodeLimits, defaultLimits } from './limits.js';
import { hex, MAX_INT, ProtocolError, Reader } from './reader.js';
import {
  changeOperations,
  constructedContextTag,
  contextTag,
  derefs,
  INTEGER,
  isRequestOp,
  OCTET_STRING,
  opOfTag,
  opTags,
  SEQUENCE,
  SET,
  scopes,
} from './tags.js';

/**
 * Decodes the LDAPMessage that fills `buffer[start, end)` (RFC 4511 §4.1.1). Buffers in the result are views into
 * `buffer`.
 * Throws ProtocolError only, for any input. The error has the messageID and the operation if these could be decoded.
 * Time and memory are linear in `end - start`.
 */
export function decodeRequest(
  buffer: Buffer,
  start: number,
  end: number,
  limits: DecodeLimits = defaultLimits,
): RequestMessage {
  const reader = new Reader(buffer, start, end);
  const message = reader.enter(SEQUENCE, 'LDAP message');
  const id = decodeMessageId(reader, 1);
  const tag = reader.peek();
  const op = opOfTag(tag);
  try {
    if (op === undefined) throw reader.error(tag < 0 ? 'protocolOp is missing' : `unknown protocolOp ${hex(tag)}`);
    if (!isRequestOp(op)) throw reader.error(`${op} is sent by servers only`);
    const request = decodeOp(reader, op, limits);
    const controls = decodeControls(reader, limits.maxControls);
    reader.leaveSequence(message, 'LDAP message', 0);
    if (reader.at !== end) throw reader.error(`${end - reader.at} bytes follow the LDAP message`);
    return { id, request, controls };
  } catch (error) {
    if (error instanceof ProtocolError) {
      error.messageId = id;
      error.op = op !== undefined && isRequestOp(op) ? op : undefined;
    }
    throw error;
  }
}

/**
 * Decodes only the messageID and the operation of a message. Returns undefined if they are invalid. The buffer may end
 * before `end`, but has to contain the first `HEAD_BYTES` bytes of the message.
 */
export function peekRequest(buffer: Buffer, start: number, end: number): { id: number; op: Request['op'] } | undefined {
  const reader = new Reader(buffer, start, end);
  try {
    reader.enter(SEQUENCE, 'LDAP message');
    const id = decodeMessageId(reader, 1);
    const op = opOfTag(reader.peek());
    return op !== undefined && isRequestOp(op) ? { id, op } : undefined;
  } catch (error) {
    if (error instanceof ProtocolError) return undefined;
    throw error;
  }
}

/** Decodes a messageID of at least `min`. 0 is the messageID of unsolicited notifications (RFC 4511 §4.1.1.1). */
export function decodeMessageId(reader: Reader, min: number): number {
  const length = reader.header(INTEGER, 'messageID');
  const id = reader.integerContent(length, 'messageID', -MAX_INT - 1, MAX_INT);
  if (id < min) throw reader.error(`messageID is ${id}; ${min} to ${MAX_INT} are accepted`);
  return id;
}

function decodeOp(reader: Reader, op: Request['op'], limits: DecodeLimits): Request {
  switch (op) {
    case 'search':
      return decodeSearch(reader, limits);
    case 'bind':
      return decodeBind(reader);
    case 'compare':
      return decodeCompare(reader);
    case 'modify':
      return decodeModify(reader, limits);
    case 'add':
      return decodeAdd(reader, limits);
    case 'delete':
      return decodeDelete(reader);
    case 'modifyDN':
      return decodeModifyDn(reader);
    case 'unbind':
      return decodeUnbind(reader);
    case 'abandon':
      return decodeAbandon(reader);
    case 'extended':
      return decodeExtended(reader);
  }
}

const SIMPLE_TAG = contextTag(0);
const SASL_TAG = constructedContextTag(3);
const MAX_VERSION = 127;

/** Decodes a BindRequest (RFC 4511 §4.2). */
function decodeBind(reader: Reader): BindRequest {
  const outerEnd = reader.enter(opTags.bind, 'bind request');
  const version = reader.integer('version', 1, MAX_VERSION);
  const name = reader.text('bind name');
  const authentication = decodeAuthentication(reader);
  reader.leaveSequence(outerEnd, 'bind request', 3);
  return { op: 'bind', version, name, authentication };
}

function decodeAuthentication(reader: Reader): BindRequest['authentication'] {
  const tag = reader.peek();
  if (tag === SIMPLE_TAG) return { method: 'simple', password: reader.bytes('simple authentication', SIMPLE_TAG) };
  if (tag === SASL_TAG) {
    const outerEnd = reader.enter(SASL_TAG, 'SASL authentication');
    const mechanism = reader.text('SASL mechanism');
    const credentials = reader.peek() === OCTET_STRING ? reader.bytes('SASL credentials') : undefined;
    reader.leaveSequence(outerEnd, 'SASL authentication');
    return { method: 'sasl', mechanism, credentials };
  }
  if (tag >= 0x80) throw reader.refusal(`authentication choice ${hex(tag)} is unknown`, 'authMethodNotSupported');
  throw reader.error('authentication is missing');
}

/** Decodes an UnbindRequest (RFC 4511 §4.3). */
function decodeUnbind(reader: Reader): UnbindRequest {
  if (reader.header(opTags.unbind, 'unbind request') !== 0) throw reader.error('unbind request has content');
  return { op: 'unbind' };
}

/** Decodes a CompareRequest (RFC 4511 §4.10). */
function decodeCompare(reader: Reader): CompareRequest {
  const outerEnd = reader.enter(opTags.compare, 'compare request');
  const dn = reader.text('entry');
  const assertion = reader.enter(SEQUENCE, 'assertion');
  const attribute = reader.text('attribute description');
  const value = reader.bytes('assertion value');
  reader.leaveSequence(assertion, 'assertion');
  reader.leaveSequence(outerEnd, 'compare request');
  return { op: 'compare', dn, attribute, value };
}

/** Decodes a DelRequest (RFC 4511 §4.8). */
function decodeDelete(reader: Reader): DeleteRequest {
  return { op: 'delete', dn: reader.text('delete request', opTags.delete) };
}

/** Decodes a ModifyDNRequest (RFC 4511 §4.9). */
function decodeModifyDn(reader: Reader): ModifyDnRequest {
  const outerEnd = reader.enter(opTags.modifyDN, 'modifyDN request');
  const dn = reader.text('entry');
  const newRdn = reader.text('newrdn');
  const deleteOldRdn = reader.boolean('deleteoldrdn');
  const newSuperior = reader.peek() === contextTag(0) ? reader.text('newSuperior', contextTag(0)) : undefined;
  reader.leaveSequence(outerEnd, 'modifyDN request', 0);
  return { op: 'modifyDN', dn, newRdn, deleteOldRdn, newSuperior };
}

/** Decodes an AbandonRequest (RFC 4511 §4.11). */
function decodeAbandon(reader: Reader): AbandonRequest {
  return { op: 'abandon', target: reader.integer('messageID to abandon', 0, MAX_INT, opTags.abandon) };
}

/** Decodes an ExtendedRequest (RFC 4511 §4.12). */
function decodeExtended(reader: Reader): ExtendedRequest {
  const outerEnd = reader.enter(opTags.extended, 'extended request');
  const oid = reader.oid('requestName', contextTag(0));
  const value = reader.peek() === contextTag(1) ? reader.bytes('requestValue', contextTag(1)) : undefined;
  // Components after requestValue are refused. A value under a wrong tag would otherwise be ignored, and some
  // operations allow a missing value.
  if (reader.peek() >= 0)
    throw reader.refusal(`extended request: unexpected tag ${hex(reader.peek())} after requestName`);
  reader.leave(outerEnd, 'extended request');
  return { op: 'extended', oid, value };
}

/** Decodes a SearchRequest (RFC 4511 §4.5.1). */
function decodeSearch(reader: Reader, limits: DecodeLimits): SearchRequest {
  const outerEnd = reader.enter(opTags.search, 'search request');
  const base = reader.text('baseObject');
  const scope = scopes[reader.enumerated('scope', scopes.length - 1)]!;
  const deref = derefs[reader.enumerated('derefAliases', derefs.length - 1)]!;
  const sizeLimit = reader.integer('sizeLimit');
  const timeLimit = reader.integer('timeLimit');
  const typesOnly = reader.boolean('typesOnly');
  const filter = decodeFilter(reader, limits);
  const attributes = decodeSelection(reader, limits.maxSelectedAttributes);
  reader.leaveSequence(outerEnd, 'search request');
  return { op: 'search', base, scope, deref, sizeLimit, timeLimit, typesOnly, filter, attributes };
}

const NO_ATTRIBUTES: readonly string[] = [];

function decodeSelection(reader: Reader, maxSelected: number): readonly string[] {
  const outerEnd = reader.enter(SEQUENCE, 'attribute selection');
  if (reader.at === reader.end) {
    reader.end = outerEnd;
    return NO_ATTRIBUTES;
  }
  const attributes: string[] = [];
  while (reader.at < reader.end) {
    if (attributes.length === maxSelected) throw reader.refusal(`search selects over ${maxSelected} attributes`);
    attributes.push(reader.text('selected attribute'));
  }
  reader.leave(outerEnd, 'attribute selection');
  return attributes;
}

/** Decodes add and modify requests, which carry attributes with values. */

interface Budget {
  /** Remaining number of values that the request may have. */
  remainingValues: number;
  readonly limits: DecodeLimits;
}

/** Decodes an AddRequest (RFC 4511 §4.7). */
function decodeAdd(reader: Reader, limits: DecodeLimits): AddRequest {
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
function decodeModify(reader: Reader, limits: DecodeLimits): ModifyRequest {
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
