import type { Maybe } from '../../contract.js';
import { isPromise } from '../../maybe.js';
import type { LockRequest } from './row-queue.js';

interface Waiter {
  readonly exclusive: boolean;
  resume(): void;
}

class RowLatch {
  sharers = 0;
  isExclusive = false;
  readonly queue: Waiter[] = [];

  isFree(exclusive: boolean): boolean {
    return this.queue.length === 0 && !this.isExclusive && !(exclusive && this.sharers > 0);
  }

  enter(exclusive: boolean): void {
    if (exclusive) this.isExclusive = true;
    else this.sharers++;
  }

  leave(exclusive: boolean): void {
    if (exclusive) this.isExclusive = false;
    else this.sharers--;
    while (this.queue.length > 0) {
      const first = this.queue[0]!;
      if (this.isExclusive || (first.exclusive && this.sharers > 0)) return;
      this.queue.shift();
      this.enter(first.exclusive);
      first.resume();
    }
  }
}

/** Locks between the plans of this process, first come, first served. Locking rows by id rules out deadlocks. */
export class LocalLocks {
  readonly #latches = new Map<string, RowLatch>();

  /** Acquires the rows, whose ids must differ. Returns, at once or as a promise, the function that releases them. */
  acquire(wanted: readonly LockRequest[]): Maybe<() => void> {
    const sorted = [...wanted].sort((a, b) => (a.id < b.id ? -1 : 1));
    const release = (): void => {
      for (const { id, exclusive } of sorted) this.#leave(id, exclusive);
    };
    for (let i = 0; i < sorted.length; i++) {
      const entered = this.#enter(sorted[i]!);
      if (isPromise(entered)) return this.#enterRest(sorted, i, entered).then(() => release);
    }
    return release;
  }

  async #enterRest(sorted: readonly LockRequest[], from: number, first: Promise<void>): Promise<void> {
    await first;
    for (let i = from + 1; i < sorted.length; i++) {
      const entered = this.#enter(sorted[i]!);
      if (isPromise(entered)) await entered;
    }
  }

  #enter({ id, exclusive }: LockRequest): Maybe<void> {
    let latch = this.#latches.get(id);
    if (!latch) {
      latch = new RowLatch();
      this.#latches.set(id, latch);
    }
    if (latch.isFree(exclusive)) {
      latch.enter(exclusive);
      return;
    }
    const { queue } = latch;
    return new Promise((resolve) => queue.push({ exclusive, resume: resolve }));
  }

  #leave(id: string, exclusive: boolean): void {
    const latch = this.#latches.get(id)!;
    latch.leave(exclusive);
    if (!latch.isExclusive && latch.sharers === 0 && latch.queue.length === 0) this.#latches.delete(id);
  }
}
