import { Failure } from './failure.js';

/** How often it is looked who has run out of time, ms. */
const EVERY_MS = 50;

/** Something that must have ended by a time. */
export interface Bounded {
  /** Monotonic ms. */
  readonly expires: number;
  /** Its time is over: it ends, wherever it waits. */
  expire(): void;
}

/**
 * Those who wait for an answer, in the order of their deadlines. What is asked of HBase waits in several places, one
 * after another: here each is ended in time, whichever it is in.
 */
export class Deadlines {
  readonly #waiting = new Set<Bounded>();
  #timer: NodeJS.Timeout | undefined;

  add(one: Bounded): void {
    this.#waiting.add(one);
    this.#timer ??= setInterval(() => this.#look(), EVERY_MS);
  }

  delete(one: Bounded): void {
    this.#waiting.delete(one);
  }

  #look(): void {
    const now = performance.now();
    for (const one of this.#waiting) {
      // All have as much time, so those behind it began later.
      if (one.expires > now) return;
      this.#waiting.delete(one);
      one.expire();
    }
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

export function outOfTime(): Failure {
  return new Failure('no answer from HBase in time', { undone: true });
}

/** Rejects with the failure when the time is over; the promise goes on for others. */
export function withinTime<T>(promise: Promise<T>, expires: number, failure = outOfTime): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(failure()), Math.max(expires - performance.now(), 0));
    promise.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}
