import { randomBytes, timingSafeEqual } from 'node:crypto';
import * as argon2 from '@node-rs/argon2';
import { decodeBase64 } from './digest.js';
import { ARGON2_LIMITS } from './limits.js';

export interface Argon2Parameters {
  readonly memoryKiB: number;
  readonly timeCost: number;
  readonly parallelism: number;
}

/** OWASP's minimum for argon2id, about 15 ms of one core. */
export const DEFAULT_ARGON2: Argon2Parameters = { memoryKiB: 19_456, timeCost: 2, parallelism: 1 };

/**
 * The PHC string `$argon2id$v=19$m=19456,t=2,p=1$salt$hash`, in base64 without padding. Version 1.0 has no `v`.
 * OpenLDAP stores a C string: a NUL and arbitrary bytes may follow.
 */
const phcPattern =
  /^\$argon2(id|i|d)\$(?:v=(16|19)\$)?m=(\d{1,8}),t=(\d{1,4}),p=(\d{1,3})\$([A-Za-z0-9+/]{11,86})\$([A-Za-z0-9+/]{16,172})(?:\0|$)/;

/** The library's numbers of the variants. The library's own enumerations do not exist at run time. */
const algorithmNumbers: Readonly<Record<string, number>> = { d: 0, i: 1, id: 2 };
const VERSION_1_0 = 0;
export const VERSION_1_3 = 1;

/** Returns the fault of the parameters as text, or undefined. */
export function argon2Fault(p: Argon2Parameters): string | undefined {
  for (const key of ['memoryKiB', 'timeCost', 'parallelism'] as const) {
    const range = ARGON2_LIMITS[key];
    if (!Number.isInteger(p[key]) || p[key] < range.min || p[key] > range.max)
      return `${key} must be ${range.min} to ${range.max}`;
  }
  if (p.memoryKiB < 8 * p.parallelism) return 'memoryKiB must be at least 8 for each of parallelism';
  if (p.memoryKiB * p.timeCost > ARGON2_LIMITS.work)
    return `memoryKiB × timeCost must be at most ${ARGON2_LIMITS.work}`;
  return undefined;
}

export interface Argon2Text extends Argon2Parameters {
  readonly variant: 'id' | 'i' | 'd';
  readonly version: number;
  readonly salt: Buffer;
  readonly hash: Buffer;
}

/** Parses a PHC string. Undefined when the string is malformed or exceeds the limits. */
export function parseArgon2(phc: string): Argon2Text | undefined {
  const match = phcPattern.exec(phc);
  if (!match) return undefined;
  const salt = decodeBase64(match[6]!);
  const hash = decodeBase64(match[7]!);
  if (!salt || !hash) return undefined;
  const argon2Text: Argon2Text = {
    variant: match[1] as Argon2Text['variant'],
    version: match[2] === '19' ? VERSION_1_3 : VERSION_1_0,
    memoryKiB: Number(match[3]),
    timeCost: Number(match[4]),
    parallelism: Number(match[5]),
    salt,
    hash,
  };
  return argon2Fault(argon2Text) === undefined ? argon2Text : undefined;
}

/** Returns false synchronously when the PHC string cannot be verified. */
export function verifyArgon2(phc: string, clear: Buffer): boolean | Promise<boolean> {
  const argon2Text = parseArgon2(phc);
  return argon2Text ? computeHash(argon2Text, clear).then((bytes) => timingSafeEqual(bytes, argon2Text.hash)) : false;
}

/**
 * Verifies the password against PHC strings that differ only in their hashes, in a single computation. Resolves to the
 * string that matches. Returns undefined synchronously when none of the strings can be verified.
 */
export function verifyArgon2Any(phcs: readonly string[], clear: Buffer): Promise<string | undefined> | undefined {
  const argon2Text = phcs.map(parseArgon2);
  const sharedText = argon2Text.find((text) => text !== undefined);
  return (
    sharedText &&
    computeHash(sharedText, clear).then((bytes) =>
      phcs.find((_, i) => {
        const hash = argon2Text[i]?.hash;
        return hash?.length === bytes.length && timingSafeEqual(bytes, hash);
      }),
    )
  );
}

/** Returns a key that is equal for PHC strings that a single computation verifies: everything but the hash. */
export function argon2GroupKey(phc: string): string {
  const [cString] = phc.split('\0', 1);
  return `${cString!.length} ${cString!.slice(0, cString!.lastIndexOf('$'))}`;
}

function computeHash(argon2Text: Argon2Text, clear: Buffer): Promise<Buffer> {
  return argon2.hashRaw(clear, {
    algorithm: algorithmNumbers[argon2Text.variant]!,
    version: argon2Text.version,
    memoryCost: argon2Text.memoryKiB,
    timeCost: argon2Text.timeCost,
    parallelism: argon2Text.parallelism,
    outputLen: argon2Text.hash.length,
    salt: argon2Text.salt,
  });
}

/** Returns the PHC string. Default salt: random. Throws `TypeError` when `argon2Fault` finds a fault. */
export function hashArgon2(clear: Buffer, parameters: Argon2Parameters, salt?: Buffer): Promise<string> {
  const fault = argon2Fault(parameters);
  if (fault) throw new TypeError(`argon2: ${fault}`);
  const { memoryKiB, timeCost, parallelism } = parameters;
  const options = { algorithm: algorithmNumbers.id!, memoryCost: memoryKiB, timeCost, parallelism };
  return argon2.hash(clear, salt ? { ...options, salt } : options);
}

/** Returns a PHC string that no password matches: salt and hash are random. */
export function unmatchedArgon2(p: Argon2Parameters): string {
  const randomText = (bytes: number): string => randomBytes(bytes).toString('base64').replace(/=+$/, '');
  return `$argon2id$v=19$m=${p.memoryKiB},t=${p.timeCost},p=${p.parallelism}$${randomText(16)}$${randomText(32)}`;
}
