import { verifyArgon2 } from './argon2.js';
import { verifyCrypt } from './crypt/verify-crypt.js';
import { verifyClear, verifyDigest } from './digest.js';
import { MAX_PASSWORD_BYTES, MAX_STORED_BYTES } from './limits.js';
import { verifyPbkdf2 } from './pbkdf2.js';
import { bodyStart, knownScheme } from './schemes.js';

/**
 * Verifies the clear password against a stored value. Digests and clear text are verified synchronously, argon2, PBKDF2
 * and crypt off the event loop. Never throws or rejects. Returns false for an empty password, and for a value that is
 * malformed, has an unknown scheme or needs more work than `limits.ts` allows.
 */
export function verifyPassword(storedValue: Buffer, clear: Buffer): boolean | Promise<boolean> {
  if (clear.length === 0 || clear.length > MAX_PASSWORD_BYTES || storedValue.length > MAX_STORED_BYTES) return false;
  const body = bodyStart(storedValue);
  if (body === 0) return verifyClear(storedValue, clear);
  const scheme = knownScheme(storedValue);
  switch (scheme?.kind) {
    case 'digest':
      return verifyDigest(scheme, storedValue, clear);
    case 'clear':
      return verifyClear(storedValue.subarray(body), clear);
    case 'argon2':
      return verifyArgon2(storedValue.toString('latin1', body), clear);
    case 'pbkdf2':
      return verifyPbkdf2(scheme, storedValue.toString('latin1', body), clear);
    case 'crypt':
      return verifyCrypt(storedValue.toString('latin1', body), clear);
    default:
      return false;
  }
}
