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
import { argon2Cost, argon2Spending, costOf } from './cost.js';
import { ssha512 } from './digest.js';
import { MAX_PASSWORD_BYTES } from './limits.js';
import { bodyStart, knownScheme } from './schemes.js';

/** The schemes that new passwords are stored with. */
export type HashScheme = 'argon2id' | 'ssha512';

export interface PasswordPolicy {
  readonly scheme: HashScheme;
  readonly argon2: Argon2Parameters;
  /**
   * Stored values that cost more (`costOf`) are not verified, unless the policy's own cost more. None: as `limits.ts`
   * allows.
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

/**
 * `{SSHA512}` value for the password, at once: for the bulk loader. `RangeError` when empty or over
 * `MAX_PASSWORD_BYTES`.
 */
export function hashPasswordFast(clear: Buffer): Buffer {
  checkLength(clear);
  return ssha512(clear);
}

/**
 * Value to store for the password: `{ARGON2}$argon2id$…`, or `{SSHA512}…`. Rejects with `RangeError` as
 * `hashPasswordFast`. With `beside`, the other values of its entry, argon2 takes the salt of one of them where it can:
 * whether a password is one of them is then found by one computation.
 */
export async function hashPassword(
  clear: Buffer,
  policy: PasswordPolicy = DEFAULT_POLICY,
  beside: readonly Buffer[] = [],
): Promise<Buffer> {
  checkLength(clear);
  if (policy.scheme === 'ssha512') return ssha512(clear);
  return Buffer.from('{ARGON2}' + (await hashArgon2(clear, policy.argon2, sharedSalt(beside, policy))), 'latin1');
}

function sharedSalt(beside: readonly Buffer[], policy: PasswordPolicy): Buffer | undefined {
  for (const value of beside) {
    const parsed = argon2Of(value);
    if (parsed && isMadeBy(parsed, policy)) return parsed.salt;
  }
  return undefined;
}

/** Argon2id with the very parameters of the policy, as `hashPassword` makes it. */
function isMadeBy(parsed: Argon2Text, { argon2 }: PasswordPolicy): boolean {
  return (
    parsed.variant === 'id' &&
    parsed.version === VERSION_1_3 &&
    parsed.hash.length === HASH_BYTES &&
    parsed.memoryKiB === argon2.memoryKiB &&
    parsed.timeCost === argon2.timeCost &&
    parsed.parallelism === argon2.parallelism
  );
}

function argon2Of(stored: Buffer): Argon2Text | undefined {
  return knownScheme(stored)?.kind === 'argon2' ? parseArgon2(stored.toString('latin1', bodyStart(stored))) : undefined;
}

const HASH_BYTES = 32;

/** What a bind that fails costs. */
export function policyCost({ scheme, argon2 }: PasswordPolicy): number {
  return scheme === 'argon2id' ? argon2Cost(argon2.memoryKiB, argon2.timeCost) : 0;
}

/** Whether the value may be verified, and stored, as far as its cost goes. */
export function isAffordable(stored: Buffer, policy: PasswordPolicy): boolean {
  if (policy.maxCost === undefined) return true;
  return costOf(stored) <= Math.max(policy.maxCost, policyCost(policy));
}

/** Work of that cost, for nothing. */
export async function spend(cost: number, clear: Buffer, policy: PasswordPolicy): Promise<void> {
  if (cost < MIN_SPENT) return;
  await verifyArgon2(unmatchedArgon2(argon2Spending(cost, policy.argon2.memoryKiB)), clear);
}

/** Less cannot be told from none. */
const MIN_SPENT = argon2Cost(8, 1);

const strengths: Readonly<Record<HashScheme, number>> = { argon2id: 4, ssha512: 2 };
const SLOW_CRYPT = /^\$(?:[56]|2[aby])\$/;

/** See `Scheme.strength`; what a scheme's own text adds is looked at here. Foreign values have none to compare. */
function strengthOf(stored: Buffer): number | undefined {
  const scheme = knownScheme(stored);
  if (scheme === undefined) return 0;
  if (scheme.kind === 'foreign') return undefined;
  const body = bodyStart(stored);
  if (scheme.kind === 'crypt') return SLOW_CRYPT.test(stored.toString('latin1', body)) ? 3 : 1;
  return scheme.strength;
}

/**
 * The value is weaker than what the policy would store now (another scheme, or argon2id with less work), or a bind that
 * fails with it costs more: it is dearer itself, or it and one of the others (`beside`) are not verified together.
 */
export function needsUpgrade(
  stored: Buffer,
  policy: PasswordPolicy = DEFAULT_POLICY,
  beside: readonly Buffer[] = [],
): boolean {
  const strength = strengthOf(stored);
  if (strength === undefined) return false;
  if (strength < strengths[policy.scheme]) return true;
  if (policy.scheme !== 'argon2id') return false;
  const has = argon2Of(stored);
  if (!has) return false;
  if (!isMadeBy(has, policy) && isOther(has, policy)) return true;
  const salt = sharedSalt(beside, policy);
  return salt !== undefined && !salt.equals(has.salt);
}

function isOther(has: Argon2Text, { argon2 }: PasswordPolicy): boolean {
  return (
    has.variant !== 'id' || argon2Cost(has.memoryKiB, has.timeCost) !== argon2Cost(argon2.memoryKiB, argon2.timeCost)
  );
}
