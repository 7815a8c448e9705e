import { ResultCode } from '../ldap/ldap-error.js';
import type { PartialAttribute } from '../ldap/ldap-types.js';
import type { Control, Response, ResponseMessage, Result } from './ldap-messages.js';
import { NOTICE_OF_DISCONNECTION } from './oids.js';
import {
  BOOLEAN,
  CONTROLS,
  contextTag,
  ENUMERATED,
  INTEGER,
  OCTET_STRING,
  opTags,
  REFERRAL,
  type ResultOp,
  SEQUENCE,
  SET,
} from './tags.js';
import type { Writer } from './writer.js';

/** Responses other than entries. `encode-entry.ts` encodes entries. */
type OtherResponse = Exclude<Response, { op: 'searchEntry' }>;

/** Appends an LDAPMessage with a response (RFC 4511 §4). */
export function encodeResponse(writer: Writer, message: ResponseMessage & { readonly response: OtherResponse }): void {
  const element = writer.begin(SEQUENCE);
  writer.integer(INTEGER, message.id);
  encodeOp(writer, message.response);
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
  const response: OtherResponse = {
    op: 'extendedResponse',
    code,
    matchedDN: '',
    message,
    oid: NOTICE_OF_DISCONNECTION,
  };
  encodeResponse(writer, { id: 0, response });
}

function endMessage(writer: Writer, message: number, controls?: readonly Control[]): void {
  if (controls !== undefined && controls.length > 0) encodeControls(writer, controls);
  writer.end(message);
}

function encodeOp(writer: Writer, response: OtherResponse): void {
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
export function encodeControls(writer: Writer, controls: readonly Control[]): void {
  const element = writer.begin(CONTROLS);
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
