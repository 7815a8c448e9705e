import { isUtf8 } from 'node:buffer';
import { nfkc } from './nfkc.js';

/**
 * String preparation (RFC 4518) to a normal form of bytes.
 *
 * Spaces: §2.6.1 pads values with spaces so that substrings work by plain search; the form here has fewer bytes. A
 * value has no space at its ends and one in a row; a value of nothing but spaces is one space. Parts of a substrings
 * assertion keep one space where the value may have one: those that begin or end with it are found by `pad` of both.
 *
 * Unicode: RFC 4518 names version 3.2 and prohibits what that leaves unassigned; here the runtime's version counts, so
 * that characters assigned since then can be searched for.
 */

/** Which part of a value it is; `whole`: all of it. */
export type Part = 'whole' | 'initial' | 'any' | 'final';

/** Whether it begins where the value does. */
export function opens(where: Part): boolean {
  return where === 'whole' || where === 'initial';
}

/** Whether it ends where the value does. */
export function closes(where: Part): boolean {
  return where === 'whole' || where === 'final';
}

const SPACE = 0x20;
const HYPHEN = 0x2d;
const ONE_SPACE = Buffer.from(' ');
const TWO_SPACES = Buffer.from('  ');
const SLOW = 0x80;

/** Byte → its form; from 0x80 on: not printable ASCII, takes the slow way. No byte that takes it maps to itself. */
const EXACT = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (byte >= SPACE && byte < 0x7f) return byte;
  return byte === SLOW ? SLOW + 1 : SLOW;
});
const FOLD = EXACT.map((byte) => (byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte));

/**
 * caseIgnore: prepared, folded. Undefined when the bytes are not UTF-8 or hold a prohibited character. The same buffer
 * when nothing changes.
 */
export function prepareIgnore(value: Buffer): Buffer | undefined {
  return prepare(value, FOLD, true, true);
}

/** caseExact. As `prepareIgnore`, unfolded. */
export function prepareExact(value: Buffer): Buffer | undefined {
  return prepare(value, EXACT, true, true);
}

export function preparePartIgnore(part: Buffer, where: Part): Buffer | undefined {
  return prepare(part, FOLD, opens(where), closes(where));
}

export function preparePartExact(part: Buffer, where: Part): Buffer | undefined {
  return prepare(part, EXACT, opens(where), closes(where));
}

/** One pass over ASCII; a copy is made only at the first byte that changes. */
function prepare(value: Buffer, map: Uint8Array, trimStart: boolean, trimEnd: boolean): Buffer | undefined {
  const n = value.length;
  let afterSpace = trimStart;
  let i = 0;
  for (; i < n; i++) {
    const byte = value[i]!;
    if (map[byte] !== byte || (byte === SPACE && afterSpace)) break;
    afterSpace = byte === SPACE;
  }
  if (i < n) return prepareFrom(value, i, afterSpace, map, trimStart, trimEnd);
  if (n > 0 && (!afterSpace || !trimEnd)) return value;
  return trimmed(value, n, trimEnd);
}

function prepareFrom(
  value: Buffer,
  start: number,
  startAfterSpace: boolean,
  map: Uint8Array,
  trimStart: boolean,
  trimEnd: boolean,
): Buffer | undefined {
  const n = value.length;
  const out = Buffer.allocUnsafe(n);
  for (let i = 0; i < start; i++) out[i] = value[i]!;
  let length = start;
  let afterSpace = startAfterSpace;
  for (let i = start; i < n; i++) {
    const byte = map[value[i]!]!;
    if (byte >= SLOW) return prepareUnicode(value, map === FOLD, trimStart, trimEnd);
    if (byte === SPACE) {
      if (afterSpace) continue;
      afterSpace = true;
    } else afterSpace = false;
    out[length++] = byte;
  }
  return trimmed(out, length, trimEnd);
}

/** Cuts a space at the end. What has no other character is one space. */
function trimmed(bytes: Buffer, length: number, trimEnd: boolean): Buffer {
  const end = trimEnd && length > 0 && bytes[length - 1] === SPACE ? length - 1 : length;
  if (end === 0) return ONE_SPACE;
  return end === bytes.length ? bytes : bytes.subarray(0, end);
}

/** Inner spaces, but those that carry a combining mark. */
const INNER_SPACE = /(?<!^) (?!\p{M}|$)/gu;

/**
 * A form, or a part's, with the spaces of §2.6.1: two for each between words, one at the value's ends where it reaches
 * them.
 */
export function pad(form: Buffer, where: Part): Buffer {
  if (form.equals(ONE_SPACE)) return where === 'whole' ? TWO_SPACES : ONE_SPACE;
  const inner = form.toString('utf8').replace(INNER_SPACE, '  ');
  return Buffer.from(`${opens(where) ? ' ' : ''}${inner}${closes(where) ? ' ' : ''}`);
}

