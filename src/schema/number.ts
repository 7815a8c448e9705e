/**
 * Encodes integers of any size (RFC 4517 §3.3.16) so that byte order is numeric order:
 *
 * sign and length │ decimal digits
 *
 * The sign is 'p' for positive numbers, and 'm' for negative numbers, for which all following bytes are complemented.
 * The length is one byte below 0xff, or 0xff and four bytes. Keeping decimal digits makes the encoding linear in time.
 */

const ZERO = 0x30;
const MINUS = 0x2d;
const NEGATIVE = 0x6d;
const POSITIVE = 0x70;
const LONG_LENGTH = 0xff;

/** Returns the error message for a value that is not an integer; undefined for a valid integer. */
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

/** Normal form; undefined if `value` is not an integer. */
export function normalizeInteger(value: Buffer): Buffer | undefined {
  if (checkInteger(value) !== undefined) return undefined;
  const isNegative = value[0] === MINUS;
  const start = isNegative ? 1 : 0;
  const digits = value.length - start;
  const headLength = digits < LONG_LENGTH ? 2 : 6;
  const out = Buffer.allocUnsafe(headLength + digits);
  out[0] = isNegative ? NEGATIVE : POSITIVE;
  if (digits < LONG_LENGTH) out[1] = digits;
  else {
    out[1] = LONG_LENGTH;
    out.writeUInt32BE(digits, 2);
  }
  for (let i = 0; i < digits; i++) out[headLength + i] = value[start + i]!;
  if (isNegative) for (let i = 1; i < out.length; i++) out[i] = 0xff - out[i]!;
  return out;
}

/** Returns the integer with the given normal form, which must not be that of a negative number. */
export function integerFromNorm(normalForm: Buffer): bigint {
  return BigInt(normalForm.toString('latin1', normalForm[1] === LONG_LENGTH ? 6 : 2));
}

const MIN_64 = -(2n ** 63n);
const MAX_64 = 2n ** 64n - 1n;

/** Returns the number in 8 bytes of two's complement, for the bitwise rules; undefined outside of -2⁶³ to 2⁶⁴-1. */
export function integerBits(value: Buffer): Buffer | undefined {
  if (value.length > 20 || checkInteger(value) !== undefined) return undefined;
  const number = BigInt(value.toString('latin1'));
  if (number < MIN_64 || number > MAX_64) return undefined;
  const out = Buffer.allocUnsafe(8);
  out.writeBigUInt64BE(BigInt.asUintN(64, number));
  return out;
}

/** Implements rule 1.2.840.113556.1.4.803: whether the value has all bits of the assertion. */
export function hasAllBits(value: Buffer, assertion: Buffer): boolean {
  for (let i = 0; i < 8; i++) if ((value[i]! & assertion[i]!) !== assertion[i]) return false;
  return true;
}

/** Implements rule 1.2.840.113556.1.4.804: whether the value has at least one bit of the assertion. */
export function hasSomeBit(value: Buffer, assertion: Buffer): boolean {
  for (let i = 0; i < 8; i++) if ((value[i]! & assertion[i]!) !== 0) return true;
  return false;
}
