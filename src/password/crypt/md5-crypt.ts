import { hash } from 'node:crypto';
import { encode64 } from './encode64.js';
import { cryptPatterns } from './forms.js';

// MD5-crypt (`$1$`), as defined by Poul-Henning Kamp for FreeBSD in 1994. The number of rounds is fixed.

const ROUND_COUNT = 1000;
const digestOrder = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5], [11]];
const zeroByte = Buffer.alloc(1);

function md5(buffers: readonly Buffer[]): Buffer {
  return hash('md5', Buffer.concat(buffers), 'buffer');
}

function initialDigest(key: Buffer, salt: Buffer): Buffer {
  const alternateDigest = md5([key, salt, key]);
  const buffers = [key, Buffer.from('$1$'), salt];
  for (let remainingBytes = key.length; remainingBytes > 0; remainingBytes -= 16)
    buffers.push(alternateDigest.subarray(0, Math.min(16, remainingBytes)));
  for (let lengthBits = key.length; lengthBits > 0; lengthBits >>= 1)
    buffers.push(lengthBits & 1 ? zeroByte : key.subarray(0, 1));
  return md5(buffers);
}

/** Returns the crypt text of `key` with the salt of `storedValue`; undefined when `storedValue` is malformed. */
export function md5Crypt(storedValue: string, key: Buffer): string | undefined {
  const match = cryptPatterns.md5.exec(storedValue);
  if (!match) return undefined;
  const salt = Buffer.from(match[1]!, 'latin1');
  let digest = initialDigest(key, salt);
  for (let i = 0; i < ROUND_COUNT; i++) {
    const isOdd = (i & 1) === 1;
    const buffers = [isOdd ? key : digest];
    if (i % 3 !== 0) buffers.push(salt);
    if (i % 7 !== 0) buffers.push(key);
    buffers.push(isOdd ? digest : key);
    digest = md5(buffers);
  }
  return `$1$${match[1]}$${encode64(digest, digestOrder)}`;
}
