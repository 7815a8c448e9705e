import { isUtf8 } from 'node:buffer';
import { MAX_BCRYPT_COST, MAX_CRYPT_PASSWORD_BYTES, MAX_SHA_CRYPT_ROUNDS } from '../limits.js';

/** Patterns of the supported formats of crypt(3). The comments name the capture groups. */
export const cryptPatterns = {
  /** Groups: variant (5 or 6), rounds, salt. */
  sha: /^\$([56])\$(?:rounds=(\d{1,10})\$)?([^$\n]{0,16})\$[./0-9A-Za-z]+$/,
  /** Group: salt. */
  md5: /^\$1\$([^$\n]{0,8})\$[./0-9A-Za-z]{22}$/,
  /** Group: binary logarithm of the rounds. */
  bcrypt: /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/,
  des: /^[./0-9A-Za-z]{13}$/,
};

/** Number of rounds if a SHA-crypt text does not name any. */
export const SHA_CRYPT_ROUNDS = 5000;
const MIN_SHA_CRYPT_ROUNDS = 1000;
const MIN_BCRYPT_COST = 4;

/** Returns the rounds of a SHA-crypt text; undefined when over the limit, or when crypt(3) never writes the number. */
export function shaRounds(digits: string | undefined): number | undefined {
  const rounds = digits === undefined ? SHA_CRYPT_ROUNDS : Number(digits);
  return rounds >= MIN_SHA_CRYPT_ROUNDS && rounds <= MAX_SHA_CRYPT_ROUNDS ? rounds : undefined;
}

/** Whether the text matches one of `cryptPatterns`, with settings within the limits. */
export function isValidCrypt(storedValue: string): boolean {
  const shaMatch = cryptPatterns.sha.exec(storedValue);
  if (shaMatch) return shaRounds(shaMatch[2]) !== undefined;
  const bcryptMatch = cryptPatterns.bcrypt.exec(storedValue);
  if (bcryptMatch) return Number(bcryptMatch[1]) >= MIN_BCRYPT_COST && Number(bcryptMatch[1]) <= MAX_BCRYPT_COST;
  return cryptPatterns.md5.test(storedValue) || cryptPatterns.des.test(storedValue);
}

/**
 * Whether `stored` can only be verified by a computation. If false, the password does not match. crypt(3) ends a
 * password at a NUL, so that a password with a NUL would match by its beginning; such passwords never match.
 */
export function needsComputation(storedValue: string, clear: Buffer): boolean {
  if (clear.includes(0) || !isValidCrypt(storedValue)) return false;
  if (cryptPatterns.bcrypt.test(storedValue)) return isUtf8(clear);
  return cryptPatterns.des.test(storedValue) || clear.length <= MAX_CRYPT_PASSWORD_BYTES;
}
