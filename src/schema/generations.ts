const MAX_KEPT = 1024;
/** Slots of a `Doorkeeper`, a power of two. */
const SLOTS = 8192;

/**
 * Tells keys that came before, not long ago, from new ones: what is asked for once is not worth a place in a cache,
 * which costs more than making it anew. It may take a new key for an old one, never for long the other way round.
 */
export class Doorkeeper {
  readonly #seen = new Int32Array(SLOTS);

  /** Whether the key has been here before. */
  knows(key: string): boolean {
    let hash = key.length;
    for (let i = 0; i < key.length; i++) hash = (Math.imul(hash, 31) + key.charCodeAt(i)) | 0;
    const slot = (hash ^ (hash >>> 13)) & (SLOTS - 1);
    if (this.#seen[slot] === hash) return true;
    this.#seen[slot] = hash;
    return false;
  }
}

/**
 * A bounded cache in two generations: what is asked for stays, the rest goes when the young generation is full.
 * Holds at most `2 × size` items, of keys of at most 1,024 characters.
 */
export class TwoGenerations<T> {
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
