import { parseArgon2 } from './argon2.js';
import { isValidCrypt } from './crypt/forms.js';
import { parseDigest } from './digest.js';
import { MAX_STORED_BYTES } from './limits.js';
import { parsePbkdf2 } from './pbkdf2.js';
import { bodyStart, isHashed, knownScheme } from './schemes.js';

/**
 * Whether a password may verify against the value: the scheme is known, the rest is well-formed, and the limits are
 * kept.
 */
export function isVerifiable(stored: Buffer): boolean {
  if (stored.length > MAX_STORED_BYTES) return false;
  const body = bodyStart(stored);
  if (body === 0) return true;
  const scheme = knownScheme(stored);
  switch (scheme?.kind) {
    case 'clear':
      return true;
    case 'digest':
      return parseDigest(scheme, stored) !== undefined;
    case 'argon2':
      return parseArgon2(stored.toString('latin1', body)) !== undefined;
    case 'pbkdf2':
      return parsePbkdf2(scheme, stored.toString('latin1', body)) !== undefined;
    case 'crypt':
      return isValidCrypt(stored.toString('latin1', body));
    default:
      return false;
  }
}

/**
 * Classifies a value that is written to a password attribute: `clear` text, which is to be hashed; a `hashed` value
 * that can be verified; or a `foreign` value, which never verifies. Values with a `{SCHEME}` prefix are stored
 * unchanged.
 */
export function passwordKind(value: Buffer): 'clear' | 'hashed' | 'foreign' {
  if (!isHashed(value)) return 'clear';
  return isVerifiable(value) ? 'hashed' : 'foreign';
}

/**
 * Returns the kind of a stored value for messages, such as `{SASL}` or `{CRYPT}$y$`. The name of an unknown scheme is
 * not shown, because it may be part of a clear password.
 */
export function describeKind(stored: Buffer): string {
  const scheme = knownScheme(stored);
  if (!scheme) return 'an unknown {SCHEME}';
  const cryptId = scheme.kind === 'crypt' && /^\$[0-9a-z]{1,4}\$/.exec(stored.toString('latin1', bodyStart(stored)));
  return `{${scheme.name}}${cryptId ? cryptId[0] : ''}`;
}
