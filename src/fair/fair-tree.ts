/**
 * A queue of items under paths of keys, for example user and connection. All paths of a tree have the same length. At
 * each level the keys are served round-robin: a key with many items delays only itself.
 */
export class FairTree<T> {
  /** Subtrees by key, in the order in which the keys are served. */
  readonly #children = new Map<unknown, FairTree<T>>();
  /** Keys of children that have not been served since they were added, newest last. */
  readonly #unservedKeys: unknown[] = [];
  /** Items whose path ends here, oldest first. */
  readonly #items: T[] = [];
  #size = 0;

  /** The number of items, at all levels. */
  get size(): number {
    return this.#size;
  }

  /** The number of keys at the top level. */
  get keyCount(): number {
    return this.#children.size;
  }

  push(path: readonly unknown[], item: T, depth = 0): void {
    this.#size++;
    if (depth === path.length) {
      this.#items.push(item);
      return;
    }
    const key = path[depth];
    let child = this.#children.get(key);
    if (!child) {
      child = new FairTree();
      this.#children.set(key, child);
      this.#unservedKeys.push(key);
    }
    child.push(path, item, depth + 1);
  }

  /**
   * Removes and returns the next item; undefined when the tree is empty. The keys of its path go to the end of the
   * round-robin. With `newest` the newest key that was never served goes first at each level, if there is one.
   */
  shift(newest = false): T | undefined {
    if (this.#size === 0) return undefined;
    this.#size--;
    if (this.#items.length > 0) return this.#items.shift();
    const key =
      newest && this.#unservedKeys.length > 0 ? this.#unservedKeys.at(-1) : this.#children.keys().next().value;
    const child = this.#children.get(key)!;
    const item = child.shift(newest);
    this.#delete(key);
    if (child.size > 0) this.#children.set(key, child);
    return item;
  }

  #delete(key: unknown): void {
    this.#children.delete(key);
    const index = this.#unservedKeys.lastIndexOf(key);
    if (index >= 0) this.#unservedKeys.splice(index, 1);
  }

  /** Removes the item that was pushed under the path. Returns false when it is not in the tree. */
  remove(path: readonly unknown[], item: T, depth = 0): boolean {
    if (depth === path.length) {
      const index = this.#items.indexOf(item);
      if (index < 0) return false;
      this.#items.splice(index, 1);
    } else {
      const child = this.#children.get(path[depth]);
      if (!child?.remove(path, item, depth + 1)) return false;
      if (child.size === 0) this.#delete(path[depth]);
    }
    this.#size--;
    return true;
  }

  subtree(key: unknown): FairTree<T> | undefined {
    return this.#children.get(key);
  }

  /** Returns the subtree right below this tree that holds the most items. */
  largestChild(): FairTree<T> | undefined {
    return largestTree(this.#children.values());
  }

  /** Returns the newest item under the largest keys of each level: the item to drop when room is short. */
  newestOfLargest(): T | undefined {
    return this.#items.at(-1) ?? this.largestChild()?.newestOfLargest();
  }
}

export function largestTree<T>(trees: Iterable<FairTree<T>>): FairTree<T> | undefined {
  let largest: FairTree<T> | undefined;
  for (const tree of trees) if (tree.size > (largest?.size ?? 0)) largest = tree;
  return largest;
}
