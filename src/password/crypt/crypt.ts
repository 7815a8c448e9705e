import { timingSafeEqual } from 'node:crypto';
import bcrypt from 'bcryptjs';
import desCrypt from 'unix-crypt-td-js';
import { cryptPatterns, needsComputation } from './forms.js';
import { md5Crypt } from './md5-crypt.js';
import { shaCrypt } from './sha-crypt.js';

/**
 * Returns the crypt(3) text of `key` with the settings of `stored`. Undefined when `stored` is malformed or exceeds the
 * limits. Slow.
 */
export function cryptText(stored: string, key: Buffer): string | undefined {
  if (!needsComputation(stored, key)) return undefined;
  if (cryptPatterns.sha.test(stored)) return shaCrypt(stored, key);
  if (cryptPatterns.md5.test(stored)) return md5Crypt(stored, key);
  if (cryptPatterns.bcrypt.test(stored)) return bcrypt.hashSync(key.toString('utf8'), stored);
  return desCrypt([...key.subarray(0, 8)], stored.slice(0, 2));
}

export function verifyCryptText(stored: string, key: Buffer): boolean {
  const text = cryptText(stored, key);
  if (text === undefined || text.length !== stored.length) return false;
  return timingSafeEqual(Buffer.from(text, 'latin1'), Buffer.from(stored, 'latin1'));
}
