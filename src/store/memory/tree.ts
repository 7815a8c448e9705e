/** Longest chunk; a fuller one is split in two. */
const CHUNK = 256;

interface Chunk {
  keys: Buffer[];
  values: Buffer[];
  /** The tree that may change the chunk; others copy it first. */
  owner: object;
}

/**
 * A sorted map from byte keys to buffers, in chunks of some hundred: search is logarithmic, an insertion moves one
 * chunk. `fork` gives a copy at the price of the list of chunks; each side copies a chunk when it changes it.
 */
export class Tree {
  #chunks: Chunk[] = [];
  #owner = {};

  fork(): Tree {
    const copy = new Tree();
    copy.#chunks = this.#chunks.slice();
    this.#owner = {};
    return copy;
  }

  /** Takes the content of a fork back, whatever happened to this tree meanwhile. */
  restore(fork: Tree): void {
    this.#chunks = fork.#chunks.slice();
    this.#owner = {};
    fork.#owner = {};
  }

  get(key: Buffer): Buffer | undefined {
    const chunk = this.#chunks[this.#chunkOf(key)];
    if (!chunk) return undefined;
    const at = lowerBound(chunk.keys, key);
    return chunk.keys[at]?.equals(key) ? chunk.values[at] : undefined;
  }

  set(key: Buffer, value: Buffer): void {
    if (this.#chunks.length === 0) {
      this.#chunks.push({ keys: [key], values: [value], owner: this.#owner });
      return;
    }
    const index = Math.max(0, this.#chunkOf(key));
    const chunk = this.#own(index);
    const at = lowerBound(chunk.keys, key);
    if (chunk.keys[at]?.equals(key)) {
      chunk.values[at] = value;
      return;
    }
    chunk.keys.splice(at, 0, key);
    chunk.values.splice(at, 0, value);
    if (chunk.keys.length > CHUNK) this.#split(index, at === chunk.keys.length - 1);
  }

  delete(key: Buffer): void {
    const index = this.#chunkOf(key);
    if (index < 0) return;
    const at = lowerBound(this.#chunks[index]!.keys, key);
    if (!this.#chunks[index]!.keys[at]?.equals(key)) return;
    const chunk = this.#own(index);
    chunk.keys.splice(at, 1);
    chunk.values.splice(at, 1);
    if (chunk.keys.length === 0) this.#chunks.splice(index, 1);
  }

  /**
   * Calls `visit` for keys in order from the first ≥ `from` (> when exclusive) until it returns false; true when the
   * end was reached.
   */
  forward(from: Buffer | undefined, exclusive: boolean, visit: (key: Buffer, value: Buffer) => boolean): boolean {
    let index = from ? Math.max(0, this.#chunkOf(from)) : 0;
    let at = from && this.#chunks[index] ? lowerBound(this.#chunks[index]!.keys, from) : 0;
    if (exclusive && from && this.#chunks[index]?.keys[at]?.equals(from)) at++;
    for (; index < this.#chunks.length; index++, at = 0) {
      const { keys, values } = this.#chunks[index]!;
      for (; at < keys.length; at++) if (!visit(keys[at]!, values[at]!)) return false;
    }
    return true;
  }

  /** The same downwards from the last key < `to`. */
  backward(to: Buffer | undefined, visit: (key: Buffer, value: Buffer) => boolean): boolean {
    let index = to ? this.#chunkOf(to) : this.#chunks.length - 1;
    if (index < 0) return true;
    let at = to ? lowerBound(this.#chunks[index]!.keys, to) - 1 : this.#chunks[index]!.keys.length - 1;
    for (;;) {
      const { keys, values } = this.#chunks[index]!;
      for (; at >= 0; at--) if (!visit(keys[at]!, values[at]!)) return false;
      if (--index < 0) return true;
      at = this.#chunks[index]!.keys.length - 1;
    }
  }

  /** Index of the last chunk whose first key is ≤ `key`, or -1. */
  #chunkOf(key: Buffer): number {
    let low = 0;
    let high = this.#chunks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (Buffer.compare(this.#chunks[middle]!.keys[0]!, key) <= 0) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  #own(index: number): Chunk {
    const chunk = this.#chunks[index]!;
    if (chunk.owner === this.#owner) return chunk;
    const copy = { keys: chunk.keys.slice(), values: chunk.values.slice(), owner: this.#owner };
    this.#chunks[index] = copy;
    return copy;
  }

  /** Rising keys leave full chunks behind. */
  #split(index: number, rising: boolean): void {
    const chunk = this.#chunks[index]!;
    const at = rising ? chunk.keys.length - 1 : chunk.keys.length >> 1;
    const right = { keys: chunk.keys.splice(at), values: chunk.values.splice(at), owner: this.#owner };
    this.#chunks.splice(index + 1, 0, right);
  }
}

/** Index of the first key that is ≥ `key`. */
function lowerBound(keys: readonly Buffer[], key: Buffer): number {
  let low = 0;
  let high = keys.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (Buffer.compare(keys[middle]!, key) < 0) low = middle + 1;
    else high = middle;
  }
  return low;
}
