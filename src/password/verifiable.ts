import { parseArgon2 } from './argon2.js';
import { isCryptSound } from './crypt/forms.js';
import { parseDigest } from './digest.js';
import { MAX_STORED_BYTES } from './limits.js';
import { parsePbkdf2 } from './pbkdf2.js';
import { bodyStart, isHashed, knownScheme } from './schemes.js';

/** Whether some password may verify against the stored value: scheme and form are known, the limits are kept. */
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
      return isCryptSound(stored.toString('latin1', body));
    default:
      return false;
  }
}

/**
 * What somebody gives as a password: `clear` text, to be hashed; a value `hashed` in a way that is verified here; or a
 * `foreign` one, with which nobody can bind. Whatever begins with `{SCHEME}` is to be stored as it is.
 */
export function givenAs(value: Buffer): 'clear' | 'hashed' | 'foreign' {
  if (!isHashed(value)) return 'clear';
  return isVerifiable(value) ? 'hashed' : 'foreign';
}

/**
 * The kind of a stored value, for people: `{SASL}`, or `{CRYPT}$y$`. An unknown scheme is not named: it may be part of
 * what was meant as clear text.
 */
export function kindText(stored: Buffer): string {
  const scheme = knownScheme(stored);
  if (!scheme) return 'an unknown {SCHEME}';
  const id = scheme.kind === 'crypt' && /^\$[0-9a-z]{1,4}\$/.exec(stored.toString('latin1', bodyStart(stored)));
  return `{${scheme.name}}${id ? id[0] : ''}`;
}
