import { readOctets, readSequence } from '../asn1.js';

const MAX_VALUE = 8 * 1024;
const LABEL = 'pre-read or post-read control';

/**
 * Decodes the value of the pre-read and the post-read control (RFC 4527 §3), `AttributeSelection ::= SEQUENCE OF
 * LDAPString`. Throws LdapError `protocolError`.
 */
export function decodeReadEntry(value: Buffer | undefined): readonly string[] {
  return readSequence(value, LABEL, MAX_VALUE).map((element) => readOctets(element, LABEL).toString());
}

/** Returns the SearchResultEntry of a message, the value of the response control. The messageID is below 128. */
export function entryOfMessage(message: Buffer): Buffer {
  const lengthByte = message[1]!;
  const headerBytes = lengthByte < 0x80 ? 2 : 2 + (lengthByte & 0x7f);
  return Buffer.from(message.subarray(headerBytes + MESSAGE_ID_BYTES));
}

/** Length of the INTEGER element. */
const MESSAGE_ID_BYTES = 3;
