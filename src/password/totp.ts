import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** Codes of RFC 6238: HMAC-SHA-1, steps of 30 seconds, six digits, as every program for them takes by default. */

export const CODE_DIGITS = 6;
const STEP = 30_000;
/** As long as the hash (RFC 4226 §4). */
const SECRET_BYTES = 20;

export function newTotpSecret(): Buffer {
  return randomBytes(SECRET_BYTES);
}

/** RFC 4226 §5.3. */
export function hotp(secret: Buffer, counter: number, digits = CODE_DIGITS): string {
  const message = Buffer.alloc(8);
  message.writeBigUInt64BE(BigInt(counter));
  const mac = createHmac('sha1', secret).update(message).digest();
  const number = mac.readUInt32BE(mac.at(-1)! & 0xf) & 0x7fff_ffff;
  return String(number % 10 ** digits).padStart(digits, '0');
}

/** Number of the step at a time, in milliseconds since 1970. */
export function stepAt(now: number): number {
  return Math.floor(now / STEP);
}

/** The steps of which the code is, in their order: the present one, the one before and the next. */
export function matchingSteps(secret: Buffer, code: string, now: number): number[] {
  const given = Buffer.from(code);
  const present = stepAt(now);
  return [present - 1, present, present + 1].filter((step) => {
    const right = Buffer.from(hotp(secret, step));
    return right.length === given.length && timingSafeEqual(right, given);
  });
}

/** What a program for codes reads, as text or from a QR code. */
export function totpUri(secret: Buffer, issuer: string, account: string): string {
  const [who, whose] = [issuer, account].map(encodeURIComponent);
  return `otpauth://totp/${who}:${whose}?secret=${base32(secret)}&issuer=${who}&algorithm=SHA1&digits=6&period=30`;
}

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** RFC 4648 §6, without padding. */
export function base32(bytes: Buffer): string {
  let text = '';
  let bits = 0;
  let held = 0;
  for (const byte of bytes) {
    held = ((held << 8) | byte) & 0xfff;
    for (bits += 8; bits >= 5; bits -= 5) text += LETTERS[(held >> (bits - 5)) & 31]!;
  }
  return bits > 0 ? text + LETTERS[(held << (5 - bits)) & 31]! : text;
}
