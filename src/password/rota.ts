/** Items under paths of keys, all of one length: at each level the keys take turns. */
export class Rota<T> {
  readonly #below = new Map<unknown, Rota<T>>();
  /** Keys below that have had no turn since they came, the latest at the end. */
  readonly #comers: unknown[] = [];
  readonly #items: T[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  push(path: readonly unknown[], item: T, depth = 0): void {
    this.#size++;
    if (depth === path.length) {
      this.#items.push(item);
      return;
    }
    let below = this.#below.get(path[depth]);
    if (!below) {
      below = new Rota();
      this.#below.set(path[depth], below);
      this.#comers.push(path[depth]);
    }
    below.push(path, item, depth + 1);
  }

  /**
   * The one whose turn it is; there must be one. Whose turn it was goes to the end. With `latest` it is, at each level,
   * the turn of the latest of those that have had none.
   */
  shift(latest: boolean): T {
    this.#size--;
    if (this.#items.length > 0) return this.#items.shift()!;
    const key = latest && this.#comers.length > 0 ? this.#comers.at(-1) : this.#below.keys().next().value;
    const below = this.#below.get(key)!;
    const item = below.shift(latest);
    this.#comersWithout(key);
    this.#below.delete(key);
    if (below.size > 0) this.#below.set(key, below);
    return item;
  }

  #comersWithout(key: unknown): void {
    const at = this.#comers.lastIndexOf(key);
    if (at >= 0) this.#comers.splice(at, 1);
  }

  /** False where it is not here. */
  remove(path: readonly unknown[], item: T, depth = 0): boolean {
    if (depth === path.length) {
      const at = this.#items.indexOf(item);
      if (at < 0) return false;
      this.#items.splice(at, 1);
    } else {
      const below = this.#below.get(path[depth]);
      if (!below?.remove(path, item, depth + 1)) return false;
      if (below.size === 0) {
        this.#below.delete(path[depth]);
        this.#comersWithout(path[depth]);
      }
    }
    this.#size--;
    return true;
  }

  at(key: unknown): Rota<T> | undefined {
    return this.#below.get(key);
  }

  /** Of those right below, the one with most. */
  biggest(): Rota<T> | undefined {
    let most: Rota<T> | undefined;
    for (const one of this.#below.values()) if (one.size > (most?.size ?? 0)) most = one;
    return most;
  }

  /** The latest of those that have most, level by level. */
  last(): T | undefined {
    return this.#items.at(-1) ?? this.biggest()?.last();
  }
}
