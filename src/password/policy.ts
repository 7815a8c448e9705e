import {
  type Argon2Parameters,
  type Argon2Text,
  DEFAULT_ARGON2,
  hashArgon2,
  parseArgon2,
  unmatchedArgon2,
  VERSION_1_3,
  verifyArgon2,
} from './argon2.js';
import { memoryHardSettings, SHA_CRYPT_ROUNDS } from './crypt/forms.js';
import { ssha512 } from './digest.js';
import { MAX_PASSWORD_BYTES } from './limits.js';
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

function argon2Cost(memoryKiB: number, timeCost: number): number {
  return memoryKiB * (timeCost + ARGON2_START_PASSES);
}

/** Returns the parameters of an argon2 computation of the given cost, in at most `memoryKiB`. */
function argon2ParametersFor(cost: number, memoryKiB: number): Argon2Parameters {
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

/** The schemes that new passwords are stored with. */
export type HashScheme = 'argon2id' | 'ssha512';

export interface PasswordPolicy {
  readonly scheme: HashScheme;
  readonly argon2: Argon2Parameters;
  /**
   * Stored values that cost more (`costOf`) are not verified. Values that cost no more than the policy's own scheme are
   * always verified. Default: the bounds of `limits.ts`.
   */
  readonly maxCost?: number;
}

export const DEFAULT_POLICY: PasswordPolicy = { scheme: 'argon2id', argon2: DEFAULT_ARGON2 };

function checkLength(clear: Buffer): void {
  if (clear.length === 0) throw new RangeError('an empty password cannot be stored');
  if (clear.length > MAX_PASSWORD_BYTES) {
    throw new RangeError(`a password of ${clear.length} bytes is too long; ${MAX_PASSWORD_BYTES} is the most`);
  }
}

/** Returns an `{SSHA512}` value. Throws `RangeError` when the password is empty or over `MAX_PASSWORD_BYTES`. */
export function hashPasswordFast(clear: Buffer): Buffer {
  checkLength(clear);
  return ssha512(clear);
}

/**
 * Returns the value to store for the password: `{ARGON2}$argon2id$…`, or `{SSHA512}…`. Rejects with `RangeError` as
 * `hashPasswordFast` does. `otherValues` are the other values of the entry. If possible, argon2 reuses the salt of
 * another value, so that a single computation verifies a password against all of them.
 */
export async function hashPassword(
  clear: Buffer,
  policy: PasswordPolicy = DEFAULT_POLICY,
  otherValues: readonly Buffer[] = [],
): Promise<Buffer> {
  checkLength(clear);
  if (policy.scheme === 'ssha512') return ssha512(clear);
  return Buffer.from('{ARGON2}' + (await hashArgon2(clear, policy.argon2, sharedSalt(otherValues, policy))), 'latin1');
}

/** Returns the salt of a value that the policy made; undefined if there is none. */
function sharedSalt(otherValues: readonly Buffer[], policy: PasswordPolicy): Buffer | undefined {
  for (const value of otherValues) {
    const argon2Text = parseArgon2Value(value);
    if (argon2Text && isMadeBy(argon2Text, policy)) return argon2Text.salt;
  }
  return undefined;
}

/** Whether the value is one that `hashPassword` makes: argon2id with the parameters of the policy. */
function isMadeBy(argon2Text: Argon2Text, { argon2 }: PasswordPolicy): boolean {
  return (
    argon2Text.variant === 'id' &&
    argon2Text.version === VERSION_1_3 &&
    argon2Text.hash.length === HASH_BYTES &&
    argon2Text.memoryKiB === argon2.memoryKiB &&
    argon2Text.timeCost === argon2.timeCost &&
    argon2Text.parallelism === argon2.parallelism
  );
}

function parseArgon2Value(value: Buffer): Argon2Text | undefined {
  return knownScheme(value)?.kind === 'argon2' ? parseArgon2(value.toString('latin1', bodyStart(value))) : undefined;
}

const HASH_BYTES = 32;

/** Returns the cost of a failed bind. */
export function policyCost({ scheme, argon2 }: PasswordPolicy): number {
  return scheme === 'argon2id' ? argon2Cost(argon2.memoryKiB, argon2.timeCost) : 0;
}

/** Whether the cost of the value is low enough to store and verify it. */
export function isAffordable(value: Buffer, policy: PasswordPolicy): boolean {
  if (policy.maxCost === undefined) return true;
  return costOf(value) <= Math.max(policy.maxCost, policyCost(policy));
}

/** Runs a computation of the given cost and discards the result: the time must not tell why a bind failed. */
export async function spendCost(cost: number, clear: Buffer, policy: PasswordPolicy): Promise<void> {
  if (cost < MIN_COST) return;
  await verifyArgon2(unmatchedArgon2(argon2ParametersFor(cost, policy.argon2.memoryKiB)), clear);
}

/** The cost of the smallest argon2 computation. `spendCost` ignores smaller costs, which nobody can measure. */
const MIN_COST = argon2Cost(8, 1);

/** `Scheme.strength` of the values that the policy makes. */
const policyStrengths: Readonly<Record<HashScheme, number>> = { argon2id: 4, ssha512: 2 };
const SLOW_CRYPT_PATTERN = /^\$(?:[567y]|2[aby])\$/;

/** Returns `Scheme.strength`, for crypt by the kind of the text. Undefined for foreign schemes. */
function schemeStrength(value: Buffer): number | undefined {
  const scheme = knownScheme(value);
  if (scheme === undefined) return 0;
  if (scheme.kind === 'foreign') return undefined;
  const body = bodyStart(value);
  if (scheme.kind === 'crypt') return SLOW_CRYPT_PATTERN.test(value.toString('latin1', body)) ? 3 : 1;
  return scheme.strength;
}

/**
 * Whether the value should be replaced by one that the policy makes. True when the value is weaker (another scheme, or
 * argon2id with less work), and when a failed bind costs more because of the value: its own cost is higher, or a single
 * computation cannot verify it together with the `otherValues`.
 */
export function needsUpgrade(
  value: Buffer,
  policy: PasswordPolicy = DEFAULT_POLICY,
  otherValues: readonly Buffer[] = [],
): boolean {
  const strength = schemeStrength(value);
  if (strength === undefined) return false;
  if (strength < policyStrengths[policy.scheme]) return true;
  if (policy.scheme !== 'argon2id') return false;
  const argon2Text = parseArgon2Value(value);
  if (!argon2Text) return false;
  if (!isMadeBy(argon2Text, policy) && differsInCost(argon2Text, policy)) return true;
  const salt = sharedSalt(otherValues, policy);
  return salt !== undefined && !salt.equals(argon2Text.salt);
}

function differsInCost(argon2Text: Argon2Text, { argon2 }: PasswordPolicy): boolean {
  return (
    argon2Text.variant !== 'id' ||
    argon2Cost(argon2Text.memoryKiB, argon2Text.timeCost) !== argon2Cost(argon2.memoryKiB, argon2.timeCost)
  );
}
