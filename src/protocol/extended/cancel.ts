import { expectEnd, readInteger, readSequence } from '../asn1.js';
import { MAX_INT } from '../reader.js';

const MAX_VALUE = 64;

/** messageID of the operation that a cancel request names (RFC 3909 §2). Throws LdapError `protocolError`. */
export function decodeCancel(value: Buffer | undefined): number {
  const what = 'cancel';
  const elements = readSequence(value, what, MAX_VALUE);
  const target = readInteger(elements[0], what, 0, MAX_INT);
  expectEnd(elements, 1, what);
  return target;
}
