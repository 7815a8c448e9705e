import { isUtf8 } from 'node:buffer';
import { nfkc } from './nfkc.js';

/**
 * Prepares strings (RFC 4518) and returns their normal form as bytes.
 * Substrings: an assertion consists of an initial, several any and a final substring (RFC 4511 §4.5.1.7.2). Each of
 * these is called a part here.
 * Spaces: RFC 4518 §2.6.1 adds spaces so that a plain byte search finds the parts. The normal form here is shorter: a
 * value has no leading or trailing space and no two adjacent spaces; a value of spaces only becomes one space. A part
 * keeps a leading or trailing space where the value may have one. To find a part that begins or ends with a space, the
 * search applies `pad` to the value and to the part.
 * Unicode: RFC 4518 uses version 3.2 and prohibits characters unassigned in that version. Rowan uses the runtime's
 * version, so that newer characters can be searched for.
 */

/** The position of a part in the value. `whole`: not a part, but the complete value. */
export type Part = 'whole' | 'initial' | 'any' | 'final';

/** Whether the part has to match at the beginning of the value. */
export function isAtStart(where: Part): boolean {
  return where === 'whole' || where === 'initial';
}

/** Whether the part has to match at the end of the value. */
export function isAtEnd(where: Part): boolean {
  return where === 'whole' || where === 'final';
}

const SPACE = 0x20;
const HYPHEN = 0x2d;
const ONE_SPACE = Buffer.from(' ');
const TWO_SPACES = Buffer.from('  ');
const SLOW = 0x80;

/** Normal form of each ASCII byte. Any other byte maps to a different one ≥ 0x80, which selects the slow path. */
const EXACT_BYTES = Uint8Array.from({ length: 256 }, (_, byte) => {
  if (byte >= SPACE && byte < 0x7f) return byte;
  return byte === SLOW ? SLOW + 1 : SLOW;
});
const FOLDED_BYTES = EXACT_BYTES.map((byte) => (byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte));

/** caseIgnore. Returns the same buffer if nothing changes; undefined if not UTF-8 or with a prohibited character. */
export function prepareIgnore(value: Buffer): Buffer | undefined {
  return prepare(value, FOLDED_BYTES, true, true);
}

/** caseExact: like `prepareIgnore`, without case folding. */
export function prepareExact(value: Buffer): Buffer | undefined {
  return prepare(value, EXACT_BYTES, true, true);
}

export function preparePartIgnore(part: Buffer, where: Part): Buffer | undefined {
  return prepare(part, FOLDED_BYTES, isAtStart(where), isAtEnd(where));
}

export function preparePartExact(part: Buffer, where: Part): Buffer | undefined {
  return prepare(part, EXACT_BYTES, isAtStart(where), isAtEnd(where));
}

/** Makes one pass over an ASCII value. Copies the value only from the first byte that changes. */
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
  return trimEndSpace(value, n, trimEnd);
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
    if (byte >= SLOW) return prepareUnicode(value, map === FOLDED_BYTES, trimStart, trimEnd);
    if (byte === SPACE) {
      if (afterSpace) continue;
      afterSpace = true;
    } else afterSpace = false;
    out[length++] = byte;
  }
  return trimEndSpace(out, length, trimEnd);
}

/** Removes a trailing space if `trimEnd` is set. An empty result becomes one space. */
function trimEndSpace(bytes: Buffer, length: number, trimEnd: boolean): Buffer {
  const end = trimEnd && length > 0 && bytes[length - 1] === SPACE ? length - 1 : length;
  if (end === 0) return ONE_SPACE;
  return end === bytes.length ? bytes : bytes.subarray(0, end);
}

/** Inner spaces that do not carry a combining mark. */
const INNER_SPACE = /(?<!^) (?!\p{M}|$)/gu;

/** Adds the spaces of RFC 4518 §2.6.1 to a normal form: two between words, one at each end of the value. */
export function pad(normalForm: Buffer, where: Part): Buffer {
  if (normalForm.equals(ONE_SPACE)) return where === 'whole' ? TWO_SPACES : ONE_SPACE;
  const spacedText = normalForm.toString('utf8').replace(INNER_SPACE, '  ');
  return Buffer.from(`${isAtStart(where) ? ' ' : ''}${spacedText}${isAtEnd(where) ? ' ' : ''}`);
}

type Range = number | readonly [number, number];

