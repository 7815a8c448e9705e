import { setImmediate as nextTurn } from 'node:timers/promises';
import { StoreError, type StoreErrorCode } from '../../store-error.js';
import { timeoutFailure } from './deadlines.js';
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
  readonly expires: number;
  readonly #settings: RpcSettings;
  readonly #pauses: Pauses;
  #failures = 0;
  /** End of the current pause, monotonic ms. */
  #resumeAt = 0;
  /** Set until the end of the event loop turn of the last failure: whether that failure was an overload. */
  #failureInTurn: { readonly overloaded: boolean } | undefined;
  /** The last failure before the deadline. */
  #cause: Failure | undefined;
  /** Whether the caller has an outcome and waits no longer. */
  isAbandoned = false;

  constructor(settings: RpcSettings, pauses: Pauses) {
    this.#settings = settings;
    this.#pauses = pauses;
    this.expires = performance.now() + settings.operationTimeoutMs;
  }

  /** Ends the operation at its deadline. Returns the error for the caller. */
  expire(applied: 'no' | 'unknown'): StoreError {
    this.isAbandoned = true;
    return storeError(this.#cause ?? timeoutFailure(), applied);
  }

  /**
   * Waits before the next attempt. Throws the error for the caller when the failure is final or the pause would end
   * after the deadline. `applied`: whether an attempt so far may have been applied.
   */
  async pause(failure: Failure, applied: 'no' | 'unknown'): Promise<void> {
    if (failure.traits.final) throw storeError(failure, applied);
    if (failure.traits.retryAtOnce) return;
    // A failure at the deadline is mostly a timeout. An earlier failure gives the reason.
    if (!this.#cause || performance.now() < this.expires - TIMER_TOLERANCE_MS) this.#cause = failure;
    const until = this.#nextResume(failure);
    const pause = until - performance.now();
    // Yields to other work. Otherwise the loop would block the event loop until an overloaded server accepts requests.
    if (pause <= 0) return nextTurn();
    if (until >= this.expires) throw storeError(this.#cause, applied);
    await this.#pauses.pause(pause);
  }

  /** Returns the end of the pause, monotonic ms. Failures of a caller in the same turn share the pause. */
  #nextResume(failure: Failure): number {
    const overloaded = failure.traits.overloaded === true;
    if (this.#failureInTurn && (this.#failureInTurn.overloaded || !overloaded)) return this.#resumeAt;
    this.#failureInTurn = { overloaded };
    setImmediate(() => {
      this.#failureInTurn = undefined;
    });
    this.#resumeAt = performance.now() + this.#nextPause(failure);
    return this.#resumeAt;
  }

  #nextPause({ traits }: Failure): number {
    const at = this.#failures++;
    // A moved region is usually open elsewhere already, and a lost scanner says nothing about its server.
    const { moved, serverGone, scannerLost, overloaded } = traits;
    if (at === 0 && ((moved && !serverGone) || scannerLost)) return 0;
    const steps = PAUSE_FACTORS[Math.min(at, PAUSE_FACTORS.length - 1)]! * (overloaded ? OVERLOAD_FACTOR : 1);
    const longest = overloaded ? MAX_OVERLOAD_PAUSE_MS : Math.max(MAX_PAUSE_MS, this.#settings.retryPauseMs);
    return Math.min(this.#settings.retryPauseMs * steps, longest) * (0.75 + Math.random() / 2);
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
  const code = STORE_CODES[failure.exception ?? ''] ?? 'unavailable';
  return new StoreError(code, failure.message, { cause: failure, applied });
}

/** Returns a `Failure` and throws any other error, such as that of a corrupt message. */
export function failureOrThrow(e: unknown): Failure {
  if (e instanceof Failure) return e;
  throw e;
}
