import { Cron } from 'croner';
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

/** The schedule of a job that never starts by itself. */
export const OFF = 'off';

/**
 * Returns the first match of a cron pattern after `after`, in milliseconds since 1970. The five fields are minute,
 * hour, day of month, month and day of week, in the time zone of the server. Undefined: never.
 */
export function nextStart(schedule: string, afterMs: number): number | undefined {
  if (schedule === OFF) return undefined;
  return new Cron(schedule, { mode: '5-part', paused: true }).nextRun(new Date(afterMs))?.getTime();
}

const FIELDS = 5;

/** Returns the mistake in a schedule; undefined when it is valid. */
export function scheduleFault(schedule: string): string | undefined {
  if (schedule === OFF) return undefined;
  const fields = schedule.trim().split(/\s+/).length;
  if (fields !== FIELDS) return `it has ${fields === 1 ? 'one field' : `${fields} fields`}`;
  try {
    return nextStart(schedule, 0) === undefined ? 'that time never comes' : undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
