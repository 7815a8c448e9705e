import { isUtf8 } from 'node:buffer';

/**
 * Formats DNs in the notation of this server: RFC 4514 with the usual escapes, without the spaces, quotes, semicolons
 * and `OID.` of older notations. A DN that already has this notation is kept byte for byte.
 */

const SPACE = 0x20;
const EQUALS = 0x3d;
const BACKSLASH = 0x5c;

/** Class of a byte in a value: 0 literal, 1 escaped by backslash, 2 by hexadecimal, 3 end, 4 space, 5 backslash. */
const VALUE_CLASS = new Uint8Array(256);
for (const byte of Buffer.from('"#;<=>')) VALUE_CLASS[byte] = 1;
for (let byte = 0; byte < SPACE; byte++) VALUE_CLASS[byte] = 2;
VALUE_CLASS[0x7f] = 2;
for (const byte of Buffer.from('+,')) VALUE_CLASS[byte] = 3;
VALUE_CLASS[SPACE] = 4;
VALUE_CLASS[BACKSLASH] = 5;

/** Class of each byte in the name of an attribute type: 1 digit or hyphen, 2 letter, 0 not allowed. */
const NAME_CLASS = new Uint8Array(256);
for (const byte of Buffer.from('-0123456789')) NAME_CLASS[byte] = 1;
for (let i = 0; i < 26; i++) NAME_CLASS[0x41 + i] = NAME_CLASS[0x61 + i] = 2;

const IS_HEX_DIGIT = new Uint8Array(256);
for (const byte of Buffer.from('0123456789abcdefABCDEF')) IS_HEX_DIGIT[byte] = 1;

/** Returns the offset after the escape whose backslash is at `i`; -1 if RFC 4514 does not allow the escape. */
function skipEscape(bytes: Buffer, i: number, end: number): number {
  if (i + 2 < end && IS_HEX_DIGIT[bytes[i + 1]!] === 1 && IS_HEX_DIGIT[bytes[i + 2]!] === 1) return i + 3;
  const kind = i + 1 < end ? VALUE_CLASS[bytes[i + 1]!]! : 0;
  return kind === 0 || kind === 2 ? -1 : i + 2;
}

/** Returns the offset after the value that begins at `start`; -1 if the value is not in this server's notation. */
function skipValue(bytes: Buffer, start: number, end: number): number {
  let i = start;
  let lastSpace = -1;
  while (i < end) {
    const kind = VALUE_CLASS[bytes[i]!]!;
    if (kind === 3) break;
    if (kind === 5) {
      i = skipEscape(bytes, i, end);
      if (i < 0) return -1;
    } else if (kind === 1 || kind === 2 || (kind === 4 && i === start)) return -1;
    else {
      if (kind === 4) lastSpace = i;
      i++;
    }
  }
  return i === start || lastSpace === i - 1 ? -1 : i;
}

/** Whether the RDNs in `bytes[start, end)` are in this server's notation. UTF-8 is not checked. */
export function isCanonical(bytes: Buffer, start: number, end: number): boolean {
  let i = start;
  for (;;) {
    if (NAME_CLASS[bytes[i]!] !== 2) return false;
    while (i < end && NAME_CLASS[bytes[i]!] !== 0) i++;
    if (i >= end || bytes[i] !== EQUALS) return false;
    i = skipValue(bytes, i + 1, end);
    if (i < 0) return false;
    if (i === end) return true;
    i++;
  }
}

/** Formats a value for use in a DN. */
export function formatDnValue(value: Buffer): string {
  const isText = isUtf8(value);
  let text = '';
  let writtenEnd = 0;
  const replaceByte = (i: number, as: string): void => {
    text += value.toString('utf8', writtenEnd, i) + as;
    writtenEnd = i + 1;
  };
  for (let i = 0; i < value.length; i++) {
    const byte = value[i]!;
    const kind = VALUE_CLASS[byte]!;
    const atEdge = i === 0 || i === value.length - 1;
    if (kind === 2 || (byte >= 0x80 && !isText)) replaceByte(i, `\\${byte.toString(16).padStart(2, '0')}`);
    else if (kind !== 0 && (kind !== 4 || atEdge)) replaceByte(i, `\\${String.fromCharCode(byte)}`);
  }
  return text + value.toString('utf8', writtenEnd);
}
