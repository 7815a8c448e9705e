import { hostname } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import type { RowStep, Store } from '../store/contract.js';
import { guardsHold } from '../store/store-error.js';
import { type Job, JobLost, type JobRun, JobStopped, nextStart } from './job.js';
import { beatStep, fenceStep, type JobRow, type JobState, readJob, stateStep, takeStep } from './job-rows.js';

/** Milliseconds without a heartbeat, by the clock of the observer, after which a holder counts as dead. */
export const LEASE_MS = 30_000;
/** Heartbeats in the time of one lease. */
const HEARTBEATS_PER_LEASE = 3;
/** Characters of the result of a run that are stored. */
const MAX_RESULT_LENGTH = 500;
/** Milliseconds between two checks of the current holder by `runNow`. */
const POLL_MS = 500;

const PROCESS = `${hostname()}:${process.pid}`;

export interface LeaseOptions {
  /** Ends the run before its next step. */
  readonly stop: AbortSignal;
  /** The outcome that a stopped run records. After `stopped` another server starts the job again at once. */
  readonly whenStopped: 'stopped' | 'failed';
  readonly leaseMs: number;
}

export class Lease implements JobRun {
  readonly fence: RowStep;
  readonly #store: Store;
  readonly #job: Job;
  readonly #term: bigint;
  readonly #state: JobState;
  readonly #options: LeaseOptions;
  readonly #timer: NodeJS.Timeout;
  #lastCommitMs = performance.now();
  #pendingBeat: Promise<void> | undefined;

  private constructor(store: Store, job: Job, term: bigint, state: JobState, options: LeaseOptions) {
    this.#store = store;
    this.#job = job;
    this.#term = term;
    this.#state = state;
    this.#options = options;
    this.fence = fenceStep(job.name, term);
    // A failed heartbeat is ignored here: `proceed` repeats it and throws the error.
    this.#timer = setInterval(
      () => void this.#beat().catch(() => undefined),
      options.leaseMs / HEARTBEATS_PER_LEASE,
    ).unref();
  }

  /** Takes the job as read in `row`. Returns undefined when another process was faster. */
  static async take(store: Store, job: Job, row: JobRow, options: LeaseOptions): Promise<Lease | undefined> {
    const started = Date.now();
    const next = nextStart(job.schedule, started);
    const state: JobState = { holder: PROCESS, started, ...(next && { next }) };
    const isTaken = await guardsHold(store.commit({ steps: [takeStep(row, state)], decisive: 0 }));
    return isTaken ? new Lease(store, job, row.term + 1n, state, options) : undefined;
  }

  async proceed(): Promise<void> {
    const { stop, leaseMs } = this.#options;
    if (stop.aborted) throw new JobStopped(this.#job.name);
    if (performance.now() - this.#lastCommitMs > leaseMs / HEARTBEATS_PER_LEASE) await this.#beat();
  }

  #beat(): Promise<void> {
    this.#pendingBeat ??= this.#commit(beatStep(this.#job.name, this.#term)).finally(() => {
      this.#pendingBeat = undefined;
    });
    return this.#pendingBeat;
  }

  async #commit(step: RowStep): Promise<void> {
    const beganMs = performance.now();
    if (!(await guardsHold(this.#store.commit({ steps: [step], decisive: 0 })))) throw new JobLost(this.#job.name);
    this.#lastCommitMs = beganMs;
  }

  /** Runs the job and records the outcome in the directory. Rejects with the error of the job. */
  async run(): Promise<string> {
    try {
      const result = await this.#runJob();
      await this.#recordEnd({ outcome: 'done', result });
      return result;
    } finally {
      clearInterval(this.#timer);
    }
  }

  async #runJob(): Promise<string> {
    try {
      return await this.#job.run(this);
    } catch (error) {
      if (error instanceof JobLost) throw error;
      const outcome = error instanceof JobStopped ? this.#options.whenStopped : 'failed';
      await this.#recordEnd({ outcome, result: (error as Error).message });
      throw error;
    }
  }

  async #recordEnd(report: Required<Pick<JobState, 'outcome' | 'result'>>): Promise<void> {
    // After a failed heartbeat the commit below shows whether the store answers and the job is still held.
    await this.#pendingBeat?.catch(() => undefined);
    const { holder: _, ...state } = this.#state;
    const result = report.result.slice(0, MAX_RESULT_LENGTH);
    await this.#commit(stateStep(this.#job.name, this.#term, { ...state, ...report, result, ended: Date.now() }));
  }
}

/** Detects dead holders of jobs: their heartbeat has not changed while this process watched. */
export class LeaseWatch {
  readonly #leaseMs: number;
  readonly #heartbeats = new Map<string, { readonly beatMark: string; readonly sinceMs: number }>();

  constructor(leaseMs = LEASE_MS) {
    this.#leaseMs = leaseMs;
  }

  /** Whether the holder is dead: term and heartbeat have not changed for a lease. False without a holder. */
  hasDied({ name, term, beatCount, state }: JobRow): boolean {
    if (state.holder === undefined) return false;
    const beatMark = `${term} ${beatCount}`;
    const heartbeat = this.#heartbeats.get(name);
    const now = performance.now();
    if (heartbeat?.beatMark === beatMark) return now - heartbeat.sinceMs >= this.#leaseMs;
    this.#heartbeats.set(name, { beatMark, sinceMs: now });
    return false;
  }
}

/**
 * Runs the job in this process, regardless of its schedule. Resolves with the report of the job. If another process
 * holds the job, `onWait` is called and the heartbeat of the holder is watched: the call rejects for a living holder,
 * and takes the job over from a dead one.
 */
export async function runNow(
  store: Store,
  job: Job,
  stop: AbortSignal,
  onWait: (row: JobRow) => void = () => undefined,
  leaseMs = LEASE_MS,
): Promise<string> {
  const watch = new LeaseWatch(leaseMs);
  for (let firstRow: JobRow | undefined; ; ) {
    store.renewReads?.();
    const row = await readJob(store, job.name);
    if (row.state.holder === undefined || watch.hasDied(row)) {
      // The user has stopped this run, so no server may resume the job.
      const lease = await Lease.take(store, job, row, { stop, whenStopped: 'failed', leaseMs });
      if (lease) return lease.run();
      continue;
    }
    firstRow ??= row;
    if (row.term !== firstRow.term || row.beatCount !== firstRow.beatCount) throw new Error(runningText(row));
    if (row === firstRow) onWait(row);
    if (stop.aborted) throw new JobStopped(job.name);
    await sleep(POLL_MS);
  }
}

function runningText({ name, state: { holder, started } }: JobRow): string {
  return `job '${name}' is being run by ${holder} since ${new Date(started ?? 0).toISOString()}`;
}
