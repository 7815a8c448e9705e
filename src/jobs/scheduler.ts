import type { Store } from '../store/contract.js';
import { StoreError } from '../store/store-error.js';
import { type Job, JobLost, JobStopped } from './job.js';
import { type JobRow, readJob, stateStep } from './job-rows.js';
import { LEASE_MS, Lease, Watch } from './lease.js';
import { nextStart, OFF } from './schedule.js';

/** How often the jobs are looked at, at the least, in milliseconds: others may have been changed, or died. */
const LOOK_MS = 10_000;

/** What becomes of the jobs, for a log. */
export interface JobsLog {
  done(job: string, result: string, ms: number): void;
  failed(job: string, error: unknown): void;
}

export interface SchedulerOptions {
  readonly leaseMs?: number;
  readonly lookMs?: number;
}

/**
 * Runs jobs when their time has come, one after another. Every process that serves a directory has one; a lease in the
 * directory lets one of them run a job. A job whose holder died is run again by another.
 */
export class Scheduler {
  readonly #store: Store;
  readonly #jobs: readonly Job[];
  readonly #log: JobsLog;
  readonly #leaseMs: number;
  readonly #lookMs: number;
  readonly #watch: Watch;
  readonly #stop = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #wake: () => void = () => undefined;

  constructor(store: Store, jobs: readonly Job[], log: JobsLog, options: SchedulerOptions = {}) {
    this.#store = store;
    this.#jobs = jobs;
    this.#log = log;
    this.#leaseMs = options.leaseMs ?? LEASE_MS;
    this.#lookMs = options.lookMs ?? LOOK_MS;
    this.#watch = new Watch(this.#leaseMs);
  }

  start(): void {
    this.#running = this.#loop();
  }

  /** Resolves when the job that runs has stopped, before its next piece of work. */
  async stop(): Promise<void> {
    this.#stop.abort();
    this.#wake();
    await this.#running;
  }

  /** Begins a while after the start: a server that begins has other things to do. */
  async #loop(): Promise<void> {
    await this.#sleep(this.#lookMs);
    while (!this.#stop.signal.aborted) {
      let wait = this.#lookMs;
      for (const job of this.#jobs) {
        if (this.#stop.signal.aborted) return;
        try {
          wait = Math.min(wait, await this.#consider(job));
        } catch (error) {
          this.#tell(job, error);
        }
      }
      await this.#sleep(wait);
    }
  }

  #tell(job: Job, error: unknown): void {
    if (error instanceof JobLost || error instanceof JobStopped) return;
    this.#log.failed(job.name, error);
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      if (this.#stop.signal.aborted) return resolve();
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Runs the job if its time has come; resolves with the milliseconds until it is to be looked at again. */
  async #consider(job: Job): Promise<number> {
    this.#store.renewReads?.();
    const row = await readJob(this.#store, job.name);
    const { disabled, state } = row;
    if (disabled || job.schedule === OFF) return this.#lookMs;
    if (state.holder !== undefined) {
      if (!this.#watch.hasDied(row)) return this.#lookMs;
    } else if (state.outcome !== 'stopped') {
      const base = state.started ?? state.since;
      if (base === undefined) return this.#plan(row);
      const next = nextStart(job.schedule, base);
      if (next === undefined) return this.#lookMs;
      const left = next - Date.now();
      if (left > 0) return left;
    }
    await this.#run(job, row);
    return 0;
  }

  /** The first time: a job that never ran starts when its time comes from now on. */
  async #plan({ name, term }: JobRow): Promise<number> {
    try {
      await this.#store.commit({ steps: [stateStep(name, term, { since: Date.now() })], decisive: 0 });
    } catch (error) {
      if (!(error instanceof StoreError) || error.code !== 'guard') throw error;
    }
    return 0;
  }

  async #run(job: Job, row: JobRow): Promise<void> {
    const began = performance.now();
    const given = { stop: this.#stop.signal, whenStopped: 'stopped', leaseMs: this.#leaseMs } as const;
    const lease = await Lease.take(this.#store, job, row, given);
    if (!lease) return;
    const result = await lease.run();
    this.#log.done(job.name, result, performance.now() - began);
  }
}
