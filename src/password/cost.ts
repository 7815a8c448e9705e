import type { Argon2Parameters } from './argon2.js';
import { memoryHardSettings, SHA_CRYPT_ROUNDS } from './crypt/forms.js';
import { bodyStart, knownScheme } from './schemes.js';

// The cost of verifying a stored value, in units of one KiB of argon2 memory written once. The factors of other schemes
// are their processor time relative to argon2, measured on one machine. On other machines the factors are accurate to
// about a fifth.

/** Allocating the memory costs as much as this number of passes over the memory. */
const ARGON2_START_PASSES = 0.6;
/** The cost of OWASP's minimum for argon2id (19 MiB, two passes), about 20 ms of one core. */
export const DEFAULT_ARGON2_COST = argon2Cost(19_456, 2);

/** Cost of an iteration, by digest, in units of `costOf`. */
const PBKDF2_ITERATION_COST: Readonly<Record<string, number>> = { sha1: 1.2, sha256: 1.2, sha512: 3.1 };
/** Cost of a round, and additional cost of a round for each byte of the password, by variant of SHA-crypt. */
const SHA_ROUND_COST: Readonly<Record<string, readonly [number, number]>> = { '5': [5.4, 0.008], '6': [6.6, 0.012] };
const MD5_CRYPT_COST = 6500;
const DES_CRYPT_COST = 2000;
const BCRYPT_ROUND_COST = 280;
/** Cost of a KiB of memory, by identifier of the crypt text: of yescrypt, in JavaScript, and of scrypt. */
const MEMORY_HARD_KIB_COST: Readonly<Record<string, number>> = { y: 40, '7': 8 };

export function argon2Cost(memoryKiB: number, timeCost: number): number {
  return memoryKiB * (timeCost + ARGON2_START_PASSES);
}

/** Returns the parameters of an argon2 computation of the given cost, in at most `memoryKiB`. */
export function argon2ParametersFor(cost: number, memoryKiB: number): Argon2Parameters {
  const timeCost = Math.max(1, Math.ceil(cost / memoryKiB - ARGON2_START_PASSES));
  return { memoryKiB: Math.max(8, Math.round(cost / (timeCost + ARGON2_START_PASSES))), timeCost, parallelism: 1 };
}

/** The assumed length of a password when the password is not known. */
const USUAL_PASSWORD_BYTES = 12;

/**
 * Returns the cost of verifying a password of `passwordBytes` against the value. Malformed values have a cost, too. 0
 * for schemes that are verified at once or never.
 */
export function costOf(storedValue: Buffer, passwordBytes = USUAL_PASSWORD_BYTES): number {
  const scheme = knownScheme(storedValue);
  if (scheme === undefined) return 0;
  const text = (): string => storedValue.toString('latin1', bodyStart(storedValue));
  if (scheme.kind === 'argon2') return argon2TextCost(text());
  if (scheme.kind === 'pbkdf2') return (Number(/^\d+/.exec(text())?.[0]) || 0) * PBKDF2_ITERATION_COST[scheme.digest]!;
  return scheme.kind === 'crypt' ? cryptTextCost(text(), passwordBytes) : 0;
}

function argon2TextCost(text: string): number {
  const match = /\$m=(\d+),t=(\d+)/.exec(text);
  return match ? argon2Cost(Number(match[1]), Number(match[2])) : 0;
}

function cryptTextCost(text: string, passwordBytes: number): number {
  const shaMatch = /^\$([56])\$(?:rounds=(\d+)\$)?/.exec(text);
  if (shaMatch) {
    const [roundCost, byteCost] = SHA_ROUND_COST[shaMatch[1]!]!;
    return Number(shaMatch[2] ?? SHA_CRYPT_ROUNDS) * (roundCost + byteCost * passwordBytes);
  }
  const bcryptMatch = /^\$2[aby]\$(\d\d)/.exec(text);
  if (bcryptMatch) return BCRYPT_ROUND_COST * 2 ** Number(bcryptMatch[1]);
  const settings = memoryHardSettings(text);
  if (settings) return settings.memoryKiB * MEMORY_HARD_KIB_COST[text[1]!]!;
  return text.startsWith('$1$') ? MD5_CRYPT_COST : DES_CRYPT_COST;
}
