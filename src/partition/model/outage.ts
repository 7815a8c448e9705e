import { setTimeout as sleep } from 'node:timers/promises';
import { LdapError } from '../../ldap/ldap-error.js';
import type { Maybe } from '../../store/contract.js';
import { StoreError } from '../../store/store-error.js';

/** Minimum milliseconds between two reports. Reports could alternate if only some servers of the store answer. */
const REPORT_INTERVAL_MS = 60_000;
/** Milliseconds without an answer to the first probe before operations are refused, and between two probes. */
const PROBE_MS = 500;

/** Receives reports of outages. */
export interface OutageListener {
  /** Called when the store has stopped answering. `message` names the failed operation. */
  onOutage(message: string): void;
  /** Called when the store answers again, after `ms` milliseconds. */
  onRecovery(ms: number): void;
  /** Called once for each table that is missing. */
  onMissing(table: string): void;
}

/**
 * Detects outages of the store from the results of operations. After a failure it probes the store by a read that every
 * operation needs. Until the probe is answered, operations are refused. A store of which a part is away answers it.
 */
export class Outage {
  listener: OutageListener | undefined;
  failureCount = 0;
  /** The error of the operations that are refused. */
  refusal: LdapError | undefined;
  readonly #probe: () => Maybe<unknown>;
  #isProbing = false;
  /** Rejects operations that wait for the store. */
  readonly #waiting = new Set<(error: LdapError) => void>();
  #failingSinceMs: number | undefined;
  #reportedAtMs = Number.NEGATIVE_INFINITY;
  readonly #reportedTables = new Set<string>();

  constructor(probe: () => Maybe<unknown>) {
    this.#probe = probe;
  }

  /** Whether an outage is in progress and has been reported. */
  get isReported(): boolean {
    return this.#failingSinceMs !== undefined && this.#reportedAtMs >= this.#failingSinceMs;
  }

  /** Records a failed operation. */
  recordFailure(error: unknown): void {
    if (!isUnavailable(error)) return;
    this.failureCount++;
    const nowMs = performance.now();
    const isFirst = this.#failingSinceMs === undefined;
    this.#failingSinceMs ??= nowMs;
    if (!this.#isProbing) void this.#probeUntilAnswered();
    if (!isFirst || nowMs - this.#reportedAtMs < REPORT_INTERVAL_MS) return;
    this.#reportedAtMs = nowMs;
    this.listener?.onOutage(error.message.split('\n', 1)[0]!);
  }

  /** Records a success. Ignored if operations failed since it began: `failureCount` is the count at that time. */
  recordSuccess(failureCount: number): void {
    if (this.#failingSinceMs === undefined || failureCount !== this.failureCount) return;
    const { isReported } = this;
    const ms = performance.now() - this.#failingSinceMs;
    this.#failingSinceMs = undefined;
    this.refusal = undefined;
    if (isReported) this.listener?.onRecovery(ms);
  }

  reportMissing(table: string): void {
    if (!this.#reportedTables.has(table)) this.listener?.onMissing(table);
    this.#reportedTables.add(table);
  }

  /** Settles like `result`, but rejects as soon as operations are refused. */
  untilRefused<T>(result: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.add(reject);
      result.then(resolve, reject).finally(() => this.#waiting.delete(reject));
    });
  }

  /** Sends probes, one after another. */
  async #probeUntilAnswered(): Promise<void> {
    this.#isProbing = true;
    const since = new Date();
    const timer = setTimeout(() => this.#refuse(since), PROBE_MS);
    while (!(await this.#isAnswered())) {
      this.#refuse(since);
      await sleep(PROBE_MS, undefined, { ref: false });
    }
    clearTimeout(timer);
    this.#isProbing = false;
    if (this.refusal) this.recordSuccess(this.failureCount);
  }

  /** Whether operations need not be refused: one has succeeded, or the store answers or was closed. */
  async #isAnswered(): Promise<boolean> {
    try {
      await this.#probe();
      return true;
    } catch (error) {
      if (error instanceof StoreError && error.code === 'closed') this.#failingSinceMs = undefined;
      return !isUnavailable(error) || this.#failingSinceMs === undefined;
    }
  }

  #refuse(since: Date): void {
    if (this.#failingSinceMs === undefined) return;
    const text = `has not answered since ${since.toISOString()}`;
    const cause = new StoreError('unavailable', `it ${text}`);
    this.refusal ??= new LdapError('unavailable', `the store ${text}; try again later`, { cause });
    for (const reject of this.#waiting) reject(this.refusal);
    this.#waiting.clear();
  }
}

function isUnavailable(error: unknown): error is StoreError {
  return error instanceof StoreError && error.code === 'unavailable';
}
