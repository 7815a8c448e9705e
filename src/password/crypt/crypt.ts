import { timingSafeEqual } from 'node:crypto';
import bcrypt from 'bcryptjs';
import desCrypt from 'unix-crypt-td-js';
import { cryptPatterns, needsComputation } from './forms.js';
import { md5Crypt } from './md5-crypt.js';
import { shaCrypt } from './sha-crypt.js';
import { memoryHardCrypt } from './yescrypt.js';

/** Returns the crypt(3) text of `key` with the settings of `storedValue`; undefined if these are invalid. Slow. */
export function cryptText(storedValue: string, key: Buffer): string | undefined {
  if (!needsComputation(storedValue, key)) return undefined;
  if (cryptPatterns.sha.test(storedValue)) return shaCrypt(storedValue, key);
  if (cryptPatterns.md5.test(storedValue)) return md5Crypt(storedValue, key);
  if (cryptPatterns.bcrypt.test(storedValue)) return bcrypt.hashSync(key.toString('utf8'), storedValue);
  if (!cryptPatterns.des.test(storedValue)) return memoryHardCrypt(storedValue, key);
  return desCrypt([...key.subarray(0, 8)], storedValue.slice(0, 2));
}

export function verifyCryptText(storedValue: string, key: Buffer): boolean {
  const text = cryptText(storedValue, key);
  if (text === undefined || text.length !== storedValue.length) return false;
  return timingSafeEqual(Buffer.from(text, 'latin1'), Buffer.from(storedValue, 'latin1'));
}
