import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

// Codes of RFC 6238 with the default parameters of authenticator programs: HMAC-SHA-1, steps of 30 seconds, six digits.

export const CODE_DIGITS = 6;
/** Milliseconds. */
const STEP = 30_000;
/** The length of the hash (RFC 4226 §4). */
const SECRET_BYTES = 20;

export function newTotpSecret(): Buffer {
  return randomBytes(SECRET_BYTES);
}

/** Returns the code of a counter (RFC 4226 §5.3). */
export function hotp(secret: Buffer, counter: number, digits = CODE_DIGITS): string {
  const message = Buffer.alloc(8);
  message.writeBigUInt64BE(BigInt(counter));
  const mac = createHmac('sha1', secret).update(message).digest();
  const number = mac.readUInt32BE(mac.at(-1)! & 0xf) & 0x7fff_ffff;
  return String(number % 10 ** digits).padStart(digits, '0');
}

/** Returns the number of the step at `now`, in milliseconds since 1970. */
export function stepAt(now: number): number {
  return Math.floor(now / STEP);
}

/** Returns the steps that the code belongs to, out of the previous, the current and the next step. */
export function matchingSteps(secret: Buffer, code: string, now: number): number[] {
  const actual = Buffer.from(code);
  const current = stepAt(now);
  return [current - 1, current, current + 1].filter((step) => {
    const expected = Buffer.from(hotp(secret, step));
    return expected.length === actual.length && timingSafeEqual(expected, actual);
  });
}

/** Returns the URI that authenticator programs read, as text or from a QR code. */
export function totpUri(secret: Buffer, issuer: string, account: string): string {
  const [encodedIssuer, encodedAccount] = [issuer, account].map(encodeURIComponent);
  return `otpauth://totp/${encodedIssuer}:${encodedAccount}?secret=${base32(secret)}&issuer=${encodedIssuer}&algorithm=SHA1&digits=6&period=30`;
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** Encodes in base32 (RFC 4648 §6) without padding. */
export function base32(bytes: Buffer): string {
  let text = '';
  let bits = 0;
  let pending = 0;
  for (const byte of bytes) {
    pending = ((pending << 8) | byte) & 0xfff;
    for (bits += 8; bits >= 5; bits -= 5) text += LETTERS[(pending >> (bits - 5)) & 31]!;
  }
  return bits > 0 ? text + LETTERS[(pending << (5 - bits)) & 31]! : text;
}
