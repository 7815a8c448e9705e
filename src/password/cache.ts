import { createHmac, randomBytes } from 'node:crypto';

export interface CredentialCacheOptions {
  /** How long a verified credential is remembered. */
  readonly seconds?: number;
  /** Credentials remembered at most; memory is 40 bytes each, taken at the start. */
  readonly entries?: number;
  /** Milliseconds that never go back; for tests. */
  readonly now?: () => number;
}

const DIGEST = 32;
const WAYS = 4;
/** Digest and, as a double, the time it ends. */
const SLOT = DIGEST + 8;

/**
 * Remembers for a short time which credentials were verified, so that an application that binds the same user again
 * does not pay for argon2id each time. It holds neither passwords nor hashes of them that mean anything elsewhere: the
 * key is an HMAC-SHA-256, under a random key of this process, of the entry's state, the stored value and the clear
 * password. So a changed entry, by whichever process or front end, is another key: nothing has to be invalidated.
 *
 * A table of sets of four slots of fixed size; a full set gives up the slot that would end first.
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

  /**
   * The credential was verified within the last `seconds`, and neither the entry's state nor the stored value has
   * changed.
   */
  has(entry: Buffer, stored: Buffer, clear: Buffer): boolean {
    const digest = this.#digest(entry, stored, clear);
    const at = this.#find(digest);
    return at >= 0 && this.#slots.readDoubleLE(at + DIGEST) > this.#now();
  }

  /** To be called after the credential was verified, never otherwise. */
  remember(entry: Buffer, stored: Buffer, clear: Buffer): void {
    const digest = this.#digest(entry, stored, clear);
    let at = this.#find(digest);
    if (at < 0) at = this.#oldest(digest);
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

  #oldest(digest: Buffer): number {
    const start = this.#setStart(digest);
    let best = start;
    for (let way = 1; way < WAYS; way++) {
      const at = start + way * SLOT;
      if (this.#slots.readDoubleLE(at + DIGEST) < this.#slots.readDoubleLE(best + DIGEST)) best = at;
    }
    return best;
  }
}
