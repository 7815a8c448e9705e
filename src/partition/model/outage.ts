import { StoreError } from '../../store/store-error.js';

/** Minimum milliseconds between two reports. Reports could alternate if only some servers of the store answer. */
const REPORT_INTERVAL_MS = 60_000;

/** Receives reports of outages. */
export interface OutageListener {
  /** Called when the store has stopped answering. `message` names the failed operation. */
  onOutage(message: string): void;
  /** Called when the store answers again, after `ms` milliseconds. */
  onRecovery(ms: number): void;
}

/** Detects outages of the store from the results of operations. */
export class Outage {
  listener: OutageListener | undefined;
  failureCount = 0;
  #failingSinceMs: number | undefined;
  #reportedAtMs = Number.NEGATIVE_INFINITY;

  /** Whether an outage is in progress and has been reported. */
  get isReported(): boolean {
    return this.#failingSinceMs !== undefined && this.#reportedAtMs >= this.#failingSinceMs;
  }

  /** Records a failed operation. */
  recordFailure(error: unknown): void {
    if (!(error instanceof StoreError) || error.code !== 'unavailable') return;
    this.failureCount++;
    if (this.#failingSinceMs !== undefined) return;
    const nowMs = performance.now();
    this.#failingSinceMs = nowMs;
    if (nowMs - this.#reportedAtMs < REPORT_INTERVAL_MS) return;
    this.#reportedAtMs = nowMs;
    this.listener?.onOutage(error.message.split('\n', 1)[0]!);
  }

  /** Records a success. Ignored if operations failed since it began: `failureCount` is the count at that time. */
  recordSuccess(failureCount: number): void {
    if (this.#failingSinceMs === undefined || failureCount !== this.failureCount) return;
    const { isReported } = this;
    const ms = performance.now() - this.#failingSinceMs;
    this.#failingSinceMs = undefined;
    if (isReported) this.listener?.onRecovery(ms);
  }
}
