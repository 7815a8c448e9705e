const MAX_KEPT = 1024;
/** Slots of a `Doorkeeper`; a power of two. */
const SLOTS = 8192;

/**
 * Recognizes keys that were seen recently. A key that is used only once is not worth caching, because caching costs
 * more than computing the value again. May take a new key for a known key, but never misses a recent key for long.
 */
export class Doorkeeper {
  readonly #recentHashes = new Int32Array(SLOTS);

  /** Whether the key was seen before. Records the key. */
  knows(key: string): boolean {
    let hash = key.length;
    for (let i = 0; i < key.length; i++) hash = (Math.imul(hash, 31) + key.charCodeAt(i)) | 0;
    const slot = (hash ^ (hash >>> 13)) & (SLOTS - 1);
    if (this.#recentHashes[slot] === hash) return true;
    this.#recentHashes[slot] = hash;
    return false;
  }
}

/**
 * A bounded cache with two generations: entries in use survive, the rest is dropped when the young generation is full.
 * Holds at most `2 × size` items; keys of more than 1,024 characters are not cached.
 */
export class GenerationCache<T> {
  private readonly size: number;
  private young = new Map<string, T>();
  private old = new Map<string, T>();

  constructor(size: number) {
    this.size = size;
  }

  get(key: string): T | undefined {
    const found = this.young.get(key);
    if (found !== undefined) return found;
    const older = this.old.get(key);
    if (older !== undefined) this.set(key, older);
    return older;
  }

  set(key: string, value: T): void {
    if (key.length > MAX_KEPT) return;
    if (this.young.size >= this.size) {
      this.old = this.young;
      this.young = new Map();
    }
    this.young.set(key, value);
  }
}
