/**
 * A cache: a map of at most `limit` keys. When a further key is set, a full map drops all entries, because derived data
 * is soon computed again, or with `oldest` the entry that was set first.
 */
export class BoundedMap<K, V> extends Map<K, V> {
  readonly #limit: number;
  readonly #eviction: 'all' | 'oldest';

  constructor(limit: number, eviction: 'all' | 'oldest' = 'all') {
    super();
    this.#limit = limit;
    this.#eviction = eviction;
  }

  override set(key: K, value: V): this {
    if (this.size >= this.#limit && !this.has(key)) this.#evict();
    return super.set(key, value);
  }

  #evict(): void {
    if (this.#eviction === 'all') this.clear();
    else this.delete(this.keys().next().value!);
  }
}
