import type { Piecework } from '../partition/index.js';

/** Control of a run. `proceed` rejects with `JobLost` if another process has the job, `JobStopped` if this one ends. */
export type JobRun = Piecework;

/** A maintenance task. Among the processes that serve a directory, at most one runs the task at a time. */
export interface Job {
  /** Letters, digits and hyphens. */
  readonly name: string;
  readonly description: string;
  /** A cron pattern of five fields, in the time zone of the server, or `off`. */
  readonly schedule: string;
  /** Runs the job. Resolves with a report of one line. */
  run(run: JobRun): Promise<string>;
}

export class JobLost extends Error {
  override readonly name = 'JobLost';

  constructor(job: string) {
    super(`another process has taken job '${job}' over`);
  }
}

/** The process that runs the job is ending. */
export class JobStopped extends Error {
  override readonly name = 'JobStopped';

  constructor(job: string) {
    super(`job '${job}' was stopped, as its process was told to end`);
  }
}
