import { ResultCode } from '../ldap/ldap-error.js';
import type { Filter, Modification, PartialAttribute } from '../ldap/ldap-types.js';
import type {
  BindRequest,
  Control,
  Request,
  RequestMessage,
  Response,
  ResponseMessage,
  Result,
  SearchRequest,
} from './ldap-messages.js';
import { NOTICE_OF_DISCONNECTION } from './oids.js';
import {
  BOOLEAN,
  CONTROLS,
  changeOperations,
  constructedContextTag,
  contextTag,
  derefs,
  ENUMERATED,
  filterTags,
  INTEGER,
  OCTET_STRING,
  opTags,
  REFERRAL,
  type ResultOp,
  SEQUENCE,
  SET,
  scopes,
} from './tags.js';
import { Writer } from './writer.js';

/** Responses other than entries. `encode-entry.ts` encodes entries. */
type OtherResponse = Exclude<Response, { op: 'searchEntry' }>;

/** Appends an LDAPMessage with a response (RFC 4511 §4). */
export function encodeResponse(writer: Writer, message: ResponseMessage & { readonly response: OtherResponse }): void {
  const element = writer.begin(SEQUENCE);
  writer.integer(INTEGER, message.id);
  encodeResponseOp(writer, message.response);
  endMessage(writer, element, message.controls);
}

/** Appends a response that consists of a result only. */
export function writeResult(
  writer: Writer,
  id: number,
  op: ResultOp,
  result: Result,
  controls?: readonly Control[],
): void {
  const element = writer.begin(SEQUENCE);
  writer.integer(INTEGER, id);
  const operation = writer.begin(opTags[op]);
  encodeResult(writer, result);
  writer.end(operation);
  endMessage(writer, element, controls);
}

/** Appends the Notice of Disconnection (RFC 4511 §4.4.1), the last message on a connection. */
export function writeDisconnection(writer: Writer, code: number, message: string): void {
  writeNotice(writer, NOTICE_OF_DISCONNECTION, code, message);
}

/** Appends an unsolicited notification (RFC 4511 §4.4). */
export function writeNotice(writer: Writer, oid: string, code: number, message: string, value?: Buffer): void {
  encodeResponse(writer, { id: 0, response: { op: 'extendedResponse', code, matchedDN: '', message, oid, value } });
}

function endMessage(writer: Writer, message: number, controls?: readonly Control[]): void {
  if (controls !== undefined && controls.length > 0) encodeControls(writer, controls);
  writer.end(message);
}

function encodeResponseOp(writer: Writer, response: OtherResponse): void {
  const element = writer.begin(opTags[response.op]);
  switch (response.op) {
    case 'searchReference':
      for (const url of response.urls) writer.text(OCTET_STRING, url);
      break;
    case 'intermediate':
      encodeOptional(writer, contextTag(0), response.oid);
      encodeOptional(writer, contextTag(1), response.value);
      break;
    case 'bindResponse':
      encodeResult(writer, response);
      encodeOptional(writer, contextTag(7), response.serverCredentials);
      break;
    case 'extendedResponse':
      encodeResult(writer, response);
      encodeOptional(writer, contextTag(10), response.oid);
      encodeOptional(writer, contextTag(11), response.value);
      break;
    default:
      encodeResult(writer, response);
  }
  writer.end(element);
}

/** Writes the components of an LDAPResult (RFC 4511 §4.1.9). Omits referrals unless the code is `referral`. */
function encodeResult(writer: Writer, result: Result): void {
  writer.integer(ENUMERATED, result.code);
  writer.text(OCTET_STRING, result.matchedDN);
  writer.text(OCTET_STRING, result.message);
  if (result.code !== ResultCode.referral || result.referrals === undefined || result.referrals.length === 0) return;
  const element = writer.begin(REFERRAL);
  for (const url of result.referrals) writer.text(OCTET_STRING, url);
  writer.end(element);
}

/** Writes a PartialAttribute (RFC 4511 §4.1.7). */
export function encodeAttribute(writer: Writer, { type, values }: PartialAttribute): void {
  const element = writer.begin(SEQUENCE);
  writer.text(OCTET_STRING, type);
  const set = writer.begin(SET);
  for (const value of values) writer.octetString(OCTET_STRING, value);
  writer.end(set);
  writer.end(element);
}

/** Writes `controls [0]` (RFC 4511 §4.1.11). */
export function encodeControls(writer: Writer, controls: readonly Control[], tag = CONTROLS): void {
  const element = writer.begin(tag);
  for (const { oid, critical, value } of controls) {
    const control = writer.begin(SEQUENCE);
    writer.text(OCTET_STRING, oid);
    if (critical) writer.boolean(BOOLEAN, true);
    encodeOptional(writer, OCTET_STRING, value);
    writer.end(control);
  }
  writer.end(element);
}

export function encodeOptional(writer: Writer, tag: number, value: string | Buffer | undefined): void {
  if (value === undefined) return;
  if (typeof value === 'string') writer.text(tag, value);
  else writer.octetString(tag, value);
}

/** Encodes an LDAPMessage with a request (RFC 4511 §4), for clients and tests. */
export function encodeRequest(message: RequestMessage): Buffer {
  const writer = new Writer();
  const element = writer.begin(SEQUENCE);
  writer.integer(INTEGER, message.id);
  encodeRequestOp(writer, message.request);
  if (message.controls.length > 0) encodeControls(writer, message.controls);
  writer.end(element);
  return writer.take();
}

