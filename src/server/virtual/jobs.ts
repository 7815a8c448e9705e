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
import { SUBSCHEMA_DN } from '../entry/computed.js';
import type { Config } from '../settings/index.js';
import type { VirtualAttributes } from './virtual-attributes.js';

/** Attributes of cn=Jobs,cn=Monitor: last and next run of each scheduled job, in values of `description`. */
export async function jobsAttributes(partition: Partition, config: Config): Promise<VirtualAttributes> {
  const lines: string[] = [];
  const jobs = standardJobs(partition, config);
  for (const job of jobs) {
    const row = await readJob(partition.store, job.name);
    lines.push(`${job.name}.schedule: ${job.schedule}`, ...runTimes(row, nextRunText(job, row)));
  }
  for (const row of await readJobs(partition.store))
    if (!jobs.some(({ name }) => name === row.name)) lines.push(...runTimes(row, formatTime(row.state.next)));
  return [
    ['objectClass', ['top', 'monitor', 'monitoredObject', 'extensibleObject']],
    ['cn', ['Jobs']],
    ['description', lines],
    ['entryDN', ['cn=Jobs,cn=Monitor']],
    ['subschemaSubentry', [SUBSCHEMA_DN]],
    ['structuralObjectClass', ['monitoredObject']],
    ['hasSubordinates', ['FALSE']],
  ];
}

function runTimes(row: JobRow, next: string): string[] {
  return [`${row.name}.last: ${lastRunText(row)}`, `${row.name}.next: ${next}`];
}
