import { isUtf8 } from 'node:buffer';
import { MAX_BCRYPT_COST, MAX_CRYPT_PASSWORD_BYTES, MAX_SCRYPT_KIB, MAX_SHA_CRYPT_ROUNDS } from '../limits.js';

/** Patterns of the supported formats of crypt(3). The comments name the capture groups. */
export const cryptPatterns = {
  /** Groups: variant (5 or 6), rounds, salt. */
  sha: /^\$([56])\$(?:rounds=(\d{1,10})\$)?([^$\n]{0,16})\$[./0-9A-Za-z]+$/,
  /** Group: salt. */
  md5: /^\$1\$([^$\n]{0,8})\$[./0-9A-Za-z]{22}$/,
  /** Group: binary logarithm of the rounds. */
  bcrypt: /^\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}$/,
  des: /^[./0-9A-Za-z]{13}$/,
  /** yescrypt of libxcrypt: its flags, one thread, no ROM. Groups: N, r, salt. */
  yescrypt: /^\$y\$j([./0-9A-Za-j])([./0-9A-Za-j])\$([./0-9A-Za-z]{0,86})\$[./0-9A-Za-z]{43}$/,
  /** Groups: N, r, p, salt. */
  scrypt: /^\$7\$([./0-9A-Za-z])([./0-9A-Za-z]{5})([./0-9A-Za-z]{5})([./0-9A-Za-z]{0,86})\$[./0-9A-Za-z]{43}$/,
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

/** Settings of yescrypt and scrypt (RFC 7914 §2). */
export interface MemoryHardSettings {
  readonly n: number;
  readonly r: number;
  readonly p: number;
  readonly salt: Buffer;
  /** Memory of all lanes together: n × r × p × 128 bytes. */
  readonly memoryKiB: number;
}

/** With a smaller N, what surrounds the filling of the memory would cost more than the cost of the memory tells. */
const MIN_SCRYPT_N = 64;

/** Returns the settings of a yescrypt or scrypt text, however large; undefined for other texts. */
export function memoryHardSettings(storedValue: string): MemoryHardSettings | undefined {
  const yescrypt = cryptPatterns.yescrypt.exec(storedValue);
  const scrypt = yescrypt ? null : cryptPatterns.scrypt.exec(storedValue);
  const salt = yescrypt ? decode64(yescrypt[3]!) : scrypt && Buffer.from(scrypt[4]!, 'latin1');
  if (!salt) return undefined;
  // yescrypt writes numbers from 1 on, and those up to 48 as one digit. scrypt writes 30 bits, least significant first.
  const number = (text: string): number => [...text].reduceRight((sum, digit) => sum * 64 + digit64(digit), 0);
  const [n, r, p]: [number, number, number] = yescrypt
    ? [2 ** (number(yescrypt[1]!) + 1), number(yescrypt[2]!) + 1, 1]
    : [2 ** number(scrypt![1]!), number(scrypt![2]!), number(scrypt![3]!)];
  return n >= MIN_SCRYPT_N && Math.log2(n) < 16 * r && p > 0
    ? { n, r, p, salt, memoryKiB: (n * r * p) / 8 }
    : undefined;
}

/** Whether the text matches one of `cryptPatterns`, with settings within the limits. */
export function isValidCrypt(storedValue: string): boolean {
  const shaMatch = cryptPatterns.sha.exec(storedValue);
  if (shaMatch) return shaRounds(shaMatch[2]) !== undefined;
  const bcryptMatch = cryptPatterns.bcrypt.exec(storedValue);
  if (bcryptMatch) return Number(bcryptMatch[1]) >= MIN_BCRYPT_COST && Number(bcryptMatch[1]) <= MAX_BCRYPT_COST;
  if (cryptPatterns.md5.test(storedValue) || cryptPatterns.des.test(storedValue)) return true;
  return (memoryHardSettings(storedValue)?.memoryKiB ?? Number.POSITIVE_INFINITY) <= MAX_SCRYPT_KIB;
}

/**
 * Whether `stored` can only be verified by a computation. If false, the password does not match. crypt(3) ends a
 * password at a NUL, so that a password with a NUL would match by its beginning; such passwords never match.
 */
export function needsComputation(storedValue: string, clear: Buffer): boolean {
  if (clear.includes(0) || !isValidCrypt(storedValue)) return false;
  if (cryptPatterns.bcrypt.test(storedValue)) return isUtf8(clear);
  const isLengthFree = cryptPatterns.des.test(storedValue) || /^\$[y7]/.test(storedValue);
  return isLengthFree || clear.length <= MAX_CRYPT_PASSWORD_BYTES;
}

const cryptAlphabet = './0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/**
 * Encodes a digest in the base 64 of crypt(3), least significant six bits first. `order` has groups of up to three
 * indices into the digest, most significant byte first. A group of n bytes gives n + 1 characters.
 */
export function encode64(digest: Buffer, order: readonly (readonly number[])[]): string {
  let text = '';
  for (const group of order) {
    let bits = 0;
    for (const index of group) bits = (bits << 8) | digest[index]!;
    for (let i = 0; i <= group.length; i++) {
      text += cryptAlphabet[bits & 63];
      bits >>= 6;
    }
  }
  return text;
}

/** Returns the number from 0 to 63 that a character of the alphabet stands for, or -1. */
function digit64(character: string): number {
  return cryptAlphabet.indexOf(character);
}

/** Decodes base 64 as `encode64` writes it. Undefined for text that it does not write. */
function decode64(text: string): Buffer | undefined {
  const bytes: number[] = [];
  for (let start = 0; start < text.length; start += 4) {
    const group = text.slice(start, start + 4);
    let bits = 0;
    for (let i = 0; i < group.length; i++) bits |= digit64(group[i]!) << (6 * i);
    for (let i = 1; i < group.length; i++, bits >>>= 8) bytes.push(bits & 0xff);
    if (bits !== 0) return undefined;
  }
  return text.length % 4 === 1 ? undefined : Buffer.from(bytes);
}
