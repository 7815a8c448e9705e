import type { Maybe } from '../../contract.js';
import { isPromise } from '../../maybe.js';
import type { LockRequest } from './row-queue.js';

interface Waiter {
  readonly isExclusive: boolean;
  resume(): void;
}

class RowLatch {
  sharerCount = 0;
  isLockedExclusively = false;
  readonly waiters: Waiter[] = [];

  isFree(isExclusive: boolean): boolean {
    return this.waiters.length === 0 && !this.isLockedExclusively && !(isExclusive && this.sharerCount > 0);
  }

  enter(isExclusive: boolean): void {
    if (isExclusive) this.isLockedExclusively = true;
    else this.sharerCount++;
  }

  leave(isExclusive: boolean): void {
    if (isExclusive) this.isLockedExclusively = false;
    else this.sharerCount--;
    while (this.waiters.length > 0) {
      const waiter = this.waiters[0]!;
      if (this.isLockedExclusively || (waiter.isExclusive && this.sharerCount > 0)) return;
      this.waiters.shift();
      this.enter(waiter.isExclusive);
      waiter.resume();
    }
  }
}

/** Locks between the plans of this process, first come, first served. All plans lock rows by id, so none deadlocks. */
export class LocalLocks {
  readonly #latches = new Map<string, RowLatch>();

  /** Acquires the rows, whose ids must differ. Returns, at once or as a promise, the function that releases them. */
  acquire(requests: readonly LockRequest[]): Maybe<() => void> {
    const sortedRequests = [...requests].sort((a, b) => (a.id < b.id ? -1 : 1));
    const release = (): void => {
      for (const { id, isExclusive } of sortedRequests) this.#leave(id, isExclusive);
    };
    for (let i = 0; i < sortedRequests.length; i++) {
      const entering = this.#enter(sortedRequests[i]!);
      if (isPromise(entering)) return this.#enterRemaining(sortedRequests, i, entering).then(() => release);
    }
    return release;
  }

  async #enterRemaining(requests: readonly LockRequest[], index: number, firstEntering: Promise<void>): Promise<void> {
    await firstEntering;
    for (let i = index + 1; i < requests.length; i++) {
      const entering = this.#enter(requests[i]!);
      if (isPromise(entering)) await entering;
    }
  }

  #enter({ id, isExclusive }: LockRequest): Maybe<void> {
    let latch = this.#latches.get(id);
    if (!latch) {
      latch = new RowLatch();
      this.#latches.set(id, latch);
    }
    if (latch.isFree(isExclusive)) {
      latch.enter(isExclusive);
      return;
    }
    const { waiters } = latch;
    return new Promise((resolve) => waiters.push({ isExclusive, resume: resolve }));
  }

  #leave(id: string, isExclusive: boolean): void {
    const latch = this.#latches.get(id)!;
    latch.leave(isExclusive);
    if (!latch.isLockedExclusively && latch.sharerCount === 0 && latch.waiters.length === 0) this.#latches.delete(id);
  }
}
