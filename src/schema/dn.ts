import { isUtf8 } from 'node:buffer';
import { LdapError } from '../ldap/ldap-error.js';
import { utf8Bytes } from '../ldap/text.js';
import { readTlv, stringBytes } from './der.js';
import { avaNorm, joinRdns, rdnNorm } from './dn-norm.js';
import { formatDnValue, isCanonical } from './dn-text.js';
import type { AttributeType, Ava, Dn, MatchingRule, Rdn } from './schema-types.js';
import { printable, unknownAttribute } from './suggest.js';

/**
 * Parses distinguished names (RFC 4514). Also accepts the notation of RFC 2253 and older writers: spaces around `=`,
 * `+` and `,`; `;` between RDNs; values in double quotes; `OID.` before a numeric type. Makes one pass over the UTF-8
 * bytes.
 */

export const MAX_DN = 65536;
export const MAX_RDNS = 1000;
export const MAX_AVAS = 32;

export interface DnContext {
  attribute(nameOrOid: string): AttributeType | undefined;
  attributeNames(): Iterable<string>;
  readonly fallback: MatchingRule;
}

interface RawAva {
  /** The name of the attribute type as written. */
  readonly typeName: string;
  readonly oid: string;
  readonly type: AttributeType | undefined;
  readonly value: Buffer;
}

interface RawRdn {
  readonly avas: RawAva[];
  /** Offsets in the bytes, without surrounding spaces. */
  readonly start: number;
  readonly end: number;
}

const SPACE = 0x20;
const QUOTE = 0x22;
const HASH = 0x23;
const PLUS = 0x2b;
const COMMA = 0x2c;
const SEMICOLON = 0x3b;
const EQUALS = 0x3d;
const BACKSLASH = 0x5c;

/** Class of each byte in a value: 1 must be escaped, 2 ends the value, 3 is a backslash, 0 is any other byte. */
const VALUE_CLASS = new Uint8Array(256);
for (const byte of [0, QUOTE, 0x3c, 0x3e]) VALUE_CLASS[byte] = 1;
for (const byte of [PLUS, COMMA, SEMICOLON]) VALUE_CLASS[byte] = 2;
VALUE_CLASS[BACKSLASH] = 3;

/** A domain name such as `example.com`. */
const DOMAIN = /^[a-z\d-]{1,63}(?:\.[a-z\d-]{1,63}){1,8}$/i;

/** Bytes that may follow a backslash. */
const ESCAPABLE = new Set(Buffer.from(' "#+,;<=>\\'));

function hexDigit(byte: number | undefined): number {
  if (byte === undefined) return -1;
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30;
  const lower = byte | 0x20;
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : -1;
}

class Parser {
  offset = 0;
  private readonly text: string;
  private readonly bytes: Buffer;
  /** Whether the text is ASCII. Offsets in the text are then also offsets in `bytes`. */
  private readonly isAscii: boolean;
  private readonly context: DnContext;
  /** Whether types that are not in the schema are errors. */
  private readonly isStrict: boolean;

  constructor(text: string, bytes: Buffer, context: DnContext, isStrict: boolean) {
    this.text = text;
    this.bytes = bytes;
    this.isAscii = text.length >= bytes.length;
    this.context = context;
    this.isStrict = isStrict;
  }

  slice(start: number, end: number): string {
    return this.isAscii ? this.text.slice(start, end) : this.bytes.toString('utf8', start, end);
  }

  isCanonical(start: number, end: number): boolean {
    return isCanonical(this.bytes, start, end);
  }

  fail(reason: string, offset = this.offset): never {
    throw new LdapError('invalidDNSyntax', `invalid DN at byte ${offset + 1}: ${reason}`);
  }

  skipSpaces(): void {
    while (this.bytes[this.offset] === SPACE) this.offset++;
  }

  parseRdns(): RawRdn[] {
    const rdns: RawRdn[] = [];
    this.skipSpaces();
    if (this.offset === this.bytes.length) return rdns;
    for (;;) {
      if (rdns.length === MAX_RDNS) this.fail(`more than ${MAX_RDNS} RDNs`);
      rdns.push(this.parseRdn());
      if (this.offset === this.bytes.length) return rdns;
      this.offset++;
      this.skipSpaces();
      if (this.offset === this.bytes.length) this.fail('ends after a comma; an RDN should follow');
    }
  }

