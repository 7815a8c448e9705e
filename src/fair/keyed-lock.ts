/** Locks by key, held by one caller at a time. Waiting callers get a lock in the order of their arrival. */
export class KeyedLock {
  /** The callers that wait, by key. A key is present while its lock is held. */
  readonly #waitersByKey = new Map<string, (() => void)[]>();

  /** Whether the lock of the key is held. `key` is converted to Latin-1 only when any lock is held. */
  isHeld(key: Buffer): boolean {
    return this.#waitersByKey.size > 0 && this.#waitersByKey.has(key.toString('latin1'));
  }

  async acquire(key: string): Promise<void> {
    const queue = this.#waitersByKey.get(key);
    if (queue) await new Promise<void>((resolve) => queue.push(resolve));
    else this.#waitersByKey.set(key, []);
  }

  /** Passes the lock to the caller that waits longest, if any. */
  release(key: string): void {
    const resumeNext = this.#waitersByKey.get(key)!.shift();
    if (resumeNext) resumeNext();
    else this.#waitersByKey.delete(key);
  }
}
