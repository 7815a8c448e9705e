import { createHmac, randomBytes } from 'node:crypto';

export interface CredentialCacheOptions {
  /** Lifetime of a verified credential. */
  readonly seconds?: number;
  /** Capacity. The table takes 40 bytes for each credential, allocated at the start. */
  readonly entries?: number;
  /** A monotonic clock in milliseconds, for tests. */
  readonly now?: () => number;
}

const DIGEST = 32;
/** Slots of a set. */
const WAYS = 4;
/** Bytes of a slot: the digest, then the time of expiry as a double. */
const SLOT = DIGEST + 8;

/**
 * Remembers verified credentials for a short time, so that an application that binds the same user again does not pay
 * for argon2id each time. The cache holds neither passwords nor reusable hashes. A key is an HMAC-SHA-256, under a
 * random key of this process, of the entry's state, the stored value and the clear password. A change of the entry, by
 * any process or front end, thus changes the key, and no invalidation is needed.
 *
 * The table consists of sets of four slots of fixed size. A full set evicts the slot that expires first.
 */
export class CredentialCache {
  readonly #key = randomBytes(DIGEST);
  readonly #sets: number;
  readonly #slots: Buffer;
  readonly #milliseconds: number;
  readonly #now: () => number;

  constructor(options: CredentialCacheOptions = {}) {
    this.#sets = Math.max(1, Math.ceil((options.entries ?? 10_000) / WAYS));
    this.#slots = Buffer.alloc(this.#sets * WAYS * SLOT);
    this.#milliseconds = (options.seconds ?? 60) * 1000;
    this.#now = options.now ?? (() => performance.now());
  }

  /** Whether the credential was verified within the last `seconds`, for this state and stored value. */
  has(entry: Buffer, stored: Buffer, clear: Buffer): boolean {
    const digest = this.#digest(entry, stored, clear);
    const at = this.#find(digest);
    return at >= 0 && this.#slots.readDoubleLE(at + DIGEST) > this.#now();
  }

  /** Adds a credential. Call only after the credential was verified. */
  remember(entry: Buffer, stored: Buffer, clear: Buffer): void {
    const digest = this.#digest(entry, stored, clear);
    let at = this.#find(digest);
    if (at < 0) at = this.#firstToExpire(digest);
    digest.copy(this.#slots, at);
    this.#slots.writeDoubleLE(this.#now() + this.#milliseconds, at + DIGEST);
  }

  clear(): void {
    this.#slots.fill(0);
  }

  #digest(entry: Buffer, stored: Buffer, clear: Buffer): Buffer {
    const lengths = Buffer.allocUnsafe(8);
    lengths.writeUInt32LE(entry.length, 0);
    lengths.writeUInt32LE(stored.length, 4);
    return createHmac('sha256', this.#key).update(lengths).update(entry).update(stored).update(clear).digest();
  }

  #setStart(digest: Buffer): number {
    return (digest.readUInt32LE(0) % this.#sets) * WAYS * SLOT;
  }

  #find(digest: Buffer): number {
    const start = this.#setStart(digest);
    for (let way = 0; way < WAYS; way++) {
      const at = start + way * SLOT;
      if (digest.compare(this.#slots, at, at + DIGEST) === 0) return at;
    }
    return -1;
  }

  #firstToExpire(digest: Buffer): number {
    const start = this.#setStart(digest);
    let first = start;
    for (let way = 1; way < WAYS; way++) {
      const at = start + way * SLOT;
      if (this.#slots.readDoubleLE(at + DIGEST) < this.#slots.readDoubleLE(first + DIGEST)) first = at;
    }
    return first;
  }
}
