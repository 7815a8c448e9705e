/** Intervals and timeouts of a front end, in ms. */
export interface Pace {
  /** Another front end ends the session of a writer that has not incremented its beat counter for this long. */
  readonly leaseMs: number;
  /** Time limit of a plan, including the time that it waits for other plans. */
  readonly planTimeoutMs: number;
  /** Interval at which a front end reads the requests of other front ends while it holds shared rows or has waiters. */
  readonly requestPollMs: number;
  /** The same interval of a front end without shared rows and waiters. */
  readonly idleRequestPollMs: number;
  /** Interval at which a request to another front end is sent again. */
  readonly requestResendMs: number;
  /** The receiver removes a request that was not sent again for this long. */
  readonly requestExpiryMs: number;
  /** Wait before the first retry of a blocked plan. The wait doubles with each retry, up to `maxBackoffMs`. */
  readonly firstBackoffMs: number;
  readonly maxBackoffMs: number;
  /** Minimum interval between two folds of one row. A fold writes collected increments to the row. */
  readonly foldIntervalMs: number;
  /** Interval at which finished records are removed from the journal row. */
  readonly cleanupIntervalMs: number;
  /** Shared rows unused for this long are released. `idleCheckMs` is the interval of the check. */
  readonly sharedRowIdleMs: number;
  readonly idleCheckMs: number;
  /** A row that is unlocked twice within this time keeps its lock cell, which is removed after as long without use. */
  readonly emptyCellIdleMs: number;
  /** A mutation sent by a front end that has died arrives within this time or never. */
  readonly lateArrivalMs: number;
  /** `close` stops waiting when HBase has answered nothing for this long. */
  readonly silenceTimeoutMs: number;
}

export const PACE: Pace = {
  leaseMs: 10_000,
  planTimeoutMs: 30_000,
  requestPollMs: 25,
  idleRequestPollMs: 250,
  requestResendMs: 200,
  requestExpiryMs: 2_000,
  firstBackoffMs: 2,
  maxBackoffMs: 40,
  foldIntervalMs: 250,
  cleanupIntervalMs: 200,
  sharedRowIdleMs: 10_000,
  idleCheckMs: 2_000,
  emptyCellIdleMs: 3_600_000,
  lateArrivalMs: 10_000,
  silenceTimeoutMs: 1_000,
};
