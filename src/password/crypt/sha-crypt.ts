import { hash } from 'node:crypto';
import { cryptPatterns, encode64, shaRounds } from './forms.js';

// SHA-crypt (`$5$` SHA-256, `$6$` SHA-512), after Ulrich Drepper's specification
// (https://www.akkadia.org/drepper/SHA-crypt.txt, public domain). The step numbers below are the specification's.

interface Variant {
  readonly algorithm: string;
  readonly digestBytes: number;
  /** Groups of indices into the digest, as `encode64` takes them. */
  readonly digestOrder: readonly (readonly number[])[];
}

/**
 * Generates the table of the specification that orders the bytes of the digest. Each group of indices is the previous
 * group with every index incremented, rotated by one place.
 */
function makeDigestOrder(count: number, step: number, rotateLeft: boolean, lastGroup: readonly number[]): number[][] {
  const digestOrder: number[][] = [];
  let group = [0, step, 2 * step];
  for (let i = 0; i < count; i++) {
    digestOrder.push(group);
    const [a, b, c] = group.map((index) => index + 1) as [number, number, number];
    group = rotateLeft ? [b, c, a] : [c, a, b];
  }
  digestOrder.push([...lastGroup]);
  return digestOrder;
}

const variantsById: Readonly<Record<string, Variant>> = {
  '5': { algorithm: 'sha256', digestBytes: 32, digestOrder: makeDigestOrder(10, 10, false, [31, 30]) },
  '6': { algorithm: 'sha512', digestBytes: 64, digestOrder: makeDigestOrder(21, 21, true, [63]) },
};

function repeat(bytes: Buffer, length: number): Buffer {
  const repeated = Buffer.alloc(length);
  for (let offset = 0; offset < length; offset += bytes.length)
    bytes.copy(repeated, offset, 0, Math.min(bytes.length, length - offset));
  return repeated;
}

/** Returns the digest that the rounds start from (steps 4 to 12). */
function initialDigest(variant: Variant, key: Buffer, salt: Buffer): Buffer {
  const alternateDigest = hash(variant.algorithm, Buffer.concat([key, salt, key]), 'buffer');
  const buffers = [key, salt, repeat(alternateDigest, key.length)];
  for (let lengthBits = key.length; lengthBits > 0; lengthBits >>= 1)
    buffers.push(lengthBits & 1 ? alternateDigest : key);
  return hash(variant.algorithm, Buffer.concat(buffers), 'buffer');
}

/** Returns the digest after all rounds (step 21). */
function runRounds(variant: Variant, firstDigest: Buffer, p: Buffer, s: Buffer, rounds: number): Buffer {
  const scratch = Buffer.alloc(2 * p.length + s.length + variant.digestBytes);
  let digest = firstDigest;
  for (let i = 0; i < rounds; i++) {
    const isOdd = (i & 1) === 1;
    let length = (isOdd ? p : digest).copy(scratch, 0);
    if (i % 3 !== 0) length += s.copy(scratch, length);
    if (i % 7 !== 0) length += p.copy(scratch, length);
    length += (isOdd ? digest : p).copy(scratch, length);
    digest = hash(variant.algorithm, scratch.subarray(0, length), 'buffer');
  }
  return digest;
}

/**
 * Returns the crypt text of `key` with the algorithm, rounds and salt of `storedValue`. Undefined when `storedValue` is
 * malformed or `shaRounds` refuses its rounds. Takes from ten milliseconds to seconds, and must not run in the main
 * thread.
 */
export function shaCrypt(storedValue: string, key: Buffer): string | undefined {
  const match = cryptPatterns.sha.exec(storedValue);
  const variant = match && variantsById[match[1]!];
  if (!match || !variant) return undefined;
  const rounds = shaRounds(match[2]);
  if (rounds === undefined) return undefined;
  const salt = Buffer.from(match[3]!, 'latin1');
  const firstDigest = initialDigest(variant, key, salt);
  const keyDigest = hash(variant.algorithm, repeat(key, key.length * key.length), 'buffer');
  const saltDigest = hash(variant.algorithm, repeat(salt, salt.length * (16 + firstDigest[0]!)), 'buffer');
  const p = repeat(keyDigest, key.length);
  const s = repeat(saltDigest, salt.length);
  const digest = runRounds(variant, firstDigest, p, s, rounds);
  return storedValue.slice(0, storedValue.lastIndexOf('$') + 1) + encode64(digest, variant.digestOrder);
}
