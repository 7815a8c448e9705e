import { pbkdf2, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { decodeBase64 } from './digest.js';
import { MAX_PBKDF2_ITERATIONS } from './limits.js';
import type { Scheme } from './schemes.js';

const derive = promisify(pbkdf2);

/** `iterations$salt$hash`, with salt and hash in base64, with `.` for `+` and no padding (OpenLDAP's pw-pbkdf2). */
const pattern = /^([1-9]\d{0,9})\$([A-Za-z0-9./+]{1,172})\$([A-Za-z0-9./+]{1,172})$/;

function decode(text: string): Buffer | undefined {
  return decodeBase64(text.replaceAll('.', '+'));
}

interface Pbkdf2Text {
  readonly iterations: number;
  readonly salt: Buffer;
  readonly expected: Buffer;
}

/** Parses the text. Undefined when the text is malformed or exceeds the limits. */
export function parsePbkdf2(scheme: Scheme, text: string): Pbkdf2Text | undefined {
  const match = pattern.exec(text);
  if (!match) return undefined;
  const iterations = Number(match[1]);
  const salt = decode(match[2]!);
  const expected = decode(match[3]!);
  if (iterations > MAX_PBKDF2_ITERATIONS || !salt || expected?.length !== scheme.bytes) return undefined;
  return { iterations, salt, expected };
}

/** Returns false synchronously when the text cannot be verified. */
export function verifyPbkdf2(scheme: Scheme, text: string, clear: Buffer): boolean | Promise<boolean> {
  const parsed = parsePbkdf2(scheme, text);
  if (!parsed) return false;
  const { iterations, salt, expected } = parsed;
  return derive(clear, salt, iterations, scheme.bytes, scheme.digest).then((derived) =>
    timingSafeEqual(derived, expected),
  );
}