  /** Parses an RDN. Stops at the following separator or at the end. */
  private parseRdn(): RawRdn {
    const start = this.offset;
    const avas: RawAva[] = [];
    for (;;) {
      avas.push(this.parseAva());
      const end = this.valueEnd;
      if (this.bytes[this.offset] !== PLUS) return { avas, start, end };
      if (avas.length === MAX_AVAS) this.fail(`more than ${MAX_AVAS} attributes in one RDN`);
      this.offset++;
      this.skipSpaces();
    }
  }

  /** Offset after the last byte of the last parsed value, without trailing spaces. */
  private valueEnd = 0;

  private parseAva(): RawAva {
    const { typeName, oid, type } = this.parseType();
    this.skipSpaces();
    if (this.bytes[this.offset] !== EQUALS) this.fail(`'=' expected after the attribute '${printable(typeName)}'`);
    this.offset++;
    this.skipSpaces();
    const valueStart = this.offset;
    const firstByte = this.bytes[this.offset];
    const value =
      firstByte === HASH
        ? this.parseHexValue()
        : firstByte === QUOTE
          ? this.parseQuotedValue()
          : this.parsePlainValue();
    if (value.length === 0) this.fail(`the value of '${printable(typeName)}' is empty`, valueStart);
    return { typeName, oid, type, value };
  }

  private parseType(): { typeName: string; oid: string; type: AttributeType | undefined } {
    const { bytes } = this;
    const start = this.offset;
    let offset = start;
    for (; offset < bytes.length; offset++) {
      const byte = bytes[offset]!;
      const lower = byte | 0x20;
      const isTypeByte =
        (lower >= 0x61 && lower <= 0x7a) || (byte >= 0x30 && byte <= 0x39) || byte === 0x2d || byte === 0x2e;
      if (!isTypeByte) break;
    }
    if (offset === start) this.fail('an attribute type expected');
    this.offset = offset;
    if (offset - start > 256) this.fail('attribute type is too long', start);
    const text = this.slice(start, offset);
    const typeOfText = this.context.attribute(text);
    if (typeOfText) return { typeName: text, oid: typeOfText.oid, type: typeOfText };
    const typeName = /^oid\.(?=\d)/i.test(text) ? text.slice(4) : text;
    const type = this.context.attribute(typeName);
    if (type) return { typeName, oid: type.oid, type };
    if (this.isStrict) {
      this.requireEquals(start);
      this.fail(unknownAttribute(typeName, this.context.attributeNames()), start);
    }
    return { typeName, oid: typeName, type };
  }

  /** Reports a missing `=` instead of an unknown type, since the text may not be an RDN at all. */
  private requireEquals(start: number): void {
    const { bytes } = this;
    let end = this.offset;
    while (end < bytes.length && bytes[end] !== EQUALS && VALUE_CLASS[bytes[end]!] !== 2) end++;
    if (bytes[end] === EQUALS) return;
    const text = this.slice(start, end).trim();
    const isDomain = start === 0 && end === bytes.length && DOMAIN.test(text);
    const example = isDomain
      ? text
          .split('.')
          .map((label) => `dc=${label}`)
          .join(',')
      : 'ou=people,dc=example,dc=com';
    const hint = isDomain ? `did you mean '${example}'?` : `a DN is written like '${example}'`;
    this.fail(`'${printable(text)}' has no '='; ${hint}`, start);
  }

  /** Skips spaces after a quoted or hexadecimal value. A separator or the end has to follow. */
  private finishValue(): void {
    this.valueEnd = this.offset;
    this.skipSpaces();
    if (this.offset < this.bytes.length && VALUE_CLASS[this.bytes[this.offset]!] !== 2)
      this.fail("',' or '+' expected after the value");
  }

  private parsePlainValue(): Buffer {
    const { bytes } = this;
    const start = this.offset;
    let end = start;
    let offset = start;
    for (; offset < bytes.length; offset++) {
      const byte = bytes[offset]!;
      const special = VALUE_CLASS[byte]!;
      if (special === 0) {
        if (byte !== SPACE) end = offset + 1;
      } else if (special === 2) break;
      else if (special === 3) return this.parseEscapedValue(start);
      else this.fail(`character 0x${byte.toString(16).padStart(2, '0')} must be escaped with a backslash`, offset);
    }
    this.offset = offset;
    this.valueEnd = end;
    return bytes.subarray(start, end);
  }

