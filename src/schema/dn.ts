import { isUtf8 } from 'node:buffer';
import { LdapError } from '../ldap/ldap-error.js';
import { utf8Bytes } from '../ldap/text.js';
import { readTlv, stringBytes } from './der.js';
import { avaNorm, joinRdns, rdnNorm } from './dn-norm.js';
import { formatDnValue, isCanonical } from './dn-text.js';
import type { AttributeType, Ava, Dn, MatchingRule, Rdn } from './schema-types.js';
import { didYouMean, shown } from './suggest.js';

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
  /** The name as written. */
  readonly name: string;
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

/** Class of a byte in a value: 1 must be escaped, 2 ends the value, 3 backslash. */
const SPECIAL = new Uint8Array(256);
for (const byte of [0, QUOTE, 0x3c, 0x3e]) SPECIAL[byte] = 1;
for (const byte of [PLUS, COMMA, SEMICOLON]) SPECIAL[byte] = 2;
SPECIAL[BACKSLASH] = 3;

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
  at = 0;
  private readonly text: string;
  private readonly bytes: Buffer;
  /** Whether the text is ASCII, so that offsets in text and bytes are the same. */
  private readonly ascii: boolean;
  private readonly context: DnContext;
  /** Whether types that are not in the schema are errors. */
  private readonly strict: boolean;

  constructor(text: string, bytes: Buffer, context: DnContext, strict: boolean) {
    this.text = text;
    this.bytes = bytes;
    this.ascii = text.length >= bytes.length;
    this.context = context;
    this.strict = strict;
  }

  slice(start: number, end: number): string {
    return this.ascii ? this.text.slice(start, end) : this.bytes.toString('utf8', start, end);
  }

  isCanonical(start: number, end: number): boolean {
    return isCanonical(this.bytes, start, end);
  }

  fail(why: string, at = this.at): never {
    throw new LdapError('invalidDNSyntax', `invalid DN at byte ${at + 1}: ${why}`);
  }

  skipSpaces(): void {
    while (this.bytes[this.at] === SPACE) this.at++;
  }

  rdns(): RawRdn[] {
    const rdns: RawRdn[] = [];
    this.skipSpaces();
    if (this.at === this.bytes.length) return rdns;
    for (;;) {
      if (rdns.length === MAX_RDNS) this.fail(`more than ${MAX_RDNS} RDNs`);
      rdns.push(this.rdn());
      if (this.at === this.bytes.length) return rdns;
      this.at++;
      this.skipSpaces();
      if (this.at === this.bytes.length) this.fail('ends after a comma; an RDN should follow');
    }
  }

  /** Parses an RDN. Stops at the following separator or at the end. */
  private rdn(): RawRdn {
    const start = this.at;
    const avas: RawAva[] = [];
    for (;;) {
      avas.push(this.ava());
      const end = this.end;
      if (this.bytes[this.at] !== PLUS) return { avas, start, end };
      if (avas.length === MAX_AVAS) this.fail(`more than ${MAX_AVAS} attributes in one RDN`);
      this.at++;
      this.skipSpaces();
    }
  }

  /** Offset after the last byte of the current value, before trailing spaces. */
  private end = 0;

  private ava(): RawAva {
    const { name, oid, type } = this.type();
    this.skipSpaces();
    if (this.bytes[this.at] !== EQUALS) this.fail(`'=' expected after the attribute '${shown(name)}'`);
    this.at++;
    this.skipSpaces();
    const valueAt = this.at;
    const first = this.bytes[this.at];
    const value = first === HASH ? this.hexValue() : first === QUOTE ? this.quotedValue() : this.plainValue();
    if (value.length === 0) this.fail(`the value of '${shown(name)}' is empty`, valueAt);
    return { name, oid, type, value };
  }

  private type(): { name: string; oid: string; type: AttributeType | undefined } {
    const { bytes } = this;
    const start = this.at;
    let at = start;
    for (; at < bytes.length; at++) {
      const byte = bytes[at]!;
      const lower = byte | 0x20;
      const word = (lower >= 0x61 && lower <= 0x7a) || (byte >= 0x30 && byte <= 0x39) || byte === 0x2d || byte === 0x2e;
      if (!word) break;
    }
    if (at === start) this.fail('an attribute type expected');
    this.at = at;
    if (at - start > 256) this.fail('attribute type is too long', start);
    const name = this.slice(start, at);
    const known = this.context.attribute(name);
    if (known) return { name, oid: known.oid, type: known };
    const bare = /^oid\.(?=\d)/i.test(name) ? name.slice(4) : name;
    const type = this.context.attribute(bare);
    if (type) return { name: bare, oid: type.oid, type };
    if (this.strict) {
      this.requireEquals(start);
      const hint = didYouMean(bare, this.context.attributeNames());
      this.fail(`attribute '${shown(bare)}' is not in the schema${hint}`, start);
    }
    return { name: bare, oid: bare, type };
  }

  /** Called for an unknown type: reports a missing `=`, since the text may not be an RDN at all. */
  private requireEquals(start: number): void {
    const { bytes } = this;
    let end = this.at;
    while (end < bytes.length && bytes[end] !== EQUALS && SPECIAL[bytes[end]!] !== 2) end++;
    if (bytes[end] === EQUALS) return;
    const given = this.slice(start, end).trim();
    const isDomain = start === 0 && end === bytes.length && DOMAIN.test(given);
    const form = isDomain
      ? given
          .split('.')
          .map((label) => `dc=${label}`)
          .join(',')
      : 'ou=people,dc=example,dc=com';
    const hint = isDomain ? `did you mean '${form}'?` : `a DN is written like '${form}'`;
    this.fail(`'${shown(given)}' has no '='; ${hint}`, start);
  }

  /** Skips spaces after a quoted or hexadecimal value. A separator or the end has to follow. */
  private afterValue(): void {
    this.end = this.at;
    this.skipSpaces();
    if (this.at < this.bytes.length && SPECIAL[this.bytes[this.at]!] !== 2)
      this.fail("',' or '+' expected after the value");
  }

  private plainValue(): Buffer {
    const { bytes } = this;
    const start = this.at;
    let end = start;
    let at = start;
    for (; at < bytes.length; at++) {
      const byte = bytes[at]!;
      const special = SPECIAL[byte]!;
      if (special === 0) {
        if (byte !== SPACE) end = at + 1;
      } else if (special === 2) break;
      else if (special === 3) return this.escapedValue(start);
      else this.fail(`character 0x${byte.toString(16).padStart(2, '0')} must be escaped with a backslash`, at);
    }
    this.at = at;
    this.end = end;
    return bytes.subarray(start, end);
  }

  private escapedValue(start: number): Buffer {
    const { bytes } = this;
    const out: number[] = [];
    let kept = 0;
    this.at = start;
    this.end = start;
    while (this.at < bytes.length) {
      const byte = bytes[this.at]!;
      const special = SPECIAL[byte]!;
      if (special === 2) break;
      if (special === 1)
        this.fail(`character 0x${byte.toString(16).padStart(2, '0')} must be escaped with a backslash`);
      if (special === 3) out.push(this.escape());
      else {
        out.push(byte);
        this.at++;
      }
      if (special === 3 || byte !== SPACE) {
        kept = out.length;
        this.end = this.at;
      }
    }
    return Buffer.from(out.slice(0, kept));
  }

  /** The byte of the escape sequence at `at`. */
  private escape(): number {
    const next = this.bytes[this.at + 1];
    const high = hexDigit(next);
    const low = hexDigit(this.bytes[this.at + 2]);
    if (high >= 0 && low >= 0) {
      this.at += 3;
      return high * 16 + low;
    }
    if (next === undefined || !ESCAPABLE.has(next)) {
      this.fail('a backslash must be followed by two hexadecimal digits or one of , + " \\ < > ; # = or a space');
    }
    this.at += 2;
    return next;
  }

  private quotedValue(): Buffer {
    const { bytes } = this;
    const opened = this.at;
    const out: number[] = [];
    this.at++;
    while (bytes[this.at] !== QUOTE) {
      const byte = bytes[this.at];
      if (byte === undefined) this.fail('a quoted value is never closed', opened);
      if (byte === 0) this.fail('character 0x00 must be escaped with a backslash');
      if (byte === BACKSLASH) out.push(this.escape());
      else {
        out.push(byte);
        this.at++;
      }
    }
    this.at++;
    this.afterValue();
    return Buffer.from(out);
  }

  /** Parses `#` and BER in hexadecimal (RFC 4514 §2.4) to the characters of a string element, else to the BER. */
  private hexValue(): Buffer {
    const { bytes } = this;
    const start = ++this.at;
    while (hexDigit(bytes[this.at]) >= 0) this.at++;
    const digits = this.at - start;
    if (digits === 0 || digits % 2 === 1) this.fail('hexadecimal digits in pairs expected', start);
    const ber = Buffer.from(bytes.toString('latin1', start, this.at), 'hex');
    const tlv = readTlv(ber, 0, ber.length);
    if (!tlv || tlv.end !== ber.length) this.fail('the value after # is not BER', start);
    this.afterValue();
    return stringBytes(ber, tlv) ?? ber;
  }
}