function encodeRequestOp(writer: Writer, request: Request): void {
  const tag = opTags[request.op];
  switch (request.op) {
    case 'delete':
      writer.text(tag, request.dn);
      break;
    case 'unbind':
      writer.header(tag, 0);
      break;
    case 'abandon':
      writer.integer(tag, request.target);
      break;
    default: {
      const element = writer.begin(tag);
      encodeFields(writer, request);
      writer.end(element);
    }
  }
}

function encodeFields(writer: Writer, request: Exclude<Request, { op: 'delete' | 'unbind' | 'abandon' }>): void {
  switch (request.op) {
    case 'bind':
      encodeBind(writer, request);
      break;
    case 'search':
      encodeSearch(writer, request);
      break;
    case 'compare':
      writer.text(OCTET_STRING, request.dn);
      encodeAssertion(writer, request.attribute, request.value);
      break;
    case 'add':
      writer.text(OCTET_STRING, request.dn);
      encodeList(writer, request.attributes);
      break;
    case 'modify':
      writer.text(OCTET_STRING, request.dn);
      encodeChanges(writer, request.changes);
      break;
    case 'modifyDN':
      writer.text(OCTET_STRING, request.dn);
      writer.text(OCTET_STRING, request.newRdn);
      writer.boolean(BOOLEAN, request.deleteOldRdn);
      encodeOptional(writer, contextTag(0), request.newSuperior);
      break;
    case 'extended':
      writer.text(contextTag(0), request.oid);
      encodeOptional(writer, contextTag(1), request.value);
  }
}

function encodeList(writer: Writer, attributes: readonly PartialAttribute[]): void {
  const list = writer.begin(SEQUENCE);
  for (const attribute of attributes) encodeAttribute(writer, attribute);
  writer.end(list);
}

function encodeChanges(writer: Writer, changes: readonly Modification[]): void {
  const list = writer.begin(SEQUENCE);
  for (const { operation, attribute } of changes) {
    const change = writer.begin(SEQUENCE);
    writer.integer(ENUMERATED, changeOperations.indexOf(operation));
    encodeAttribute(writer, attribute);
    writer.end(change);
  }
  writer.end(list);
}

function encodeBind(writer: Writer, { version, name, authentication }: BindRequest): void {
  writer.integer(INTEGER, version);
  writer.text(OCTET_STRING, name);
  if (authentication.method === 'simple') {
    writer.octetString(contextTag(0), authentication.password);
    return;
  }
  const sasl = writer.begin(constructedContextTag(3));
  writer.text(OCTET_STRING, authentication.mechanism);
  encodeOptional(writer, OCTET_STRING, authentication.credentials);
  writer.end(sasl);
}

function encodeSearch(writer: Writer, request: SearchRequest): void {
  writer.text(OCTET_STRING, request.base);
  writer.integer(ENUMERATED, scopes.indexOf(request.scope));
  writer.integer(ENUMERATED, derefs.indexOf(request.deref));
  writer.integer(INTEGER, request.sizeLimit);
  writer.integer(INTEGER, request.timeLimit);
  writer.boolean(BOOLEAN, request.typesOnly);
  encodeFilter(writer, request.filter);
  const attributes = writer.begin(SEQUENCE);
  for (const name of request.attributes) writer.text(OCTET_STRING, name);
  writer.end(attributes);
}

function encodeAssertion(writer: Writer, attribute: string, value: Buffer): void {
  const assertion = writer.begin(SEQUENCE);
  writer.text(OCTET_STRING, attribute);
  writer.octetString(OCTET_STRING, value);
  writer.end(assertion);
}

/** Appends a filter (RFC 4511 §4.5.1). Recurses to the nesting depth of the filter. */
function encodeFilter(writer: Writer, filter: Filter): void {
  if (filter.type === 'present') {
    writer.text(filterTags.present, filter.attribute);
    return;
  }
  const element = writer.begin(filterTags[filter.type]);
  switch (filter.type) {
    case 'and':
    case 'or':
      for (const subfilter of filter.filters) encodeFilter(writer, subfilter);
      break;
    case 'not':
      encodeFilter(writer, filter.filter);
      break;
    case 'substring':
      encodeSubstring(writer, filter);
      break;
    case 'extensible':
      encodeOptional(writer, contextTag(1), filter.rule);
      encodeOptional(writer, contextTag(2), filter.attribute);
      writer.octetString(contextTag(3), filter.value);
      if (filter.dnAttributes) writer.boolean(contextTag(4), true);
      break;
    default:
      writer.text(OCTET_STRING, filter.attribute);
      writer.octetString(OCTET_STRING, filter.value);
  }
  writer.end(element);
}

function encodeSubstring(writer: Writer, filter: Extract<Filter, { type: 'substring' }>): void {
  writer.text(OCTET_STRING, filter.attribute);
  const partsMark = writer.begin(SEQUENCE);
  encodeOptional(writer, contextTag(0), filter.initial);
  for (const substring of filter.any) writer.octetString(contextTag(1), substring);
  encodeOptional(writer, contextTag(2), filter.final);
  writer.end(partsMark);
}
