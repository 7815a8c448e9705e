import { setImmediate as waitForNextTurn } from 'node:timers/promises';
import { StoreError, type StoreErrorCode } from '../../store-error.js';
import { Failure } from './failure.js';
import type { RpcSettings } from './rpc-types.js';

/** Pauses before the second, third, … attempt, in multiples of `retryPauseMs`. */
const PAUSE_FACTORS = [1, 2, 3, 5, 10, 20, 40, 60];
/** Longest pause, ms: the longest additional delay when a region has been opened elsewhere. */
const MAX_PAUSE_MS = 500;
/** Longest pause after an overload, ms. */
const MAX_OVERLOAD_PAUSE_MS = 5_000;
/** Factor by which pauses are longer after an overload. */
const OVERLOAD_FACTOR = 5;

/** Timers may fire early by up to this time. */
const TIMER_TOLERANCE_MS = 2;

/** The pauses of a client, which end early when the client is closed. */
export class Pauses {
  readonly #wakers = new Set<() => void>();
  #isEnded = false;

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        this.#wakers.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, this.#isEnded ? 0 : ms);
      this.#wakers.add(wake);
    });
  }

  wakeAll(): void {
    this.#isEnded = true;
    for (const wake of this.#wakers) wake();
  }
}

/** The deadline and the attempts of an operation. */
export class Attempts {
  /** Deadline, monotonic ms. */
  readonly expiresAt: number;
  readonly #settings: RpcSettings;
  readonly #pauses: Pauses;
  #failureCount = 0;
  /** End of the current pause, monotonic ms. */
  #resumeAt = 0;
  /**
   * Present until the event loop iteration of the last failure ends. `isOverload`: whether that failure was an
   * overload.
   */
  #failureInIteration: { readonly isOverload: boolean } | undefined;
  /** The last failure before the deadline. */
  #lastFailure: Failure | undefined;
  /** Whether the caller has an outcome and waits no longer. */
  isAbandoned = false;

  constructor(settings: RpcSettings, pauses: Pauses) {
    this.#settings = settings;
    this.#pauses = pauses;
    this.expiresAt = performance.now() + settings.operationTimeoutMs;
  }

  /** Ends the operation at its deadline. Returns the error for the caller. */
  expire(applied: 'no' | 'unknown'): StoreError {
    this.isAbandoned = true;
    return storeError(this.#lastFailure ?? timeoutFailure(), applied);
  }

  /**
   * Waits before the next attempt. Throws the error for the caller when the failure is final or the pause would end
   * after the deadline. `applied`: whether an attempt so far may have been applied.
   */
  async pause(failure: Failure, applied: 'no' | 'unknown'): Promise<void> {
    if (failure.traits.isFinal) throw storeError(failure, applied);
    if (failure.traits.canRetryAtOnce) return;
    // A failure at the deadline is mostly a timeout. An earlier failure gives the reason.
    if (!this.#lastFailure || performance.now() < this.expiresAt - TIMER_TOLERANCE_MS) this.#lastFailure = failure;
    const resumeAt = this.#nextResume(failure);
    const pauseMs = resumeAt - performance.now();
    // Yields to other work. Otherwise the loop would block the event loop until an overloaded server accepts requests.
    if (pauseMs <= 0) return waitForNextTurn();
    if (resumeAt >= this.expiresAt) throw storeError(this.#lastFailure, applied);
    await this.#pauses.pause(pauseMs);
  }

  /** Returns the end of the pause, monotonic ms. Failures of a caller in the same iteration share the pause. */
  #nextResume(failure: Failure): number {
    const isOverload = failure.traits.isOverload === true;
    if (this.#failureInIteration && (this.#failureInIteration.isOverload || !isOverload)) return this.#resumeAt;
    this.#failureInIteration = { isOverload };
    setImmediate(() => {
      this.#failureInIteration = undefined;
    });
    this.#resumeAt = performance.now() + this.#nextPauseMs(failure);
    return this.#resumeAt;
  }

  #nextPauseMs({ traits }: Failure): number {
    const failureIndex = this.#failureCount++;
    // The first retry needs no pause when the region has moved, because it is usually open elsewhere already, or when
    // only the scanner was lost.
    const { isRegionMoved, isServerGone, isScannerLost, isOverload } = traits;
    if (failureIndex === 0 && ((isRegionMoved && !isServerGone) || isScannerLost)) return 0;
    const factor =
      PAUSE_FACTORS[Math.min(failureIndex, PAUSE_FACTORS.length - 1)]! * (isOverload ? OVERLOAD_FACTOR : 1);
    const maxPauseMs = isOverload ? MAX_OVERLOAD_PAUSE_MS : Math.max(MAX_PAUSE_MS, this.#settings.retryPauseMs);
    return Math.min(this.#settings.retryPauseMs * factor, maxPauseMs) * (0.75 + Math.random() / 2);
  }
}

const STORE_CODES: Readonly<Record<string, StoreErrorCode>> = {
  TableNotFoundException: 'noTable',
  NoSuchColumnFamilyException: 'conflict',
  NotACounter: 'corrupt',
  ClientClosed: 'closed',
  AccessDeniedException: 'permission',
  RowTooBigException: 'limit',
  RequestTooBigException: 'limit',
};

/** Converts a failure that no retry has solved into the error for users of the store. */
export function storeError(failure: Failure, applied: 'no' | 'unknown'): StoreError {
  const code = STORE_CODES[failure.exceptionName ?? ''] ?? 'unavailable';
  return new StoreError(code, failure.message, { cause: failure, applied });
}

/** Returns a `Failure` and throws any other error, such as that of a corrupt message. */
export function failureOrThrow(error: unknown): Failure {
  if (error instanceof Failure) return error;
  throw error;
}

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

function timeoutFailure(): Failure {
  return new Failure('no answer from HBase in time', { isNotApplied: true });
}

/** Rejects with the failure at the deadline. The promise itself continues for its other callers. */
export function withDeadline<T>(promise: Promise<T>, expiresAt: number, createFailure = timeoutFailure): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(createFailure()), Math.max(expiresAt - performance.now(), 0));
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
