const MAX_KEPT = 1024;

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
