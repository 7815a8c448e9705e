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

/** Class of a byte in the name of an attribute type: 1 digit or hyphen, 2 letter. */
const NAME_CLASS = new Uint8Array(256);
for (const byte of Buffer.from('-0123456789')) NAME_CLASS[byte] = 1;
for (let i = 0; i < 26; i++) NAME_CLASS[0x41 + i] = NAME_CLASS[0x61 + i] = 2;

const IS_HEX_DIGIT = new Uint8Array(256);
for (const byte of Buffer.from('0123456789abcdefABCDEF')) IS_HEX_DIGIT[byte] = 1;

/** Offset after the escape whose backslash is at `at`; -1 if RFC 4514 does not allow the escape. */
function skipEscape(bytes: Buffer, at: number, end: number): number {
  if (at + 2 < end && IS_HEX_DIGIT[bytes[at + 1]!] === 1 && IS_HEX_DIGIT[bytes[at + 2]!] === 1) return at + 3;
  const kind = at + 1 < end ? VALUE_CLASS[bytes[at + 1]!]! : 0;
  return kind === 0 || kind === 2 ? -1 : at + 2;
}

/** Offset after the value that begins at `from`; -1 if the value is not in this server's notation. */
function skipValue(bytes: Buffer, from: number, end: number): number {
  let at = from;
  let lastSpace = -1;
  while (at < end) {
    const kind = VALUE_CLASS[bytes[at]!]!;
    if (kind === 3) break;
    if (kind === 5) {
      at = skipEscape(bytes, at, end);
      if (at < 0) return -1;
    } else if (kind === 1 || kind === 2 || (kind === 4 && at === from)) return -1;
    else {
      if (kind === 4) lastSpace = at;
      at++;
    }
  }
  return at === from || lastSpace === at - 1 ? -1 : at;
}

/** Whether the RDNs in `bytes[from, end)` are in this server's notation. UTF-8 is not checked. */
export function isCanonical(bytes: Buffer, from: number, end: number): boolean {
  let at = from;
  for (;;) {
    if (NAME_CLASS[bytes[at]!] !== 2) return false;
    while (at < end && NAME_CLASS[bytes[at]!] !== 0) at++;
    if (at >= end || bytes[at] !== EQUALS) return false;
    at = skipValue(bytes, at + 1, end);
    if (at < 0) return false;
    if (at === end) return true;
    at++;
  }
}

function hexEscape(byte: number): string {
  return `\\${byte.toString(16).padStart(2, '0')}`;
}

/** Formats a value for use in a DN. */
export function formatDnValue(value: Buffer): string {
  const isText = isUtf8(value);
  let text = '';
  let writtenEnd = 0;
  const replaceByte = (at: number, as: string): void => {
    text += value.toString('utf8', writtenEnd, at) + as;
    writtenEnd = at + 1;
  };
  for (let at = 0; at < value.length; at++) {
    const byte = value[at]!;
    const kind = VALUE_CLASS[byte]!;
    const atEdge = at === 0 || at === value.length - 1;
    if (kind === 2 || (byte >= 0x80 && !isText)) replaceByte(at, hexEscape(byte));
    else if (kind !== 0 && (kind !== 4 || atEdge)) replaceByte(at, `\\${String.fromCharCode(byte)}`);
  }
  return text + value.toString('utf8', writtenEnd);
}