/** A pattern for one character out of the given code points and Unicode properties. */
function characterPattern(ranges: readonly Range[], flags: string, properties = ''): RegExp {
  const rangeTexts = ranges.map((range) => {
    const [first, last] = typeof range === 'number' ? [range, range] : range;
    return `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`;
  });
  return new RegExp(`[${properties}${rangeTexts.join('')}]`, flags);
}

/** Characters to drop (§2.2): controls, soft hyphens, variation selectors, marks of direction and joining, tags. */
const DROPPED = characterPattern(
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
/** Characters to replace by SPACE (§2.2). */
const SPACES = characterPattern(
  [[0x0009, 0x000d], 0x0085, 0x00a0, 0x1680, [0x2000, 0x200a], 0x2028, 0x2029, 0x202f, 0x205f, 0x3000],
  'gu',
);
/** Prohibited (§2.4): unassigned, private use, surrogates, deprecated tone marks, replacement character. */
const PROHIBITED = characterPattern([0x0340, 0x0341, 0xfffd], 'u', '\\p{Cn}\\p{Co}\\p{Cs}');
/** Insignificant spaces (§2.6.1): spaces that do not carry a combining mark. */
const SPACE_RUN = /(?: (?!\p{M}))+/gu;
const UNFOLDED = /[^\u0131]+/gu;

/** Returns the text before spaces are collapsed; undefined if it contains a prohibited character. */
function preparedText(value: Buffer, foldsCase: boolean): string | undefined {
  if (!isUtf8(value)) return undefined;
  let text = nfkc(value.toString('utf8').replace(DROPPED, '').replace(SPACES, ' '));
  if (foldsCase) text = nfkc(text.replace(UNFOLDED, foldCase));
  return PROHIBITED.test(text) ? undefined : text;
}

/**
 * Full case folding (RFC 3454 B.2). Mapping to lower, upper and lower case turns ß and ẞ into ss and ligatures into
 * letters. Final sigma becomes sigma; dotless i is kept.
 */
function foldCase(text: string): string {
  return text.toLowerCase().toUpperCase().toLowerCase().replaceAll('ς', 'σ');
}

function prepareUnicode(value: Buffer, foldsCase: boolean, trimStart: boolean, trimEnd: boolean): Buffer | undefined {
  const text = preparedText(value, foldsCase);
  if (text === undefined) return undefined;
  const collapsedText = text.replace(SPACE_RUN, ' ');
  const startsWithMark = /^ \p{M}/u.test(collapsedText);
  const bytes = Buffer.from(
    trimStart && !startsWithMark && collapsedText.startsWith(' ') ? collapsedText.slice(1) : collapsedText,
  );
  return trimEndSpace(bytes, bytes.length, trimEnd);
}

/** numericString (§2.6.2): without spaces. */
export function prepareNumeric(value: Buffer): Buffer | undefined {
  return removeBytes(value, EXACT_BYTES, SPACE, SPACE) ?? removeCharacters(value, false, / /g);
}

/** telephoneNumber (§2.6.3): without spaces and hyphens, case-folded. */
export function prepareTelephone(value: Buffer): Buffer | undefined {
  return (
    removeBytes(value, FOLDED_BYTES, SPACE, HYPHEN) ??
    removeCharacters(value, true, /[ \-\u058A\u2010\u2011\u2212\uFE63\uFF0D]/g)
  );
}

/** Returns an ASCII value without two of its bytes, such as space and hyphen; undefined if the value is not ASCII. */
function removeBytes(value: Buffer, map: Uint8Array, firstByte: number, secondByte: number): Buffer | undefined {
  const n = value.length;
  let i = 0;
  for (; i < n; i++) {
    const byte = value[i]!;
    if (map[byte] !== byte || byte === firstByte || byte === secondByte) break;
  }
  if (i === n) return value;
  let length = i;
  for (let k = i; k < n; k++) {
    const byte = value[k]!;
    if (map[byte]! >= SLOW) return undefined;
    if (byte !== firstByte && byte !== secondByte) length++;
  }
  const out = Buffer.allocUnsafe(length);
  for (let k = 0; k < i; k++) out[k] = value[k]!;
  for (let to = i; i < n; i++) {
    const byte = value[i]!;
    if (byte !== firstByte && byte !== secondByte) out[to++] = map[byte]!;
  }
  return out;
}

function removeCharacters(value: Buffer, foldsCase: boolean, insignificant: RegExp): Buffer | undefined {
  const text = preparedText(value, foldsCase);
  return text === undefined ? undefined : Buffer.from(text.replace(insignificant, ''));
}
