import { Failure } from './failure.js';

/** Interval at which deadlines are checked, ms. */
const CHECK_MS = 50;

export interface Expirable {
  /** Deadline, monotonic ms. */
  readonly expires: number;
  /** Ends the operation at its deadline, wherever it waits. */
  expire(): void;
}

/** The pending operations in the order of their deadlines. Each operation ends in time, wherever it waits. */
export class Deadlines {
  readonly #pending = new Set<Expirable>();
  #timer: NodeJS.Timeout | undefined;

  add(operation: Expirable): void {
    this.#pending.add(operation);
    this.#timer ??= setInterval(() => this.#expireDue(), CHECK_MS);
  }

  delete(operation: Expirable): void {
    this.#pending.delete(operation);
  }

  #expireDue(): void {
    const now = performance.now();
    for (const operation of this.#pending) {
      // All operations have the same time limit, so the following operations expire later.
      if (operation.expires > now) return;
      this.#pending.delete(operation);
      operation.expire();
    }
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

export function timeoutFailure(): Failure {
  return new Failure('no answer from HBase in time', { notApplied: true });
}

/** Rejects with the failure at the deadline. The promise itself continues for its other callers. */
export function withDeadline<T>(promise: Promise<T>, expires: number, failure = timeoutFailure): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(failure()), Math.max(expires - performance.now(), 0));
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
