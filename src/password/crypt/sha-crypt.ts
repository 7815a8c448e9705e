import { hash } from 'node:crypto';
import { encode64 } from './encode64.js';
import { forms, shaRounds } from './forms.js';

// SHA-crypt (`$5$` SHA-256, `$6$` SHA-512), after Ulrich Drepper's specification
// (https://www.akkadia.org/drepper/SHA-crypt.txt, public domain). The step numbers below are the specification's.

interface Variant {
  readonly algorithm: string;
  readonly bytes: number;
  /** Groups of indices into the digest, as `encode64` takes them. */
  readonly order: readonly (readonly number[])[];
}

/**
 * Generates a table of the specification. Each group is the previous group with every index incremented, rotated by one
 * place.
 */
function groups(count: number, step: number, rotateLeft: boolean, last: readonly number[]): number[][] {
  const order: number[][] = [];
  let group = [0, step, 2 * step];
  for (let i = 0; i < count; i++) {
    order.push(group);
    const [a, b, c] = group.map((index) => index + 1) as [number, number, number];
    group = rotateLeft ? [b, c, a] : [c, a, b];
  }
  order.push([...last]);
  return order;
}

const variants: Readonly<Record<string, Variant>> = {
  '5': { algorithm: 'sha256', bytes: 32, order: groups(10, 10, false, [31, 30]) },
  '6': { algorithm: 'sha512', bytes: 64, order: groups(21, 21, true, [63]) },
};

function repeat(bytes: Buffer, length: number): Buffer {
  const out = Buffer.alloc(length);
  for (let at = 0; at < length; at += bytes.length) bytes.copy(out, at, 0, Math.min(bytes.length, length - at));
  return out;
}

/** Returns the digest that the rounds start from (steps 4 to 12). */
function initialDigest(variant: Variant, key: Buffer, salt: Buffer): Buffer {
  const alternate = hash(variant.algorithm, Buffer.concat([key, salt, key]), 'buffer');
  const parts = [key, salt, repeat(alternate, key.length)];
  for (let n = key.length; n > 0; n >>= 1) parts.push(n & 1 ? alternate : key);
  return hash(variant.algorithm, Buffer.concat(parts), 'buffer');
}

/** Returns the digest after all rounds (step 21). */
function runRounds(variant: Variant, start: Buffer, p: Buffer, s: Buffer, rounds: number): Buffer {
  const scratch = Buffer.alloc(2 * p.length + s.length + variant.bytes);
  let digest = start;
  for (let i = 0; i < rounds; i++) {
    const odd = (i & 1) === 1;
    let at = (odd ? p : digest).copy(scratch, 0);
    if (i % 3 !== 0) at += s.copy(scratch, at);
    if (i % 7 !== 0) at += p.copy(scratch, at);
    at += (odd ? digest : p).copy(scratch, at);
    digest = hash(variant.algorithm, scratch.subarray(0, at), 'buffer');
  }
  return digest;
}

/**
 * Returns the crypt text of `key` with the algorithm, rounds and salt of `stored`. Undefined when `stored` is malformed
 * or `shaRounds` refuses its rounds. Takes from ten milliseconds to seconds, and must not run in the main thread.
 */
export function shaCrypt(stored: string, key: Buffer): string | undefined {
  const match = forms.sha.exec(stored);
  const variant = match && variants[match[1]!];
  if (!match || !variant) return undefined;
  const rounds = shaRounds(match[2]);
  if (rounds === undefined) return undefined;
  const salt = Buffer.from(match[3]!, 'latin1');
  const start = initialDigest(variant, key, salt);
  const keys = hash(variant.algorithm, repeat(key, key.length * key.length), 'buffer');
  const salts = hash(variant.algorithm, repeat(salt, salt.length * (16 + start[0]!)), 'buffer');
  const p = repeat(keys, key.length);
  const s = repeat(salts, salt.length);
  const digest = runRounds(variant, start, p, s, rounds);
  return stored.slice(0, stored.lastIndexOf('$') + 1) + encode64(digest, variant.order);
}
