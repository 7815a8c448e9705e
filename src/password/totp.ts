import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

// Computes the codes of authenticator programs (RFC 6238) with their default parameters: HMAC-SHA-1, time steps of 30
// seconds, six digits.

export const CODE_DIGITS = 6;
/** Length of a time step in milliseconds. */
const STEP_MS = 30_000;
/** The length of the hash (RFC 4226 §4). */
const SECRET_BYTES = 20;

export function newTotpSecret(): Buffer {
  return randomBytes(SECRET_BYTES);
}

/** Returns the code of a counter (RFC 4226 §5.3). */
export function hotpCode(secret: Buffer, counter: number, digits = CODE_DIGITS): string {
  const message = Buffer.alloc(8);
  message.writeBigUInt64BE(BigInt(counter));
  const mac = createHmac('sha1', secret).update(message).digest();
  const number = mac.readUInt32BE(mac.at(-1)! & 0xf) & 0x7fff_ffff;
  return String(number % 10 ** digits).padStart(digits, '0');
}

/** Returns the number of the time step at `now`, in milliseconds since 1970. */
export function stepAt(now: number): number {
  return Math.floor(now / STEP_MS);
}

/** Returns those of the previous, the current and the next time step whose code is `code`. */
export function matchingSteps(secret: Buffer, code: string, now: number): number[] {
  const sentCode = Buffer.from(code);
  const currentStep = stepAt(now);
  return [currentStep - 1, currentStep, currentStep + 1].filter((step) => {
    const expectedCode = Buffer.from(hotpCode(secret, step));
    return expectedCode.length === sentCode.length && timingSafeEqual(expectedCode, sentCode);
  });
}

/** Returns the URI that authenticator programs read, as text or from a QR code. */
export function totpUri(secret: Buffer, issuer: string, account: string): string {
  const [encodedIssuer, encodedAccount] = [issuer, account].map(encodeURIComponent);
  return `otpauth://totp/${encodedIssuer}:${encodedAccount}?secret=${base32(secret)}&issuer=${encodedIssuer}&algorithm=SHA1&digits=6&period=30`;
}

const BASE32_LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';

/** Encodes in base32 (RFC 4648 §6) without padding. */
export function base32(bytes: Buffer): string {
  let text = '';
  let bitCount = 0;
  let bitBuffer = 0;
  for (const byte of bytes) {
    bitBuffer = ((bitBuffer << 8) | byte) & 0xfff;
    for (bitCount += 8; bitCount >= 5; bitCount -= 5) text += BASE32_LETTERS[(bitBuffer >> (bitCount - 5)) & 31]!;
  }
  return bitCount > 0 ? text + BASE32_LETTERS[(bitBuffer << (5 - bitCount)) & 31]! : text;
}
