import { hash, pbkdf2, randomBytes, timingSafeEqual } from 'node:crypto';
import { promisify } from 'node:util';
import { MAX_PBKDF2_ITERATIONS } from './limits.js';
import { bodyStart, type Scheme } from './schemes.js';

/** Holds the clear password and the salt side by side, for a single call of the digest. Wiped after each use. */
let scratch = Buffer.alloc(256);

function saltedDigest(algorithm: string, clear: Buffer, salt: Buffer): Buffer {
  const length = clear.length + salt.length;
  if (length > scratch.length) scratch = Buffer.alloc(length * 2);
  scratch.set(clear, 0);
  scratch.set(salt, clear.length);
  const digest = hash(algorithm, scratch.subarray(0, length), 'buffer');
  scratch.fill(0, 0, length);
  return digest;
}

/** Decodes base64 strictly: undefined when the text contains anything else. */
export function decodeBase64(text: string): Buffer | undefined {
  let end = text.length;
  while (end > 0 && text.charCodeAt(end - 1) === 0x3d && text.length - end < 2) end--;
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === Math.floor((end * 3) / 4) && end % 4 !== 1 ? bytes : undefined;
}

/** Returns the digest, followed by the salt if the scheme has one; undefined when the value is malformed. */
export function parseDigest(scheme: Scheme, storedValue: Buffer): Buffer | undefined {
  const digestAndSalt = decodeBase64(storedValue.toString('latin1', bodyStart(storedValue)));
  if (digestAndSalt === undefined) return undefined;
  return (scheme.isSalted ? digestAndSalt.length > scheme.digestBytes : digestAndSalt.length === scheme.digestBytes)
    ? digestAndSalt
    : undefined;
}

/** Verifies `{SHA}`, `{SSHA}` and similar schemes: base64 of the digest, followed by the salt if there is one. */
export function verifyDigest(scheme: Scheme, storedValue: Buffer, clear: Buffer): boolean {
  const digestAndSalt = parseDigest(scheme, storedValue);
  if (digestAndSalt === undefined) return false;
  const digest = saltedDigest(scheme.digest, clear, digestAndSalt.subarray(scheme.digestBytes));
  return timingSafeEqual(digest, digestAndSalt.subarray(0, scheme.digestBytes));
}

/** Compares clear texts of any lengths. The time does not depend on where the texts differ. */
export function verifyClear(storedValue: Buffer, clear: Buffer): boolean {
  return timingSafeEqual(hash('sha256', storedValue, 'buffer'), hash('sha256', clear, 'buffer'));
}

const SALT_BYTES = 16;
let saltBlock: Buffer = Buffer.alloc(0);
let saltOffset = 0;

/** Returns sixteen random bytes from a larger block: a system call for each salt would cost more than the hash. */
function nextSalt(): Buffer {
  if (saltOffset >= saltBlock.length) {
    saltBlock = randomBytes(SALT_BYTES * 256);
    saltOffset = 0;
  }
  saltOffset += SALT_BYTES;
  return saltBlock.subarray(saltOffset - SALT_BYTES, saltOffset);
}

/** Returns the `{SSHA512}` value of the password. */
export function ssha512(clear: Buffer): Buffer {
  const salt = nextSalt();
  const digest = saltedDigest('sha512', clear, salt);
  return Buffer.from('{SSHA512}' + Buffer.concat([digest, salt]).toString('base64'), 'latin1');
}

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
