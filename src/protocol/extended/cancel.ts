import { expectEnd, readInteger, readSequence } from '../asn1.js';
import { MAX_INT } from '../reader.js';

const MAX_VALUE = 64;

/** Decodes the messageID of the operation to cancel (RFC 3909 §2). Throws LdapError `protocolError`. */
export function decodeCancel(value: Buffer | undefined): number {
  const label = 'cancel';
  const elements = readSequence(value, label, MAX_VALUE);
  const target = readInteger(elements[0], label, 0, MAX_INT);
  expectEnd(elements, 1, label);
  return target;
}
