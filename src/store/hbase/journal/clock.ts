import { setTimeout as sleep } from 'node:timers/promises';

/** Cancels a timer. Has no effect on a timer that has fired. */
export type Stop = () => void;

/** The journal's source of time, in ms of a monotonic clock. Tests replace it by a clock that is stepped. */
export interface Clock {
  now(): number;
  sleep(ms: number): Promise<void>;
  /** Timers of `after` and `every` do not keep the process alive. */
  after(ms: number, work: () => void): Stop;
  every(ms: number, work: () => void): Stop;
  /** Runs `work` after this turn of the event loop, so that the requests of a turn are sent together. */
  defer(work: () => void): void;
}

export const CLOCK: Clock = {
  now: () => performance.now(),
  sleep: (ms) => sleep(ms),
  after(ms, work) {
    const timer = setTimeout(work, ms).unref();
    return () => clearTimeout(timer);
  },
  every(ms, work) {
    const timer = setInterval(work, ms).unref();
    return () => clearInterval(timer);
  },
  defer: (work) => void setImmediate(work),
};

/** Intervals and timeouts of a front end, in ms. */
export interface Pace {
  /** A writer that has not renewed its beat for this long is given up by the other front ends. */
  readonly lease: number;
  /** Time limit of a plan, including the time that it waits for other plans. */
  readonly planTimeout: number;
  /** Interval at which a front end reads the requests of other front ends while it holds shared rows or has waiters. */
  readonly requestPoll: number;
  /** The same interval of a front end without shared rows and waiters. */
  readonly idleRequestPoll: number;
  /** Interval at which a request to another front end is sent again. */
  readonly requestResend: number;
  /** A request that was not sent again for this long is ignored and removed. */
  readonly requestExpiry: number;
  /** Pause before the first retry of a blocked plan. The pause doubles with each retry, up to `maxBackoff`. */
  readonly firstBackoff: number;
  readonly maxBackoff: number;
  /** Minimum interval between two folds of one row. */
  readonly foldInterval: number;
  /** Interval at which finished records are removed from the journal row. */
  readonly cleanupInterval: number;
  /** Shared rows unused for this long are released. `idleCheck` is the interval of the check. */
  readonly sharedIdle: number;
  readonly idleCheck: number;
  /** A row that is unlocked twice within this time keeps its lock cell, which is removed after as long without use. */
  readonly emptyCellIdle: number;
  /** A mutation sent by a front end that has died arrives within this time or never. */
  readonly lateArrival: number;
  /** `close` stops waiting when HBase has answered nothing for this long. */
  readonly silenceTimeout: number;
}

export const PACE: Pace = {
  lease: 10_000,
  planTimeout: 30_000,
  requestPoll: 25,
  idleRequestPoll: 250,
  requestResend: 200,
  requestExpiry: 2_000,
  firstBackoff: 2,
  maxBackoff: 40,
  foldInterval: 250,
  cleanupInterval: 200,
  sharedIdle: 10_000,
  idleCheck: 2_000,
  emptyCellIdle: 3_600_000,
  lateArrival: 10_000,
  silenceTimeout: 1_000,
};
