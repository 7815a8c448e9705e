/**
 * A cache: a map of at most `limit` keys. When a further key is set, a full map drops all entries, because derived data
 * is soon computed again, or with `oldest` the entry that was set first.
 */
export class BoundedMap<K, V> extends Map<K, V> {
  readonly #limit: number;
  readonly #forgets: 'all' | 'oldest';

  constructor(limit: number, forgets: 'all' | 'oldest' = 'all') {
    super();
    this.#limit = limit;
    this.#forgets = forgets;
  }

  override set(key: K, value: V): this {
    if (this.size >= this.#limit && !this.has(key)) this.#makeRoom();
    return super.set(key, value);
  }

  #makeRoom(): void {
    if (this.#forgets === 'all') this.clear();
    else this.delete(this.keys().next().value!);
  }
}