/** The RDN in this server's notation. Types and values are as written, but numeric OIDs become names. */
function rdnText({ avas, start, end }: RawRdn, parser: Parser): string {
  if (parser.isCanonical(start, end)) return parser.slice(start, end);
  const nameOf = ({ name, type }: RawAva): string => (/^\d/.test(name) ? type!.name : name);
  return avas.map((ava) => `${nameOf(ava)}=${formatDnValue(ava.value)}`).join('+');
}

function finishRdn(raw: RawRdn, parser: Parser, context: DnContext): Rdn {
  const text = rdnText(raw, parser);
  if (raw.avas.length === 1) {
    const ava = finishAva(raw.avas[0]!, raw, parser, context);
    return { avas: [ava], text, norm: avaNorm(ava.type.oid, ava.norm) };
  }
  const avas: Ava[] = [];
  for (const given of raw.avas) {
    const ava = finishAva(given, raw, parser, context);
    if (avas.some(({ type }) => type === ava.type)) parser.fail(`'${ava.type.name}' is twice in one RDN`, raw.start);
    avas.push(ava);
  }
  return { avas, text, norm: rdnNorm(avas.map(({ type, norm }) => ({ oid: type.oid, form: norm }))) };
}

function finishAva({ type, value }: RawAva, { start }: RawRdn, parser: Parser, context: DnContext): Ava {
  const norm = (type!.equality ?? context.fallback).normalize(value);
  if (!norm) {
    const why = isUtf8(value) ? "does not fit the attribute's equality rule" : 'is not UTF-8';
    parser.fail(`the value of '${type!.name}' ${why}`, start);
  }
  return { type: type!, value, norm };
}

