import type { Piecework } from '../partition/index.js';

/**
 * What a job has of the run that it is in. `proceed` rejects with `JobLost` where another process has taken the job
 * over, and with `JobStopped` where this process ends.
 */
export type JobRun = Piecework;

/** A piece of upkeep that one process of all that serve a directory does at a time. */
export interface Job {
  /** Letters, digits and hyphens. */
  readonly name: string;
  /** What it does, for people. */
  readonly about: string;
  /** A cron pattern of five fields, in the server's time zone, or `off`. */
  readonly schedule: string;
  /** Resolves with what was done, in one line. */
  run(run: JobRun): Promise<string>;
}

/** Another process has taken the job over. */
export class JobLost extends Error {
  override readonly name = 'JobLost';

  constructor(job: string) {
    super(`another process has taken job '${job}' over`);
  }
}

/** The process that runs the job ends. */
export class JobStopped extends Error {
  override readonly name = 'JobStopped';

  constructor(job: string) {
    super(`job '${job}' was stopped, as its process was told to end`);
  }
}
