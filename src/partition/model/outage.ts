import { StoreError } from '../../store/store-error.js';

/** Minimum interval between two reports in milliseconds. A part of the store may answer while another part does not. */
const REPORT_INTERVAL_MS = 60_000;

/** Receives reports of outages. */
export interface OutageListener {
  /** The store has stopped answering. `message` names the failed operation. */
  onOutage(message: string): void;
  /** The store answers again, after `ms` milliseconds. */
  onRecovery(ms: number): void;
}

/** Detects outages of the store from the results of operations. */
export class Outage {
  listener: OutageListener | undefined;
  failures = 0;
  #since: number | undefined;
  #reportedAt = Number.NEGATIVE_INFINITY;

  /** True during an outage that has been reported. */
  get isReported(): boolean {
    return this.#since !== undefined && this.#reportedAt >= this.#since;
  }

  /** Records a failed operation. */
  recordFailure(error: unknown): void {
    if (!(error instanceof StoreError) || error.code !== 'unavailable') return;
    this.failures++;
    if (this.#since !== undefined) return;
    const now = performance.now();
    this.#since = now;
    if (now - this.#reportedAt < REPORT_INTERVAL_MS) return;
    this.#reportedAt = now;
    this.listener?.onOutage(error.message.split('\n', 1)[0]!);
  }

  /** Records a success. If `failures` differs from its value at the start of the operation, it proves nothing. */
  recordSuccess(failures: number): void {
    if (this.#since === undefined || failures !== this.failures) return;
    const { isReported } = this;
    const ms = performance.now() - this.#since;
    this.#since = undefined;
    if (isReported) this.listener?.onRecovery(ms);
  }
}
