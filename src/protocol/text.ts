import { isUtf8 } from 'node:buffer';

/**
 * Caches strings decoded from received bytes. Attribute names, base DNs and OIDs repeat from request to request. Short
 * ASCII texts are looked up by their bytes in a table of fixed size, so that no string is created, and equal texts are
 * the same string object with a hash that is already computed. Each slot keeps the last text; the table holds at most
 * SLOTS × LONGEST bytes.
 */
const SLOTS = 2048;
const MAX_TEXT_BYTES = 64;
const recentTexts: string[] = new Array<string>(SLOTS).fill('');

/** The UTF-8 text in `buffer[from, to)`, or undefined if the bytes are not valid UTF-8. */
export function readText(buffer: Buffer, from: number, to: number): string | undefined {
  const length = to - from;
  if (length > MAX_TEXT_BYTES) return decodeUtf8(buffer, from, to);
  let hash = length;
  let bits = 0;
  for (let i = from; i < to; i++) {
    const byte = buffer[i]!;
    bits |= byte;
    hash = (Math.imul(hash, 31) + byte) | 0;
  }
  if (bits > 0x7f) return decodeUtf8(buffer, from, to);
  const slot = (hash ^ (hash >>> 13)) & (SLOTS - 1);
  const cachedText = recentTexts[slot]!;
  if (cachedText.length === length && equalsText(cachedText, buffer, from)) return cachedText;
  const text = buffer.toString('latin1', from, to);
  recentTexts[slot] = text;
  return text;
}

function equalsText(text: string, buffer: Buffer, from: number): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) !== buffer[from + i]) return false;
  return true;
}

function decodeUtf8(buffer: Buffer, from: number, to: number): string | undefined {
  return isUtf8(buffer.subarray(from, to)) ? buffer.toString('utf8', from, to) : undefined;
}

const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;

/** Whether the range is a numericoid (RFC 4512 §1.4): two or more numbers without leading zeros and dots between. */
export function isNumericOid(buffer: Buffer, from: number, to: number): boolean {
  let dots = 0;
  let start = from;
  for (let i = from; i <= to; i++) {
    const byte = i < to ? buffer[i]! : DOT;
    if (byte === DOT) {
      if (i === start || (i - start > 1 && buffer[start] === ZERO)) return false;
      start = i + 1;
      dots++;
    } else if (byte < ZERO || byte > NINE) return false;
  }
  return dots > 1;
}
