import { lastRun, nextRun, readJob, standardJobs } from '../../jobs/index.js';
import type { Partition } from '../../partition/index.js';
import { SUBSCHEMA_DN } from '../entry/computed.js';
import type { Config } from '../settings/index.js';
import type { VirtualAttributes } from './virtual-attributes.js';

/** What the directory knows of the scheduled jobs: three values of `description` a job. */
export async function jobsAttributes(partition: Partition, config: Config): Promise<VirtualAttributes> {
  const lines: string[] = [];
  for (const job of standardJobs(partition, config)) {
    const row = await readJob(partition.store, job.name);
    lines.push(`${job.name}.schedule: ${job.schedule}`);
    lines.push(`${job.name}.last: ${lastRun(row)}`);
    lines.push(`${job.name}.next: ${nextRun(job, row)}`);
  }
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
