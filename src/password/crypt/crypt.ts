import { isUtf8 } from 'node:buffer';
import { timingSafeEqual } from 'node:crypto';
import bcrypt from 'bcryptjs';
import desCrypt from 'unix-crypt-td-js';
import { MAX_BCRYPT_COST } from '../limits.js';
import { forms } from './forms.js';
import { md5Crypt } from './md5-crypt.js';
import { shaCrypt } from './sha-crypt.js';

function bcryptText(stored: string, cost: number, key: Buffer): string | undefined {
  if (cost > MAX_BCRYPT_COST || cost < 4 || !isUtf8(key)) return undefined;
  return bcrypt.hashSync(key.toString('utf8'), stored);
}

/** The crypt text of `key` with the setting of `stored`; undefined when that is malformed or asks for too much. Slow. */
export function cryptText(stored: string, key: Buffer): string | undefined {
  if (forms.sha.test(stored)) return shaCrypt(stored, key);
  if (forms.md5.test(stored)) return md5Crypt(stored, key);
  const cost = forms.bcrypt.exec(stored)?.[1];
  if (cost !== undefined) return bcryptText(stored, Number(cost), key);
  return forms.des.test(stored) ? desCrypt([...key.subarray(0, 8)], stored.slice(0, 2)) : undefined;
}

/** A NUL ends a password for crypt(3), so one with a NUL inside would match by its beginning: it never does here. */
export function verifyCryptText(stored: string, key: Buffer): boolean {
  if (key.includes(0)) return false;
  const text = cryptText(stored, key);
  if (text === undefined || text.length !== stored.length) return false;
  return timingSafeEqual(Buffer.from(text, 'latin1'), Buffer.from(stored, 'latin1'));
}
