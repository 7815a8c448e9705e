import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { bodyStart, type Scheme } from './schemes.js';

/** Clear password and salt side by side, so that one call digests both; wiped after each use. */
let scratch = Buffer.alloc(256);

function digestOf(algorithm: string, clear: Buffer, salt: Buffer): Buffer {
  const length = clear.length + salt.length;
  if (length > scratch.length) scratch = Buffer.alloc(length * 2);
  scratch.set(clear, 0);
  scratch.set(salt, clear.length);
  const result = hash(algorithm, scratch.subarray(0, length), 'buffer');
  scratch.fill(0, 0, length);
  return result;
}

/** Bytes of base64 text, strictly: undefined when anything in it is not base64. */
export function decodeBase64(text: string): Buffer | undefined {
  let end = text.length;
  while (end > 0 && text.charCodeAt(end - 1) === 0x3d && text.length - end < 2) end--;
  const bytes = Buffer.from(text, 'base64');
  return bytes.length === Math.floor((end * 3) / 4) && end % 4 !== 1 ? bytes : undefined;
}

/** The digest and, where salted, the salt after it; undefined when the value is malformed. */
export function parseDigest(scheme: Scheme, stored: Buffer): Buffer | undefined {
  const bytes = decodeBase64(stored.toString('latin1', bodyStart(stored)));
  if (bytes === undefined) return undefined;
  return (scheme.salted ? bytes.length > scheme.bytes : bytes.length === scheme.bytes) ? bytes : undefined;
}

/** `{SHA}`, `{SSHA}` and their kind: base64 of the digest and, where salted, the salt after it. */
export function verifyDigest(scheme: Scheme, stored: Buffer, clear: Buffer): boolean {
  const bytes = parseDigest(scheme, stored);
  if (bytes === undefined) return false;
  const digest = digestOf(scheme.digest, clear, bytes.subarray(scheme.bytes));
  return timingSafeEqual(digest, bytes.subarray(0, scheme.bytes));
}

/** Compares clear texts of any two lengths in time that does not depend on where they differ. */
export function verifyClear(stored: Buffer, clear: Buffer): boolean {
  return timingSafeEqual(hash('sha256', stored, 'buffer'), hash('sha256', clear, 'buffer'));
}

const SALT_BYTES = 16;
let salts: Buffer = Buffer.alloc(0);
let saltAt = 0;

/** Sixteen random bytes, drawn from the system in blocks: one call a value would cost more than the hash. */
function nextSalt(): Buffer {
  if (saltAt >= salts.length) {
    salts = randomBytes(SALT_BYTES * 256);
    saltAt = 0;
  }
  saltAt += SALT_BYTES;
  return salts.subarray(saltAt - SALT_BYTES, saltAt);
}

/** `{SSHA512}` of the password, at once. */
export function ssha512(clear: Buffer): Buffer {
  const salt = nextSalt();
  const digest = digestOf('sha512', clear, salt);
  return Buffer.from('{SSHA512}' + Buffer.concat([digest, salt]).toString('base64'), 'latin1');
}
