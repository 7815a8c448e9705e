import type { Store } from '../store/contract.js';
import { StoreError } from '../store/store-error.js';
import { type Job, JobLost, JobStopped, nextStart, OFF } from './job.js';
import { type JobRow, readJob, stateStep } from './job-rows.js';
import { LEASE_MS, Lease, LeaseWatch } from './lease.js';

/** Longest interval between two checks of the jobs, in milliseconds. Other processes may change jobs, or die. */
const POLL_MS = 10_000;

export interface JobsLog {
  logResult(job: string, result: string, ms: number): void;
  logFailure(job: string, error: unknown): void;
}

export interface SchedulerOptions {
  readonly leaseMs?: number;
  readonly pollMs?: number;
}

/**
 * Runs jobs when they are due, one at a time. Every process that serves a directory has a scheduler; leases in the
 * directory keep two processes from running the same job. When the holder of a job dies, another process repeats the
 * job.
 */
export class Scheduler {
  readonly #store: Store;
  readonly #listJobs: () => readonly Job[];
  readonly #log: JobsLog;
  readonly #leaseMs: number;
  readonly #pollMs: number;
  readonly #leaseWatch: LeaseWatch;
  readonly #stopController = new AbortController();
  #runningLoop: Promise<void> = Promise.resolve();
  #wake: () => void = () => undefined;

  /** `listJobs` is called before each check of the jobs, so that their schedules may change. */
  constructor(store: Store, listJobs: () => readonly Job[], log: JobsLog, options: SchedulerOptions = {}) {
    this.#store = store;
    this.#listJobs = listJobs;
    this.#log = log;
    this.#leaseMs = options.leaseMs ?? LEASE_MS;
    this.#pollMs = options.pollMs ?? POLL_MS;
    this.#leaseWatch = new LeaseWatch(this.#leaseMs);
  }

  start(): void {
    this.#runningLoop = this.#loop();
  }

  /** Resolves when the running job has stopped, before its next step. */
  async stop(): Promise<void> {
    this.#stopController.abort();
    this.#wake();
    await this.#runningLoop;
  }

  /** Checks the jobs until `stop`. The first check waits, since a starting server has more urgent work. */
  async #loop(): Promise<void> {
    await this.#sleep(this.#pollMs);
    while (!this.#stopController.signal.aborted) {
      let waitMs = this.#pollMs;
      for (const job of this.#listJobs()) {
        if (this.#stopController.signal.aborted) return;
        try {
          waitMs = Math.min(waitMs, await this.#runIfDue(job));
        } catch (error) {
          this.#logFailure(job, error);
        }
      }
      await this.#sleep(waitMs);
    }
  }

  #logFailure(job: Job, error: unknown): void {
    if (error instanceof JobLost || error instanceof JobStopped) return;
    this.#log.logFailure(job.name, error);
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.#stopController.signal.aborted) return resolve();
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Runs the job if it is due. Resolves with the milliseconds until the next check. */
  async #runIfDue(job: Job): Promise<number> {
    this.#store.renewReads?.();
    const row = await readJob(this.#store, job.name);
    const { isDisabled, state } = row;
    if (isDisabled || job.schedule === OFF) return this.#pollMs;
    if (state.holder !== undefined) {
      if (!this.#leaseWatch.hasDied(row)) return this.#pollMs;
    } else if (state.outcome !== 'stopped') {
      const baseMs = state.started ?? state.since;
      if (baseMs === undefined) return this.#recordFirstSeen(row);
      const nextMs = nextStart(job.schedule, baseMs);
      if (nextMs === undefined) return this.#pollMs;
      const remainingMs = nextMs - Date.now();
      if (remainingMs > 0) return remainingMs;
    }
    await this.#run(job, row);
    return 0;
  }

  /** Records when a new job was first seen. Its first start is the next scheduled time after that. */
  async #recordFirstSeen({ name, term }: JobRow): Promise<number> {
    try {
      await this.#store.commit({ steps: [stateStep(name, term, { since: Date.now() })], decisive: 0 });
    } catch (error) {
      if (!(error instanceof StoreError) || error.code !== 'guard') throw error;
    }
    return 0;
  }

  async #run(job: Job, row: JobRow): Promise<void> {
    const beganMs = performance.now();
    const options = { stop: this.#stopController.signal, whenStopped: 'stopped', leaseMs: this.#leaseMs } as const;
    const lease = await Lease.take(this.#store, job, row, options);
    if (!lease) return;
    const result = await lease.run();
    this.#log.logResult(job.name, result, performance.now() - beganMs);
  }
}

/** ISO 8601. */
export const formatTime = (time: number | undefined): string =>
  time === undefined ? 'never' : new Date(time).toISOString();

export function lastRunText({ state }: JobRow): string {
  const { started, ended, holder, outcome, result } = state;
  if (started === undefined) return 'never';
  if (holder !== undefined || ended === undefined) return `running since ${formatTime(started)} (${holder})`;
  return `${formatTime(started)}, ${((ended - started) / 1000).toFixed(1)} s, ${outcome}: ${result}`;
}

/** Describes the next start, by the schedule of this process. A time in the past means the next poll of a server. */
export function nextRunText({ schedule }: Job, { isDisabled, state }: JobRow): string {
  if (isDisabled) return 'disabled';
  if (schedule === OFF) return OFF;
  return formatTime(nextStart(schedule, state.started ?? state.since ?? Date.now()));
}
