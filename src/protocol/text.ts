import { isUtf8 } from 'node:buffer';

/**
 * Number of cached strings. Attribute names, base DNs and OIDs repeat from request to request. `readText` looks up
 * short ASCII texts by their bytes in a table of fixed size: no string is created, and equal texts are the same string
 * object, whose hash is already computed. Each slot of the table has the text that was read last; the texts take at
 * most SLOTS × LONGEST bytes.
 */
const SLOTS = 2048;
const MAX_TEXT_BYTES = 64;
const recentTexts: string[] = new Array<string>(SLOTS).fill('');

/** Returns the UTF-8 text in `buffer[start, end)`; undefined if the bytes are not valid UTF-8. */
export function readText(buffer: Buffer, start: number, end: number): string | undefined {
  const length = end - start;
  if (length > MAX_TEXT_BYTES) return decodeUtf8(buffer, start, end);
  let hash = length;
  let bits = 0;
  for (let i = start; i < end; i++) {
    const byte = buffer[i]!;
    bits |= byte;
    hash = (Math.imul(hash, 31) + byte) | 0;
  }
  if (bits > 0x7f) return decodeUtf8(buffer, start, end);
  const slot = (hash ^ (hash >>> 13)) & (SLOTS - 1);
  const cachedText = recentTexts[slot]!;
  if (cachedText.length === length && equalsText(cachedText, buffer, start)) return cachedText;
  const text = buffer.toString('latin1', start, end);
  recentTexts[slot] = text;
  return text;
}

function equalsText(text: string, buffer: Buffer, start: number): boolean {
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) !== buffer[start + i]) return false;
  return true;
}

function decodeUtf8(buffer: Buffer, start: number, end: number): string | undefined {
  return isUtf8(buffer.subarray(start, end)) ? buffer.toString('utf8', start, end) : undefined;
}

const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;

/** Whether the range is a numericoid (RFC 4512 §1.4): at least two numbers without leading zeros, separated by dots. */
export function isNumericOid(buffer: Buffer, from: number, end: number): boolean {
  let dots = 0;
  let start = from;
  for (let i = from; i <= end; i++) {
    const byte = i < end ? buffer[i]! : DOT;
    if (byte === DOT) {
      if (i === start || (i - start > 1 && buffer[start] === ZERO)) return false;
      start = i + 1;
      dots++;
    } else if (byte < ZERO || byte > NINE) return false;
  }
  return dots > 1;
}
