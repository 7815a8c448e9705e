import { lowerBound } from '../../bytes/compare.js';

/** Keys of the longest leaf; a fuller one is split in two. */
const LEAF = 256;

interface Leaf {
  keys: Buffer[];
  values: Buffer[];
  /** The tree that may change the leaf; others copy it first. */
  owner: object;
}

/**
 * A sorted map from byte keys to buffers, in leaves of some hundred: search is logarithmic, an insertion moves one
 * leaf. `fork` gives a copy at the price of the list of leaves; each side copies a leaf when it changes it.
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

  /** Takes the content of a fork back, whatever happened to this tree meanwhile. */
  restore(fork: Tree): void {
    this.#leaves = fork.#leaves.slice();
    this.#owner = {};
    fork.#owner = {};
  }

  get(key: Buffer): Buffer | undefined {
    const leaf = this.#leaves[this.#leafOf(key)];
    if (!leaf) return undefined;
    const at = lowerBound(leaf.keys, key);
    return leaf.keys[at]?.equals(key) ? leaf.values[at] : undefined;
  }

  set(key: Buffer, value: Buffer): void {
    if (this.#leaves.length === 0) {
      this.#leaves.push({ keys: [key], values: [value], owner: this.#owner });
      return;
    }
    const index = Math.max(0, this.#leafOf(key));
    const leaf = this.#own(index);
    const at = lowerBound(leaf.keys, key);
    if (leaf.keys[at]?.equals(key)) {
      leaf.values[at] = value;
      return;
    }
    leaf.keys.splice(at, 0, key);
    leaf.values.splice(at, 0, value);
    if (leaf.keys.length > LEAF) this.#split(index, at === leaf.keys.length - 1);
  }

  delete(key: Buffer): void {
    const index = this.#leafOf(key);
    if (index < 0) return;
    const at = lowerBound(this.#leaves[index]!.keys, key);
    if (!this.#leaves[index]!.keys[at]?.equals(key)) return;
    const leaf = this.#own(index);
    leaf.keys.splice(at, 1);
    leaf.values.splice(at, 1);
    if (leaf.keys.length === 0) this.#leaves.splice(index, 1);
  }

  /**
   * Calls `visit` for keys in order from the first ≥ `from` (> when exclusive) until it returns false; true when the
   * end was reached.
   */
  forward(from: Buffer | undefined, exclusive: boolean, visit: (key: Buffer, value: Buffer) => boolean): boolean {
    let index = from ? Math.max(0, this.#leafOf(from)) : 0;
    let at = from && this.#leaves[index] ? lowerBound(this.#leaves[index]!.keys, from) : 0;
    if (exclusive && from && this.#leaves[index]?.keys[at]?.equals(from)) at++;
    for (; index < this.#leaves.length; index++, at = 0) {
      const { keys, values } = this.#leaves[index]!;
      for (; at < keys.length; at++) if (!visit(keys[at]!, values[at]!)) return false;
    }
    return true;
  }

  /** The same downwards from the last key < `to`. */
  backward(to: Buffer | undefined, visit: (key: Buffer, value: Buffer) => boolean): boolean {
    let index = to ? this.#leafOf(to) : this.#leaves.length - 1;
    if (index < 0) return true;
    let at = to ? lowerBound(this.#leaves[index]!.keys, to) - 1 : this.#leaves[index]!.keys.length - 1;
    for (;;) {
      const { keys, values } = this.#leaves[index]!;
      for (; at >= 0; at--) if (!visit(keys[at]!, values[at]!)) return false;
      if (--index < 0) return true;
      at = this.#leaves[index]!.keys.length - 1;
    }
  }

  /** Index of the last leaf whose first key is ≤ `key`, or -1. */
  #leafOf(key: Buffer): number {
    let low = 0;
    let high = this.#leaves.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (Buffer.compare(this.#leaves[middle]!.keys[0]!, key) <= 0) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  #own(index: number): Leaf {
    const leaf = this.#leaves[index]!;
    if (leaf.owner === this.#owner) return leaf;
    const copy = { keys: leaf.keys.slice(), values: leaf.values.slice(), owner: this.#owner };
    this.#leaves[index] = copy;
    return copy;
  }

  /** Rising keys leave full leaves behind. */
  #split(index: number, rising: boolean): void {
    const leaf = this.#leaves[index]!;
    const at = rising ? leaf.keys.length - 1 : leaf.keys.length >> 1;
    const right = { keys: leaf.keys.splice(at), values: leaf.values.splice(at), owner: this.#owner };
    this.#leaves.splice(index + 1, 0, right);
  }
}
