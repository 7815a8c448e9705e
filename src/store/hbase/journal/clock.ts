import { setTimeout as sleep } from 'node:timers/promises';

/** Ends a timer; no effect where it is over. */
export type Stop = () => void;

/** Time as the journal has it: ms of a clock that only rises. A model of the journal has a clock of its own. */
export interface Clock {
  now(): number;
  sleep(ms: number): Promise<void>;
  /** Neither keeps the process alive. */
  after(ms: number, work: () => void): Stop;
  every(ms: number, work: () => void): Stop;
  /** After this turn of the event loop: what its callers want goes together. */
  soon(work: () => void): void;
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
  soon: (work) => void setImmediate(work),
};

/** How often a front end does what it does by the clock, and how long it keeps what it has, ms. */
export interface Pace {
  /** A writer that did not renew its beat for so long is given up. */
  readonly lease: number;
  /** How long a plan may take, its waiting for others included. */
  readonly plan: number;
  /** Looks for what others ask: while it holds rows, or waits for some, and otherwise. */
  readonly look: number;
  readonly quiet: number;
  /** What is asked of others is said again so often, and heeded for so long after it was said last. */
  readonly ask: number;
  readonly heed: number;
  /** The first pause of a plan that waits, and the longest. */
  readonly pause: number;
  readonly longest: number;
  /** The counters of a row are folded so often at most. */
  readonly fold: number;
  /** Finished records are taken out. */
  readonly tidy: number;
  /** Shared rows that were unused for so long are given back, which is looked after so often. */
  readonly idle: number;
  readonly idleLook: number;
  /** A row that is freed again within so long keeps its lock cell; left alone for so long, it loses it. */
  readonly vacant: number;
  /** What a front end that died has sent arrives within so long or not at all. */
  readonly late: number;
  /** Who closes a store waits no longer for an HBase that answers nothing. */
  readonly silence: number;
}

export const PACE: Pace = {
  lease: 10_000,
  plan: 30_000,
  look: 25,
  quiet: 250,
  ask: 200,
  heed: 2_000,
  pause: 2,
  longest: 40,
  fold: 250,
  tidy: 200,
  idle: 10_000,
  idleLook: 2_000,
  vacant: 3_600_000,
  late: 10_000,
  silence: 1_000,
};
