/**
 * What a stored hash may ask for. A value beyond these bounds is unusable and never verifies: whoever may write a
 * password must not be able to stop the server with it (10⁹ iterations, gigabytes of memory).
 */

/** Longer passwords are refused when set and never verify: sha-crypt's work grows with the square of the length. */
export const MAX_PASSWORD_BYTES = 1024;
/**
 * Longer ones never verify against SHA-crypt and MD5-crypt, whose every round takes the whole password: a bind that
 * fails would cost more than others, by up to twice.
 */
export const MAX_CRYPT_PASSWORD_BYTES = 256;
/** Longer stored values are not hashes. */
export const MAX_STORED_BYTES = 2048;

export const ARGON2_LIMITS = {
  memoryKiB: { min: 8, max: 262_144 },
  timeCost: { min: 1, max: 64 },
  parallelism: { min: 1, max: 16 },
  /** memoryKiB × timeCost: about three seconds of one core. */
  work: 4_194_304,
} as const;

export const MAX_PBKDF2_ITERATIONS = 2_000_000;
/** glibc's own bound is 999,999,999; what tools choose by themselves goes to about 700,000. */
export const MAX_SHA_CRYPT_ROUNDS = 1_000_000;
/** log₂ of the rounds. */
export const MAX_BCRYPT_COST = 14;
