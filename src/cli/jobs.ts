import { join } from 'node:path';
import type { DropFolderLog } from '../dropfolder/drop-folder.js';
import { type Job, type JobRun, standardJobs } from '../jobs/index.js';
import type { Partition } from '../partition/index.js';
import { hashPolicyOf } from '../server/passwords/hash-policy.js';
import type { Config } from '../server/settings/index.js';
import { appendAuditRecord } from './audit-record.js';
import { nameAt } from './backup/manifest.js';
import { pluralize } from './exit.js';

type Audit = (record: string) => void | Promise<void>;

/** Milliseconds between two checks whether a run of job `dropfolder` has to end. */
const POLL_MS = 1000;
/** Seconds without a heartbeat after which the files of another process are taken over. */
const LEASE_SECONDS = 60;

/**
 * `settingsFile` goes into backups. `audit`: appends what the drop folder changes to the audit log; to that of `config`
 * unless given.
 */
export function listJobs(
  partition: Partition,
  config: Config,
  log: DropFolderLog,
  settingsFile?: string,
  audit: Audit = (record) => void appendAuditRecord(config.auditLog, record, (message) => log.error(message)),
): Job[] {
  const { folder } = config.dropfolder;
  const jobs = standardJobs(partition, config);
  if (folder !== undefined) jobs.push(dropFolderJob(folder, partition, config, log, audit));
  if (config.backup.folder !== undefined) jobs.push(backupJob(config.backup.folder, partition, config, settingsFile));
  return jobs;
}

function backupJob(folder: string, { store }: Partition, config: Config, settingsFile: string | undefined): Job {
  const { days } = config.backup;
  return {
    name: 'backup',
    description: `makes a backup in ${folder}, and keeps those of ${pluralize(days, 'day')}`,
    schedule: config.jobs.backup.schedule,
    async run(run) {
      // Loaded on demand: few commands make backups.
      const { makeBackup, removeOld } = await import('./backup/backup.js');
      const source = { store, address: config.store ?? config.data ?? '', settingsFile };
      const to = join(folder, nameAt(Date.now()));
      const { tables } = await runWithSignal(run, () => makeBackup(source, to, false));
      const { length } = removeOld(folder, days);
      const entries = pluralize(tables.master?.rows ?? 0, 'entry', 'entries');
      return `${to} made and read, ${entries}; ${pluralize(length, 'backup')} there`;
    },
  };
}

function dropFolderJob(folder: string, partition: Partition, config: Config, log: DropFolderLog, audit: Audit): Job {
  return {
    name: 'dropfolder',
    description: `applies the files that are moved into ${folder}`,
    schedule: config.jobs.dropfolder.schedule,
    async run(run) {
      // Loaded on demand, since few servers have a drop folder.
      const { DropFolder } = await import('../dropfolder/drop-folder.js');
      const { as, mapping, validateFirst, maxBytes } = config.dropfolder;
      const identity = as === undefined ? undefined : partition.schema.parseDn(as);
      const settings = {
        ...{ as: identity, mapping, validateFirst, maxBytes },
        ...{ policy: hashPolicyOf(config), accounts: config.passwords, lease: LEASE_SECONDS, poll: LEASE_SECONDS },
        audit,
      };
      const dropFolder = await DropFolder.open(folder, partition, settings, log);
      try {
        const { processed, error, expired, failed } = await runWithSignal(run, (signal) => dropFolder.settle(signal));
        const countsText = `${pluralize(processed, 'file')} processed, ${error} with refused records, ${expired} expired, ${failed} left`;
        if (error + failed > 0) throw new Error(`${countsText}; see the receipts in ${join(folder, 'incoming/error')}`);
        return countsText;
      } finally {
        await dropFolder.close();
      }
    },
  };
}

/** Runs `work` until it ends, or aborts its signal when the run has to end. */
async function runWithSignal<T>(run: JobRun, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const stopController = new AbortController();
  // Once the work has stopped, the `proceed` below throws the error.
  const timer = setInterval(() => void run.proceed().catch(() => stopController.abort()), POLL_MS);
  try {
    const result = await work(stopController.signal);
    await run.proceed();
    return result;
  } finally {
    clearInterval(timer);
  }
}
