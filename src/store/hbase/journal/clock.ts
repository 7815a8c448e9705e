import { setTimeout as sleep } from 'node:timers/promises';

/** Cancels a timer that has not fired yet. */
export type CancelTimer = () => void;

/** The journal's source of time, in ms of a monotonic clock. Tests replace it by one that they advance. */
export interface Clock {
  now(): number;
  sleep(ms: number): Promise<void>;
  /** Timers of `runAfter` and `runEvery` do not keep the process alive. */
  runAfter(ms: number, work: () => void): CancelTimer;
  runEvery(ms: number, work: () => void): CancelTimer;
  /** Runs `work` after this iteration of the event loop, so that the requests of an iteration are sent together. */
  defer(work: () => void): void;
}

export const CLOCK: Clock = {
  now: () => performance.now(),
  sleep: (ms) => sleep(ms),
  runAfter(ms, work) {
    const timer = setTimeout(work, ms).unref();
    return () => clearTimeout(timer);
  },
  runEvery(ms, work) {
    const timer = setInterval(work, ms).unref();
    return () => clearInterval(timer);
  },
  defer: (work) => void setImmediate(work),
};

let eventCount = 0;

/** Orders the events of this process: reads from HBase, and the writes of counters that begin and end during them. */
export const logicalClock = { now: (): number => eventCount, tick: (): number => ++eventCount };
