import {
  type Argon2Parameters,
  DEFAULT_ARGON2,
  hashArgon2,
  parseArgon2,
  unmatchedArgon2,
  verifyArgon2,
} from './argon2.js';
import { ssha512, verifyDigest } from './digest.js';
import { MAX_PASSWORD_BYTES } from './limits.js';
import { bodyStart, knownScheme } from './schemes.js';

/** The schemes that new passwords are stored with. */
export type HashScheme = 'argon2id' | 'ssha512';

export interface PasswordPolicy {
  readonly scheme: HashScheme;
  readonly argon2: Argon2Parameters;
}

export const DEFAULT_POLICY: PasswordPolicy = { scheme: 'argon2id', argon2: DEFAULT_ARGON2 };

function checkLength(clear: Buffer): void {
  if (clear.length === 0) throw new RangeError('an empty password cannot be stored');
  if (clear.length > MAX_PASSWORD_BYTES) {
    throw new RangeError(`a password of ${clear.length} bytes is too long; ${MAX_PASSWORD_BYTES} is the most`);
  }
}

/** `{SSHA512}` value for the password, at once: for the bulk loader. `RangeError` when empty or over `MAX_PASSWORD_BYTES`. */
export function hashPasswordFast(clear: Buffer): Buffer {
  checkLength(clear);
  return ssha512(clear);
}

/** Value to store for the password: `{ARGON2}$argon2id$…`, or `{SSHA512}…`. Rejects with `RangeError` as `hashPasswordFast`. */
export async function hashPassword(clear: Buffer, policy: PasswordPolicy = DEFAULT_POLICY): Promise<Buffer> {
  checkLength(clear);
  if (policy.scheme === 'ssha512') return ssha512(clear);
  return Buffer.from('{ARGON2}' + (await hashArgon2(clear, policy.argon2)), 'latin1');
}

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

/** The value is weaker than what the policy would store now: another scheme, or argon2id with less work. */
export function needsUpgrade(stored: Buffer, policy: PasswordPolicy = DEFAULT_POLICY): boolean {
  const strength = strengthOf(stored);
  if (strength === undefined) return false;
  if (strength < strengths[policy.scheme]) return true;
  if (policy.scheme !== 'argon2id') return false;
  const has = parseArgon2(stored.toString('latin1', bodyStart(stored)));
  if (!has) return false;
  return has.variant !== 'id' || has.memoryKiB * has.timeCost < policy.argon2.memoryKiB * policy.argon2.timeCost;
}

const sha512 = knownScheme(Buffer.from('{SSHA512}'))!;
const unmatchedSsha512 = ssha512(Buffer.from(unmatchedArgon2(DEFAULT_ARGON2)));

/** The work of verifying one password of the policy's scheme, for users that do not exist. */
export function dummyVerify(clear: Buffer, policy: PasswordPolicy = DEFAULT_POLICY): boolean | Promise<boolean> {
  if (clear.length > MAX_PASSWORD_BYTES) return false;
  const result =
    policy.scheme === 'ssha512'
      ? verifyDigest(sha512, unmatchedSsha512, clear)
      : verifyArgon2(unmatchedArgon2(policy.argon2), clear);
  return typeof result === 'boolean' ? false : result.then(() => false);
}
