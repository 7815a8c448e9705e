const MAX_KEY_LENGTH = 1024;
/** Number of entries in the table of a `Doorkeeper`; a power of two. */
const SLOTS = 8192;

/**
 * Remembers hashes of recently used keys. A value whose key occurs only once is not worth caching, because caching
 * costs more than computing the value again. `isRecent` may return true for a new key (a collision of hashes). It
 * returns false for a recent key only if another key has taken its place in the table.
 */
export class Doorkeeper {
  readonly #recentHashes = new Int32Array(SLOTS);

  /** Whether the key was recorded before. Records the key. */
  isRecent(key: string): boolean {
    let hash = key.length;
    for (let i = 0; i < key.length; i++) hash = (Math.imul(hash, 31) + key.charCodeAt(i)) | 0;
    const slot = (hash ^ (hash >>> 13)) & (SLOTS - 1);
    if (this.#recentHashes[slot] === hash) return true;
    this.#recentHashes[slot] = hash;
    return false;
  }
}

/**
 * A bounded cache with two generations, young and old. When the young generation is full, it becomes the old one, and
 * the previous old generation is dropped. A hit in the old generation moves the item to the young one, so items in use
 * survive. Holds at most `2 × size` items; keys of more than 1,024 characters are not cached.
 */
export class GenerationCache<T> {
  private readonly size: number;
  private youngValues = new Map<string, T>();
  private oldValues = new Map<string, T>();

  constructor(size: number) {
    this.size = size;
  }

  get(key: string): T | undefined {
    const youngValue = this.youngValues.get(key);
    if (youngValue !== undefined) return youngValue;
    const oldValue = this.oldValues.get(key);
    if (oldValue !== undefined) this.set(key, oldValue);
    return oldValue;
  }

  set(key: string, value: T): void {
    if (key.length > MAX_KEY_LENGTH) return;
    if (this.youngValues.size >= this.size) {
      this.oldValues = this.youngValues;
      this.youngValues = new Map();
    }
    this.youngValues.set(key, value);
  }
}
