import {
  formatTime,
  type JobRow,
  lastRunText,
  nextRunText,
  readJob,
  readJobs,
  standardJobs,
} from '../../jobs/index.js';
import type { Partition } from '../../partition/index.js';
import type { Config } from '../settings/index.js';

/** Returns last and next run of each scheduled job, for cn=Jobs,cn=Monitor. */
export async function jobLines(partition: Partition, config: Config): Promise<string[]> {
  const lines: string[] = [];
  const jobs = standardJobs(partition, config);
  for (const job of jobs) {
    const row = await readJob(partition.store, job.name);
    lines.push(`${job.name}.schedule: ${job.schedule}`, ...runTimes(row, nextRunText(job, row)));
  }
  for (const row of await readJobs(partition.store))
    if (!jobs.some(({ name }) => name === row.name)) lines.push(...runTimes(row, formatTime(row.state.next)));
  return lines;
}

function runTimes(row: JobRow, next: string): string[] {
  return [`${row.name}.last: ${lastRunText(row)}`, `${row.name}.next: ${next}`];
}
