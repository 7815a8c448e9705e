import { parseArgon2, verifyArgon2 } from './argon2.js';
import { untriedValues } from './cost-groups.js';
import { isValidCrypt } from './crypt/forms.js';
import { verifyCrypt } from './crypt/verify-crypt.js';
import { parseDigest, parsePbkdf2, verifyClear, verifyDigest, verifyPbkdf2 } from './digest.js';
import { MAX_PASSWORD_BYTES, MAX_STORED_BYTES } from './limits.js';
import type { PasswordPolicy } from './policy.js';
import { bodyStart, isHashed, knownScheme } from './schemes.js';

/** Whether a password may verify against the value: known scheme, well-formed text, within the limits. */
export function isVerifiable(value: Buffer): boolean {
  if (value.length > MAX_STORED_BYTES) return false;
  const body = bodyStart(value);
  if (body === 0) return true;
  const scheme = knownScheme(value);
  switch (scheme?.kind) {
    case 'clear':
      return true;
    case 'digest':
      return parseDigest(scheme, value) !== undefined;
    case 'argon2':
      return parseArgon2(value.toString('latin1', body)) !== undefined;
    case 'pbkdf2':
      return parsePbkdf2(scheme, value.toString('latin1', body)) !== undefined;
    case 'crypt':
      return isValidCrypt(value.toString('latin1', body));
    default:
      return false;
  }
}

/**
 * Classifies a value that is written to a password attribute. `clear`: clear text, which is to be hashed. `hashed`: can
 * be verified. `foreign`: never verifies. Values with a `{SCHEME}` prefix are stored unchanged.
 */
export function passwordKind(value: Buffer): 'clear' | 'hashed' | 'foreign' {
  if (!isHashed(value)) return 'clear';
  return isVerifiable(value) ? 'hashed' : 'foreign';
}

/**
 * Returns the scheme of a stored value for messages, such as `{SASL}` or `{CRYPT}$y$`. Hides the name of an unknown
 * scheme, because it may be part of a clear password.
 */
export function describeKind(value: Buffer): string {
  const scheme = knownScheme(value);
  if (!scheme) return 'an unknown {SCHEME}';
  const cryptId = scheme.kind === 'crypt' && /^\$[0-9a-z]{1,4}\$/.exec(value.toString('latin1', bodyStart(value)));
  return `{${scheme.name}}${cryptId ? cryptId[0] : ''}`;
}

/**
 * Returns why no password verifies against any of the stored values of an entry, for logs and lists. Undefined when a
 * password may verify, and when there are no values.
 */
export function unverifiableReason(storedValues: readonly Buffer[], policy: PasswordPolicy): string | undefined {
  const untried = untriedValues(storedValues, policy);
  if (storedValues.some((value) => isVerifiable(value) && !untried.includes(value))) return undefined;
  const [first] = storedValues;
  if (!first) return undefined;
  const foreign = storedValues.find((value) => !isVerifiable(value));
  const kind = describeKind(foreign ?? first);
  const scheme = kind.startsWith('{') ? `scheme ${kind}` : kind;
  return `${scheme} ${foreign ? 'cannot be verified here' : 'costs more to verify than passwords.maxCost allows'}`;
}

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
