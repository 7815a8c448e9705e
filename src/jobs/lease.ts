import { hostname } from 'node:os';
import type { RowStep, Store } from '../store/contract.js';
import { guardsHold } from '../store/store-error.js';
import { type Job, JobLost, type JobRun, JobStopped } from './job.js';
import { beatStep, fenceStep, type JobRow, type JobState, stateStep, takeStep } from './job-rows.js';
import { nextStart } from './schedule.js';

/**
 * A holder that has not been seen to live for so long, in milliseconds, by the clock of the process that watches it,
 * has died.
 */
export const LEASE_MS = 30_000;
/** How often a holder shows that it lives. */
const BEATS = 3;
/** Characters of a result that are kept. */
const RESULT_LENGTH = 500;

const PROCESS = `${hostname()}:${process.pid}`;

/** How a job is taken. */
export interface LeaseGiven {
  /** Ends the run before its next piece. */
  readonly stop: AbortSignal;
  /** What is told of a run that is stopped: `stopped` has a server start it again at once. */
  readonly whenStopped: 'stopped' | 'failed';
  readonly leaseMs: number;
}

/** A job that this process has taken. */
export class Lease implements JobRun {
  readonly fence: RowStep;
  readonly #store: Store;
  readonly #job: Job;
  readonly #term: bigint;
  readonly #state: JobState;
  readonly #given: LeaseGiven;
  readonly #timer: NodeJS.Timeout;
  #seen = performance.now();
  #beating: Promise<void> | undefined;

  private constructor(store: Store, job: Job, term: bigint, state: JobState, given: LeaseGiven) {
    this.#store = store;
    this.#job = job;
    this.#term = term;
    this.#state = state;
    this.#given = given;
    this.fence = fenceStep(job.name, term);
    // A beat that fails is made again by `proceed`, which then tells why.
    this.#timer = setInterval(() => void this.#beat().catch(() => undefined), given.leaseMs / BEATS).unref();
  }

  /** Takes the job as it stands in `row`; undefined where another process was faster. */
  static async take(store: Store, job: Job, row: JobRow, given: LeaseGiven): Promise<Lease | undefined> {
    const started = Date.now();
    const next = nextStart(job.schedule, started);
    const state: JobState = { holder: PROCESS, started, ...(next && { next }) };
    const taken = await guardsHold(store.commit({ steps: [takeStep(row, state)], decisive: 0 }));
    return taken ? new Lease(store, job, row.term + 1n, state, given) : undefined;
  }

  async proceed(): Promise<void> {
    const { stop, leaseMs } = this.#given;
    if (stop.aborted) throw new JobStopped(this.#job.name);
    if (performance.now() - this.#seen > leaseMs / BEATS) await this.#beat();
  }

  #beat(): Promise<void> {
    this.#beating ??= this.#commit(beatStep(this.#job.name, this.#term)).finally(() => {
      this.#beating = undefined;
    });
    return this.#beating;
  }

  async #commit(step: RowStep): Promise<void> {
    const began = performance.now();
    if (!(await guardsHold(this.#store.commit({ steps: [step], decisive: 0 })))) throw new JobLost(this.#job.name);
    this.#seen = began;
  }

  /** Runs the job and tells in the directory what came of it. Rejects with what the job rejects with. */
  async run(): Promise<string> {
    try {
      const result = await this.#work();
      await this.#end({ outcome: 'done', result });
      return result;
    } finally {
      clearInterval(this.#timer);
    }
  }

  async #work(): Promise<string> {
    try {
      return await this.#job.run(this);
    } catch (error) {
      if (error instanceof JobLost) throw error;
      const outcome = error instanceof JobStopped ? this.#given.whenStopped : 'failed';
      await this.#end({ outcome, result: (error as Error).message });
      throw error;
    }
  }

  async #end(end: Required<Pick<JobState, 'outcome' | 'result'>>): Promise<void> {
    await this.#beating?.catch(() => undefined);
    const { holder: _, ...state } = this.#state;
    const result = end.result.slice(0, RESULT_LENGTH);
    await this.#commit(stateStep(this.#job.name, this.#term, { ...state, ...end, result, ended: Date.now() }));
  }
}

/** Tells which holders of jobs have died: those that were not seen to live while this process watched. */
export class Watch {
  readonly #leaseMs: number;
  readonly #seen = new Map<string, { readonly mark: string; readonly since: number }>();

  constructor(leaseMs = LEASE_MS) {
    this.#leaseMs = leaseMs;
  }

  /** Whether whoever held the job when it was first seen like this has died; false where nobody holds it. */
  hasDied({ name, term, beat, state }: JobRow): boolean {
    if (state.holder === undefined) return false;
    const mark = `${term} ${beat}`;
    const seen = this.#seen.get(name);
    const now = performance.now();
    if (seen?.mark === mark) return now - seen.since >= this.#leaseMs;
    this.#seen.set(name, { mark, since: now });
    return false;
  }
}