function checkDnLength(bytes: Buffer): void {
  if (bytes.length > MAX_DN) {
    throw new LdapError('invalidDNSyntax', `DN of ${bytes.length} bytes; at most ${MAX_DN} are allowed`);
  }
}

/** Joins RDNs with commas; returns `given` if equal. Checks the length, since the text may have grown. */
function dnText(rdns: readonly Rdn[], given: string): string {
  const text = joinTexts(rdns);
  if (text === given) return given;
  if (text.length > MAX_DN / 3) checkDnLength(Buffer.from(text));
  return text;
}

function joinTexts(rdns: readonly Rdn[]): string {
  if (rdns.length === 0) return '';
  let text = rdns[0]!.text;
  for (let i = 1; i < rdns.length; i++) text += `,${rdns[i]!.text}`;
  return text;
}

/** Parses a DN. Throws LdapError invalidDNSyntax. The values are views of one copy of the text. */
export function parseDn(given: string, context: DnContext): Dn {
  const bytes = utf8Bytes(given);
  checkDnLength(bytes);
  const parser = new Parser(given, bytes, context, true);
  const rdns = parser.rdns().map((rdn) => finishRdn(rdn, parser, context));
  return { rdns, text: dnText(rdns, given), norm: joinRdns(rdns.map((rdn) => rdn.norm)) };
}

/** Offset of the comma after the RDN that begins at `from`; -1 without comma, and if an escape or quote is first. */
export function nextComma(text: string, from: number): number {
  for (let i = from; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code === COMMA) return i;
    if (code === BACKSLASH || code === QUOTE || code === SEMICOLON || code >= 0x80) return -1;
  }
  return -1;
}

/** Like `parseDn`, for plain RDNs up to the comma at `end` and a known ancestor other than the root. */
export function parseBelow(given: string, end: number, ancestor: Dn, context: DnContext): Dn {
  const parser = new Parser(given, utf8Bytes(given.slice(0, end)), context, true);
  const raw = parser.rdns();
  const long = given.length > MAX_DN / 3 || raw.length + ancestor.rdns.length > MAX_RDNS;
  if (raw.length === 0 || long) return parseDn(given, context);
  const own = raw.map((rdn) => finishRdn(rdn, parser, context));
  const rdns = [...own, ...ancestor.rdns];
  const isGiven = given.endsWith(ancestor.text) && given.length - ancestor.text.length === end + 1;
  const text = isGiven && joinTexts(own) === given.slice(0, end) ? given : dnText(rdns, given);
  const norm = joinRdns([...own.map((rdn) => rdn.norm), ancestor.norm]);
  return { rdns, text, norm };
}

/** The DN without its first `count` RDNs. */
export function ancestorOf(dn: Dn, count: number): Dn {
  let norm = 0;
  let text = 0;
  for (let i = 0; i < count; i++) {
    norm += dn.rdns[i]!.norm.length + 1;
    text += dn.rdns[i]!.text.length + 1;
  }
  return { rdns: dn.rdns.slice(count), text: dn.text.slice(text), norm: dn.norm.subarray(norm) };
}

/** OIDs (or unknown names) and values of the RDNs, leftmost first. Throws LdapError invalidDNSyntax. */
export function parseLoose(text: string, context: DnContext): { oid: string; value: Buffer }[][] {
  const bytes = Buffer.from(text, 'utf8');
  checkDnLength(bytes);
  return new Parser(text, bytes, context, false).rdns().map((rdn) => rdn.avas);
}
