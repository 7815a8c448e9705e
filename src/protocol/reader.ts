import type { ResultName } from '../ldap/ldap-error.js';
import { ProtocolError } from './protocol-error.js';
import { BOOLEAN, ENUMERATED, INTEGER, OCTET_STRING } from './tags.js';
import { isNumericOid, readText } from './text.js';

/** Largest INTEGER of the protocol (maxInt, RFC 4511 §4.1.1). */
export const MAX_INT = 0x7fffffff;

const MAX_OID_BYTES = 256;
const EMPTY = Buffer.alloc(0);

/**
 * Reads BER elements in `[at, end)`, where `end` is the end of the innermost element entered (docs/formats/ber.md).
 * Every length is checked against `end` before use. The parameter `what` names the field in error messages.
 */
export class Reader {
  readonly buffer: Buffer;
  /** First byte of the message. Error offsets are relative to this byte. */
  readonly start: number;
  at: number;
  end: number;

  constructor(buffer: Buffer, start: number, end: number) {
    this.buffer = buffer;
    this.start = start;
    this.at = start;
    this.end = end;
  }

  error(message: string, at = this.at, fatal = true): ProtocolError {
    return new ProtocolError(message, at - this.start, fatal);
  }

  /** The error for a field that is encoded correctly but not acceptable. The connection stays open. */
  refusal(message: string, result: ResultName = 'protocolError'): ProtocolError {
    return new ProtocolError(message, this.at - this.start, false, result);
  }

  /** Tag of the next element, or -1 at the end of the enclosing element. */
  peek(): number {
    return this.at < this.end ? this.buffer[this.at]! : -1;
  }

  /** Reads the identifier and length octets of an element. Returns the length of the content, which is at `at`. */
  header(tag: number, what: string): number {
    if (this.at >= this.end) throw this.error(`${what} is missing`);
    const actualTag = this.buffer[this.at]!;
    if (actualTag !== tag) throw this.error(`${what}: expected tag ${hex(tag)}, found ${hex(actualTag)}`);
    this.at++;
    return this.#readLength(what);
  }

  #readLength(what: string): number {
    const { buffer, end } = this;
    let at = this.at;
    if (at >= end) throw this.error(`${what} is cut before its length`);
    let length = buffer[at++]!;
    if (length > 0x7f) {
      const count = length & 0x7f;
      if (count === 0) throw this.error(`${what} has an indefinite length`);
      if (count > 4) throw this.error(`${what} has a length of ${count} bytes; 4 is the most`);
      if (count > end - at) throw this.error(`${what} is cut inside its length`);
      length = 0;
      for (let i = 0; i < count; i++) length = length * 256 + buffer[at++]!;
    }
    if (length > end - at)
      throw this.error(`${what} of ${length} bytes does not fit into the ${end - at} that are left`);
    this.at = at;
    return length;
  }

  /** Enters a constructed element. Returns the end of the enclosing element, for `leave`. */
  enter(tag: number, what: string): number {
    const length = this.header(tag, what);
    const outer = this.end;
    this.end = this.at + length;
    return outer;
  }

  /** Leaves a SEQUENCE OF, SET OF or CHOICE. Throws if bytes are left. */
  leave(outer: number, what: string): void {
    if (this.at !== this.end) throw this.error(`${what} has ${this.end - this.at} bytes too many`);
    this.end = outer;
  }

  /**
   * Leaves a SEQUENCE. Trailing components with unknown tags are ignored (RFC 4511 §4). Such a component has to be a
   * whole element with a context tag above `known`, the highest tag defined for the SEQUENCE. So garbage and repeated
   * or misplaced fields are still refused.
   */
  leaveSequence(outer: number, what: string, known = -1): void {
    while (this.at < this.end) {
      const tag = this.buffer[this.at]!;
      const number = tag & 0x1f;
      if ((tag & 0xc0) !== 0x80 || number === 0x1f || number <= known) {
        throw this.error(`${what}: unexpected tag ${hex(tag)} at its end`);
      }
      this.at++;
      const length = this.#readLength(what);
      this.at += length;
    }
    this.end = outer;
  }

  /** Reads a signed INTEGER of at most four bytes, in `[min, max]`. */
  integer(what: string, min = 0, max = MAX_INT, tag = INTEGER): number {
    return this.integerContent(this.header(tag, what), what, min, max);
  }

  /** Reads the content of an INTEGER or ENUMERATED whose header has been read. */
  integerContent(length: number, what: string, min: number, max: number): number {
    if (length < 1 || length > 4) throw this.error(`${what}: an integer of ${length} bytes; 1 to 4 are accepted`);
    const { buffer } = this;
    let value = (buffer[this.at]! << 24) >> 24;
    for (let i = 1; i < length; i++) value = (value << 8) | buffer[this.at + i]!;
    if (value < min || value > max) throw this.refusal(`${what} is ${value}; ${min} to ${max} are accepted`);
    this.at += length;
    return value;
  }

  enumerated(what: string, max: number): number {
    return this.integer(what, 0, max, ENUMERATED);
  }

  /** Reads a BOOLEAN. Any octet other than zero is TRUE (X.690 §8.2.2). */
  boolean(what: string, tag = BOOLEAN): boolean {
    const length = this.header(tag, what);
    if (length !== 1) throw this.error(`${what}: a boolean of ${length} bytes`);
    return this.buffer[this.at++] !== 0;
  }

  /** Reads an OCTET STRING. The result is a view into the message. */
  bytes(what: string, tag = OCTET_STRING): Buffer {
    return this.bytesContent(this.header(tag, what));
  }

  bytesContent(length: number): Buffer {
    if (length === 0) return EMPTY;
    const from = this.at;
    this.at = from + length;
    return this.buffer.subarray(from, from + length);
  }

  /** Reads an LDAPString or LDAPDN in UTF-8 (RFC 4511 §4.1.2). */
  text(what: string, tag = OCTET_STRING): string {
    return this.textContent(this.header(tag, what), what);
  }

  textContent(length: number, what: string): string {
    const text = readText(this.buffer, this.at, this.at + length);
    if (text === undefined) throw this.refusal(`${what} is not valid UTF-8`);
    this.at += length;
    return text;
  }

  /** Reads an LDAPOID in the form of a numericoid (RFC 4511 §4.1.2). */
  oid(what: string, tag = OCTET_STRING): string {
    const length = this.header(tag, what);
    if (length > MAX_OID_BYTES)
      throw this.refusal(`${what} of ${length} bytes is too long; ${MAX_OID_BYTES} are accepted`);
    if (!isNumericOid(this.buffer, this.at, this.at + length)) throw this.refusal(`${what} is not a numeric OID`);
    return this.textContent(length, what);
  }
}

export function hex(byte: number): string {
  return `0x${byte.toString(16).padStart(2, '0')}`;
}
