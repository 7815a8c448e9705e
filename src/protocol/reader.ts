import { isUtf8 } from 'node:buffer';
import { LdapError, type ResultName } from '../ldap/ldap-error.js';
import type { Request } from './ldap-messages.js';
import { BOOLEAN, ENUMERATED, INTEGER, OCTET_STRING } from './tags.js';

/**
 * A message that cannot be decoded (RFC 4511 §4.1.1).
 * A fatal error means that the bytes are not an LDAP message. The bytes that follow cannot be trusted either, so the
 * server sends a response or the Notice of Disconnection and closes the connection. After a non-fatal error the message
 * boundaries are still known, and the server refuses only this request.
 */
export class ProtocolError extends LdapError {
  /** Offset in bytes from the beginning of the message. */
  readonly offset: number;
  readonly fatal: boolean;
  /** messageID of the request, if decoded. */
  messageId: number | undefined;
  /** Operation of the request, if recognized. `responseOp(op)` is the matching response. */
  op: Request['op'] | undefined;
  /** Name of another protocol that the bytes belong to, if recognized. */
  foreign: string | undefined;

  constructor(message: string, offset: number, isFatal = true, result: ResultName = 'protocolError') {
    super(result, `${message} (byte ${offset} of the message)`);
    this.offset = offset;
    this.fatal = isFatal;
  }
}

/** Largest INTEGER of the protocol (maxInt, RFC 4511 §4.1.1). */
export const MAX_INT = 0x7fffffff;

const MAX_OID_BYTES = 256;
const EMPTY = Buffer.alloc(0);

/**
 * Reads BER elements in `[at, end)`. `end` is the end of the innermost element that was entered (docs/formats/ber.md).
 * Every length is checked against `end` before use. The parameter `label` names the field in error messages.
 */
export class Reader {
  readonly buffer: Buffer;
  /** Offset of the first byte of the message. Offsets in errors are relative to it. */
  readonly start: number;
  at: number;
  end: number;

  constructor(buffer: Buffer, start: number, end: number) {
    this.buffer = buffer;
    this.start = start;
    this.at = start;
    this.end = end;
  }

  error(message: string, at = this.at, isFatal = true): ProtocolError {
    return new ProtocolError(message, at - this.start, isFatal);
  }

  /** Returns the error for a field that is well-formed but not acceptable. The connection stays open. */
  refusal(message: string, result: ResultName = 'protocolError'): ProtocolError {
    return new ProtocolError(message, this.at - this.start, false, result);
  }

  /** Returns the tag of the next element; -1 at the end of the enclosing element. */
  peek(): number {
    return this.at < this.end ? this.buffer[this.at]! : -1;
  }

  /** Reads the identifier and length octets of an element. Returns the length of the content, which is at `at`. */
  header(tag: number, label: string): number {
    if (this.at >= this.end) throw this.error(`${label} is missing`);
    const actualTag = this.buffer[this.at]!;
    if (actualTag !== tag) throw this.error(`${label}: expected tag ${hex(tag)}, found ${hex(actualTag)}`);
    this.at++;
    return this.#readLength(label);
  }

