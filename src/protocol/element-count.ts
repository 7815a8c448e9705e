/** Bit of the identifier octet of constructed elements (X.690 §8.1.2.5). */
const CONSTRUCTED = 0x20;

/**
 * Returns the number of BER elements of the LDAPMessage in `buffer[start, end)`; `max` if it has more. The value of a
 * control counts as one element. Decodes nothing: the result is exact if the message can be decoded.
 */
export function countElements(buffer: Buffer, start: number, end: number, max: number): number {
  let count = 0;
  for (let at = start; at + 1 < end && count < max; ) {
    const tag = buffer[at]!;
    let length = buffer[at + 1]!;
    at += 2;
    if (length > 0x7f) {
      let octetCount = length & 0x7f;
      for (length = 0; octetCount > 0 && at < end; octetCount--) length = length * 256 + buffer[at++]!;
    }
    count++;
    if ((tag & CONSTRUCTED) === 0) at += length;
  }
  return count;
}
