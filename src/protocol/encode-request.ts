import type { Filter, Modification, PartialAttribute } from '../ldap/ldap-types.js';
import { encodeAttribute, encodeControls, encodeOptional } from './encode.js';
import type { BindRequest, Request, RequestMessage, SearchRequest } from './ldap-messages.js';
import {
  BOOLEAN,
  changeOperations,
  constructedContextTag,
  contextTag,
  derefs,
  ENUMERATED,
  filterTags,
  INTEGER,
  OCTET_STRING,
  opTags,
  SEQUENCE,
  scopes,
} from './tags.js';
import { Writer } from './writer.js';

/** Encodes an LDAPMessage with a request (RFC 4511 §4), for clients and tests. */
export function encodeRequest(message: RequestMessage): Buffer {
  const writer = new Writer();
  const element = writer.begin(SEQUENCE);
  writer.integer(INTEGER, message.id);
  encodeOp(writer, message.request);
  if (message.controls.length > 0) encodeControls(writer, message.controls);
  writer.end(element);
  return writer.take();
}

function encodeOp(writer: Writer, request: Request): void {
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