type Range = number | readonly [number, number];

/** A pattern for one character of these code points, or of these Unicode properties. */
function anyOf(ranges: readonly Range[], flags: string, properties = ''): RegExp {
  const parts = ranges.map((range) => {
    const [first, last] = typeof range === 'number' ? [range, range] : range;
    return `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`;
  });
  return new RegExp(`[${properties}${parts.join('')}]`, flags);
}

/** §2.2: mapped to nothing: controls, soft hyphens, variation selectors, marks of direction and joining, tags. */
const DROPPED = anyOf(
  [
    [0x0000, 0x0008],
    [0x000e, 0x001f],
    [0x007f, 0x0084],
    [0x0086, 0x009f],
    ...[0x00ad, 0x034f, 0x06dd, 0x070f, 0x1806],
    [0x180b, 0x180e],
    [0x200b, 0x200f],
    [0x202a, 0x202e],
    [0x2060, 0x2063],
    [0x206a, 0x206f],
    [0xfe00, 0xfe0f],
    0xfeff,
    [0xfff9, 0xfffc],
    [0x1d173, 0x1d17a],
    0xe0001,
    [0xe0020, 0xe007f],
  ],
  'gu',
);
/** §2.2: mapped to SPACE. */
const SPACES = anyOf(
  [[0x0009, 0x000d], 0x0085, 0x00a0, 0x1680, [0x2000, 0x200a], 0x2028, 0x2029, 0x202f, 0x205f, 0x3000],
  'gu',
);
/** §2.4: unassigned, private use, surrogates; deprecated tone marks; the replacement character. */
const PROHIBITED = anyOf([0x0340, 0x0341, 0xfffd], 'u', '\\p{Cn}\\p{Co}\\p{Cs}');
/** §2.6.1: a space that carries a combining mark is not insignificant. */
const SPACE_RUN = /(?: (?!\p{M}))+/gu;
const UNFOLDED = /[^\u0131]+/gu;

/** The prepared text, spaces not yet squeezed; undefined when prohibited. */
function preparedText(value: Buffer, fold: boolean): string | undefined {
  if (!isUtf8(value)) return undefined;
  let text = nfkc(value.toString('utf8').replace(DROPPED, '').replace(SPACES, ' '));
  if (fold) text = nfkc(text.replace(UNFOLDED, foldCase));
  return PROHIBITED.test(text) ? undefined : text;
}

/**
 * Full case folding (RFC 3454 B.2): lower-upper-lower maps ß and ẞ to ss and ligatures to letters; final sigma is a
 * sigma; dotless i stays.
 */
function foldCase(text: string): string {
  return text.toLowerCase().toUpperCase().toLowerCase().replaceAll('ς', 'σ');
}

function prepareUnicode(value: Buffer, fold: boolean, trimStart: boolean, trimEnd: boolean): Buffer | undefined {
  const text = preparedText(value, fold);
  if (text === undefined) return undefined;
  const squeezed = text.replace(SPACE_RUN, ' ');
  const marked = /^ \p{M}/u.test(squeezed);
  const bytes = Buffer.from(trimStart && !marked && squeezed.startsWith(' ') ? squeezed.slice(1) : squeezed);
  return trimmed(bytes, bytes.length, trimEnd);
}

/** numericString (§2.6.2): without spaces. */
export function prepareNumeric(value: Buffer): Buffer | undefined {
  return without(value, EXACT, SPACE, SPACE) ?? strip(value, false, / /g);
}

/** telephoneNumber (§2.6.3): without spaces and hyphens, folded. */
export function prepareTelephone(value: Buffer): Buffer | undefined {
  return without(value, FOLD, SPACE, HYPHEN) ?? strip(value, true, /[ \-\u058A\u2010\u2011\u2212\uFE63\uFF0D]/g);
}

/** ASCII without two bytes; undefined when something is not ASCII. */
function without(value: Buffer, map: Uint8Array, one: number, other: number): Buffer | undefined {
  const n = value.length;
  let i = 0;
  for (; i < n; i++) {
    const byte = value[i]!;
    if (map[byte] !== byte || byte === one || byte === other) break;
  }
  if (i === n) return value;
  let length = i;
  for (let k = i; k < n; k++) {
    const byte = value[k]!;
    if (map[byte]! >= SLOW) return undefined;
    if (byte !== one && byte !== other) length++;
  }
  const out = Buffer.allocUnsafe(length);
  for (let k = 0; k < i; k++) out[k] = value[k]!;
  for (let to = i; i < n; i++) {
    const byte = value[i]!;
    if (byte !== one && byte !== other) out[to++] = map[byte]!;
  }
  return out;
}

function strip(value: Buffer, fold: boolean, insignificant: RegExp): Buffer | undefined {
  const text = preparedText(value, fold);
  return text === undefined ? undefined : Buffer.from(text.replace(insignificant, ''));
}
