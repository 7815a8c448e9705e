// Bounds of stored hashes. Values beyond these bounds never verify. Without bounds, a user who may write a password
// could stop the server by a hash of 10⁹ iterations or gigabytes of memory.

/** Longer passwords are refused and never verify, because SHA-crypt's work grows with the square of the length. */
export const MAX_PASSWORD_BYTES = 1024;
/**
 * Longer passwords never verify against SHA-crypt and MD5-crypt. Each round of these digests the whole password, so a
 * longer password could make a failed bind cost more than twice as much as usual.
 */
export const MAX_CRYPT_PASSWORD_BYTES = 256;
/** Longer stored values never verify: no hash is that long. */
export const MAX_STORED_BYTES = 2048;

export const ARGON2_LIMITS = {
  memoryKiB: { min: 8, max: 262_144 },
  timeCost: { min: 1, max: 64 },
  parallelism: { min: 1, max: 16 },
  /** The largest product of `memoryKiB` and `timeCost`, about three seconds of one core. */
  work: 4_194_304,
} as const;

export const MAX_PBKDF2_ITERATIONS = 2_000_000;
/** glibc allows 999,999,999. Tools choose up to about 700,000 by default. */
export const MAX_SHA_CRYPT_ROUNDS = 1_000_000;
/** The most memory of yescrypt and scrypt, of all lanes (`p`) together: about two seconds of one core for yescrypt. */
export const MAX_SCRYPT_KIB = 131_072;
/** Upper bound of the cost parameter, the binary logarithm of the rounds. */
export const MAX_BCRYPT_COST = 14;
