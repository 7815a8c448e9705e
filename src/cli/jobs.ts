import { join } from 'node:path';
import type { Logger } from 'pino';
import { type Job, type JobRun, standardJobs } from '../jobs/index.js';
import type { Partition } from '../partition/index.js';
import { hashPolicyOf } from '../server/passwords/hash-policy.js';
import type { Config } from '../server/settings/index.js';
import { counted } from './exit.js';

/** How often a run of job `dropfolder` looks whether it is to end, in milliseconds. */
const LOOK_MS = 1000;
/** Seconds after which the files of a process that has died are taken over. */
const LEASE = 60;

/** The jobs that the settings have. */
export function jobsOf(partition: Partition, config: Config, log: Pick<Logger, 'info' | 'warn' | 'error'>): Job[] {
  const { folder } = config.dropfolder;
  const standard = standardJobs(partition, config);
  return folder === undefined ? standard : [...standard, dropJob(folder, partition, config, log)];
}

function dropJob(
  folder: string,
  partition: Partition,
  config: Config,
  log: Pick<Logger, 'info' | 'warn' | 'error'>,
): Job {
  return {
    name: 'dropfolder',
    description: `applies the files that are moved into ${folder}`,
    schedule: config.jobs.dropfolder.schedule,
    async run(run) {
      // Loaded here: few servers have such a folder.
      const { DropFolder } = await import('../dropfolder/drop-folder.js');
      const { as, mapping, validateFirst, maxBytes } = config.dropfolder;
      const identity = as === undefined ? undefined : partition.schema.parseDn(as);
      const settings = {
        ...{ as: identity, mapping, validateFirst, maxBytes },
        ...{ policy: hashPolicyOf(config), accounts: config.passwords },
      };
      const drop = await DropFolder.open(folder, partition, { ...settings, lease: LEASE, poll: LEASE }, log);
      try {
        const { processed, error, expired, failed } = await whileHeld(run, (signal) => drop.settle(signal));
        const counts = `${counted(processed, 'file')} processed, ${error} with refused records, ${expired} expired, ${failed} left`;
        if (error + failed > 0) throw new Error(`${counts}; see the receipts in ${join(folder, 'incoming/error')}`);
        return counts;
      } finally {
        await drop.close();
      }
    },
  };
}

/** Does work that a signal ends, which is aborted where the run is to end. */
async function whileHeld<T>(run: JobRun, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const ended = new AbortController();
  const timer = setInterval(() => void run.proceed().catch(() => ended.abort()), LOOK_MS);
  try {
    const result = await work(ended.signal);
    await run.proceed();
    return result;
  } finally {
    clearInterval(timer);
  }
}
