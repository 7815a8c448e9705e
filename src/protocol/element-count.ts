import { SEQUENCE } from './tags.js';

/** Bit of the identifier octet of constructed elements (X.690 §8.1.2.5). */
const CONSTRUCTED = 0x20;
/** Elements before the content of the protocolOp: the LDAPMessage, its messageID and the protocolOp itself. */
const HEAD_ELEMENTS = 3;

/**
 * Returns the number of BER elements of the LDAPMessage in `buffer[start, end)`; `max` if it has more. Elements in the
 * values of controls count, too. Decodes nothing: the result is exact if the message can be decoded.
 */
export function countElements(buffer: Buffer, start: number, end: number, max: number): number {
  let count = 0;
  let opEnd = end;
  for (let at = start; at + 1 < end && count < max; ) {
    const tag = buffer[at]!;
    let length = buffer[at + 1]!;
    at += 2;
    if (length > 0x7f) {
      let octetCount = length & 0x7f;
      for (length = 0; octetCount > 0 && at < end; octetCount--) length = length * 256 + buffer[at++]!;
    }
    if (++count === HEAD_ELEMENTS) opEnd = at + length;
    const isEntered = (tag & CONSTRUCTED) !== 0 || (at > opEnd && buffer[at] === SEQUENCE);
    if (!isEntered) at += length;
  }
  return count;
}