  #readLength(label: string): number {
    const { buffer, end } = this;
    let at = this.at;
    if (at >= end) throw this.error(`${label} is cut before its length`);
    let length = buffer[at++]!;
    if (length > 0x7f) {
      const count = length & 0x7f;
      if (count === 0) throw this.error(`${label} has an indefinite length`);
      if (count > 4) throw this.error(`${label} has a length of ${count} bytes; 4 is the most`);
      if (count > end - at) throw this.error(`${label} is cut inside its length`);
      length = 0;
      for (let i = 0; i < count; i++) length = length * 256 + buffer[at++]!;
    }
    if (length > end - at)
      throw this.error(`${label} of ${length} bytes does not fit into the ${end - at} that are left`);
    this.at = at;
    return length;
  }

  /** Enters a constructed element. Returns the end of the enclosing element, which the caller passes to `leave`. */
  enter(tag: number, label: string): number {
    const length = this.header(tag, label);
    const outerEnd = this.end;
    this.end = this.at + length;
    return outerEnd;
  }

  /** Leaves a SEQUENCE OF, SET OF or CHOICE. Throws if bytes are left in it. `outerEnd`: the result of `enter`. */
  leave(outerEnd: number, label: string): void {
    if (this.at !== this.end) throw this.error(`${label} has ${this.end - this.at} bytes too many`);
    this.end = outerEnd;
  }

  /**
   * Leaves a SEQUENCE. Ignores trailing components with unknown tags (RFC 4511 §4). Such a component has to be a whole
   * element with a context tag above `highestTag`, the highest tag defined for the SEQUENCE. So garbage and repeated or
   * misplaced fields are still refused.
   */
  leaveSequence(outerEnd: number, label: string, highestTag = -1): void {
    while (this.at < this.end) {
      const tag = this.buffer[this.at]!;
      const number = tag & 0x1f;
      if ((tag & 0xc0) !== 0x80 || number === 0x1f || number <= highestTag) {
        throw this.error(`${label}: unexpected tag ${hex(tag)} at its end`);
      }
      this.at++;
      const length = this.#readLength(label);
      this.at += length;
    }
    this.end = outerEnd;
  }

  /** Reads a signed INTEGER of at most four bytes, in `[min, max]`. */
  integer(label: string, min = 0, max = MAX_INT, tag = INTEGER): number {
    return this.integerContent(this.header(tag, label), label, min, max);
  }

  /** Reads the content of an INTEGER or ENUMERATED whose header has been read. */
  integerContent(length: number, label: string, min: number, max: number): number {
    if (length < 1 || length > 4) throw this.error(`${label}: an integer of ${length} bytes; 1 to 4 are accepted`);
    const { buffer } = this;
    let value = (buffer[this.at]! << 24) >> 24;
    for (let i = 1; i < length; i++) value = (value << 8) | buffer[this.at + i]!;
    if (value < min || value > max) throw this.refusal(`${label} is ${value}; ${min} to ${max} are accepted`);
    this.at += length;
    return value;
  }

  enumerated(label: string, max: number): number {
    return this.integer(label, 0, max, ENUMERATED);
  }

  /** Reads a BOOLEAN. Any octet other than zero is TRUE (X.690 §8.2.2). */
  boolean(label: string, tag = BOOLEAN): boolean {
    const length = this.header(tag, label);
    if (length !== 1) throw this.error(`${label}: a boolean of ${length} bytes`);
    return this.buffer[this.at++] !== 0;
  }

  /** Reads an OCTET STRING. The result is a view into the message. */
  bytes(label: string, tag = OCTET_STRING): Buffer {
    return this.bytesContent(this.header(tag, label));
  }

  bytesContent(length: number): Buffer {
    if (length === 0) return EMPTY;
    const start = this.at;
    this.at = start + length;
    return this.buffer.subarray(start, start + length);
  }

  /** Reads an LDAPString or LDAPDN in UTF-8 (RFC 4511 §4.1.2). */
  text(label: string, tag = OCTET_STRING): string {
    return this.textContent(this.header(tag, label), label);
  }

  textContent(length: number, label: string): string {
    const text = readText(this.buffer, this.at, this.at + length);
    if (text === undefined) throw this.refusal(`${label} is not valid UTF-8`);
    this.at += length;
    return text;
  }

  /** Reads an LDAPOID in the form of a numericoid (RFC 4511 §4.1.2). */
  oid(label: string, tag = OCTET_STRING): string {
    const length = this.header(tag, label);
    if (length > MAX_OID_BYTES)
      throw this.refusal(`${label} of ${length} bytes is too long; ${MAX_OID_BYTES} are accepted`);
    if (!isNumericOid(this.buffer, this.at, this.at + length)) throw this.refusal(`${label} is not a numeric OID`);
    return this.textContent(length, label);
  }
}

export function hex(byte: number): string {
  return `0x${byte.toString(16).padStart(2, '0')}`;
}

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
function readText(buffer: Buffer, start: number, end: number): string | undefined {
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
function isNumericOid(buffer: Buffer, from: number, end: number): boolean {
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
