import { pbkdf2, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { decodeBase64 } from './digest.js';
import { MAX_PBKDF2_ITERATIONS } from './limits.js';
import type { Scheme } from './schemes.js';

const deriveHash = promisify(pbkdf2);

/** `iterations$salt$hash`, with salt and hash in base64, with `.` for `+` and no padding (OpenLDAP's pw-pbkdf2). */
const pbkdf2Pattern = /^([1-9]\d{0,9})\$([A-Za-z0-9./+]{1,172})\$([A-Za-z0-9./+]{1,172})$/;

function decodeAdapted(text: string): Buffer | undefined {
  return decodeBase64(text.replaceAll('.', '+'));
}

interface Pbkdf2Text {
  readonly iterations: number;
  readonly salt: Buffer;
  readonly hash: Buffer;
}

/** Parses the text. Undefined when the text is malformed or exceeds the limits. */
export function parsePbkdf2(scheme: Scheme, text: string): Pbkdf2Text | undefined {
  const match = pbkdf2Pattern.exec(text);
  if (!match) return undefined;
  const iterations = Number(match[1]);
  const salt = decodeAdapted(match[2]!);
  const hash = decodeAdapted(match[3]!);
  if (iterations > MAX_PBKDF2_ITERATIONS || !salt || hash?.length !== scheme.digestBytes) return undefined;
  return { iterations, salt, hash };
}

/** Returns false synchronously when the text cannot be verified. */
export function verifyPbkdf2(scheme: Scheme, text: string, clear: Buffer): boolean | Promise<boolean> {
  const pbkdf2Text = parsePbkdf2(scheme, text);
  if (!pbkdf2Text) return false;
  const { iterations, salt, hash } = pbkdf2Text;
  return deriveHash(clear, salt, iterations, scheme.digestBytes, scheme.digest).then((derived) =>
    timingSafeEqual(derived, hash),
  );
}
