import { setImmediate as nextTurn } from 'node:timers/promises';
import { StoreError, type StoreErrorCode } from '../../store-error.js';
import { outOfTime } from './deadlines.js';
import { Failure } from './failure.js';
import type { RpcSettings } from './rpc-types.js';

/** Pauses before the second, third … attempt, in multiples of `retryPauseMs`. */
const GROWTH = [1, 2, 3, 5, 10, 20, 40, 60];
/** Longest pause, ms: what a region that opens elsewhere keeps waiting beyond HBase's own time. */
const LONGEST = 500;
/** Of a server that is overloaded. */
const LONGEST_OVERLOADED = 5_000;
/** A server that is overloaded is left alone for so many times longer. */
const OVERLOAD = 5;

/** Timers run out so much too early at most. */
const TIMER_MS = 2;

/** The pauses of a client: they end early when it is closed. */
export class Pauses {
  readonly #wake = new Set<() => void>();
  #over = false;

  pause(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        this.#wake.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, this.#over ? 0 : ms);
      this.#wake.add(wake);
    });
  }

  end(): void {
    this.#over = true;
    for (const wake of this.#wake) wake();
  }
}

/** The time and the attempts of one operation. */
export class Attempts {
  /** Monotonic ms. */
  readonly expires: number;
  readonly #settings: RpcSettings;
  readonly #pauses: Pauses;
  #failed = 0;
  /** Monotonic ms: until when those wait that failed last. */
  #until = 0;
  /** Of the last failure, while the event loop is still in its turn: whether it was an overload. */
  #together: { readonly overloaded: boolean } | undefined;
  /** The last failure that came while there was time. */
  #cause: Failure | undefined;
  /** Its caller was told that the time is over. */
  over = false;

  constructor(settings: RpcSettings, pauses: Pauses) {
    this.#settings = settings;
    this.#pauses = pauses;
    this.expires = performance.now() + settings.operationTimeoutMs;
  }

  /** Ends it: what its caller is to be told. */
  expire(applied: 'no' | 'unknown'): StoreError {
    this.over = true;
    return storeError(this.#cause ?? outOfTime(), applied);
  }

  /**
   * Waits before the next attempt. Throws what the caller is to be told when there must be none: the failure is final,
   * or its pause would end after the deadline. `applied` says what is known of the attempts so far.
   */
  async pause(failure: Failure, applied: 'no' | 'unknown'): Promise<void> {
    if (failure.traits.final) throw storeError(failure, applied);
    if (failure.traits.atOnce) return;
    // What fails when time is over says little else; what failed before says why.
    if (!this.#cause || performance.now() < this.expires - TIMER_MS) this.#cause = failure;
    const until = this.#pausesUntil(failure);
    const pause = until - performance.now();
    // Others have their turn: without a pause this would go on until a server that refuses for now takes more.
    if (pause <= 0) return nextTurn();
    if (until >= this.expires) throw storeError(this.#cause, applied);
    await this.#pauses.pause(pause);
  }

  /** Until when to wait after a failure, monotonic ms. Operations of one caller that fail in one turn wait as one. */
  #pausesUntil(failure: Failure): number {
    const overloaded = failure.traits.overloaded === true;
    if (this.#together && (this.#together.overloaded || !overloaded)) return this.#until;
    this.#together = { overloaded };
    setImmediate(() => {
      this.#together = undefined;
    });
    this.#until = performance.now() + this.#nextPause(failure);
    return this.#until;
  }

  #nextPause({ traits }: Failure): number {
    const at = this.#failed++;
    // What moved is usually there already, and a lost scanner says nothing of its server.
    const { moved, serverGone, scannerLost, overloaded } = traits;
    if (at === 0 && ((moved && !serverGone) || scannerLost)) return 0;
    const steps = GROWTH[Math.min(at, GROWTH.length - 1)]! * (overloaded ? OVERLOAD : 1);
    const longest = overloaded ? LONGEST_OVERLOADED : Math.max(LONGEST, this.#settings.retryPauseMs);
    return Math.min(this.#settings.retryPauseMs * steps, longest) * (0.75 + Math.random() / 2);
  }
}

const CODES: Readonly<Record<string, StoreErrorCode>> = {
  TableNotFoundException: 'noTable',
  NoSuchColumnFamilyException: 'conflict',
  NotACounter: 'corrupt',
  ClientClosed: 'closed',
  AccessDeniedException: 'permission',
  RowTooBigException: 'limit',
  RequestTooBigException: 'limit',
};

/** What the users of the store are told of a failure that could not be mended. */
export function storeError(failure: Failure, applied: 'no' | 'unknown'): StoreError {
  const code = CODES[failure.exception ?? ''] ?? 'unavailable';
  return new StoreError(code, failure.message, { cause: failure, applied });
}

/** A failure as itself; anything else, a broken message for one, is thrown on. */
export function asFailure(e: unknown): Failure {
  if (e instanceof Failure) return e;
  throw e;
}
