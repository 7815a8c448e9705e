/**
 * Integers of any size (RFC 4517 §3.3.16) to bytes whose order is the order of the numbers:
 *
 *   sign and length  │ decimal digits       positive: 'p', length;   negative: 'm' and everything after it complemented
 *
 * The length is one byte below 0xff, else 0xff and four bytes. Digits stay decimal: linear in time for any size.
 */

const ZERO = 0x30;
const MINUS = 0x2d;
const NEGATIVE = 0x6d;
const POSITIVE = 0x70;
const LONG = 0xff;

/** What is wrong with the text of an integer, or undefined. */
export function checkInteger(value: Buffer): string | undefined {
  const start = value[0] === MINUS ? 1 : 0;
  const digits = value.length - start;
  if (digits < 1) return 'is not an integer: digits expected';
  for (let i = start; i < value.length; i++) {
    const byte = value[i]!;
    if (byte < ZERO || byte > ZERO + 9) return `is not an integer: byte ${i + 1} is not a digit`;
  }
  if (value[start] === ZERO && value.length > 1) return 'is not an integer: no leading zero and no -0';
  return undefined;
}

/** Normal form; undefined when `value` is no integer. */
export function normalizeInteger(value: Buffer): Buffer | undefined {
  if (checkInteger(value) !== undefined) return undefined;
  const negative = value[0] === MINUS;
  const start = negative ? 1 : 0;
  const digits = value.length - start;
  const head = digits < LONG ? 2 : 6;
  const out = Buffer.allocUnsafe(head + digits);
  out[0] = negative ? NEGATIVE : POSITIVE;
  if (digits < LONG) out[1] = digits;
  else {
    out[1] = LONG;
    out.writeUInt32BE(digits, 2);
  }
  for (let i = 0; i < digits; i++) out[head + i] = value[start + i]!;
  if (negative) for (let i = 1; i < out.length; i++) out[i] = 0xff - out[i]!;
  return out;
}

/** The number, from 0 on, whose normal form this is. */
export function integerOf(form: Buffer): bigint {
  return BigInt(form.toString('latin1', form[1] === LONG ? 6 : 2));
}

const MIN_64 = -(2n ** 63n);
const MAX_64 = 2n ** 64n - 1n;

/** For the bitwise rules: 8 bytes of two's complement, of numbers from -2⁶³ to 2⁶⁴-1; undefined for others. */
export function integerBits(value: Buffer): Buffer | undefined {
  if (value.length > 20 || checkInteger(value) !== undefined) return undefined;
  const number = BigInt(value.toString('latin1'));
  if (number < MIN_64 || number > MAX_64) return undefined;
  const out = Buffer.allocUnsafe(8);
  out.writeBigUInt64BE(BigInt.asUintN(64, number));
  return out;
}

/** 1.2.840.113556.1.4.803: every bit of the assertion is set. */
export function allBits(value: Buffer, assertion: Buffer): boolean {
  for (let i = 0; i < 8; i++) if ((value[i]! & assertion[i]!) !== assertion[i]) return false;
  return true;
}

/** 1.2.840.113556.1.4.804: some bit of the assertion is set. */
export function someBits(value: Buffer, assertion: Buffer): boolean {
  for (let i = 0; i < 8; i++) if ((value[i]! & assertion[i]!) !== 0) return true;
  return false;
}
