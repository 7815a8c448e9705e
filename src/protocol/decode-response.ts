import type { PartialAttribute } from '../ldap/ldap-types.js';
import { decodeMessageId } from './decode.js';
import { decodeControls } from './decode-controls.js';
import type { Response, ResponseMessage, Result } from './ldap-messages.js';
import { defaultLimits } from './limits.js';
import { hex, Reader } from './reader.js';
import { contextTag, ENUMERATED, isRequestOp, OCTET_STRING, opOfTag, opTags, REFERRAL, SEQUENCE, SET } from './tags.js';

/** Decodes the response in `buffer[start, end)`, for clients and tests. Throws ProtocolError. */
export function decodeResponse(buffer: Buffer, start = 0, end = buffer.length): ResponseMessage {
  const reader = new Reader(buffer, start, end);
  const message = reader.enter(SEQUENCE, 'LDAP message');
  const id = decodeMessageId(reader, 0);
  const response = decodeOp(reader);
  const controls = decodeControls(reader, defaultLimits.maxControls);
  reader.leaveSequence(message, 'LDAP message', 0);
  if (reader.at !== end) throw reader.error(`${end - reader.at} bytes follow the LDAP message`);
  return controls.length > 0 ? { id, response, controls } : { id, response };
}

function decodeOp(reader: Reader): Response {
  const tag = reader.peek();
  const op = opOfTag(tag);
  if (op === undefined || isRequestOp(op)) throw reader.error(`${hex(tag)} is no response`);
  const outerEnd = reader.enter(opTags[op], op);
  const response = decodeFields(reader, op);
  reader.leaveSequence(outerEnd, op, 11);
  return response;
}

function decodeFields(reader: Reader, op: Response['op']): Response {
  switch (op) {
    case 'searchEntry':
      return { op, dn: reader.text('objectName'), attributes: decodeAttributes(reader) };
    case 'searchReference':
      return { op, urls: decodeUris(reader) };
    case 'intermediate':
      return { op, oid: optionalText(reader, contextTag(0)), value: optionalBytes(reader, contextTag(1)) };
    case 'bindResponse':
      return { op, ...decodeResult(reader), serverCredentials: optionalBytes(reader, contextTag(7)) };
    case 'extendedResponse':
      return {
        op,
        ...decodeResult(reader),
        oid: optionalText(reader, contextTag(10)),
        value: optionalBytes(reader, contextTag(11)),
      };
    default:
      return { op, ...decodeResult(reader) };
  }
}

function decodeResult(reader: Reader): Result {
  const code = reader.integer('resultCode', 0, undefined, ENUMERATED);
  const matchedDN = reader.text('matchedDN');
  const message = reader.text('diagnosticMessage');
  if (reader.peek() !== REFERRAL) return { code, matchedDN, message };
  const outerEnd = reader.enter(REFERRAL, 'referral');
  const referrals = decodeUris(reader);
  reader.leave(outerEnd, 'referral');
  return { code, matchedDN, message, referrals };
}

function decodeUris(reader: Reader): string[] {
  const list: string[] = [];
  while (reader.peek() === OCTET_STRING) list.push(reader.text('URI'));
  return list;
}

function decodeAttributes(reader: Reader): PartialAttribute[] {
  const outerEnd = reader.enter(SEQUENCE, 'attributes');
  const list: PartialAttribute[] = [];
  while (reader.at < reader.end) {
    const attribute = reader.enter(SEQUENCE, 'attribute');
    const type = reader.text('attribute description');
    const set = reader.enter(SET, 'attribute values');
    const values: Buffer[] = [];
    while (reader.at < reader.end) values.push(reader.bytes('attribute value'));
    reader.leave(set, 'attribute values');
    reader.leaveSequence(attribute, 'attribute');
    list.push({ type, values });
  }
  reader.leave(outerEnd, 'attributes');
  return list;
}

function optionalBytes(reader: Reader, tag: number): Buffer | undefined {
  return reader.peek() === tag ? reader.bytes('value', tag) : undefined;
}

function optionalText(reader: Reader, tag: number): string | undefined {
  return reader.peek() === tag ? reader.text('name', tag) : undefined;
}
