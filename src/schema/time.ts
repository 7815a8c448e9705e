/**
 * Checks and normalizes times (RFC 4517 §3.3.13, §3.3.34). The normal form of a generalizedTime is `YYYYMMDDhhmmss` in
 * UTC, followed by `.fraction` without trailing zeros if there is a fraction. So byte order is the order of time.
 */

interface Time {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
  readonly second: number;
  /** Decimal digits of the fraction of a second. */
  readonly fraction: string;
  /** Offset of the time zone from UTC in minutes. */
  readonly offset: number;
}

const GENERALIZED_TIME = /^(\d{4})(\d\d)(\d\d)(\d\d)(?:(\d\d)(\d\d)?)?(?:[.,](\d+))?(Z|[+-]\d\d(?:\d\d)?)$/;
const UTC = /^(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)?(Z|[+-]\d{4})?$/;
const DAYS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

function twoDigits(value: Buffer, offset: number): number {
  return (value[offset]! - 0x30) * 10 + (value[offset + 1]! - 0x30);
}

/** Returns the error message for an invalid date or time of day; else undefined. Accepts 60 as a leap second. */
function checkFields(year: number, month: number, day: number, hour: number, minute: number, second: number) {
  if (month < 1 || month > 12) return 'has no such month';
  const isLeapYear = (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
  if (day < 1 || day > DAYS[month - 1]! || (month === 2 && day === 29 && !isLeapYear)) return 'has no such day';
  if (hour < 0 || hour > 23) return 'has no such hour';
  if (minute < 0 || minute > 59) return 'has no such minute';
  if (second < 0 || second > 60) return 'has no such second';
  return undefined;
}

/** Checks a time `YYYYMMDDhhmmssZ`, by far the most common form, without a regular expression. */
function checkPlain(value: Buffer): string | undefined {
  return checkFields(
    twoDigits(value, 0) * 100 + twoDigits(value, 2),
    twoDigits(value, 4),
    twoDigits(value, 6),
    twoDigits(value, 8),
    twoDigits(value, 10),
    twoDigits(value, 12),
  );
}

/** Converts a fraction of an hour (3,600 s) or minute (60 s) to whole seconds and a fraction of a second. */
function scaleFraction(digits: string, seconds: number): { whole: number; fraction: string } {
  const out = new Array<string>(digits.length);
  let carry = 0;
  for (let i = digits.length - 1; i >= 0; i--) {
    const product = (digits.charCodeAt(i) - 0x30) * seconds + carry;
    out[i] = String(product % 10);
    carry = Math.floor(product / 10);
  }
  return { whole: carry, fraction: out.join('') };
}

function parseGeneralized(text: string): Time | string {
  const match = GENERALIZED_TIME.exec(text);
  if (!match) return 'is not a generalized time like 20261231235959Z';
  const [, year, month, day, hour, minute, second, fraction = '', zone = 'Z'] = match;
  const unitSeconds = second !== undefined ? 1 : minute !== undefined ? 60 : 3600;
  const scaledFraction = unitSeconds === 1 ? { whole: 0, fraction } : scaleFraction(fraction, unitSeconds);
  const offset = zoneMinutes(zone);
  if (offset === undefined) return 'has no such time zone';
  const time = {
    year: Number(year),
    month: Number(month),
    day: Number(day),
    hour: Number(hour),
    minute: Number(minute ?? 0) + Math.floor(scaledFraction.whole / 60),
    second: Number(second ?? 0) + (scaledFraction.whole % 60),
    fraction: scaledFraction.fraction.replace(/0+$/, ''),
    offset,
  };
  return checkFields(time.year, time.month, time.day, time.hour, time.minute, time.second) ?? time;
}

/** Returns the time without seconds, in UTC; undefined if the year in UTC is before 0 or after 9999. */
function utcMinute(time: Time): Date | undefined {
  const date = new Date(0);
  date.setUTCFullYear(time.year, time.month - 1, time.day);
  date.setUTCHours(time.hour, time.minute - time.offset, 0, 0);
  const year = date.getUTCFullYear();
  return year < 0 || year > 9999 ? undefined : date;
}

function zoneMinutes(zone: string): number | undefined {
  if (zone === 'Z') return 0;
  const hours = Number(zone.slice(1, 3));
  const minutes = Number(zone.slice(3, 5));
  if (hours > 23 || minutes > 59) return undefined;
  return (zone[0] === '-' ? -1 : 1) * (hours * 60 + minutes);
}

/** Whether the value has the form `YYYYMMDDhhmmssZ`. Other forms may have the same length. */
function isPlain(value: Buffer): boolean {
  return matchesPattern(value, PLAIN);
}

/** The longest time in bytes. The syntax does not limit the digits of a fraction; no clock needs more. */
const MAX_TIME = 256;

export function checkGeneralizedTime(value: Buffer): string | undefined {
  if (isPlain(value)) return checkPlain(value);
  if (value.length > MAX_TIME) return 'is too long for a time';
  const time = parseGeneralized(value.toString('latin1'));
  if (typeof time === 'string') return time;
  return utcMinute(time) ? undefined : 'is before the year 0 or after 9999 in UTC';
}

/** Normal form; undefined if `value` is not a time, or the year in UTC is before 0 or after 9999. */
export function normalizeGeneralizedTime(value: Buffer): Buffer | undefined {
  if (isPlain(value)) return checkPlain(value) === undefined ? value.subarray(0, 14) : undefined;
  if (value.length > MAX_TIME) return undefined;
  const time = parseGeneralized(value.toString('latin1'));
  if (typeof time === 'string') return undefined;
  const date = utcMinute(time);
  if (!date) return undefined;
  const fields = [date.getUTCMonth() + 1, date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes(), time.second];
  const text =
    String(date.getUTCFullYear()).padStart(4, '0') + fields.map((part) => String(part).padStart(2, '0')).join('');
  return Buffer.from(time.fraction === '' ? text : `${text}.${time.fraction}`, 'latin1');
}

/** Milliseconds since 1970; undefined if `value` is not a time, or the year in UTC is before 0 or after 9999. */
export function generalizedTimeMs(value: Buffer): number | undefined {
  const norm = normalizeGeneralizedTime(value)?.toString('latin1');
  if (norm === undefined) return undefined;
  const twoDigitsAt = (offset: number): number => Number(norm.slice(offset, offset + 2));
  const date = new Date(0);
  date.setUTCFullYear(Number(norm.slice(0, 4)), twoDigitsAt(4) - 1, twoDigitsAt(6));
  date.setUTCHours(twoDigitsAt(8), twoDigitsAt(10), twoDigitsAt(12), Math.floor(Number(`0${norm.slice(14)}`) * 1000));
  return date.getTime();
}

export function checkUtcTime(value: Buffer): string | undefined {
  const match = value.length > 17 ? null : UTC.exec(value.toString('latin1'));
  if (!match) return 'is not a UTC time like 261231235959Z';
  const [, year, month, day, hour, minute, second = '0', zone = 'Z'] = match;
  if (zoneMinutes(zone) === undefined) return 'has no such time zone';
  const century = Number(year) < 50 ? 2000 : 1900;
  return checkFields(century + Number(year), Number(month), Number(day), Number(hour), Number(minute), Number(second));
}

const PLAIN = Buffer.from('ddddddddddddddZ');
/** Pattern of a CSN: `d` is a digit, `x` a hexadecimal digit. */
const CSN = Buffer.from('dddddddddddddd.ddddddZ#xxxxxx#xxx#xxxxxx');
/** Offset of the first of the hexadecimal numbers. */
const CSN_NUMBERS = CSN.indexOf('#');
const UUID = Buffer.from('xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx');
const DIGIT = 0x64;
const HEX_DIGIT = 0x78;

/** Value of each hexadecimal digit; 16 for other bytes. */
const HEX = Uint8Array.from({ length: 256 }, (_, byte) => {
  const digit = '0123456789abcdef'.indexOf(String.fromCharCode(byte).toLowerCase());
  return byte < 0x80 && digit >= 0 ? digit : 16;
});

function matchesPattern(value: Buffer, pattern: Buffer): boolean {
  if (value.length !== pattern.length) return false;
  for (let i = 0; i < pattern.length; i++) {
    const byte = value[i]!;
    const patternByte = pattern[i]!;
    if (
      patternByte === HEX_DIGIT
        ? HEX[byte]! > 15
        : patternByte === DIGIT
          ? byte < 0x30 || byte > 0x39
          : byte !== patternByte
    )
      return false;
  }
  return true;
}

/** Checks a change sequence number `YYYYMMDDhhmmss.ffffffZ#count#server#mod`; the numbers are hexadecimal. */
export function checkCsn(value: Buffer): string | undefined {
  if (!matchesPattern(value, CSN))
    return 'is not a change sequence number like 20261231235959.000000Z#000000#000#000000';
  return checkPlain(value);
}

/** Normal form: the text with lower-case digits. The width is fixed, so byte order is the order of the numbers. */
export function normalizeCsn(value: Buffer): Buffer | undefined {
  if (checkCsn(value) !== undefined) return undefined;
  for (let i = CSN_NUMBERS; i < value.length; i++) {
    if (value[i]! >= 0x41 && value[i]! <= 0x46)
      return Buffer.from(value.toString('latin1').toLowerCase().replace('z', 'Z'), 'latin1');
  }
  return value;
}

export function checkUuid(value: Buffer): string | undefined {
  if (matchesPattern(value, UUID)) return undefined;
  return 'is not a UUID like 597ae2f6-16a6-1027-98f4-d28b5365dc14';
}

/** Normal form: the 16 bytes of the UUID. */
export function normalizeUuid(value: Buffer): Buffer | undefined {
  if (!matchesPattern(value, UUID)) return undefined;
  const bytes = Buffer.allocUnsafe(16);
  for (let offset = 0, end = 0; offset < value.length; offset += 2) {
    if (UUID[offset] !== HEX_DIGIT) offset++;
    bytes[end++] = (HEX[value[offset]!]! << 4) | HEX[value[offset + 1]!]!;
  }
  return bytes;
}
