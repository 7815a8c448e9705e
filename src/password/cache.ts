import { createHmac, randomBytes } from 'node:crypto';

export interface CredentialCacheOptions {
  /** Seconds for which a verified credential is remembered. */
  readonly seconds?: number;
  /** The most credentials that are remembered. The table takes 40 bytes for each, allocated at the start. */
  readonly entries?: number;
  /** A monotonic clock in milliseconds, for tests. */
  readonly now?: () => number;
}

const DIGEST_BYTES = 32;
/** Entries of one set of the hash table. */
const SLOTS_PER_SET = 4;
/** Bytes of a table entry: the digest, then the time of expiry as a double. */
const SLOT_BYTES = DIGEST_BYTES + 8;

/**
 * Remembers verified credentials for a short time, so that an application that binds the same user again does not pay
 * for argon2id each time. The cache holds neither passwords nor reusable hashes. A key is an HMAC-SHA-256, under a
 * random key of this process, of the entry's state, the stored value and the clear password. A change of the entry, by
 * any process or front end, thus changes the key, and no invalidation is needed.
 *
 * The table consists of sets of four slots of fixed size. A full set evicts the slot that expires first.
 */
export class CredentialCache {
  readonly #key = randomBytes(DIGEST_BYTES);
  readonly #setCount: number;
  readonly #slots: Buffer;
  readonly #lifetimeMs: number;
  readonly #clock: () => number;

  constructor(options: CredentialCacheOptions = {}) {
    this.#setCount = Math.max(1, Math.ceil((options.entries ?? 10_000) / SLOTS_PER_SET));
    this.#slots = Buffer.alloc(this.#setCount * SLOTS_PER_SET * SLOT_BYTES);
    this.#lifetimeMs = (options.seconds ?? 60) * 1000;
    this.#clock = options.now ?? (() => performance.now());
  }

  /** Whether the credential was verified within the last `seconds`, for this state and stored value. */
  isVerified(entry: Buffer, storedValue: Buffer, clear: Buffer): boolean {
    const digest = this.#digest(entry, storedValue, clear);
    const slotStart = this.#findSlot(digest);
    return slotStart >= 0 && this.#slots.readDoubleLE(slotStart + DIGEST_BYTES) > this.#clock();
  }

  /** Adds a credential. Call only after the credential was verified. */
  remember(entry: Buffer, storedValue: Buffer, clear: Buffer): void {
    const digest = this.#digest(entry, storedValue, clear);
    let slotStart = this.#findSlot(digest);
    if (slotStart < 0) slotStart = this.#slotToReplace(digest);
    digest.copy(this.#slots, slotStart);
    this.#slots.writeDoubleLE(this.#clock() + this.#lifetimeMs, slotStart + DIGEST_BYTES);
  }

  clear(): void {
    this.#slots.fill(0);
  }

  #digest(entry: Buffer, storedValue: Buffer, clear: Buffer): Buffer {
    const lengths = Buffer.allocUnsafe(8);
    lengths.writeUInt32LE(entry.length, 0);
    lengths.writeUInt32LE(storedValue.length, 4);
    return createHmac('sha256', this.#key).update(lengths).update(entry).update(storedValue).update(clear).digest();
  }

  #setStart(digest: Buffer): number {
    return (digest.readUInt32LE(0) % this.#setCount) * SLOTS_PER_SET * SLOT_BYTES;
  }

  #findSlot(digest: Buffer): number {
    const start = this.#setStart(digest);
    for (let slotIndex = 0; slotIndex < SLOTS_PER_SET; slotIndex++) {
      const slotStart = start + slotIndex * SLOT_BYTES;
      if (digest.compare(this.#slots, slotStart, slotStart + DIGEST_BYTES) === 0) return slotStart;
    }
    return -1;
  }

  #slotToReplace(digest: Buffer): number {
    const start = this.#setStart(digest);
    let earliestSlot = start;
    for (let slotIndex = 1; slotIndex < SLOTS_PER_SET; slotIndex++) {
      const slotStart = start + slotIndex * SLOT_BYTES;
      if (this.#slots.readDoubleLE(slotStart + DIGEST_BYTES) < this.#slots.readDoubleLE(earliestSlot + DIGEST_BYTES))
        earliestSlot = slotStart;
    }
    return earliestSlot;
  }
}