  private parseEscapedValue(start: number): Buffer {
    const { bytes } = this;
    const decoded: number[] = [];
    let keptLength = 0;
    this.offset = start;
    this.valueEnd = start;
    while (this.offset < bytes.length) {
      const byte = bytes[this.offset]!;
      const special = VALUE_CLASS[byte]!;
      if (special === 2) break;
      if (special === 1)
        this.fail(`character 0x${byte.toString(16).padStart(2, '0')} must be escaped with a backslash`);
      if (special === 3) decoded.push(this.parseEscape());
      else {
        decoded.push(byte);
        this.offset++;
      }
      if (special === 3 || byte !== SPACE) {
        keptLength = decoded.length;
        this.valueEnd = this.offset;
      }
    }
    return Buffer.from(decoded.slice(0, keptLength));
  }

  /** Returns the byte of the escape sequence at `offset`. */
  private parseEscape(): number {
    const escapedByte = this.bytes[this.offset + 1];
    const high = hexDigit(escapedByte);
    const low = hexDigit(this.bytes[this.offset + 2]);
    if (high >= 0 && low >= 0) {
      this.offset += 3;
      return high * 16 + low;
    }
    if (escapedByte === undefined || !ESCAPABLE.has(escapedByte)) {
      this.fail('a backslash must be followed by two hexadecimal digits or one of , + " \\ < > ; # = or a space');
    }
    this.offset += 2;
    return escapedByte;
  }

  private parseQuotedValue(): Buffer {
    const { bytes } = this;
    const quoteStart = this.offset;
    const decoded: number[] = [];
    this.offset++;
    while (bytes[this.offset] !== QUOTE) {
      const byte = bytes[this.offset];
      if (byte === undefined) this.fail('a quoted value is never closed', quoteStart);
      if (byte === 0) this.fail('character 0x00 must be escaped with a backslash');
      if (byte === BACKSLASH) decoded.push(this.parseEscape());
      else {
        decoded.push(byte);
        this.offset++;
      }
    }
    this.offset++;
    this.finishValue();
    return Buffer.from(decoded);
  }

  /** Parses `#` and BER in hexadecimal (RFC 4514 §2.4). Returns the characters of a string, else the BER. */
  private parseHexValue(): Buffer {
    const { bytes } = this;
    const start = ++this.offset;
    while (hexDigit(bytes[this.offset]) >= 0) this.offset++;
    const digits = this.offset - start;
    if (digits === 0 || digits % 2 === 1) this.fail('hexadecimal digits in pairs expected', start);
    const ber = Buffer.from(bytes.toString('latin1', start, this.offset), 'hex');
    const tlv = readTlv(ber, 0, ber.length);
    if (!tlv || tlv.end !== ber.length) this.fail('the value after # is not BER', start);
    this.finishValue();
    return stringBytes(ber, tlv) ?? ber;
  }
}

/** Returns the RDN in this server's notation. Types and values are as written, but numeric OIDs become names. */
function rdnText({ avas, start, end }: RawRdn, parser: Parser): string {
  if (parser.isCanonical(start, end)) return parser.slice(start, end);
  const shownType = ({ typeName, type }: RawAva): string => (/^\d/.test(typeName) ? type!.name : typeName);
  return avas.map((ava) => `${shownType(ava)}=${formatDnValue(ava.value)}`).join('+');
}

function finishRdn(raw: RawRdn, parser: Parser, context: DnContext): Rdn {
  const text = rdnText(raw, parser);
  if (raw.avas.length === 1) {
    const ava = finishAva(raw.avas[0]!, raw, parser, context);
    return { avas: [ava], text, norm: avaNorm(ava.type.oid, ava.norm) };
  }
  const avas: Ava[] = [];
  for (const rawAva of raw.avas) {
    const ava = finishAva(rawAva, raw, parser, context);
    if (avas.some(({ type }) => type === ava.type)) parser.fail(`'${ava.type.name}' is twice in one RDN`, raw.start);
    avas.push(ava);
  }
  return { avas, text, norm: rdnNorm(avas.map(({ type, norm }) => ({ oid: type.oid, form: norm }))) };
}

