/** Locks by key, held by one caller at a time. Waiting callers get a lock in the order of their arrival. */
export class KeyedLock {
  /** The callers that wait, by key. A key is present while its lock is held. */
  readonly #waiting = new Map<string, (() => void)[]>();

  /** Whether the lock of the key is held. `key` is converted to Latin-1 only when any lock is held. */
  isHeld(key: Buffer): boolean {
    return this.#waiting.size > 0 && this.#waiting.has(key.toString('latin1'));
  }

  async acquire(key: string): Promise<void> {
    const queue = this.#waiting.get(key);
    if (queue) await new Promise<void>((resolve) => queue.push(resolve));
    else this.#waiting.set(key, []);
  }

  /** Passes the lock to the caller that waits longest, if any. */
  release(key: string): void {
    const next = this.#waiting.get(key)!.shift();
    if (next) next();
    else this.#waiting.delete(key);
  }
}
