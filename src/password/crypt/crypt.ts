import { hash, timingSafeEqual } from 'node:crypto';
import bcrypt from 'bcryptjs';
import desCrypt from 'unix-crypt-td-js';
import { cryptPatterns, encode64, needsComputation } from './forms.js';
import { shaCrypt } from './sha-crypt.js';
import { memoryHardCrypt } from './yescrypt.js';

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
function md5Crypt(storedValue: string, key: Buffer): string | undefined {
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