function finishAva({ type, value }: RawAva, { start }: RawRdn, parser: Parser, context: DnContext): Ava {
  const norm = (type!.equality ?? context.fallback).normalize(value);
  if (!norm) {
    const problem = isUtf8(value) ? "does not fit the attribute's equality rule" : 'is not UTF-8';
    parser.fail(`the value of '${type!.name}' ${problem}`, start);
  }
  const syntaxProblem = type!.syntax.check(value);
  if (syntaxProblem !== undefined) parser.fail(`the value of '${type!.name}' ${syntaxProblem}`, start);
  return { type: type!, value, norm };
}

function checkDnLength(bytes: Buffer): void {
  if (bytes.length > MAX_DN) {
    throw new LdapError('invalidDNSyntax', `DN of ${bytes.length} bytes; at most ${MAX_DN} are allowed`);
  }
}

/** Joins RDNs with commas; returns `source` itself if equal. Checks the length, since the text may have grown. */
function dnText(rdns: readonly Rdn[], source: string): string {
  const text = joinRdnTexts(rdns);
  if (text === source) return source;
  if (text.length > MAX_DN / 3) checkDnLength(Buffer.from(text));
  return text;
}

function joinRdnTexts(rdns: readonly Rdn[]): string {
  if (rdns.length === 0) return '';
  let text = rdns[0]!.text;
  for (let i = 1; i < rdns.length; i++) text += `,${rdns[i]!.text}`;
  return text;
}

/** Parses a DN. Throws LdapError invalidDNSyntax. The values are views of one copy of the text. */
export function parseDn(text: string, context: DnContext): Dn {
  const bytes = utf8Bytes(text);
  checkDnLength(bytes);
  const parser = new Parser(text, bytes, context, true);
  const rdns = parser.parseRdns().map((rdn) => finishRdn(rdn, parser, context));
  return { rdns, text: dnText(rdns, text), norm: joinRdns(rdns.map((rdn) => rdn.norm)) };
}

/**
 * Returns the offset of the comma after the RDN that begins at `start`; -1 if there is none, or if an escape, quote,
 * semicolon or non-ASCII character comes first.
 */
export function nextComma(text: string, start: number): number {
  for (let i = start; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === COMMA) return i;
    if (code === BACKSLASH || code === QUOTE || code === SEMICOLON || code >= 0x80) return -1;
  }
  return -1;
}

/**
 * Parses a DN whose ancestor is known: parses only the RDNs before the comma at `end` and appends `ancestor`, which
 * must not be the root. These RDNs must not contain escapes or quotes.
 */
export function parseBelow(source: string, end: number, ancestor: Dn, context: DnContext): Dn {
  const parser = new Parser(source, utf8Bytes(source.slice(0, end)), context, true);
  const raw = parser.parseRdns();
  const isTooLong = source.length > MAX_DN / 3 || raw.length + ancestor.rdns.length > MAX_RDNS;
  if (raw.length === 0 || isTooLong) return parseDn(source, context);
  const rdnsBelow = raw.map((rdn) => finishRdn(rdn, parser, context));
  const rdns = [...rdnsBelow, ...ancestor.rdns];
  const isSuffixGiven = source.endsWith(ancestor.text) && source.length - ancestor.text.length === end + 1;
  const text = isSuffixGiven && joinRdnTexts(rdnsBelow) === source.slice(0, end) ? source : dnText(rdns, source);
  const norm = joinRdns([...rdnsBelow.map((rdn) => rdn.norm), ancestor.norm]);
  return { rdns, text, norm };
}

/** The DN without its first `count` RDNs. */
export function ancestorOf(dn: Dn, count: number): Dn {
  let normStart = 0;
  let textStart = 0;
  for (let i = 0; i < count; i++) {
    normStart += dn.rdns[i]!.norm.length + 1;
    textStart += dn.rdns[i]!.text.length + 1;
  }
  return { rdns: dn.rdns.slice(count), text: dn.text.slice(textStart), norm: dn.norm.subarray(normStart) };
}

/**
 * Parses a DN that may have types that are not in the schema. Returns the OID (or the unknown name) and the value of
 * each attribute, by RDN, leftmost first. Throws LdapError invalidDNSyntax.
 */
export function parseLoose(text: string, context: DnContext): { oid: string; value: Buffer }[][] {
  const bytes = Buffer.from(text, 'utf8');
  checkDnLength(bytes);
  return new Parser(text, bytes, context, false).parseRdns().map((rdn) => rdn.avas);
}
