import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { Logger } from 'pino';
import type { DropFolderLog } from '../dropfolder/drop-folder.js';
import { type Job, type JobRun, Scheduler, standardJobs } from '../jobs/index.js';
import { LdapError } from '../ldap/ldap-error.js';
import type { Partition } from '../partition/index.js';
import { hashPolicyOf } from '../server/passwords/hash-policy.js';
import { logOutages } from '../server/services/services.js';
import type { Config } from '../server/settings/index.js';
import { StoreError } from '../store/store-error.js';
import { appendAuditRecord } from './audit-record.js';
import { nameAt } from './backup/manifest.js';
import { pluralize } from './exit.js';

/** Milliseconds between two checks for unfinished work. */
const INTERVAL_MS = 60_000;

/**
 * Background work of a serving process: runs jobs, finishes interrupted index builds, enforces uniqueness constraints
 * once their conflicts are gone, and updates references. Warns when the schema of the directory has changed.
 */
export class Maintenance {
  readonly #partition: Partition;
  readonly #log: Logger;
  readonly #intervalMs: number;
  readonly #scheduler: Scheduler;
  #timer: NodeJS.Timeout | undefined;
  #queueEnd: Promise<void> = Promise.resolve();
  #isStopped = false;
  #hasWarnedOfSchema = false;

  constructor(partition: Partition, config: Config, log: Logger, everyMs = INTERVAL_MS, settingsFile?: string) {
    this.#partition = partition;
    this.#log = log;
    this.#intervalMs = everyMs;
    this.#scheduler = new Scheduler(partition.store, () => listJobs(partition, config, log, settingsFile), {
      logResult: (job, result, ms) => this.#log.info({ job, ms: Math.round(ms) }, result),
      logFailure: (job, error) => this.#logFailure(job, error, 'a job failed'),
    });
    logOutages(partition, log);
  }

  start(): void {
    this.#enqueue('tables', () => this.#partition.noteMissingTables());
    this.#queueAll();
    this.#timer = setInterval(() => this.#queueAll(), this.#intervalMs);
    this.#scheduler.start();
  }

  #queueAll(): void {
    this.#enqueue('indexes', () => this.#finishIndexes());
    this.#enqueue('unique', () => this.#finishConstraints());
    this.#enqueue('references', () => this.#updateReferences());
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearInterval(this.#timer);
    await Promise.all([this.#scheduler.stop(), this.#queueEnd]);
  }

  #enqueue(name: string, task: () => Promise<void>): void {
    this.#queueEnd = this.#queueEnd.then(async () => {
      if (this.#isStopped) return;
      try {
        await task();
      } catch (error) {
        this.#logFailure(name, error, 'maintenance failed; it is tried again later');
      }
    });
  }

  /** Logs a failure. During an outage of the store or with a full disk, which are logged once elsewhere, in short. */
  #logFailure(task: string, error: unknown, message: string): void {
    const cause = error instanceof LdapError ? error.cause : error;
    const isOutage = cause instanceof StoreError && (cause.code === 'unavailable' || cause.code === 'full');
    if (!isOutage) this.#log.error({ err: error, task }, message);
    else if (!this.#partition.outage.isReported)
      this.#log.error({ task }, `${message}: ${cause.message.split('\n', 1)[0]}`);
  }

  async #finishIndexes(): Promise<void> {
    await this.#partition.refresh();
    this.#warnOfNewSchema();
    const hasUnfinished = this.#partition.indexes().some((index) => index.state === 'building');
    // Also finishes indexes that other processes began to add or to drop.
    await this.#partition.buildIndexes();
    if (hasUnfinished) this.#log.info('indexes that were not finished are complete');
  }

  async #finishConstraints(): Promise<void> {
    const waitingConstraints = this.#partition.uniqueConstraints().filter(({ record }) => !record.ready);
    // Also deletes the rows of removed constraints.
    await this.#partition.finishUnique();
    for (const { record, text } of this.#partition.uniqueConstraints()) {
      if (record.ready && waitingConstraints.some((one) => one.record.number === record.number))
        this.#log.info({ constraint: record.number }, `values are unique from now on: ${text}`);
    }
  }

  /** Updates references left by a process that ended or lost the store. */
  async #updateReferences(): Promise<void> {
    const changes = await this.#partition.settleReferences();
    if (changes > 0) this.#log.info({ changes }, 'references follow the names that entries have now');
  }

  #warnOfNewSchema(): void {
    if (this.#hasWarnedOfSchema || this.#partition.schemaIsCurrent) return;
    this.#hasWarnedOfSchema = true;
    this.#log.warn(
      'the directory has been given another schema; this server goes on with its own until it is restarted',
    );
  }
}

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
      if (!existsSync(folder)) throw new Error(`${folder} does not exist: make the folder, or mount its disk`);
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
