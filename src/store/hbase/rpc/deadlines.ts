import { Failure } from './failure.js';

/** Interval at which deadlines are checked, ms. */
const CHECK_MS = 50;

export interface Expirable {
  /** Deadline, monotonic ms. */
  readonly expiresAt: number;
  /** Ends the operation at its deadline, wherever it waits. */
  expire(): void;
}

/** The pending operations in the order of their deadlines. Each operation ends in time, wherever it waits. */
export class Deadlines {
  readonly #pendingOperations = new Set<Expirable>();
  #timer: NodeJS.Timeout | undefined;

  add(operation: Expirable): void {
    this.#pendingOperations.add(operation);
    this.#timer ??= setInterval(() => this.#expireDue(), CHECK_MS);
  }

  delete(operation: Expirable): void {
    this.#pendingOperations.delete(operation);
  }

  #expireDue(): void {
    const now = performance.now();
    for (const operation of this.#pendingOperations) {
      // All operations have the same time limit, so the following operations expire later.
      if (operation.expiresAt > now) return;
      this.#pendingOperations.delete(operation);
      operation.expire();
    }
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

export function timeoutFailure(): Failure {
  return new Failure('no answer from HBase in time', { isNotApplied: true });
}

/** Rejects with the failure at the deadline. The promise itself continues for its other callers. */
export function withDeadline<T>(promise: Promise<T>, expiresAt: number, createFailure = timeoutFailure): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(createFailure()), Math.max(expiresAt - performance.now(), 0));
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
