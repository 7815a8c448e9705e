import { hash } from 'node:crypto';
import { encode64 } from './encode64.js';
import { forms } from './forms.js';

// MD5-crypt (`$1$`), as defined by Poul-Henning Kamp for FreeBSD in 1994. The number of rounds is fixed.

const ROUNDS = 1000;
const order = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5], [11]];
const zero = Buffer.alloc(1);

function md5(parts: readonly Buffer[]): Buffer {
  return hash('md5', Buffer.concat(parts), 'buffer');
}

function initialDigest(key: Buffer, salt: Buffer): Buffer {
  const alternate = md5([key, salt, key]);
  const parts = [key, Buffer.from('$1$'), salt];
  for (let left = key.length; left > 0; left -= 16) parts.push(alternate.subarray(0, Math.min(16, left)));
  for (let n = key.length; n > 0; n >>= 1) parts.push(n & 1 ? zero : key.subarray(0, 1));
  return md5(parts);
}

/** Returns the crypt text of `key` with the salt of `stored`; undefined when `stored` is malformed. */
export function md5Crypt(stored: string, key: Buffer): string | undefined {
  const match = forms.md5.exec(stored);
  if (!match) return undefined;
  const salt = Buffer.from(match[1]!, 'latin1');
  let digest = initialDigest(key, salt);
  for (let i = 0; i < ROUNDS; i++) {
    const odd = (i & 1) === 1;
    const parts = [odd ? key : digest];
    if (i % 3 !== 0) parts.push(salt);
    if (i % 7 !== 0) parts.push(key);
    parts.push(odd ? digest : key);
    digest = md5(parts);
  }
  return `$1$${match[1]}$${encode64(digest, order)}`;
}
