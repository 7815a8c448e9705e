import { lowerBound } from '../../bytes/compare.js';

/** Maximum number of keys of a leaf. A fuller leaf is split in two. */
const MAX_LEAF_KEYS = 256;

interface Leaf {
  keys: Buffer[];
  values: Buffer[];
  /** Token of the tree that may change the leaf in place; other trees copy the leaf first. */
  owner: object;
}

/**
 * A sorted map from byte keys to buffers, stored in leaves of a few hundred keys. A search takes logarithmic time, an
 * insertion moves the keys of one leaf. `fork` returns a copy-on-write copy, which copies only the list of leaves.
 */
export class Tree {
  #leaves: Leaf[] = [];
  #owner = {};

  fork(): Tree {
    const copy = new Tree();
    copy.#leaves = this.#leaves.slice();
    this.#owner = {};
    return copy;
  }

  /** Restores the content of a fork. The fork remains usable. */
  restore(fork: Tree): void {
    this.#leaves = fork.#leaves.slice();
    this.#owner = {};
    fork.#owner = {};
  }

  get(key: Buffer): Buffer | undefined {
    const leaf = this.#leaves[this.#leafIndex(key)];
    if (!leaf) return undefined;
    const keyIndex = lowerBound(leaf.keys, key);
    return leaf.keys[keyIndex]?.equals(key) ? leaf.values[keyIndex] : undefined;
  }

  set(key: Buffer, value: Buffer): void {
    if (this.#leaves.length === 0) {
      this.#leaves.push({ keys: [key], values: [value], owner: this.#owner });
      return;
    }
    const index = Math.max(0, this.#leafIndex(key));
    const leaf = this.#ownedLeaf(index);
    const keyIndex = lowerBound(leaf.keys, key);
    if (leaf.keys[keyIndex]?.equals(key)) {
      leaf.values[keyIndex] = value;
      return;
    }
    leaf.keys.splice(keyIndex, 0, key);
    leaf.values.splice(keyIndex, 0, value);
    if (leaf.keys.length > MAX_LEAF_KEYS) this.#splitLeaf(index, keyIndex === leaf.keys.length - 1);
  }

  delete(key: Buffer): void {
    const index = this.#leafIndex(key);
    if (index < 0) return;
    const keyIndex = lowerBound(this.#leaves[index]!.keys, key);
    if (!this.#leaves[index]!.keys[keyIndex]?.equals(key)) return;
    const leaf = this.#ownedLeaf(index);
    leaf.keys.splice(keyIndex, 1);
    leaf.values.splice(keyIndex, 1);
    if (leaf.keys.length === 0) this.#leaves.splice(index, 1);
  }

  /** Visits keys ≥ `from` (> `from` if `exclusive`) in rising order. Stops and returns false when `visit` does. */
  forward(from: Buffer | undefined, exclusive: boolean, visit: (key: Buffer, value: Buffer) => boolean): boolean {
    let index = from ? Math.max(0, this.#leafIndex(from)) : 0;
    let keyIndex = from && this.#leaves[index] ? lowerBound(this.#leaves[index]!.keys, from) : 0;
    if (exclusive && from && this.#leaves[index]?.keys[keyIndex]?.equals(from)) keyIndex++;
    for (; index < this.#leaves.length; index++, keyIndex = 0) {
      const { keys, values } = this.#leaves[index]!;
      for (; keyIndex < keys.length; keyIndex++) if (!visit(keys[keyIndex]!, values[keyIndex]!)) return false;
    }
    return true;
  }

  /** As `forward`, but in falling order from the last key < `to`. */
  backward(to: Buffer | undefined, visit: (key: Buffer, value: Buffer) => boolean): boolean {
    let index = to ? this.#leafIndex(to) : this.#leaves.length - 1;
    if (index < 0) return true;
    let keyIndex = to ? lowerBound(this.#leaves[index]!.keys, to) - 1 : this.#leaves[index]!.keys.length - 1;
    for (;;) {
      const { keys, values } = this.#leaves[index]!;
      for (; keyIndex >= 0; keyIndex--) if (!visit(keys[keyIndex]!, values[keyIndex]!)) return false;
      if (--index < 0) return true;
      keyIndex = this.#leaves[index]!.keys.length - 1;
    }
  }

  /** Index of the last leaf whose first key is ≤ `key`, or -1. */
  #leafIndex(key: Buffer): number {
    let low = 0;
    let high = this.#leaves.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (Buffer.compare(this.#leaves[middle]!.keys[0]!, key) <= 0) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  #ownedLeaf(index: number): Leaf {
    const leaf = this.#leaves[index]!;
    if (leaf.owner === this.#owner) return leaf;
    const copy = { keys: leaf.keys.slice(), values: leaf.values.slice(), owner: this.#owner };
    this.#leaves[index] = copy;
    return copy;
  }

  /** Splits a leaf. With rising keys, splits before the last key, so that the left leaf stays full. */
  #splitLeaf(index: number, rising: boolean): void {
    const leaf = this.#leaves[index]!;
    const keyIndex = rising ? leaf.keys.length - 1 : leaf.keys.length >> 1;
    const right = { keys: leaf.keys.splice(keyIndex), values: leaf.values.splice(keyIndex), owner: this.#owner };
    this.#leaves.splice(index + 1, 0, right);
  }
}
